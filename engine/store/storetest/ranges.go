package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// content is a store with a list of what should be in it.
type content struct {
	s     store.Writer
	rnd   *rand.Rand
	items map[string]store.Item
}

func newContent(s store.Writer, seed uint64) *content {
	return &content{s, rand.New(rand.NewPCG(seed, 0)), map[string]store.Item{}}
}

func ordered(key store.Key) string { return string(keycodec.AppendOrdered(nil, key)) }

var somePKs = []string{"\x00", "a", "a\x00", "b1", "b2", "b3", "b4", "c", "\xff"}

func (c *content) key() store.Key {
	k := store.Key{PK: []byte(somePKs[c.rnd.IntN(len(somePKs))])}
	if c.rnd.IntN(10) > 0 {
		k.SK = c.sk()
	}
	return k
}

func (c *content) sk() []byte {
	sk := fmt.Appendf(nil, "%02d", c.rnd.IntN(40))
	return append(sk, []string{"", "\x00", "\xff"}[c.rnd.IntN(3)]...)
}

// change commits n write sets.
func (c *content) change(t T, n int) {
	t.Helper()
	for range n {
		var w store.WriteSet
		for range 1 + c.rnd.IntN(20) {
			k := c.key()
			if c.rnd.IntN(4) == 0 {
				w.Delete(k)
				delete(c.items, ordered(k))
				continue
			}
			v := fmt.Appendf(nil, "%d", c.rnd.IntN(1000))
			w.Put(k, v)
			c.items[ordered(k)] = store.Item{Key: k, Value: v}
		}
		ok(t, c.s.Commit(ctx, &w))
	}
}

func (c *content) spans() []store.Span {
	var edges [][]byte
	for range 2 * c.rnd.IntN(4) {
		edges = append(edges, c.sk())
	}
	slices.SortFunc(edges, bytes.Compare)
	var spans []store.Span
	for i := 0; i < len(edges); i += 2 {
		spans = append(spans, store.Span{Start: edges[i], End: edges[i+1]})
	}
	if n := len(spans); n > 0 && c.rnd.IntN(3) == 0 {
		spans[0].Start, spans[n-1].End = nil, nil
	}
	return spans
}

// draw returns a range of any kind.
func (c *content) draw() store.Range {
	var r store.Range
	switch c.rnd.IntN(5) {
	case 0:
		r = store.Point(c.key())
	case 1:
		r = store.Partition(c.key().PK, c.spans()...)
	case 2:
		r = store.Interval(nil, nil)
		if c.rnd.IntN(3) > 0 {
			r.From = c.key().PK
		}
		if c.rnd.IntN(3) > 0 {
			r.To = c.key().PK
		}
	default:
		r = store.Partitions(nil)
		for _, pk := range slices.Sorted(slices.Values(somePKs)) {
			if c.rnd.IntN(2) == 0 {
				r.PKs = append(r.PKs, []byte(pk))
			}
		}
		if c.rnd.IntN(2) == 0 {
			r.Spans = c.spans()
			break
		}
		r.Each = make([][]store.Span, len(r.PKs))
		for i := range r.Each {
			r.Each[i] = c.spans()
		}
	}
	r.Unordered, r.Reverse = c.rnd.IntN(3) == 0, c.rnd.IntN(2) == 0
	if c.rnd.IntN(3) == 0 {
		r.Filter = func(it store.Item) bool { return it.Value[len(it.Value)-1]%2 == 0 }
	}
	return r
}

// read returns the items of a range.
func read(t T, s store.Reader, r store.Range) (out []store.Item) {
	t.Helper()
	for it, err := range s.Scan(ctx, r) {
		ok(t, err)
		out = append(out, it.Clone())
	}
	return out
}

// same compares items by key and value.
func same(t T, what string, r *store.Range, got, want []store.Item) {
	t.Helper()
	equal := slices.EqualFunc(got, want, func(a, b store.Item) bool {
		return ordered(a.Key) == ordered(b.Key) && bytes.Equal(a.Value, b.Value)
	})
	if !equal {
		t.Fatalf("%s of %+v:\n got %v\nwant %v", what, *r, keysOf(got), keysOf(want))
	}
}

func keysOf(items []store.Item) (out []string) {
	for _, it := range items {
		out = append(out, it.Key.String())
	}
	return out
}

