package stripe_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// checkKnown compares what is known of a span without a scan, and what a reader is shown that comes
// back to it, with the rows.
func (w *world) checkKnown(lo, hi string, snap base.SeqNum, rows []string) {
	w.t.Helper()
	b := bounds(lo, hi, snap, false)
	span := knownSpan{w.s, lo, hi}
	if b.Known = w.known[span]; b.Known == nil {
		b.Known = new(stripe.Known)
		w.known[span] = b.Known
	}
	var n int64
	for _, k := range []*stripe.Known{nil, b.Known, b.Known} {
		var counted bool
		var err error
		n, counted, err = w.s.Count(b.Lo, b.Hi, snap, k)
		if ok(w.t, err); counted && n != int64(len(rows)) {
			w.t.Fatalf("[%q, %q) at %d has %d keys, want %d", lo, hi, snap, n, len(rows))
		}
	}
	if lacks, err := b.Known.Lacks(w.s, b.Lo, b.Hi); err != nil || lacks && len(rows) > 0 {
		w.t.Fatalf("[%q, %q) has nothing, want %q", lo, hi, rows)
	}
	for range 3 {
		var c stepper
		ok(w.t, c.Open(w.s, b))
		if !c.Plain() || n%2 == 0 { // Rows may be asked for in place of Entries
			got, err := rest(&c)
			if ok(w.t, err); !slices.Equal(got, rows) {
				w.t.Fatalf("again [%q, %q) at %d:\n got %q\nwant %q", lo, hi, snap, got, rows)
			}
			c.Close()
			continue
		}
		var got []string
		x := &w.entries
		for c.Entries(x) {
			prefix, values := x.AppendPrefix(nil), x.Values()
			for i := range x.Len() {
				key := append(slices.Clip(prefix), x.Suffix(i)...)
				got = append(got, row(&base.Entry{Key: key, Value: values.At(i), Seq: x.Seq(i),
					Kind: base.KindPut}))
			}
		}
		if ok(w.t, c.Err()); !slices.Equal(got, rows) {
			w.t.Fatalf("plain [%q, %q) at %d:\n got %q\nwant %q", lo, hi, snap, got, rows)
		}
		c.Close()
	}
}

// Count knows the number of keys of runs that have no key in common, and of what few keys memtables
// have beside them. It leaves everything else to a scan: what checkScan compares it with.
func TestCount(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.env.BlockBytes, w.env.PartBlocks = 256, 2
	count := func(lo, hi string, want int64, known bool) {
		t.Helper()
		b := bounds(lo, hi, w.seq, false)
		n, got, err := w.s.Count(b.Lo, b.Hi, w.seq, nil)
		if ok(t, err); got != known || known && n != want {
			t.Errorf("[%q, %q) has %d keys, known %v, want %d, %v", lo, hi, n, got, want, known)
		}
		w.checkScan(lo, hi, w.seq, false)
	}
	fill := func(from, to int) base.SeqNum {
		for i := from; i < to; i++ {
			w.commit(put(fmt.Sprintf("k%04d", i), fmt.Sprint("value", i)))
		}
		w.flush()
		return w.seq
	}
	old := fill(0, 300)
	count("k0005", "k0008", 3, true)
	count("k0010", "k0011", 1, true)
	count("k0005", "k0008", 3, true) // another span does not change what is known of it
	w.checkScan("k0005", "k0008", 5, false)
	count("", "", 300, true)
	count("k0010", "k0250", 240, true)
	count("a", "k0001x", 2, true)
	count("k0299x", "", 0, true)
	fill(300, 500) // a second run, after the first
	count("", "", 500, true)
	count("k0290", "k0310", 20, true)
	if _, known, err := w.s.Count(nil, nil, old, nil); known || err != nil {
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

// A stripe that has no version of any key of a span lacks it, wherever other keys are.
func TestLacks(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.env.BlockBytes, w.env.PartBlocks = 256, 2
	check := func(lo, hi string, want bool) {
		t.Helper()
		b := bounds(lo, hi, 0, false)
		if got, err := new(stripe.Known).Lacks(w.s, b.Lo, b.Hi); got != want || err != nil {
			t.Errorf("[%q, %q) lacks keys: want %v", lo, hi, want)
		}
	}
	check("", "", true)
	for i, move := range []func(){func() {}, func() { w.freeze() }, w.flush} {
		for i := range 100 {
			w.commit(put(fmt.Sprintf("k%04d", 2*i), "value"))
		}
		w.commit(del("k0500"))
		move()
		x := fmt.Sprint("x", i) // only in the active memtable
		w.commit(put(x, "value"))
		check(x, x+"0", false)
		check("", "", false)
		check("k0010", "k0011", false)
		check("k0011", "k0012", true)
		check("k0198x", "k05", true)
		check("k0500", "w", i == 2) // a tombstone is one, which the first flush drops
		check("k0501", "w", true)
	}
}
