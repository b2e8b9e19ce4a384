package read

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// Scans of a span pass over the stripes that have nothing of it, and show each key that comes
// later, whether the stripes write, freeze or flush meanwhile.
func TestScansFindWhatComesToBareStripes(t *testing.T) {
	w := newWorld(t)
	rnd := testutil.Rand(t)
	span := base.Span{Lo: ordered("b"), Hi: ordered("c")}
	var want []string
	const stripes = 24 // that have keys
	runs := uint64(1)
	for range 1000 {
		for range rnd.IntN(3) {
			pk := fmt.Sprintf("%c%04d", 'a'+rnd.IntN(3), rnd.IntN(2000))
			if keycodec.Stripe([]byte(pk)) >= stripes {
				continue
			}
			if w.put(pk, "v"); pk[0] == 'b' && !slices.Contains(want, pk) {
				want = append(want, pk)
			}
		}
		if rnd.IntN(4) == 0 {
			w.flushStripe(uint8(rnd.IntN(stripes)), &runs)
		}
		slices.Sort(want)
		it := begun(t, w.Reader(nil, nil), 0)
		it.Stripes(everyStripe, span)
		if rnd.IntN(3) == 0 {
			if n := it.Count(); n != int64(len(want)) {
				t.Fatalf("%d are counted, want %d", n, len(want))
			}
			it.Close()
			continue
		}
		if rnd.IntN(2) == 0 {
			it.Walk(span, false)
		} else {
			it.Read(span, false)
		}
		got := names(t, it)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	full := map[uint8]bool{}
	for _, pk := range want {
		full[keycodec.Stripe([]byte(pk))] = true
	}
	known := w.snaps.gen.facts.of(span)
	for id := range known.stripes {
		s := &w.stripes[id]
		got, err := known.stripes[id].Lacks(s, span.Lo, span.Hi)
		if err != nil || got == full[uint8(id)] {
			t.Errorf("stripe %d has something: %v, known to be bare: %v", id, full[uint8(id)], got)
		}
	}
}

// Counts are exact in each of their turns, whatever writes, deletes, expires and is flushed between
// them, at the present, at moments before, and with what a transaction has written.
func TestCountsAreExact(t *testing.T) {
	kinds := []base.Kind{base.KindPut, base.KindPut, base.KindDelete, base.KindPutTTL}
	for n := 2; n <= len(kinds); n++ { // without kinds that nothing is remembered beside
		checkCounts(t, kinds[:n])
	}
}

// checkCounts compares counts after random writes of some kinds with those of a model.
func checkCounts(t *testing.T, kinds []base.Kind) {
	w := newWorld(t)
	rnd := testutil.Rand(t)
	span := base.Span{Lo: ordered("b"), Hi: ordered("c")}
	type version struct {
		kind base.Kind
		till int64
	}
	versions := map[string]version{}
	now := func() (n int64) {
		for _, v := range versions {
			if v.kind == base.KindPut || v.kind == base.KindPutTTL && v.till > w.now.Load() {
				n++
			}
		}
		return n
	}
	check := func(r Reader, want int64, what string) {
		t.Helper()
		for range rnd.IntN(4) {
			it := begun(t, r, 0)
			it.Stripes(everyStripe, span)
			if n := it.Count(); n != want || it.Err() != nil {
				t.Fatalf("%s: %d are counted, want %d (%v)", what, n, want, it.Err())
			}
			it.Close()
		}
	}
	runs := uint64(1)
	at := new(Moment)
	w.ok(at.Take(w.State))
	atWant := int64(0) // negative if items of the moment expire
	for range testutil.Effort(300, 20_000) {
		for range rnd.IntN(3) {
			pk, v := fmt.Sprintf("b%02d", rnd.IntN(60)), version{kind: kinds[rnd.IntN(len(kinds))]}
			if v.kind == base.KindPutTTL {
				v.till = w.now.Load() + 1 + rnd.Int64N(5)
			}
			w.Publish(w.write(base.Entry{Key: ordered(pk), Kind: v.kind, Expiry: v.till}))
			versions[pk] = v
		}
		switch rnd.IntN(5) {
		case 0:
			w.now.Add(rnd.Int64N(3))
		case 1:
			w.put(fmt.Sprintf("a%03d", rnd.IntN(1000)), "of another span")
		case 2:
			at.Release()
			at = new(Moment)
			w.ok(at.Take(w.State))
			if atWant = now(); slices.ContainsFunc(slices.Collect(maps.Values(versions)),
				func(v version) bool { return v.kind == base.KindPutTTL }) {
				atWant = -1
			}
		case 3:
			w.flushStripe(keycodec.Stripe(fmt.Appendf(nil, "b%02d", rnd.IntN(60))), &runs)
		}
		check(w.Reader(nil, nil), now(), "now")
		w.inTransaction("bx", func(r Reader) { check(r, now()+1, "own") })
		if atWant >= 0 {
			check(w.Reader(at, nil), atWant, "before")
		}
	}
	at.Release()
}

// inTransaction calls f with the reader of a transaction that has put a key.
func (w *world) inTransaction(pk string, f func(Reader)) {
	var at Moment
	w.ok(at.Take(w.State))
	defer at.Release()
	var own Overlay
	own.Init(w.State, &at, false)
	own.Put(keycodec.Stripe([]byte(pk)), &base.Entry{Key: ordered(pk), Kind: base.KindPut})
	f(w.Reader(&at, &own))
}

// A count beside a writer has all that was acknowledged before, and nothing that began after it.
func TestCountsBesideWriters(t *testing.T) {
	w := newWorld(t)
	span := base.Span{Lo: ordered("b"), Hi: ordered("c")}
	var begun, done atomic.Int64
	var writing sync.WaitGroup
	most := testutil.Effort(1000, 100_000)
	writing.Go(func() {
		for i := range most {
			begun.Add(1)
			w.put(fmt.Sprintf("b%06d", i), "v")
			done.Add(1)
			if i%64 == 0 {
				w.put(fmt.Sprintf("a%06d", i), "v")
				base.Yield()
			}
		}
	})
	for done.Load() < int64(min(most, 1000)) {
		it := NewIteration()
		least := done.Load()
		w.ok(it.Start(ctx, w.Reader(nil, nil), 0))
		it.Stripes(everyStripe, span)
		n := it.Count()
		w.ok(it.Err())
		it.Close()
		if now := begun.Load(); n < least || n > now {
			t.Fatalf("%d are counted, want %d to %d", n, least, now)
		}
	}
	writing.Wait()
}
