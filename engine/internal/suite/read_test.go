package suite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/kstonedb/kstone/engine"
)

var ctx = context.Background()

// sight is what a read shows of one key. The value and the version are known only in some ways.
type sight struct {
	item             engine.Item
	there            bool
	valued, versions bool
}

// points reads single keys, by the way of the operation, all at one moment if there are several.
func (o *op) points(from engine.Reader) (seen []sight, err error) {
	keys := keysOf(o.Key)
	if o.Kind == "many" {
		return pointsOfMany(from, keys)
	}
	s := sight{valued: true}
	switch k := keys[0]; o.Way {
	case 0:
		s.item.Value, err = from.Get(k)
	case 1:
		s.item.Value, err = from.AppendGet([]byte("xx"), k)
		s.item.Value = s.item.Value[2:]
	case 2:
		s.item, err = from.GetItem(k)
		s.versions = true
	case 3:
		s.valued = false
		s.there, err = from.Has(k)
		return []sight{s}, err
	default:
		s.valued = false
		_, err = from.ValueSize(k)
	}
	s.item.Key, s.there = keys[0], err == nil
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	return []sight{s}, err
}

func pointsOfMany(from engine.Reader, keys []engine.Key) (seen []sight, err error) {
	var r engine.Results
	if err := from.MultiGet(ctx, keys, &r); err != nil {
		return nil, err
	}
	there, err := from.MultiHas(ctx, keys, nil)
	if err == nil && (r.Len() != len(keys) || len(there) != len(keys)) {
		err = fmt.Errorf("%d keys, %d results, %d answers", len(keys), r.Len(), len(there))
	}
	for i, k := range keys {
		it, ok := r.Item(i)
		if err != nil || ok != r.Has(i) || ok && id(it.Key) != id(k) {
			return nil, fmt.Errorf("key %d: %v, has %v: %w", i, it, r.Has(i), err)
		}
		s := sight{item: it.Clone(), there: ok, valued: true, versions: true}
		s.item.Key = k
		seen = append(seen, s)
	}
	var numbers []int
	for i := range r.All() {
		numbers = append(numbers, i)
	}
	if !slices.IsSorted(numbers) {
		err = fmt.Errorf("numbers %v", numbers)
	}
	return seen, err
}

// query, scan and gather return what a sequence asks for.
func (o *op) query() engine.Query {
	q := engine.Query{PK: keyOf(o.Key).PK, Reverse: o.Reverse}
	q.SK, _ = sortCondition(o.SK)
	if o.limits() {
		q.Limit = o.Limit
	}
	if o.base != nil {
		q.Since = o.base.Version()
	}
	q.Filter, q.MayHold = o.filter()
	return q
}

func (o *op) scan() engine.Scan {
	s := engine.Scan{
		Reverse: o.Reverse, Unordered: o.Unordered, FromExcluded: o.FromExcluded,
		ToIncluded: o.ToIncluded, Segments: o.Segments, Segment: o.Way % max(1, o.Segments),
	}
	for key, name := range map[*engine.Key]string{
		&s.From: o.From, &s.To: o.To, &s.StartAfter: o.Key,
	} {
		if name != "" {
			*key = keyOf(name)
		}
	}
	if o.limits() {
		s.Limit = o.Limit
	}
	if o.base != nil {
		s.Since = o.base.Version()
	}
	s.Filter, s.MayHold = o.filter()
	return s
}

func (o *op) gather() engine.Gather {
	g := engine.Gather{Reverse: o.Reverse, ByPartition: o.Unordered}
	for _, k := range keysOf(o.Key) {
		g.PKs = append(g.PKs, k.PK)
	}
	slices.SortFunc(g.PKs, bytes.Compare)
	g.PKs = slices.CompactFunc(g.PKs, bytes.Equal)
	g.Spans = spansOf(o.SK)
	if o.From != "" {
		g.StartAfter = keyOf(o.From)
	}
	if o.Each {
		for i := range g.PKs {
			g.Each = append(g.Each, g.Spans[i%(len(g.Spans)+1):])
		}
		g.Spans = nil
	}
	if o.limits() {
		g.Limit = o.Limit
	}
	g.Filter, g.MayHold = o.filter()
	return g
}

