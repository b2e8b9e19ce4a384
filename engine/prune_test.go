package engine_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// pruneWorld is a database with small blocks and many runs beside a model of its items.
type pruneWorld struct {
	t     *testing.T
	rnd   *rand.Rand
	clock hand
	db    *engine.DB
	items map[string]engine.Item
	snaps []pruneSnapshot
}

type pruneSnapshot struct {
	*engine.Snapshot
	items map[string]engine.Item
}

func newPruneWorld(t *testing.T, rnd *rand.Rand) *pruneWorld {
	w := &pruneWorld{t: t, rnd: rnd, items: map[string]engine.Item{}}
	w.clock.ms.Store(1_000)
	w.db = openMemory(t, engine.Options{
		Clock: w.clock.now, BlockBytes: 1 << 10, MaxRuns: 3 + 20*rnd.IntN(2),
		LargeValue: []int{engine.NoLargeValue, 1, 99}[rnd.IntN(3)],
	})
	if rnd.IntN(2) == 0 {
		w.describe()
	}
	return w
}

// describe makes zones of the numbers that values begin with. Some partitions are not
// described, or as rows without that column.
func (w *pruneWorld) describe() {
	way := w.rnd.IntN(4)
	w.db.Describe(func(items *engine.ZoneItems, b *engine.ZoneBuilder) {
		for i := range items.Len() {
			n, value := int(items.Key(i)[1]-'0'), items.Value(i)
			switch {
			case n == 0 || way > 0:
				b.Rows(uint64(n%2), 1)
				b.Values(7, 1, value[:8], value[:8])
				b.Values(8, 1, value, value) // longer than a bound
			case n == 1:
				b.Rows(1, 1)
			}
		}
	})
}

// between returns a condition on values: a filter, and what it makes of zones.
func (w *pruneWorld) between() (func(engine.Item) bool, func(engine.Zone) bool) {
	from := w.rnd.IntN(900)
	lo, hi := fmt.Appendf(nil, "%08d", from), fmt.Appendf(nil, "%08d", from+w.rnd.IntN(40))
	column, most := uint64(7), 8
	if w.rnd.IntN(2) == 0 {
		column, most = 8, 99
		lo, hi = fmt.Appendf(lo, " %090d", w.rnd.IntN(900)), fmt.Appendf(hi, " %090d", 0)
	}
	filter := func(it engine.Item) bool {
		v := it.Value[:min(most, len(it.Value))]
		return bytes.Compare(lo, v) <= 0 && bytes.Compare(v, hi) <= 0
	}
	end := append(bytes.Clone(hi), 0)
	return filter, func(z engine.Zone) bool {
		for group := range uint64(2) {
			c, known := z.Column(group, column)
			if !known || c.Between(lo, end) {
				return true
			}
		}
		return false
	}
}

const pruneParts = 3

// key returns one of the keys, which are few.
func (w *pruneWorld) key(i int) engine.Key {
	return pksk(fmt.Sprint("p", i%pruneParts), fmt.Sprintf("key %05d", i/pruneParts))
}

// version returns the version of the last commit.
func (w *pruneWorld) version() uint64 {
	s := snapshotOf(w.t, w.db)
	defer s.Close()
	return s.Version()
}

// Expiries are at whole tenths of a second, readings then or a millisecond before.

// sinceTenth returns how long ago the last tenth of a second was.
func (w *pruneWorld) sinceTenth() time.Duration {
	return time.Duration(w.clock.ms.Load()%100) * time.Millisecond
}

// tenths returns a number of tenths of a second.
func (w *pruneWorld) tenths(least, most int) time.Duration {
	return time.Duration(least+w.rnd.IntN(most+1-least)) * 100 * time.Millisecond
}

// write writes a range of keys in one way.
func (w *pruneWorld) write() {
	from, n := w.rnd.IntN(300), 1+w.rnd.IntN(60)
	if w.rnd.IntN(10) == 0 {
		from, n = 0, 300
	}
	way, ttl := w.rnd.IntN(8), w.tenths(1, 10)-w.sinceTenth()
	if way == 0 {
		w.deleteRange(w.key(from), w.key(from+n))
		return
	}
	b, now := engine.NewBatch(), w.clock.ms.Load()
	at := w.rnd.IntN(4) // values rise with the keys, from one of a few numbers on
	for i := from; i < from+n; i += 1 + w.rnd.IntN(3) {
		k := w.key(i)
		it := engine.Item{Key: k, Value: fmt.Appendf(nil, "%08d %090d", 100*at+i, i)}
		switch way {
		case 1, 2:
			ok(w.t, b.Delete(k))
			delete(w.items, id(k))
			continue
		case 3, 4, 5:
			ok(w.t, b.Put(k, it.Value, engine.TTL(ttl)))
			it.Expiry = now + ttl.Milliseconds()
		default:
			ok(w.t, b.Put(k, it.Value))
		}
		w.items[id(k)] = it
	}
	ok(w.t, w.db.Apply(ctx, b))
	version := w.version()
	for k, it := range w.items {
		if it.Version == 0 {
			it.Version = version
			w.items[k] = it
		}
	}
}

