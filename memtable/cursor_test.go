package memtable_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/memtable"
)

// TestManyInvisible puts many keys that a snapshot does not see between two that it
// does: more than a cursor looks at under one lock.
func TestManyInvisible(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	put(tab, "a", 1, "first")
	put(tab, "z", 2, "last")
	for i := range 5000 {
		put(tab, fmt.Sprintf("m%04d", i), base.SeqNum(3+i), "")
	}
	for _, state := range []string{"active", "frozen"} {
		c := tab.NewCursor(2)
		got := ""
		for ok := c.First(); ok; ok = c.Next() {
			got += string(c.Entry().Key) + " "
		}
		for ok := c.Last(); ok; ok = c.Prev() {
			got += string(c.Entry().Key) + " "
		}
		if c.SeekGE([]byte("m")) {
			got += string(c.Entry().Key) + " "
		}
		if c.SeekLT([]byte("n")) {
			got += string(c.Entry().Key)
		}
		if want := "a z z a z a"; got != want {
			t.Errorf("%s: got %s, want %s", state, got, want)
		}
		tab.Freeze()
	}
}

// TestEndOfMovement calls Next and Prev after the end, where only positioning moves.
func TestEndOfMovement(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	for i := range 100 {
		put(tab, fmt.Sprintf("k%02d", i), 1, "")
	}
	c := tab.NewCursor(1)
	c.SeekGE([]byte("k97"))
	for c.Next() {
	}
	if c.Next() || c.Prev() {
		t.Error("the cursor moves on after the end")
	}
	if !c.SeekLT([]byte("k03")) || string(c.Entry().Key) != "k02" {
		t.Error("a new positioning fails")
	}
	for c.Prev() {
	}
	if c.Prev() || c.Next() {
		t.Error("the cursor moves on before the start")
	}
}

// TestTurns turns a cursor at every entry, in particular at the edges of batches.
func TestTurns(t *testing.T) {
	w := newWorld(memtable.Options{})
	w.commit()
	for i := range 200 {
		w.put(fmt.Appendf(nil, "k%03d", i), base.KindPut, 0, nil)
	}
	for _, frozen := range []bool{false, true} {
		for back := range 70 {
			c := w.openCursor(w.seq)
			moves := []int{moveFirst}
			for range back {
				moves = append(moves, moveNext)
			}
			for range back + 1 {
				moves = append(moves, movePrev)
			}
			moves = append(moves, moveSeekLT)
			for range back {
				moves = append(moves, movePrev)
			}
			for range 2 * back {
				moves = append(moves, moveNext)
			}
			for i, how := range moves {
				if err := w.move(c, how, "k150"); err != nil {
					t.Fatalf("frozen %v, turn after %d, move %d: %v", frozen, back, i, err)
				}
			}
		}
		w.tab.Freeze()
	}
}

// TestReuseCursor uses one cursor on two tables in turn.
func TestReuseCursor(t *testing.T) {
	a, b := memtable.New(memtable.Options{}), memtable.New(memtable.Options{})
	put(a, "a1", 1, "")
	put(a, "a2", 2, "")
	put(b, "b1", 1, "")
	var c memtable.Cursor
	for range 3 {
		a.InitCursor(&c, 1)
		if c.Next() || c.Prev() {
			t.Error("a fresh cursor stands on an entry")
		}
		if !c.Last() || string(c.Entry().Key) != "a1" {
			t.Errorf("table a: %q", c.Entry().Key)
		}
		a.InitCursor(&c, 2)
		if !c.First() || string(c.Entry().Key) != "a1" {
			t.Errorf("table a: %q", c.Entry().Key)
		}
		b.InitCursor(&c, 1)
		if c.Next() || c.Prev() {
			t.Error("a cursor that stood on an entry of another table still does")
		}
		if !c.First() || string(c.Entry().Key) != "b1" {
			t.Errorf("table b: %q", c.Entry().Key)
		}
		c.Release()
		if c.Next() || c.Prev() {
			t.Error("a released cursor moves")
		}
	}
}