// filter returns the filter of a sequence and what it looks for in zones.
func (o *op) filter() (func(engine.Item) bool, func(engine.Zone) bool) {
	switch {
	case !o.filters():
		return nil, nil
	case !o.Zones:
		return filter, nil
	}
	return filter, func(z engine.Zone) bool {
		c, known := z.Column(1, 0)
		return !known || c.Between(zoneOf(true), append(zoneOf(true), 0))
	}
}

func filter(it engine.Item) bool { return keeps(it.Value) }

// describe makes zones of what filters look at, but of items with keys of an odd length.
func describe(items *engine.ZoneItems, b *engine.ZoneBuilder) {
	for i := range items.Len() {
		if len(items.Key(i))%2 == 0 {
			kept := zoneOf(keeps(items.Value(i)))
			b.Rows(1, 1)
			b.Values(0, 1, kept, kept)
		}
	}
}

func zoneOf(kept bool) []byte { return strconv.AppendBool(nil, kept) }

// sequence reads a sequence, in pages or as a whole.
func (o *op) sequence(from engine.Reader) (got []engine.Item, err error) {
	if o.Kind == "iterate" {
		return o.iterate(from)
	}
	var after engine.Cursor
	for {
		page, err := collect(o.page(from, after))
		if got = append(got, page...); err != nil || !o.paged() || len(page) < o.Limit {
			return got, err
		}
		if after, err = engine.ParseCursor(o.cursor(page[len(page)-1]).String()); err != nil {
			return nil, err
		}
	}
}

// page returns the sequence after a cursor.
func (o *op) page(from engine.Reader, after engine.Cursor) iter.Seq2[engine.Item, error] {
	switch o.Kind {
	case "query":
		q := o.query()
		q.After = after
		return from.Query(ctx, q)
	case "gather":
		g := o.gather()
		g.After = after
		return from.Gather(ctx, g)
	default:
		s := o.scan()
		s.After = after
		return from.Scan(ctx, s)
	}
}

func (o *op) cursor(after engine.Item) engine.Cursor {
	switch o.Kind {
	case "query":
		q := o.query()
		return q.CursorAfter(after)
	case "gather":
		g := o.gather()
		return g.CursorAfter(after)
	default:
		s := o.scan()
		return s.CursorAfter(after)
	}
}

// collect reads a sequence to its end.
func collect(seq iter.Seq2[engine.Item, error]) (out []engine.Item, err error) {
	for it, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, it.Clone())
	}
	return out, nil
}

// count counts what a sequence has, or returns n if that is not counted.
func (o *op) count(from engine.Reader, n int) (int64, error) {
	if o.paged() {
		return int64(n), nil
	}
	switch o.Kind {
	case "query":
		return from.Count(ctx, o.query())
	case "gather":
		return from.CountGather(ctx, o.gather())
	case "scan":
		return from.CountScan(ctx, o.scan())
	}
	return int64(n), nil
}

// iterate moves an Iterator to its end and returns what it shows.
func (o *op) iterate(from engine.Reader) (got []engine.Item, err error) {
	i, err := o.iterator(from)
	if err != nil {
		return nil, err
	}
	for i.Next() {
		got = append(got, i.Item().Clone())
	}
	return got, errors.Join(i.Err(), i.Close())
}

func (o *op) iterator(from engine.Reader) (*engine.Iterator, error) {
	if o.SK != "" { // of a query
		return from.QueryIterator(ctx, o.query())
	}
	return from.ScanIterator(ctx, o.scan())
}