// deleteRange deletes a range of one partition or of all.
func (w *pruneWorld) deleteRange(from, to engine.Key) {
	if w.rnd.IntN(2) == 0 {
		to.PK = from.PK
		ok(w.t, w.db.DeleteRange(from.PK, engine.SKBetween(from.SK, to.SK)))
		to.SK = append(bytes.Clone(to.SK), 0)
	} else {
		ok(w.t, w.db.DeleteScan(from, to))
	}
	maps.DeleteFunc(w.items, func(_ string, it engine.Item) bool {
		return id(it.Key) >= id(from) && id(it.Key) < id(to)
	})
}

// step does something, and compares now and then.
func (w *pruneWorld) step() {
	switch w.rnd.IntN(13) {
	case 12:
		if w.rnd.IntN(8) == 0 {
			w.describe()
		}
	case 0:
		to := w.tenths(0, 8) + time.Duration(99*w.rnd.IntN(2))*time.Millisecond
		w.clock.pass(max(0, to-w.sinceTenth()))
		w.compare(w.db, w.items)
	case 1:
		s := snapshotOf(w.t, w.db)
		w.snaps = append(w.snaps, pruneSnapshot{s, maps.Clone(w.items)})
	case 2:
		if n := len(w.snaps); n > 0 {
			i := w.rnd.IntN(n)
			ok(w.t, w.snaps[i].Close())
			w.snaps = slices.Delete(w.snaps, i, i+1)
		}
	case 3:
		if w.rnd.IntN(6) == 0 {
			ok(w.t, w.db.Compact(ctx))
		}
	case 4, 5, 6:
		ok(w.t, w.db.Flush(ctx))
	case 7:
		w.compare(w.db, w.items)
		for _, s := range w.snaps {
			w.compare(s, s.items)
		}
	default:
		w.write()
	}
}

// want returns the items that a reading should show, in order.
func (w *pruneWorld) want(
	items map[string]engine.Item, reverse bool, match func(engine.Item) bool,
) (want []engine.Item) {
	for _, it := range items {
		if (it.Expiry == 0 || it.Expiry > w.clock.ms.Load()) && match(it) {
			want = append(want, it)
		}
	}
	slices.SortFunc(want, func(a, b engine.Item) int { return cmp.Compare(id(a.Key), id(b.Key)) })
	if reverse {
		slices.Reverse(want)
	}
	return want
}

// compare reads in all ways.
func (w *pruneWorld) compare(r engine.Reader, items map[string]engine.Item) {
	w.t.Helper()
	s := engine.Scan{Reverse: w.rnd.IntN(2) == 0}
	accepts := func(engine.Item) bool { return true }
	if w.rnd.IntN(2) == 0 {
		s.Filter, s.MayHold = w.between()
		accepts = s.Filter
	}
	match := func(it engine.Item) bool { return it.Version > s.Since && accepts(it) }
	if w.rnd.IntN(2) == 0 {
		s.Since = 1 + uint64(w.rnd.Int64N(int64(w.version()+2)))
	}
	want := w.want(items, s.Reverse, match)
	w.same("scan", r.Scan(ctx, s), want)
	n, err := r.CountScan(ctx, s)
	if ok(w.t, err); n != int64(len(want)) {
		w.t.Errorf("%d items counted, want %d", n, len(want))
	}
	w.iterate(r, s, want)
	limited := s
	if limited.Limit = w.rnd.IntN(20); limited.Limit > 0 && limited.Limit < len(want) {
		w.same("limited scan", r.Scan(ctx, limited), want[:limited.Limit])
	}
	if len(want) > 0 {
		from := want[w.rnd.IntN(len(want))]
		rest := s
		rest.After = s.CursorAfter(from)
		at := slices.IndexFunc(want, func(it engine.Item) bool {
			return id(it.Key) == id(from.Key)
		})
		w.same("resumed scan", r.Scan(ctx, rest), want[at+1:])
	}
	pk := fmt.Appendf(nil, "p%d", w.rnd.IntN(pruneParts))
	lo, hi := w.key(w.rnd.IntN(300)).SK, w.key(w.rnd.IntN(300)).SK
	q := engine.Query{PK: pk, Reverse: s.Reverse, SK: engine.SKBetween(lo, hi)}
	q.Since, q.Filter, q.MayHold = s.Since, s.Filter, s.MayHold
	w.same("query", r.Query(ctx, q), w.want(items, s.Reverse, func(it engine.Item) bool {
		return bytes.Equal(it.Key.PK, pk) && bytes.Compare(lo, it.Key.SK) <= 0 &&
			bytes.Compare(it.Key.SK, hi) <= 0 && match(it)
	}))
	g := engine.Gather{PKs: [][]byte{[]byte("p0"), []byte("p2")}, Reverse: s.Reverse}
	g.ByPartition, g.Filter, g.MayHold = true, s.Filter, s.MayHold
	w.same("gather", r.Gather(ctx, g), w.want(items, s.Reverse, func(it engine.Item) bool {
		return string(it.Key.PK) != "p1" && accepts(it)
	}))
}

