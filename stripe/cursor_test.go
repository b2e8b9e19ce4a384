package stripe_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// blockReads returns how many accesses to data blocks f makes.
func (w *world) blockReads(f func()) uint64 {
	count := func() uint64 {
		s := w.env.Stats.Snapshot()
		return s.BlockHits + s.BlockMisses
	}
	before := count()
	f()
	return count() - before
}

// A scan over a deleted range costs a few seeks, not a step per hidden entry, both
// ways, whatever layer the tombstone is in and however many runs it covers.
func TestCursorSkipsWhatATombstoneHides(t *testing.T) {
	const n = 3000
	for _, layer := range []string{"memtable", "frozen", "run"} {
		t.Run(layer, func(t *testing.T) {
			w := newWorld(t, vfs.NewMem())
			w.fill(n, "one")
			w.fill(n, "two")
			w.commit(delRange("k0010", "k2990"))
			switch layer {
			case "frozen":
				w.freeze()
			case "run":
				w.flush()
			}
			w.commit(put("k1500", "new"), put("k1501", "new"))
			for _, reverse := range []bool{false, true} {
				reads := w.blockReads(func() { w.checkScan("", "", w.seq, reverse) })
				if reads > 40 {
					t.Errorf("reverse %v: %d block reads over %d hidden entries",
						reverse, reads, 2*n)
				}
			}
		})
	}
}

// A range tombstone does not share a memtable with many keys that it hides.
func TestFreezeBeneath(t *testing.T) {
	for _, tt := range []struct {
		keys   int
		lo, hi string
		want   bool
	}{
		{5000, "k1000", "k1100", false},
		{5000, "k1000", "k4000", true},
		{5000, "k4990", "z", false},
		{5000, "", "z", true},
		{100, "", "z", false},
	} {
		w := newWorld(t, vfs.NewMem())
		for i := range tt.keys {
			w.commit(put(fmt.Sprintf("k%04d", i), "v"))
		}
		w.s.Lock()
		got := w.s.FreezeBeneath([]byte(tt.lo), []byte(tt.hi))
		w.s.Unlock()
		if frozen := len(w.s.View().Frozen) == 1; got != tt.want || frozen != tt.want {
			t.Errorf("[%q, %q) over %d keys: %v, frozen %v, want %v",
				tt.lo, tt.hi, tt.keys, got, frozen, tt.want)
		}
		w.commit(delRange(tt.lo, tt.hi))
		w.commit(put("k2000", "new"))
		w.checkScan("", "", w.seq, false)
		w.checkScan("", "", w.seq, true)
		w.checkScan("", "", w.seq-2, false)
	}
}

// A small limit of reading ahead shows the same and reads less at a time.
func TestCursorReadAheadLimit(t *testing.T) {
	var longest int64
	w := newInterrupted(t)
	w.env.Cache, w.env.BlockBytes = cache.New(0), 2<<10 // few blocks: a short index
	w.s.Init(stripeID, &w.env, nil)
	w.fill(5000, "some value")
	w.set(func(op vfstest.Op) error {
		longest = max(longest, op.Len)
		return nil
	})
	b := bounds("", "", w.seq, false)
	scan := func(limit int) ([]string, int64) {
		b.ReadAheadBytes, longest = limit, 0
		rows, err := w.scan(b, nil)
		ok(t, err)
		return rows, longest
	}
	all, free := scan(0)
	few, bound := scan(8 << 10)
	if !slices.Equal(all, few) || len(all) != 5000 {
		t.Fatalf("%d rows with a limit, %d without, want 5000", len(few), len(all))
	}
	if free < 16<<10 || bound > 8<<10 {
		t.Fatalf("longest read %d without a limit, %d with one of 8 KiB", free, bound)
	}
}

// A cursor is reusable on another stripe, after an error, and in the other direction.
func TestCursorReuse(t *testing.T) {
	a, b := newInterrupted(t), newWorld(t, vfs.NewMem())
	a.fill(20, "a")
	a.commit(delRange("k0003", "k0005"))
	a.flush()
	b.commit(put("only", "b"))
	a.reopen()
	a.set(func(vfstest.Op) error { return vfs.ErrNoSpace })
	var c stepper
	err := c.Open(a.s, bounds("", "", a.seq, false))
	if !errors.Is(err, vfs.ErrNoSpace) || c.Next() {
		t.Fatalf("a cursor on a broken disk opens (%v) or shows something", err)
	}
	c.Close()
	a.set(nil)
	for _, reverse := range []bool{true, false} {
		for _, w := range []*world{b, a.world} {
			ok(t, c.Open(w.s, bounds("", "", w.seq, reverse)))
			rows, err := rest(&c)
			ok(t, err)
			if want := w.model.rows("", "", w.seq, reverse); !slices.Equal(rows, want) {
				t.Fatalf("reused cursor shows %q, want %q", rows, want)
			}
			c.Close()
		}
	}
}