// checkRange compares one range: whole, counted, with a limit and a position, in pages.
func (c *content) checkRange(t T, s store.Reader, items map[string]store.Item) {
	t.Helper()
	r := c.draw()
	want := Select(items, r, 0)
	got := read(t, s, r)
	if r.Kind == store.KindInterval && r.Unordered {
		c.checkPieces(t, &r, got)
		slices.SortFunc(got, func(a, b store.Item) int { return compare(&r, a.Key, b.Key) })
	} else if r.Kind != store.KindPoint {
		cut := r
		cut.After, cut.Limit = c.key(), 1+c.rnd.IntN(9)
		part := Select(items, cut, 0)
		part = part[:min(len(part), cut.Limit)]
		same(t, "part", &cut, read(t, s, cut), part)
		n, err := store.Count(ctx, s, cut)
		if ok(t, err); n != int64(len(part)) {
			t.Fatalf("count of %+v is %d, want %d", cut, n, len(part))
		}
	}
	same(t, "scan", &r, got, want)
	n, err := store.Count(ctx, s, r)
	if ok(t, err); n != int64(len(want)) {
		t.Fatalf("count of %+v is %d, want %d", r, n, len(want))
	}
	if r.Kind == store.KindPoint {
		return
	}
	page, paged := r, []store.Item(nil)
	for page.Limit = 5 + c.rnd.IntN(20); ; {
		items := read(t, s, page)
		paged = append(paged, items...)
		if len(items) < page.Limit {
			break
		}
		page.After = items[len(items)-1].Key
	}
	if r.Kind == store.KindInterval && r.Unordered {
		slices.SortFunc(paged, func(a, b store.Item) int { return compare(&r, a.Key, b.Key) })
	}
	same(t, "pages", &page, paged, want)
}

// checkPieces checks that each partition is in one piece and in order.
func (c *content) checkPieces(t T, r *store.Range, items []store.Item) {
	t.Helper()
	seen := map[string]bool{}
	for i, it := range items {
		if i > 0 && bytes.Equal(items[i-1].Key.PK, it.Key.PK) {
			if compare(r, items[i-1].Key, it.Key) >= 0 {
				t.Fatalf("%s comes before %s", items[i-1].Key, it.Key)
			}
			continue
		}
		if seen[string(it.Key.PK)] {
			t.Fatalf("partition %q is not in one piece", it.Key.PK)
		}
		seen[string(it.Key.PK)] = true
	}
}

// checkRanges: every range, however refined, selects what Select does.
func checkRanges(t T, s store.Store, seed uint64) {
	c := newContent(s, seed)
	for range 3 {
		c.change(t, 30)
		for range 60 {
			c.checkRange(t, s, c.items)
		}
	}
	empty := store.Partition([]byte("a"), store.Span{Start: []byte("5"), End: []byte("5")})
	if got := read(t, s, empty); len(got) > 0 {
		t.Fatalf("an empty span has %v", keysOf(got))
	}
	if got := read(t, s, store.Partitions(nil)); len(got) > 0 {
		t.Fatalf("no partitions have %v", keysOf(got))
	}
}

// checkSnapshots: a snapshot stays as it is while later writes land, in both directions.
func checkSnapshots(t T, s store.Store, seed uint64) {
	c := newContent(s, seed)
	c.change(t, 30)
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	before := map[string]store.Item{}
	for k, it := range c.items {
		before[k] = it
	}
	c.change(t, 30)
	for range 60 {
		c.checkRange(t, snap, before)
	}
	for range 20 {
		k, want := c.key(), absent
		if it, there := before[ordered(k)]; there {
			want = string(it.Value)
		}
		wantValue(t, snap, k, want)
		ok(t, snap.MultiGet(ctx, []store.Key{k}, func(_ int, it store.Item) {
			if string(it.Value) != want {
				t.Errorf("%s has %q in the snapshot, want %q", k, it.Value, want)
			}
		}))
	}
	ok(t, snap.Close())
	ok(t, snap.Close())
	_, err = snap.Get(ctx, nil, c.key())
	wantIs(t, err, store.ErrClosed)
	for _, err := range snap.Scan(ctx, store.Interval(nil, nil)) {
		wantIs(t, err, store.ErrClosed)
	}
	for range 20 {
		c.checkRange(t, s, c.items)
	}
}

// checkBadRanges: what makes no sense is refused, by scans and counts alike.
func checkBadRanges(t T, s store.Store) {
	span := func(start, end string) store.Span {
		return store.Span{Start: []byte(start), End: []byte(end)}
	}
	limit := store.Interval(nil, nil)
	limit.Limit = -1
	both := store.Partition([]byte("p"), span("a", "b"))
	both.Each = [][]store.Span{nil}
	short := store.Partition([]byte("p"))
	short.Each = [][]store.Span{}
	bad := map[string]store.Range{
		"negative limit":        limit,
		"unknown kind":          {Kind: 77},
		"empty partition":       store.Partitions([][]byte{{}}),
		"partitions descending": store.Partitions([][]byte{[]byte("b"), []byte("a")}),
		"partition twice":       store.Partitions([][]byte{[]byte("a"), []byte("a")}),
		"spans overlap":         store.Partition([]byte("p"), span("a", "c"), span("b", "d")),
		"spans descending":      store.Partition([]byte("p"), span("c", "d"), span("a", "b")),
		"no end but the last": store.Partition([]byte("p"), store.Span{Start: []byte("a")},
			span("c", "d")),
		"both lists":    both,
		"too few lists": short,
		"empty point":   store.Point(store.Key{}),
	}
	for name, r := range bad {
		n := 0
		for _, err := range s.Scan(ctx, r) {
			if n++; err == nil {
				t.Errorf("%s: an item", name)
			}
		}
		if _, err := store.Count(ctx, s, r); n != 1 || err == nil {
			t.Errorf("%s: %d errors, count: %v", name, n, err)
		}
	}
}
