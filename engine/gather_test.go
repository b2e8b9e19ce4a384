package engine_test

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// rangeWorld is a database beside a plain list of what it should hold: few partitions
// with zero and FF bytes in their keys, sort keys that begin each other, and versions,
// tombstones, expiries and range deletes in several layers.
type rangeWorld struct {
	db    *engine.DB
	rnd   *rand.Rand
	clock atomic.Int64
	items model
}

func newRangeWorld(t *testing.T, seed uint64) *rangeWorld {
	w := &rangeWorld{rnd: rand.New(rand.NewPCG(seed, 1)), items: model{}}
	w.clock.Store(1_000_000)
	w.db = openMemory(t, engine.Options{
		Durability: engine.Process, BlockBytes: 1 << 10, MaxRuns: 16,
		CacheBytes: []int64{1, 1 << 20}[seed%2],
		Clock:      func() time.Time { return time.UnixMilli(w.clock.Load()) },
	})
	return w
}

var rangePKs = []string{
	"\x00", "\x00\x00\x01", "a", "a\x00", "a\x00\x01", "ab", "b", "idx/1", "idx/2", "idx/2\x00",
	"idx/3", "idx/4", "\xff", "\xff\xff",
}

// sk draws a sort key, now and then none.
func (w *rangeWorld) sk() []byte {
	if w.rnd.IntN(15) == 0 {
		return nil
	}
	sk := fmt.Appendf(nil, "%02d", w.rnd.IntN(50))
	return append(sk, []string{"", "", "\x00", "\x00\x00", "\xff"}[w.rnd.IntN(5)]...)
}

func (w *rangeWorld) pk() []byte { return []byte(rangePKs[w.rnd.IntN(len(rangePKs))]) }

func (w *rangeWorld) key() engine.Key { return engine.Key{PK: w.pk(), SK: w.sk()} }

// writer is what a database and a transaction have in common.
type writer struct {
	put         func(engine.Key, []byte, ...engine.ItemOption) error
	delete      func(engine.Key) error
	deleteRange func([]byte, engine.SKCondition) error
}

func (w *rangeWorld) writer(t *testing.T) writer {
	return writer{
		func(k engine.Key, v []byte, o ...engine.ItemOption) error {
			b := engine.NewBatch()
			ok(t, b.Put(k, v, o...))
			return w.db.Apply(ctx, b)
		},
		func(k engine.Key) error { return w.db.Delete(k) },
		func(pk []byte, c engine.SKCondition) error { return w.db.DeleteRange(pk, c) },
	}
}

// change writes n times; ranges reports whether ranges are deleted, too.
func (w *rangeWorld) change(t *testing.T, to writer, n int, ranges bool) {
	t.Helper()
	for i := range n {
		k := w.key()
		switch d := w.rnd.IntN(40); {
		case d < 8:
			ok(t, to.delete(k))
			delete(w.items, id(k))
		case d < 12:
			ttl := time.Duration(1+w.rnd.IntN(20)) * time.Millisecond
			ok(t, to.put(k, []byte("ttl"), engine.TTL(ttl)))
			w.items[id(k)] = modelItem{k, []byte("ttl"), w.clock.Load() + ttl.Milliseconds()}
		case d == 12 && ranges:
			s := w.span()
			ok(t, to.deleteRange(k.PK, engine.SKRange(s.Start, s.End)))
			for key, it := range w.items {
				if bytes.Equal(it.key.PK, k.PK) && inSpan(s, it.key.SK) {
					delete(w.items, key)
				}
			}
		default:
			v := fmt.Appendf(nil, "%d", i)
			ok(t, to.put(k, v))
			w.items[id(k)] = modelItem{k, v, 0}
		}
	}
}

// fill makes several layers of runs and memtables.
func (w *rangeWorld) fill(t *testing.T, ranges bool) {
	t.Helper()
	for round := range 4 {
		w.change(t, w.writer(t), 500, ranges)
		if round < 3 {
			ok(t, w.db.Flush(ctx))
		}
	}
	w.clock.Add(10)
}

// span draws a range of sort keys, sometimes an empty one or one without bounds.
func (w *rangeWorld) span() keycodec.Span {
	var s keycodec.Span
	if w.rnd.IntN(5) > 0 {
		s.Start = w.sk()
	}
	if w.rnd.IntN(5) > 0 {
		s.End = append([]byte{}, w.sk()...)
	}
	return s
}

// spans draws ascending ranges that do not overlap.
func (w *rangeWorld) spans() []keycodec.Span {
	var edges [][]byte
	for range 2 * w.rnd.IntN(5) {
		edges = append(edges, fmt.Appendf(nil, "%02d", w.rnd.IntN(50)))
	}
	slices.SortFunc(edges, bytes.Compare)
	var spans []keycodec.Span
	for i := 0; i < len(edges); i += 2 {
		spans = append(spans, keycodec.Span{Start: edges[i], End: edges[i+1]})
	}
	if n := len(spans); n > 0 && w.rnd.IntN(3) == 0 {
		spans[n-1].End = nil
	}
	if len(spans) > 0 && w.rnd.IntN(3) == 0 {
		spans[0].Start = nil
	}
	return spans
}

