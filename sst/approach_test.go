package sst_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// A seek that was approached, whatever steps were taken, goes where it would have gone
// anyway, and no entry comes before the bound that the approach knows.
//
// Promise (reads and writes): Seeks taken step by step, and with the second heads of index
// blocks, find what plain ones find. Also `TestGuidesFindTheSame` in `sst`,
// `TestApproachedSources` in `stripe`.
func TestApproachedSeeks(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	known, shown := 0, 0
	for round := range 80 {
		rnd := rand.New(rand.NewPCG(uint64(round), 4))
		g := generator{
			rnd: rnd, keys: 1 + rnd.IntN(300), versions: 1 + rnd.IntN(4),
			prefix:   []string{"", "tenant01/", "\xff\xff\xff\xff"}[rnd.IntN(3)],
			longKeys: rnd.IntN(2) == 0, valueMax: []int{0, 20}[rnd.IntN(2)],
		}
		entries := g.entries()
		fs := vfs.NewMem()
		o := sst.WriterOptions{BlockBytes: []int{256, 1024}[rnd.IntN(2)]}
		ro := readerOptions(fs, build(t, fs, o, entries))
		ro.Cache = cache.New([]int64{0, 4000, 1 << 20, 1 << 20}[rnd.IntN(4)])
		r := sst.NewReader(ro)
		for _, snap := range []base.SeqNum{1, 300, base.MaxSeqNum} {
			want := visible(entries, snap)
			for range 60 {
				key := bytes.Clone(entries[rnd.IntN(len(entries))].Key)
				switch n := len(key); {
				case n > 0 && rnd.IntN(4) == 0:
					key = key[:rnd.IntN(n)]
				case n > 0 && rnd.IntN(4) == 0:
					key[rnd.IntN(n)]++
				case rnd.IntN(4) == 0:
					key = append(key, byte(rnd.IntN(256)))
				}
				known += checkApproach(t, rnd, r, snap, key, want)
				shown += checkApproachedRows(t, rnd, r, snap, key, want)
			}
		}
		ok(t, r.Close())
	}
	if known < 1000 {
		t.Errorf("only %d bounds are known", known)
	}
	if shown < 10_000 {
		t.Errorf("approaches have shown only %d rows", shown)
	}
}

// approach takes the steps towards a seek, but for one now and then.
func approach(
	rnd *rand.Rand, r *sst.Reader, snap base.SeqNum, key []byte, reverse bool,
) *sst.Approach {
	var a sst.Approach
	a.Init(r)
	for _, step := range []func(){
		a.Touch, func() { a.Index(key, snap, reverse) }, a.Block, a.Heads,
		func() { a.Search(key) },
	} {
		if rnd.IntN(50) > 0 {
			step()
		}
	}
	a.Entry()
	return &a
}

// checkApproachedRows compares the rows that an approach shows itself, and those after them
// that a cursor shows which takes over, with what is wanted. It returns how many there were.
func checkApproachedRows(
	t *testing.T, rnd *rand.Rand, r *sst.Reader, snap base.SeqNum, key []byte, want []base.Entry,
) (shown int) {
	t.Helper()
	reverse := rnd.IntN(2) == 0
	at, step := searchEntries(want, key), 1
	if reverse {
		at, step = at-1, -1
	}
	a := approach(rnd, r, snap, key, reverse)
	check := func(e *base.Entry) {
		if at < 0 || at >= len(want) || !sameEntry(e, &want[at]) {
			t.Fatalf("row %d after a seek of %q, reverse %v, at %d: %v, wanted number %d", shown,
				key, reverse, snap, e, at)
		}
		at += step
		shown++
	}
	var batch cursor.Batch
	var last base.Entry
	for {
		n := 1 + rnd.IntN(5)
		batch.Reset()
		if a.Rows(&batch, n, key, nil, snap, reverse); len(batch.Rows) == 0 {
			break
		}
		if len(batch.Rows) > n {
			t.Fatalf("%d rows instead of %d", len(batch.Rows), n)
		}
		for i := range batch.Rows {
			check(&batch.Rows[i])
		}
		last = batch.Rows[len(batch.Rows)-1]
		bound, known := a.Bound(nil, reverse)
		if d := bytes.Compare(bound, last.Key) * step; known && (d < 0 || d == 0 && !reverse) {
			t.Fatalf("the bound %q after %q, reverse %v", bound, last.Key, reverse)
		}
		if at >= 0 && at < len(want) && known && bytes.Compare(want[at].Key, bound)*step < 0 {
			t.Fatalf("%q comes before the bound %q, reverse %v", want[at].Key, bound, reverse)
		}
		if rnd.IntN(8) == 0 {
			break
		}
	}
	if shown == 0 {
		if bound, known := a.Bound(nil, reverse); known {
			t.Fatalf("the bound %q after no row, reverse %v", bound, reverse)
		}
		return 0
	}
	c := r.NewCursor(snap)
	c.Resume(a, &last)
	next := c.Next
	if reverse {
		next = c.Prev
	}
	for range 3 {
		if !next() {
			if c.Err() != nil || at >= 0 && at < len(want) {
				t.Fatalf("no row after %q, wanted number %d: %v", last.Key, at, c.Err())
			}
			break
		}
		check(c.Entry())
	}
	return shown
}

// searchEntries returns the number of the first entry at or after key.
func searchEntries(entries []base.Entry, key []byte) int {
	at, _ := slices.BinarySearchFunc(entries, key,
		func(e base.Entry, k []byte) int { return bytes.Compare(e.Key, k) })
	return at
}

// checkApproach returns 1 if a bound was known.
func checkApproach(
	t *testing.T, rnd *rand.Rand, r *sst.Reader, snap base.SeqNum, key []byte, want []base.Entry,
) int {
	t.Helper()
	reverse := rnd.IntN(2) == 0
	a := approach(rnd, r, snap, key, reverse)
	bound, known := a.Bound(nil, reverse)
	c := r.NewCursor(snap)
	c.Approached(a)
	at, ok := searchEntries(want, key), false
	if reverse {
		at--
		ok = c.SeekLT(key)
	} else {
		ok = c.SeekGE(key)
	}
	if ok != (at >= 0 && at < len(want)) || ok && !sameEntry(c.Entry(), &want[at]) {
		t.Fatalf("a seek of %q, reverse %v, at %d: %v, %v, wanted number %d", key, reverse,
			snap, ok, c.Entry(), at)
	}
	if !known {
		return 0
	}
	if d := bytes.Compare(c.Entry().Key, bound); ok && (!reverse && d < 0 || reverse && d > 0) {
		t.Fatalf("%q comes before the bound %q, reverse %v", c.Entry().Key, bound, reverse)
	}
	if d := bytes.Compare(bound, key); !reverse && d < 0 || reverse && d > 0 {
		t.Fatalf("the bound %q of a seek of %q, reverse %v", bound, key, reverse)
	}
	// The approach is for one seek.
	if c.First() != (len(want) > 0) || len(want) > 0 && !sameEntry(c.Entry(), &want[0]) {
		t.Fatalf("the first entry after a seek: %v", c.Entry())
	}
	return 1
}