// TestReadAheadSurvives lets go of everything that a cursor has read ahead. A cursor
// at the newest state holds no snapshot that would prevent it.
func TestReadAheadSurvives(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	for i := range 4 {
		put(tab, fmt.Sprint("k", i), 1, "")
	}
	for seq := base.SeqNum(2); seq < 2000; seq++ { // versions away from their nodes
		key := fmt.Appendf(nil, "k%d", seq%4)
		tab.Put(key, hashOf(key), seq, base.KindPut, 0, make([]byte, 100), seq-1)
	}
	c := tab.NewCursor(base.MaxSeqNum)
	c.First()
	for seq := base.SeqNum(2000); seq < 90_000; seq++ {
		key := fmt.Appendf(nil, "k%d", seq%4)
		tab.Put(key, hashOf(key), seq, base.KindPut, 0, make([]byte, 100), seq-1)
	}
	for i := 1; c.Next(); i++ {
		e := c.Entry()
		if string(e.Key) != fmt.Sprint("k", i) || len(e.Value) != 100 || e.Seq >= 2000 {
			t.Errorf("entry %d: %s with %d bytes at %d", i, e.Key, len(e.Value), e.Seq)
		}
	}
}

// However many rows are expected, a cursor shows the same.
func TestExpectChangesNothing(t *testing.T) {
	const n = 300
	tab := memtable.New(memtable.Options{})
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	for i := range n {
		tab.Put(key(i), hashOf(key(i)), base.SeqNum(i+1), base.KindPut, 0, nil, 0)
	}
	for _, frozen := range []bool{false, true} {
		if frozen {
			tab.Freeze()
		}
		for _, rows := range []int{-1, 0, 1, 2, 5, 63, 64, 65, 1000} {
			c := tab.NewCursor(n)
			c.Expect(rows)
			up, down := 100, 100
			for ok := c.SeekGE(key(up)); ok; ok = c.Next() {
				if !bytes.Equal(c.Entry().Key, key(up)) {
					t.Fatalf("%d rows expected: %q is number %d", rows, c.Entry().Key, up)
				}
				up++
			}
			for ok := c.SeekLT(key(down)); ok; ok = c.Prev() {
				if down--; !bytes.Equal(c.Entry().Key, key(down)) {
					t.Fatalf("%d rows expected: %q is number %d", rows, c.Entry().Key, down)
				}
			}
			if up != n || down != 0 {
				t.Fatalf("%d rows expected: ends at %d and %d", rows, down, up)
			}
		}
	}
}

// A cursor with a limit shows all rows up to it, both ways, and hardly any after it.
func TestLimit(t *testing.T) {
	rnd := testutil.Rand(t)
	tab := memtable.New(memtable.Options{})
	key := func() []byte {
		stem := []string{"", "tenant01/", "tenant01/order-000", "z"}[rnd.IntN(4)]
		return append([]byte(stem), fmt.Sprintf("%03x", rnd.IntN(1500))[:1+rnd.IntN(3)]...)
	}
	var keys []string
	for i := range 1000 {
		k := string(key())
		put(tab, k, base.SeqNum(i+1), "")
		keys = append(keys, k)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	over := 0
	for i := range 400 {
		if i == 200 {
			tab.Freeze()
		}
		lo, hi := key(), key()
		c := tab.NewCursor(base.MaxSeqNum)
		c.Expect(64)
		var got, want []string
		if back := i%2 == 0; back {
			c.Limit(lo)
			for ok := c.SeekLT(hi); ok; ok = c.Prev() {
				got = append(got, string(c.Entry().Key))
			}
			slices.Reverse(got)
		} else {
			c.Limit(hi)
			for ok := c.SeekGE(lo); ok; ok = c.Next() {
				got = append(got, string(c.Entry().Key))
			}
		}
		for _, k := range keys {
			if k >= string(lo) && k < string(hi) {
				want = append(want, k)
			}
		}
		if len(lo) < 12 && len(hi) < 12 { // longer ones may begin alike
			over += len(got) - len(want)
		}
		got = slices.DeleteFunc(got, func(k string) bool {
			return k < string(lo) || k >= string(hi)
		})
		if !slices.Equal(got, want) {
			t.Fatalf("[%q, %q): got %q, want %q", lo, hi, got, want)
		}
	}
	if over > 400 {
		t.Errorf("%d keys after the limits of 400 readings are shown", over)
	}
}
