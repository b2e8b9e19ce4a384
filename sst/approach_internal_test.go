package sst

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/cursor"
)

// approachFile is a file of three blocks; versions of a key straddle two of them.
func approachFile(t *testing.T) (*Reader, *Stats) {
	t.Helper()
	w, fs := writerOf(t, WriterOptions{FileNum: 7, BlockBytes: 256})
	add := func(key string, seqs ...base.SeqNum) {
		for _, seq := range seqs {
			e := base.Entry{Key: []byte(key), Seq: seq, Kind: base.KindPut, Value: make([]byte, 14)}
			ok(t, w.Add(&e))
		}
	}
	add("k/a", 9, 5, 2)
	add("k/b\x00\x00x", 4)
	add("k/d", 8)
	add("k/f", 9, 7, 6, 5, 4, 3)
	add("k/h", 3)
	add("k/h1", 8)
	add("k/h11234", 2)
	add("k/h11235", 9, 2)
	add("k/\xff\xff\xff\xff", 6)
	add("k/\xff\xff\xff\xff1", 2)
	meta, err := w.Finish()
	ok(t, err)
	stats := &Stats{}
	return NewReader(ReaderOptions{FS: fs, Meta: &meta, Cache: cache.New(1 << 20), Stats: stats}),
		stats
}

// warm fills the cache.
func warm(r *Reader) {
	c := r.NewCursor(base.MaxSeqNum)
	for ok := c.First(); ok; ok = c.Next() {
		continue
	}
}

// approachText says what an approach knows, two rows at a time.
func approachText(a *Approach, key []byte, snap base.SeqNum, reverse bool) string {
	a.Touch()
	a.Index(key, snap, reverse)
	a.Block()
	a.Heads()
	a.Search(key)
	a.Entry()
	var out strings.Builder
	for {
		if bound, ok := a.Bound([]byte("_"), reverse); ok {
			fmt.Fprintf(&out, " bound %q", bound[1:])
		} else {
			fmt.Fprint(&out, " no bound")
		}
		var rows cursor.Batch
		if a.Rows(&rows, 2, key, nil, snap, reverse); len(rows.Rows) == 0 {
			break
		}
		for _, e := range rows.Rows {
			fmt.Fprintf(&out, " %q@%d", e.Key, e.Seq)
		}
		fmt.Fprint(&out, ",")
	}
	if a.x == nil {
		fmt.Fprint(&out, ", no index")
	} else if a.b == nil {
		fmt.Fprint(&out, ", no block")
	} else {
		fmt.Fprintf(&out, ", block %d", a.block)
	}
	return out.String()
}

// TestApproaches: which rows and bounds approaches know, where all is in memory, only the index,
// or nothing.
func TestApproaches(t *testing.T) {
	var text strings.Builder
	r, stats := approachFile(t)
	var keys []string
	warm(r)
	for _, s := range []string{"k/a", "k/b\x00\x00x", "k/d", "k/f", "k/h", "k/h1", "k/h11234",
		"k/h11235", "k/\xff\xff\xff\xff", "k/\xff\xff\xff\xff1"} {
		keys = append(keys, s, s+"\x00", s[:len(s)-1])
	}
	keys = append(keys, "", "j", "l")
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, reverse := range []bool{false, true} {
		for _, key := range keys {
			for _, snap := range []base.SeqNum{4, base.MaxSeqNum} {
				var a Approach
				a.Init(r)
				before := stats.Snapshot()
				account := approachText(&a, []byte(key), snap, reverse)
				after := stats.Snapshot()
				fmt.Fprintf(&text, "%q at %d, reverse %v:%s, %d accesses\n", key, min(snap, 9),
					reverse, account, after.BlockHits-before.BlockHits)
				if after.BlockMisses != before.BlockMisses || after.Reads != before.Reads {
					t.Fatalf("an approach to %q reads", key)
				}
				a.Release()
				if a.r != nil || a.t != nil || a.x != nil || a.b != nil || a.found || a.begun {
					t.Fatal("a released approach keeps the file")
				}
			}
		}
	}
	ok(t, r.Close())
	cold, _ := approachFile(t)
	defer cold.Close()
	for range 2 {
		for _, reverse := range []bool{false, true} {
			var a Approach
			a.Init(cold)
			fmt.Fprintf(&text, "cold, reverse %v:%s\n", reverse, approachText(&a, []byte("k/d"), 9,
				reverse))
		}
		tail, err := cold.loadTail()
		if err == nil {
			_, err = cold.part(tail, 0) // the next time there is an index
		}
		ok(t, err)
	}
	checkText(t, "approaches.txt", text.String())
}