// iterate moves an iterator to the end and back.
func (w *pruneWorld) iterate(r engine.Reader, s engine.Scan, want []engine.Item) {
	w.t.Helper()
	i, err := r.ScanIterator(ctx, s)
	ok(w.t, err)
	defer i.Close()
	walk := func(step func() bool) iter.Seq2[engine.Item, error] {
		return func(yield func(engine.Item, error) bool) {
			for step() && yield(i.Item(), nil) {
			}
			if err := i.Err(); err != nil {
				yield(engine.Item{}, err)
			}
		}
	}
	w.same("iterator", walk(i.Next), want)
	back := slices.Clone(want)
	slices.Reverse(back)
	w.same("iterator back", walk(i.Prev), back)
}

func (w *pruneWorld) same(what string, seq iter.Seq2[engine.Item, error], want []engine.Item) {
	w.t.Helper()
	var got []string
	for it, err := range seq {
		ok(w.t, err)
		got = append(got, pruneRow(it))
	}
	for i := range max(len(got), len(want)) {
		var g, x string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			x = pruneRow(want[i])
		}
		if g != x {
			w.t.Fatalf("%s: %d items, want %d; number %d is %q, want %q", what, len(got), len(want),
				i, g, x)
		}
	}
}

func pruneRow(it engine.Item) string {
	return fmt.Sprintf("%s %s@%d until %d", it.Key, it.Value, it.Version, it.Expiry)
}

// Readings that leave out blocks and files show what a model has: items that have not expired,
// items changed since a version; over memtables and many runs, with tombstones, range deletes
// and overwritten items in each, in both directions, at snapshots old and new.
//
// Promise (reads and writes): Blocks and files are left out only where nothing is missed and
// nothing deleted, expired or overwritten comes back.
func TestPrunedReadings(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for round := range testutil.Effort(8, 500) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			w := newPruneWorld(t, testutil.Rand(t))
			for range 150 {
				w.step()
			}
			for _, s := range w.snaps {
				w.compare(s, s.items)
				ok(t, s.Close())
			}
			w.compare(w.db, w.items)
		})
	}
}

