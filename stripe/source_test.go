package stripe_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// TestApproachedSources: sources that were approached show the rows that they show without,
// wherever the reading begins, cold and from the cache; no row comes before their Bound.
func TestApproachedSources(t *testing.T) {
	rnd := testutil.Rand(t)
	known, empty := 0, 0
	for range 8 {
		w := newWorld(t, vfs.NewMem())
		w.env.FileBytes = int64(1 + rnd.IntN(4000))
		keys := 1 + rnd.IntN(120)
		key := func() string { return fmt.Sprintf("k%03d", rnd.IntN(keys+2)) }
		for range 1 + rnd.IntN(3) {
			for range rnd.IntN(300) {
				if o := put(key(), noise(rnd.IntN(50))); rnd.IntN(5) > 0 {
					w.commit(o)
				} else {
					w.commit(del(o.key))
				}
			}
			w.snapshot() // versions stay
			w.flush()
		}
		w.commit(put(key(), "in memory"))
		for range 60 {
			lo, hi := key(), key()
			switch rnd.IntN(4) {
			case 0:
				lo = ""
			case 1:
				hi = ""
			}
			if hi != "" && lo > hi {
				lo, hi = hi, lo
			}
			b := bounds(lo, hi, base.SeqNum(rnd.IntN(int(w.seq)+2)), rnd.IntN(2) == 0)
			b.FirstRows = rnd.IntN(6)
			n, m := w.checkApproach(b, key(), rnd.IntN(4))
			known, empty = known+n, empty+m
		}
	}
	if known == 0 || empty == 0 {
		t.Errorf("%d bounds are known, of %d sources that are empty", known, empty)
	}
}

// checkApproach compares the rows of all sources, and those after Restrict to [from, Hi) or,
// in reverse, [Lo, from), which comes after a number of batches, 3 for all. It returns how many
// bounds were known, and known to be empty.
func (w *world) checkApproach(b stripe.Bounds, from string, batches int) (known, empty int) {
	w.t.Helper()
	var plain, near stepper
	defer plain.Close()
	defer near.Close()
	ok(w.t, plain.Open(w.s, b))
	ok(w.t, near.Open(w.s, b))
	narrow := b
	if b.Reverse && (b.Hi == nil || from < string(b.Hi)) {
		narrow.Hi = []byte(from)
	} else if !b.Reverse && from > string(b.Lo) {
		narrow.Lo = []byte(from)
	}
	stripe.Approach(slices.Clone(near.Sources()))
	for i, s := range near.Sources() {
		var want []base.Entry
		src := plain.Sources()[i]
		for batch := src.Rows(); len(batch) > 0; batch = src.Rows() {
			for _, e := range batch {
				e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
				want = append(want, e)
			}
		}
		ok(w.t, src.Err())
		if batches == 3 {
			n, m := w.checkSource(s, b, want)
			known, empty = known+n, empty+m
		}
		for range batches % 3 {
			s.Rows()
		}
		want = slices.DeleteFunc(want, func(e base.Entry) bool {
			return bytes.Compare(e.Key, narrow.Lo) < 0 ||
				narrow.Hi != nil && bytes.Compare(e.Key, narrow.Hi) >= 0
		})
		s.Restrict(&narrow)
		if len(want)%2 == 0 {
			stripe.Approach([]*stripe.Source{s})
		}
		n, m := w.checkSource(s, narrow, want)
		known, empty = known+n, empty+m
	}
	return known, empty
}

// checkSource reads a source to its end, and compares what it knows of the next row before it
// reads on with that row.
func (w *world) checkSource(s *stripe.Source, b stripe.Bounds, want []base.Entry) (
	knownOnes, emptyOnes int,
) {
	w.t.Helper()
	for {
		bound, known, empty := s.Bound([]byte("dst"))
		bound, _ = bytes.CutPrefix(bound, []byte("dst"))
		batch := s.Rows()
		if !known && (len(bound) > 0 || empty) || empty && len(batch) > 0 {
			w.t.Fatalf("%+v: bound %q, known %v, empty %v, then %v", b, bound, known, empty, batch)
		}
		if known && !empty {
			knownOnes++
			outside := b.Reverse && b.Hi != nil && bytes.Compare(bound, b.Hi) >= 0
			if outside || !b.Reverse && bytes.Compare(bound, b.Lo) < 0 {
				w.t.Fatalf("%+v: bound %q outside", b, bound)
			}
		}
		if empty {
			emptyOnes++
		}
		if len(batch) == 0 {
			break
		}
		c := bytes.Compare(batch[0].Key, bound)
		if known && (!b.Reverse && c < 0 || b.Reverse && c > 0) {
			w.t.Fatalf("%+v: bound %q before %q", b, bound, batch[0].Key)
		}
		for i := range batch {
			if len(want) == 0 || row(&batch[i]) != row(&want[0]) {
				w.t.Fatalf("%+v: row %s, want %v", b, row(&batch[i]), want)
			}
			want = want[1:]
		}
	}
	ok(w.t, s.Err())
	if len(want) > 0 {
		w.t.Fatalf("%+v: ends before %s", b, row(&want[0]))
	}
	return knownOnes, emptyOnes
}

// TestSparseRuns: in a merge of many sources, a run of few rows beside those of another is open
// only while a row of it is shown, and all rows are those of the model.
func TestSparseRuns(t *testing.T) {
	rnd := testutil.Rand(t)
	w := newWorld(t, vfs.NewMem())
	key := func() string { return fmt.Sprintf("k%04d", rnd.IntN(8000)) }
	for i := range 8000 {
		w.commit(put(fmt.Sprintf("k%04d", i), noise(i)))
	}
	w.flush()
	const young = 6
	for range young {
		for range 1 + rnd.IntN(5) {
			switch k := key(); rnd.IntN(5) {
			case 0:
				w.commit(del(k))
			case 1:
				w.commit(delRange(k, k+"~"))
			default:
				w.commit(put(k, "again"))
			}
		}
		w.commit(put(key(), "a last one"))
		if rnd.IntN(2) == 0 {
			w.snapshot()
		}
		w.flush()
	}
	for range 20 {
		lo, hi := key(), key()
		w.checkScan(min(lo, hi), max(lo, hi), base.SeqNum(8000+rnd.IntN(int(w.seq)-7999)),
			rnd.IntN(2) == 0)
	}
	w.checkAll()
	for _, reverse := range []bool{false, true} {
		b := bounds("", "", w.seq, reverse)
		b.ReadAheadBytes = 1
		var c stepper
		ok(t, c.Open(w.s, b))
		sparse, most := 0, 0
		for c.Next() {
			open := 0
			sparse = 0
			for _, s := range c.Sources() {
				if s.Sparse() {
					sparse++
					if s.InUse() {
						open++
					}
				}
			}
			most = max(most, open)
		}
		ok(t, c.Err())
		if sparse != young || most != 1 {
			t.Errorf("reverse %v: %d sparse sources, %d open at a time", reverse, sparse, most)
		}
		c.Close()
	}
}