func inSpan(s keycodec.Span, sk []byte) bool {
	return len(sk) > 0 && bytes.Compare(sk, s.Start) >= 0 &&
		(s.End == nil || bytes.Compare(sk, s.End) < 0)
}

func inSpans(spans []keycodec.Span, sk []byte) bool {
	return len(spans) == 0 ||
		slices.ContainsFunc(spans, func(s keycodec.Span) bool { return inSpan(s, sk) })
}

// gather draws what to gather, without position, limit and filter.
func (w *rangeWorld) gather() engine.Gather {
	g := engine.Gather{Reverse: w.rnd.IntN(2) == 0, ByPartition: w.rnd.IntN(3) == 0}
	for _, p := range slices.Sorted(slices.Values(rangePKs)) {
		if w.rnd.IntN(3) > 0 {
			g.PKs = append(g.PKs, []byte(p))
		}
	}
	if w.rnd.IntN(3) == 0 {
		g.Each = make([][]keycodec.Span, len(g.PKs))
		for i := range g.Each {
			g.Each[i] = w.spans()
		}
	} else {
		g.Spans = w.spans()
	}
	return g
}

// gatherOrder compares keys in the order of a Gather.
func gatherOrder(g *engine.Gather, a, b engine.Key) int {
	d := cmp.Or(bytes.Compare(a.SK, b.SK), bytes.Compare(a.PK, b.PK))
	if g.ByPartition {
		d = cmp.Or(bytes.Compare(a.PK, b.PK), bytes.Compare(a.SK, b.SK))
	}
	if g.Reverse {
		d = -d
	}
	return d
}

func even(v []byte) bool { return len(v) > 0 && v[len(v)-1]%2 == 0 }

// want returns what g should select of the items, without regard of After.
func (w *rangeWorld) want(g *engine.Gather) []modelItem {
	var out []modelItem
	for _, it := range w.live() {
		i := slices.IndexFunc(g.PKs, func(pk []byte) bool { return bytes.Equal(pk, it.key.PK) })
		switch {
		case i < 0 || g.Each == nil && !inSpans(g.Spans, it.key.SK):
		case g.Each != nil && !inSpans(g.Each[i], it.key.SK):
		case g.Filter != nil && !even(it.value):
		case g.StartAfter.PK != nil && gatherOrder(g, it.key, g.StartAfter) <= 0:
		default:
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b modelItem) int { return gatherOrder(g, a.key, b.key) })
	if g.Limit > 0 {
		out = out[:min(g.Limit, len(out))]
	}
	return out
}

func (w *rangeWorld) live() (out []modelItem) {
	for _, it := range w.items {
		if it.expiry == 0 || w.clock.Load() < it.expiry {
			out = append(out, it)
		}
	}
	return out
}

func takeAll(t *testing.T, seq iter.Seq2[engine.Item, error]) (out []modelItem) {
	t.Helper()
	for it, err := range seq {
		ok(t, err)
		it = it.Clone()
		out = append(out, modelItem{it.Key, it.Value, it.Expiry})
	}
	return out
}

func sameItems(t *testing.T, what string, got, want []modelItem) {
	t.Helper()
	same := slices.EqualFunc(got, want, func(a, b modelItem) bool {
		return id(a.key) == id(b.key) && bytes.Equal(a.value, b.value) && a.expiry == b.expiry
	})
	if !same {
		t.Fatalf("%s:\n got %v\nwant %v", what, keys(got), keys(want))
	}
}

// checkGather compares a random Gather, whole, counted, from a position, and in pages.
func (w *rangeWorld) checkGather(t *testing.T, r engine.Reader) {
	t.Helper()
	g := w.gather()
	all := w.want(&g)
	sameItems(t, fmt.Sprintf("%+v", g), takeAll(t, r.Gather(ctx, g)), all)

	cut := g
	cut.Limit = w.rnd.IntN(10)
	if w.rnd.IntN(2) == 0 {
		cut.StartAfter = w.key()
	}
	if w.rnd.IntN(2) == 0 {
		cut.Filter = func(it engine.Item) bool { return even(it.Value) }
	}
	want := w.want(&cut)
	sameItems(t, fmt.Sprintf("%+v", cut), takeAll(t, r.Gather(ctx, cut)), want)
	n, err := r.CountGather(ctx, cut)
	if ok(t, err); n != int64(len(want)) {
		t.Fatalf("%+v: count is %d, want %d", cut, n, len(want))
	}

	page, got := g, []modelItem(nil)
	for page.Limit = 5 + w.rnd.IntN(30); ; {
		items := takeAll(t, r.Gather(ctx, page))
		got = append(got, items...)
		if len(items) < page.Limit {
			break
		}
		page.After = page.CursorAfter(engine.Item{Key: items[len(items)-1].key})
	}
	sameItems(t, fmt.Sprintf("pages of %+v", g), got, all)
}