// A key whose versions fill several blocks is judged by the newest: the block with that one is
// not left out.
func TestPrunedReadingsOfOldVersions(t *testing.T) {
	var clock hand
	clock.ms.Store(1_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	const versions = 200
	for i := range versions {
		var o []engine.WriteOption
		if i >= versions/2 {
			o = append(o, engine.TTL(time.Second))
		}
		ok(t, db.Put(pk("key"), fmt.Appendf(nil, "%0100d", i), o...))
		s := snapshotOf(t, db)
		defer s.Close()
	}
	ok(t, db.Flush(ctx))
	clock.pass(time.Minute)
	for _, reverse := range []bool{false, true} {
		if got := listing(db.Scan(ctx, engine.Scan{Reverse: reverse})); got != "" {
			t.Errorf("reverse %v: %q has expired", reverse, got)
		}
	}
}

// blocksOf returns how many blocks f reads.
func blocksOf(db *engine.DB, f func()) uint64 {
	before := db.Metrics()
	f()
	m := db.Metrics()
	return m.BlockHits + m.BlockMisses - before.BlockHits - before.BlockMisses
}

// numbersOf describes rows by the numbers that their values begin with.
func numbersOf(items *engine.ZoneItems, b *engine.ZoneBuilder) {
	b.Rows(1, items.Len())
	for i := range items.Len() {
		b.Values(0, 1, items.Value(i)[:8], items.Value(i)[:8])
	}
}

// Rows of three values among many, which rise with the keys, are found with few blocks, after
// bulk loading, with overwritten rows in upper runs, and after a merge.
//
// Promise (reads and writes): A scan for values that rise with the keys reads the blocks with
// such values.
func TestZonesOfRisingValues(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openMemory(t, engine.Options{MemtableBytes: 16 << 20, CacheBytes: 64 << 20})
	db.Describe(numbersOf)
	rows := testutil.Effort(90_000, 300_000)
	fillRows(t, db, 0, rows)
	ok(t, db.Flush(ctx))
	find := func(state string, low, high uint64, want int64) {
		lo, hi := binary.BigEndian.AppendUint64(nil, low), binary.BigEndian.AppendUint64(nil, high)
		s := engine.Scan{
			Filter: func(it engine.Item) bool {
				return bytes.Compare(lo, it.Value[:8]) <= 0 && bytes.Compare(it.Value[:8], hi) <= 0
			},
		}
		count := func() {
			n, err := db.CountScan(ctx, s)
			if ok(t, err); n != want {
				t.Errorf("%s: %d rows, want %d", state, n, want)
			}
		}
		all := blocksOf(db, count)
		end := append(bytes.Clone(hi), 0)
		s.MayHold = func(z engine.Zone) bool {
			c, known := z.Column(1, 0)
			return !known || c.Between(lo, end)
		}
		n := blocksOf(db, count)
		t.Logf("%s: %d of %d blocks", state, n, all)
		if want > 0 && n == 0 || n > all/50 {
			t.Errorf("%s: %d of %d blocks are read", state, n, all)
		}
	}
	low := uint64(rows) * 2 / 5
	find("loaded", low, low+2, 3)
	find("loaded, none", uint64(rows), 2*uint64(rows), 0)
	fillRows(t, db, rows/3, rows/6) // the same rows again
	ok(t, db.Flush(ctx))
	find("overwritten", low, low+2, 3)
	ok(t, db.Compact(ctx))
	find("merged", low, low+2, 3)
}

// A condition on zones needs a filter: blocks that are read have other rows, too.
func TestMayHoldNeedsAFilter(t *testing.T) {
	db := openMemory(t, engine.Options{})
	all := func(engine.Zone) bool { return true }
	_, err := db.CountScan(ctx, engine.Scan{MayHold: all})
	wantIs(t, err, engine.ErrInvalid)
	_, err = db.Count(ctx, engine.Query{PK: []byte("p"), MayHold: all})
	wantIs(t, err, engine.ErrInvalid)
	_, err = db.CountGather(ctx, engine.Gather{PKs: [][]byte{[]byte("p")}, MayHold: all})
	wantIs(t, err, engine.ErrInvalid)
}

// fillRows puts n rows that rise with their number, over several partitions.
func fillRows(t testing.TB, db *engine.DB, from, n int, o ...engine.ItemOption) {
	t.Helper()
	b := engine.NewBatch()
	for i := from; i < from+n; i++ {
		v := binary.BigEndian.AppendUint64(make([]byte, 0, 64), uint64(i))
		k := pksk(fmt.Sprintf("part %d", i/10_000), fmt.Sprintf("row %08d", i))
		ok(t, b.Put(k, v[:64], o...))
		if b.Len() == 1000 || i == from+n-1 {
			ok(t, db.Apply(ctx, b))
			b.Reset()
		}
	}
}

// Items that have expired cost no blocks, and neither do those not changed since a version.
//
// Promise (reads and writes): Reading past expired items, and past those not changed since a
// version, reads no data.
func TestPrunedReadingsReadNoBlocks(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	var clock hand
	clock.ms.Store(1_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	const rows = 50_000
	fillRows(t, db, 0, rows, engine.TTL(time.Minute))
	ok(t, db.Flush(ctx))
	count := func(s engine.Scan) (n int64) {
		n, err := db.CountScan(ctx, s)
		ok(t, err)
		return n
	}
	all := blocksOf(db, func() { count(engine.Scan{}) })
	t.Logf("%d rows have %d blocks", rows, all)
	snap := snapshotOf(t, db)
	defer snap.Close()
	fillRows(t, db, 20_000, 30)
	ok(t, db.Flush(ctx))
	since := engine.Scan{Since: snap.Version()}
	if n := blocksOf(db, func() {
		if got := count(since); got != 30 {
			t.Errorf("%d items have changed, want 30", got)
		}
	}); n == 0 || n > 5 {
		t.Errorf("30 changed items are in %d of %d blocks", n, all)
	} else {
		t.Logf("30 changed items: %d blocks", n)
	}
	part := engine.Query{PK: []byte("part 2"), Since: snap.Version()}
	if n := blocksOf(db, func() {
		got, err := db.Count(ctx, part)
		if ok(t, err); got != 30 {
			t.Errorf("%d items of a partition have changed, want 30", got)
		}
	}); n == 0 || n > 5 {
		t.Errorf("30 changed items of a partition are in %d of %d blocks", n, all)
	}
	clock.pass(time.Hour)
	n := blocksOf(db, func() {
		if got := count(engine.Scan{}); got != 30 {
			t.Errorf("%d items have not expired, want 30", got)
		}
	})
	t.Logf("30 items that have not expired: %d blocks", n)
	if n == 0 || n > all/100 {
		t.Errorf("after the expiry of most items %d blocks of %d are read", n, all)
	}
	if m := db.Metrics(); m.PrunedBlocks+m.PrunedFiles == 0 {
		t.Error("nothing is counted as pruned")
	}
}