// walk moves an Iterator at random over what it should show: -1 is before the first item.
func (o *op) walk(from engine.Reader, want []*item) error {
	i, err := o.iterator(from)
	if err != nil {
		return err
	}
	at, rnd, d := -1, rand.New(rand.NewPCG(o.Seed, 0)), drawer{plain: true}
	d.Rand = rnd
	for n := range 30 {
		var got bool
		word, k := "next", engine.Key{}
		switch move := rnd.IntN(10); {
		case move < 3:
			if word = "prev"; n == 0 {
				at = len(want)
			}
			got, at = i.Prev(), max(at-1, -1)
		case move < 5:
			k = keyOf(d.key())
			word = "seek " + k.String()
			got, at = i.Seek(k), slices.IndexFunc(want, func(it *item) bool {
				return o.compareItems(it.key, k) >= 0
			})
			if at < 0 {
				at = len(want)
			}
		default:
			got, at = i.Next(), min(at+1, len(want))
		}
		it, there := i.Item().Key, at >= 0 && at < len(want)
		if got != there || there && compareKeys(it, want[at].key) != 0 || !there && it.PK != nil {
			err = fmt.Errorf("%s: %v at %s, want %v at %d", word, got, shown(it), there, at)
			break
		}
	}
	return errors.Join(err, i.Err(), i.Close())
}

// compare is op.compare with the snapshot of op.Since.
func (r *run) compare(o *op, from engine.Reader, m items, now int64, own bool) error {
	if o.Since > 0 && len(r.snaps) > 0 {
		c := *o
		c.base = &r.snaps[o.Since%len(r.snaps)]
		if s, is := from.(*engine.Snapshot); is && s.Version() < c.base.Version() {
			c.base = &snapshot{c.base.Snapshot, m} // which has all that is read
		}
		o = &c
	}
	return o.compare(from, m, now, own)
}

// compare reads and reports how that differs from the model. Own says that items may have been
// written by the transaction that reads: they have no version yet.
func (o *op) compare(from engine.Reader, m items, now int64, own bool) error {
	switch o.Kind {
	case "get", "many":
		seen, err := o.points(from)
		if err != nil {
			return err
		}
		for _, s := range seen {
			want := m.at(s.item.Key, now)
			if o.Kind == "get" {
				want = m.at(keyOf(o.Key), now)
			}
			if s.there != (want != nil) {
				return fmt.Errorf("%s is there: %v", o.Key, s.there)
			}
			if want != nil && s.valued {
				full := s.versions
				if err := want.compare(s.item, full, full && !own); err != nil {
					return err
				}
			}
		}
		return nil
	}
	got, err := o.sequence(from)
	if err != nil {
		return err
	}
	want := o.want(m, now)
	if o.Kind == "iterate" {
		if err := o.walk(from, want); err != nil {
			return err
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d items, want %d: %s", len(got), len(want), missing(got, want))
	}
	if n, err := o.count(from, len(want)); err != nil || n != int64(len(want)) {
		return fmt.Errorf("count %d of %d: %w", n, len(want), err)
	}
	for i, it := range got {
		if err := want[i].compare(it, true, !own); err != nil {
			return err
		}
	}
	return nil
}

func missing(got []engine.Item, want []*item) string {
	a, b := items{}, items{}
	for _, it := range got {
		a[id(it.Key)] = &item{it.Key, it.Value, 0, 0}
	}
	for _, it := range want {
		b[id(it.key)] = &item{it.key, it.value, 0, 0}
	}
	return b.difference(a, 0, 5)
}

// compare reports how an item differs, if the expiry and the version are known, from them too.
func (it *item) compare(got engine.Item, expiry, version bool) error {
	switch {
	case compareKeys(got.Key, it.key) != 0 && expiry:
		return fmt.Errorf("%s, want %s", shown(got.Key), shown(it.key))
	case !bytes.Equal(got.Value, it.value) || got.Value == nil:
		return fmt.Errorf("%s has %d bytes %.20q, want %d bytes %.20q", shown(it.key),
			len(got.Value), got.Value, len(it.value), it.value)
	case expiry && got.Expiry != it.expiry:
		return fmt.Errorf("%s expires at %d, want %d", shown(it.key), got.Expiry, it.expiry)
	case version && it.version == 0:
		it.version = got.Version
	case version && got.Version != it.version:
		return fmt.Errorf("%s has version %d, had %d", shown(it.key), got.Version, it.version)
	}
	return nil
}
