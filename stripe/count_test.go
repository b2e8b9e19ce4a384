package stripe_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Count knows the number of keys of runs that have no key in common, and of what few keys memtables
// have beside them. It leaves everything else to a scan: what checkScan compares it with.
func TestCount(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.env.BlockBytes = 256
	count := func(lo, hi string, want int64, known bool) {
		t.Helper()
		b := bounds(lo, hi, w.seq, false)
		n, got, err := w.s.Count(b.Lo, b.Hi, w.seq)
		if ok(t, err); got != known || known && n != want {
			t.Errorf("[%q, %q) has %d keys, known %v, want %d, %v", lo, hi, n, got, want, known)
		}
		w.checkScan(lo, hi, w.seq, false)
	}
	fill := func(from, to int) base.SeqNum {
		for i := from; i < to; i++ {
			w.commit(put(fmt.Sprintf("k%04d", i), "value"))
		}
		w.flush()
		return w.seq
	}
	old := fill(0, 300)
	count("", "", 300, true)
	count("k0010", "k0250", 240, true)
	count("a", "k0001x", 2, true)
	count("k0299x", "", 0, true)
	fill(300, 500) // a second run, after the first
	count("", "", 500, true)
	count("k0290", "k0310", 20, true)
	if _, known, err := w.s.Count(nil, nil, old); known || err != nil {
		t.Errorf("a snapshot is counted with versions above it (%v)", err)
	}
	fill(310, 320) // a third, among the keys of the second
	count("", "", 0, false)
	count("k0000", "k0300", 300, true)
	w.compact(0, 3)
	count("", "", 500, true)
	w.commit(put("k0001", "in memory"))
	count("", "", 500, true)
	w.commit(put("k0001", "again"), put("k0600", "new"))
	count("", "", 501, true)
	count("k0500", "", 1, true)
	w.commit(del("k0002"), del("k0602"))
	count("", "", 500, true)
	count("k0002", "k0003", 0, true)
	for i := range 100 { // a merge takes less than to look all of them up
		w.commit(put(fmt.Sprintf("k%04d", i), "in memory"))
	}
	count("", "", 0, false)
	w.compact(0, 1)
	w.flush()
	w.compact(0, 2)
	w.commit(del("k0700"))
	w.flush()
	count("k0500", "", 0, false)
}