// TestApproachCounts: a seek that was approached counts one access, whether or not rows were
// shown before.
func TestApproachCounts(t *testing.T) {
	r, stats := approachFile(t)
	defer r.Close()
	warm(r)
	for _, reverse := range []bool{false, true} {
		for _, shown := range []bool{false, true} {
			var a Approach
			a.Init(r)
			start := stats.Snapshot().BlockHits
			key := []byte("k/h1")
			a.Touch()
			a.Index(key, 9, reverse)
			a.Block()
			a.Heads()
			a.Search(key)
			c := r.NewCursor(9)
			if shown {
				var rows cursor.Batch
				if a.Rows(&rows, 1, key, nil, 9, reverse); len(rows.Rows) != 1 {
					t.Fatalf("%d rows", len(rows.Rows))
				}
				c.Resume(&a, &rows.Rows[0])
				if want := rows.Rows[0]; !bytes.Equal(c.Entry().Key, want.Key) ||
					c.Entry().Seq != want.Seq {
					t.Errorf("resumed at %v, want %v", c.Entry(), want)
				}
			} else {
				if c.Approached(&Approach{}); c.near != nil {
					t.Error("an approach that found nothing is taken")
				}
				if c.Approached(&a); c.near != &a {
					t.Error("an approach is not taken")
				}
				if ok := reverse && c.SeekLT(key) || !reverse && c.SeekGE(key); !ok {
					t.Fatal(c.Err())
				}
			}
			n := stats.Snapshot().BlockHits - start
			if !c.SeekGE([]byte("k/d")) || string(c.Entry().Key) != "k/d" {
				t.Errorf("a seek after an approached one: %q, %v", c.Entry().Key, c.Err())
			}
			if n != 1 {
				t.Errorf("reverse %v, rows shown %v: %d accesses", reverse, shown, n)
			}
		}
	}
}

// TestApproachedDamage: whichever entry of a block is damaged, approaches show what a cursor
// shows up to it.
func TestApproachedDamage(t *testing.T) {
	short := 0
	eachDamagedEntry(t, func(i int, r *Reader) {
		warm(r)
		for key := range 11 {
			for _, reverse := range []bool{false, true} {
				from := fmt.Appendf(nil, "pk/key%02d", key)
				want, werr := walkRows(r.NewCursor(45), from, reverse, 0)
				var a Approach
				a.Init(r)
				a.Touch()
				a.Index(from, 45, reverse)
				a.Block()
				a.Search(from)
				var got []string
				var rows cursor.Batch
				a.Rows(&rows, 100, from, nil, 45, reverse)
				for _, e := range rows.Rows {
					got = append(got, fmt.Sprintf("%s@%d=%s", e.Key, e.Seq, e.Value))
				}
				if (a.b == nil) != (key == 10) || key < 10 && !slices.Equal(got, want) {
					t.Errorf("entry %d damaged, from %s, reverse %v: %q, want %q, %v", i, from,
						reverse,
						got, want, werr)
				}
				if werr != nil {
					short++
				}
			}
		}
	})
	if short < 100 { // of 20 entries, 11 keys and two directions
		t.Errorf("only %d walks meet damage", short)
	}
}

// TestStraddlingVersions: at every sequence number a cursor shows the same in both directions, also
// of a key whose versions lie in two blocks.
func TestStraddlingVersions(t *testing.T) {
	r, _ := approachFile(t)
	defer r.Close()
	for snap := base.SeqNum(0); snap < 11; snap++ {
		c := r.NewCursor(snap)
		var up, down []string
		for ok := c.First(); ok; ok = c.Next() {
			up = append(up, entryText(c.Entry()))
		}
		if c.Next() || c.Prev() {
			t.Errorf("at %d: a cursor goes on after the end", snap)
		}
		for ok := c.Last(); ok; ok = c.Prev() {
			down = append(down, entryText(c.Entry()))
		}
		if c.Prev() || c.Next() {
			t.Errorf("at %d: a cursor goes on before the start", snap)
		}
		slices.Reverse(down)
		if !slices.Equal(up, down) || c.Err() != nil {
			t.Errorf("at %d: up %q, down %q, %v", snap, up, down, c.Err())
		}
		for _, e := range up {
			var key []byte
			var seq base.SeqNum
			if _, err := fmt.Sscanf(e, "%q@%d", &key, &seq); err != nil {
				t.Fatal(err)
			}
			var got base.Entry
			ok, err := r.Get(key, base.Hash(key, 0), snap, &got)
			if !ok || err != nil || got.Seq != seq {
				t.Errorf("%q at %d: %d, want %d, %v", key, snap, got.Seq, seq, err)
			}
		}
	}
}

// TestCursorOfTwoFiles: a cursor that is used for another file shows that file.
func TestCursorOfTwoFiles(t *testing.T) {
	var readers []*Reader
	for num := base.FileNum(1); num < 3; num++ {
		fs, meta := batchFile(t, int(num), 200, 2, WriterOptions{FileNum: num})
		readers = append(readers, NewReader(ReaderOptions{FS: fs, Meta: &meta}))
	}
	var c Cursor
	for range 2 {
		for i, r := range readers {
			r.InitCursor(&c, 10)
			n := 0
			for ok := c.First(); ok; ok = c.Next() {
				if want := batchKey(2*n + i + 1); !bytes.Equal(c.Entry().Key, want) ||
					c.Entry().Value[0] != byte(i+1) {
					t.Fatalf("file %d: %q, want %q", i, c.Entry().Key, want)
				}
				n++
			}
			if n < 99 || c.Err() != nil {
				t.Errorf("file %d: %d entries, %v", i, n, c.Err())
			}
		}
	}
	for _, r := range readers {
		if got := r.Meta(); got.Num != r.meta.Num || r.Close() != nil {
			t.Errorf("%+v", got)
		}
	}
}