// bound draws a bound of a scan: often an item, or the key right before or after it.
func (w *rangeWorld) bound() engine.Key {
	k := w.key()
	switch w.rnd.IntN(4) {
	case 0:
		k.SK = nil
	case 1:
		k.SK = append(slices.Clip(k.SK), 0)
	}
	return k
}

// inBounds reports whether a key is between From and To.
func inBounds(s *engine.Scan, k engine.Key) bool {
	if s.From.PK != nil {
		d := cmp.Compare(id(k), id(s.From))
		if d < 0 || d == 0 && s.FromExcluded {
			return false
		}
	}
	if s.To.PK == nil {
		return true
	}
	d := cmp.Compare(id(k), id(s.To))
	return d < 0 || d == 0 && s.ToIncluded
}

// checkScan compares a random scan with bounds.
func (w *rangeWorld) checkScan(t *testing.T, r engine.Reader) {
	t.Helper()
	s := engine.Scan{Reverse: w.rnd.IntN(2) == 0, Unordered: w.rnd.IntN(2) == 0}
	if w.rnd.IntN(4) > 0 {
		s.From, s.FromExcluded = w.bound(), w.rnd.IntN(2) == 0
	}
	if w.rnd.IntN(4) > 0 {
		s.To, s.ToIncluded = w.bound(), w.rnd.IntN(2) == 0
	}
	if s.Segments = w.rnd.IntN(4); s.Segments > 0 {
		s.Segment = w.rnd.IntN(s.Segments)
	}
	if !s.Unordered && w.rnd.IntN(2) == 0 {
		s.StartAfter = w.key()
	}
	var want []modelItem
	for _, it := range w.live() {
		in := s.Segments == 0 || int(keycodec.Stripe(it.key.PK))%s.Segments == s.Segment
		in = in && inBounds(&s, it.key)
		if s.StartAfter.PK != nil {
			d := cmp.Compare(id(it.key), id(s.StartAfter))
			in = in && d != 0 && (d > 0) != s.Reverse
		}
		if in {
			want = append(want, it)
		}
	}
	order := func(a, b modelItem) int {
		d := cmp.Compare(id(a.key), id(b.key))
		if s.Unordered {
			d = cmp.Or(cmp.Compare(keycodec.Stripe(a.key.PK), keycodec.Stripe(b.key.PK))*
				map[bool]int{false: 1, true: -1}[s.Reverse], d)
		}
		if s.Reverse {
			d = -d
		}
		return d
	}
	slices.SortFunc(want, order)
	what := fmt.Sprintf("%+v", s)
	sameItems(t, what, takeAll(t, r.Scan(ctx, s)), want)
	n, err := r.CountScan(ctx, s)
	if ok(t, err); n != int64(len(want)) {
		t.Fatalf("%s: count is %d, want %d", what, n, len(want))
	}
	var got []modelItem
	for s.Limit = 20 + w.rnd.IntN(60); ; {
		items := takeAll(t, r.Scan(ctx, s))
		got = append(got, items...)
		if len(items) < s.Limit {
			break
		}
		s.After = s.CursorAfter(engine.Item{Key: items[len(items)-1].key})
	}
	sameItems(t, "pages of "+what, got, want)
}

// Goal: gatherings and scans with bounds select exactly what they should, in the right
// order, whatever they are combined with, on databases, snapshots and in transactions.
//
// Promise (reads and writes): Gatherings of partitions, and scans with bounds, select exactly
// what they should in the right order, with any spans, limits, positions, pages and filters, and
// are counted right.
func TestRangesAgainstModel(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	worlds, rounds := testutil.Effort(3, 9), testutil.Effort(10, 40)
	seed := testutil.Seed(t)
	for i := range uint64(worlds) {
		t.Run(fmt.Sprint("world ", i), func(t *testing.T) {
			w := newRangeWorld(t, seed+i)
			w.fill(t, i%3 > 0)
			for range rounds {
				w.checkGather(t, w.db)
				w.checkScan(t, w.db)
			}
			snap, err := w.db.Snapshot()
			ok(t, err)
			before := maps.Clone(w.items)
			w.change(t, w.writer(t), 300, true)
			ok(t, w.db.Compact(ctx))
			now := w.items
			w.items = before
			for range rounds {
				w.checkGather(t, snap)
				w.checkScan(t, snap)
			}
			ok(t, snap.Close())
			w.items = now
			ok(t, w.db.Update(ctx, func(tx *engine.Tx) error {
				w.change(t, writer{tx.Put, tx.Delete, tx.DeleteRange}, 150, seed%2 > 0)
				for range rounds {
					w.checkGather(t, tx)
					w.checkScan(t, tx)
				}
				return nil
			}))
			w.checkGather(t, w.db)
		})
	}
}
