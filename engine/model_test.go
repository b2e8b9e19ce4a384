package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
	"pgregory.net/rapid"
)

// Goal: the whole API behaves like a sorted map, under any options and whatever
// flushes, merges and reopens happen in between. Method: random programs run against
// the engine on a memory file system and against a map; rapid reduces failures.
//
// Promise (reads and writes): The whole API behaves like a sorted map, under any options,
// flushes, merges, reopens, checkpoints. Also with kills and power cuts, 30 sets of options:
// `TestProgramsUnderAllOptions`; `TestModel` in `stripe`.
// Promise (reads and writes): What `FilterNew` calls new is new, exactly and approximately; new
// keys read no data but for false positives. Also `TestNewKeysReadNoData`.
// Promise (reads and writes): After `Compact` the records are the items.
// Promise (reads and writes): Cursors are exact, and refused elsewhere or damaged. Also
// `TestBadCursors`, `TestCursorOfNewerVersion`.
// Promise (manners): Files with and without filters, of any codec and block size, side by side
// give the same answers. Also (drawn again at each Open), `TestFilesWithoutFilters`; `TestModel`
// in `sst`.
func TestEngineBehavesLikeASortedMap(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		defer m.close(t)
		t.Repeat(map[string]func(*rapid.T){
			"":            m.checkSome,
			"put":         m.put,
			"putTTL":      m.putTTL,
			"delete":      m.delete,
			"putIfAbsent": m.putIfAbsent,
			"putIf":       m.putIf,
			"deleteIf":    m.deleteIf,
			"deleteRange": m.deleteRange,
			"deleteScan": func(t *rapid.T) {
				m.deleteScan(t, func(from, to engine.Key) error {
					return m.db.DeleteScan(from, to)
				})
			},
			"batch":        m.batch,
			"condBatch":    m.condBatch,
			"multiGet":     m.multiGet,
			"insertNew":    m.insertNew,
			"filterNew":    m.filterNew,
			"update":       m.update,
			"query":        m.query,
			"scan":         m.scan,
			"pages":        m.pages,
			"segments":     m.segments,
			"snapshot":     m.snapshot,
			"dropSnapshot": m.dropSnapshot,
			"flush":        m.flush,
			"compact":      m.compact,
			"checkpoint":   m.checkpoint,
			"reopen":       m.reopen,
			"readOnly":     m.readOnly,
			"clock":        m.advanceClock,
			"verify":       m.verify,
		})
	})
}

// model is the reference: items by ordered key.
type model map[string]modelItem

type modelItem struct {
	key    engine.Key
	value  []byte
	expiry int64
}

type machine struct {
	fs    *vfs.MemFS
	opts  engine.Options
	db    *engine.DB
	clock *atomic.Int64
	items model
	snaps []modelSnapshot
	names int
	// unfiltered says that some files may have no filters.
	unfiltered bool
}

type modelSnapshot struct {
	snap  *engine.Snapshot
	items model
}

var ctx = context.Background()

func newMachine(t *rapid.T) *machine {
	m := &machine{fs: vfs.NewMem(), items: model{}, clock: new(atomic.Int64)}
	m.clock.Store(1_000_000)
	m.open(t)
	return m
}

// open draws the options again each time, so that files of all kinds meet.
func (m *machine) open(t *rapid.T) {
	m.opts = chooseRapid(t, "option").options()
	m.opts.Clock = func() time.Time { return time.UnixMilli(m.clock.Load()) }
	m.unfiltered = m.unfiltered || m.opts.FilterBits == engine.NoFilter
	db, err := engine.OpenFS(m.fs, "db", &m.opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.db = db
}

func (m *machine) close(t *rapid.T) {
	for _, s := range m.snaps {
		if err := s.snap.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m.snaps = nil
	if err := m.db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func drawKey(t *rapid.T) engine.Key { return chooseRapid(t, "key").key() }

func drawPart(t *rapid.T) string { return chooseRapid(t, "pk").part() }

func drawValue(t *rapid.T) []byte {
	n := rapid.SampledFrom([]int{0, 1, 5, 60, 3000}).Draw(t, "size")
	v := bytes.Repeat([]byte{byte(rapid.IntRange(0, 255).Draw(t, "fill"))}, n)
	if n > 4 {
		copy(v, fmt.Sprint(rapid.IntRange(0, 999).Draw(t, "value")))
	}
	return v
}

func id(k engine.Key) string { return string(keycodec.AppendOrdered(nil, k)) }

// live returns the model's items that have not expired.
func (m *machine) live(items model) model {
	now := m.clock.Load()
	out := model{}
	for k, it := range items {
		if it.expiry == 0 || now < it.expiry {
			out[k] = it
		}
	}
	return out
}

func (m *machine) set(k engine.Key, v []byte, ttl time.Duration) {
	it := modelItem{key: k, value: v}
	if ttl > 0 {
		it.expiry = m.clock.Load() + max(1, ttl.Milliseconds())
	}
	m.items[id(k)] = it
}

func (m *machine) get(k engine.Key) (modelItem, bool) {
	it, ok := m.live(m.items)[id(k)]
	return it, ok
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) put(t *rapid.T) {
	k, v := drawKey(t), drawValue(t)
	must(t, m.db.Put(k, v))
	m.set(k, v, 0)
}

func (m *machine) putTTL(t *rapid.T) {
	k, v := drawKey(t), drawValue(t)
	ttl := time.Duration(rapid.IntRange(1, 50).Draw(t, "ttl")) * time.Millisecond
	must(t, m.db.Put(k, v, engine.TTL(ttl), engine.Process))
	m.set(k, v, ttl)
}

func (m *machine) delete(t *rapid.T) {
	k := drawKey(t)
	must(t, m.db.Delete(k))
	delete(m.items, id(k))
}

func (m *machine) putIfAbsent(t *rapid.T) {
	k, v := drawKey(t), drawValue(t)
	err := m.db.PutIf(k, v, engine.IfAbsent())
	if _, there := m.get(k); there {
		if !errors.Is(err, engine.ErrConditionFailed) {
			t.Fatalf("put if absent over an item: %v", err)
		}
		return
	}
	must(t, err)
	m.set(k, v, 0)
}

func (m *machine) putIf(t *rapid.T) {
	k, v := drawKey(t), drawValue(t)
	now, there := m.get(k)
	cond, want := engine.IfPresent(), there
	switch rapid.IntRange(0, 2).Draw(t, "condition") {
	case 0:
		cond, want = engine.IfValue(now.value), there
	case 1:
		it, err := m.db.GetItem(k)
		if there {
			must(t, err)
		}
		cond = engine.IfVersion(it.Version)
	}
	err := m.db.PutIf(k, v, cond)
	if !want {
		if !errors.Is(err, engine.ErrConditionFailed) {
			t.Fatalf("condition should fail: %v", err)
		}
		return
	}
	must(t, err)
	m.set(k, v, 0)
}

func (m *machine) deleteIf(t *rapid.T) {
	k := drawKey(t)
	_, there := m.get(k)
	err := m.db.DeleteIf(k, engine.IfPresent())
	if there != (err == nil) || (err != nil && !errors.Is(err, engine.ErrConditionFailed)) {
		t.Fatalf("delete if present: %v, present %v", err, there)
	}
	delete(m.items, id(k))
}

// condition draws an SK condition and the predicate it stands for.
func drawCondition(t *rapid.T) (engine.SKCondition, func(sk []byte) bool) {
	draw := chooseRapid(t, "operand")
	a, b := draw.operand(), draw.operand()
	has := func(f func(sk []byte) bool) func([]byte) bool {
		return func(sk []byte) bool { return sk != nil && f(sk) }
	}
	switch rapid.IntRange(0, 8).Draw(t, "op") {
	case 8:
		return engine.SKLess(a).OrNone(), func(sk []byte) bool {
			return sk == nil || bytes.Compare(sk, a) < 0
		}
	case 0:
		return engine.SKEqual(a), has(func(sk []byte) bool { return bytes.Equal(sk, a) })
	case 1:
		return engine.SKLess(a), has(func(sk []byte) bool { return bytes.Compare(sk, a) < 0 })
	case 2:
		return engine.SKLessEqual(a), has(func(sk []byte) bool { return bytes.Compare(sk, a) <= 0 })
	case 3:
		return engine.SKGreater(a), has(func(sk []byte) bool { return bytes.Compare(sk, a) > 0 })
	case 4:
		return engine.SKGreaterEqual(a), has(func(sk []byte) bool {
			return bytes.Compare(sk, a) >= 0
		})
	case 5:
		return engine.SKBetween(a, b), has(func(sk []byte) bool {
			return bytes.Compare(sk, a) >= 0 && bytes.Compare(sk, b) <= 0
		})
	case 6:
		return engine.SKBeginsWith(a), has(func(sk []byte) bool { return bytes.HasPrefix(sk, a) })
	}
	return engine.SKCondition{}, func([]byte) bool { return true }
}

func (m *machine) deleteRange(t *rapid.T) {
	pk := drawPart(t)
	cond, match := drawCondition(t)
	must(t, m.db.DeleteRange([]byte(pk), cond))
	m.removeRange(pk, match)
}

func (m *machine) removeRange(pk string, match func([]byte) bool) {
	maps.DeleteFunc(m.items, func(_ string, it modelItem) bool {
		return string(it.key.PK) == pk && match(it.key.SK)
	})
}

// drawBounds draws the bounds of a DeleteScan, seldom open, and the predicate they stand for.
func drawBounds(t *rapid.T) (from, to engine.Key, match func(engine.Key) bool) {
	if from = drawKey(t); rapid.IntRange(0, 5).Draw(t, "open") > 0 {
		to = drawKey(t)
	}
	return from, to, func(k engine.Key) bool {
		return compareKeys(k, from) >= 0 && (to.PK == nil || compareKeys(k, to) < 0)
	}
}

// deleteScan deletes between two keys; f is DeleteScan of something.
func (m *machine) deleteScan(t *rapid.T, f func(from, to engine.Key) error) {
	from, to, match := drawBounds(t)
	must(t, f(from, to))
	maps.DeleteFunc(m.items, func(_ string, it modelItem) bool { return match(it.key) })
}

func (m *machine) batch(t *rapid.T) {
	b := engine.NewBatch()
	for range rapid.IntRange(1, 12).Draw(t, "ops") {
		switch rapid.IntRange(0, 12).Draw(t, "kind") {
		case 11, 12:
			m.deleteScan(t, b.DeleteScan)
		case 0:
			k := drawKey(t)
			must(t, b.Delete(k))
			delete(m.items, id(k))
		case 1:
			pk := drawPart(t)
			cond, match := drawCondition(t)
			must(t, b.DeleteRange([]byte(pk), cond))
			m.removeRange(pk, match)
		default:
			k, v := drawKey(t), drawValue(t)
			ttl := time.Duration(rapid.IntRange(0, 1).Draw(t, "ttl")*20) * time.Millisecond
			must(t, b.Put(k, v, engine.TTL(ttl)))
			m.set(k, v, ttl)
		}
	}
	must(t, m.db.Apply(ctx, b))
}

func (m *machine) update(t *rapid.T) {
	fail := rapid.Bool().Draw(t, "fail")
	before := maps.Clone(m.items)
	errFail := errors.New("on purpose")
	err := m.db.Update(ctx, func(tx *engine.Tx) error {
		for range rapid.IntRange(1, 8).Draw(t, "ops") {
			switch rapid.IntRange(0, 7).Draw(t, "kind") {
			case 7:
				m.deleteScan(t, tx.DeleteScan)
			case 0:
				k := drawKey(t)
				must(t, tx.Delete(k))
				delete(m.items, id(k))
			case 1:
				pk := drawPart(t)
				cond, match := drawCondition(t)
				must(t, tx.DeleteRange([]byte(pk), cond))
				m.removeRange(pk, match)
			case 2:
				k := drawKey(t)
				v, err := tx.Get(k)
				m.compareGet(t, m.items, k, v, err)
			case 3:
				m.compareAll(t, m.items, false, tx.Scan(ctx, engine.Scan{}))
			case 4:
				m.compareMany(t, m.items, tx)
			default:
				k, v := drawKey(t), drawValue(t)
				must(t, tx.Put(k, v))
				m.set(k, v, 0)
			}
		}
		if fail {
			return errFail
		}
		return nil
	})
	if fail {
		m.items = before
		if !errors.Is(err, errFail) {
			t.Fatalf("update returned %v", err)
		}
		return
	}
	must(t, err)
}

func (m *machine) compareGet(t *rapid.T, items model, k engine.Key, v []byte, err error) {
	t.Helper()
	it, there := m.live(items)[id(k)]
	switch {
	case there && err != nil:
		t.Fatalf("get %v: %v, want %d bytes", shown(k), err, len(it.value))
	case there && !bytes.Equal(v, it.value):
		t.Fatalf("get %v: %d bytes %.20q, want %d bytes %.20q",
			shown(k), len(v), v, len(it.value), it.value)
	case !there && !errors.Is(err, engine.ErrNotFound):
		t.Fatalf("get %v: %.40q, %v; want not found", shown(k), v, err)
	}
}

// sorted returns the live items the predicate accepts, in key order.
func (m *machine) sorted(items model, match func(engine.Key) bool, reverse bool) []modelItem {
	var out []modelItem
	for _, it := range m.live(items) {
		if match == nil || match(it.key) {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b modelItem) int { return compareKeys(a.key, b.key) })
	if reverse {
		slices.Reverse(out)
	}
	return out
}

func collect(t *rapid.T, seq iter.Seq2[engine.Item, error]) []modelItem {
	t.Helper()
	var out []modelItem
	for it, err := range seq {
		must(t, err)
		it = it.Clone()
		out = append(out, modelItem{it.Key, it.Value, it.Expiry})
	}
	return out
}

func same(t *rapid.T, what string, got, want []modelItem) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d items, want %d\n%v\n%v", what, len(got), len(want), keys(got), keys(want))
	}
	for i := range got {
		if compareKeys(got[i].key, want[i].key) != 0 || !bytes.Equal(got[i].value, want[i].value) ||
			got[i].expiry != want[i].expiry {
			t.Fatalf("%s: item %d is %v, want %v", what, i, shown(got[i].key), shown(want[i].key))
		}
	}
}

func keys(items []modelItem) (out []string) {
	for _, it := range items {
		out = append(out, fmt.Sprint(shown(it.key)))
	}
	return out
}

func (m *machine) compareAll(
	t *rapid.T, items model, reverse bool, seq iter.Seq2[engine.Item, error],
) {
	t.Helper()
	same(t, "scan", collect(t, seq), m.sorted(items, nil, reverse))
}

func (m *machine) checkSome(t *rapid.T) {
	k := drawKey(t)
	v, err := m.db.Get(k)
	m.compareGet(t, m.items, k, v, err)
	for _, s := range m.snaps {
		v, err := s.snap.Get(k)
		m.compareGet(t, s.items, k, v, err)
	}
}

func (m *machine) query(t *rapid.T) {
	pk := drawPart(t)
	cond, match := drawCondition(t)
	q := engine.Query{
		PK: []byte(pk), SK: cond, Reverse: rapid.Bool().Draw(t, "reverse"),
		Limit: rapid.IntRange(0, 4).Draw(t, "limit"),
	}
	check := func(what string, items model, seq iter.Seq2[engine.Item, error]) {
		want := m.sorted(items, func(k engine.Key) bool {
			return string(k.PK) == pk && match(k.SK)
		}, q.Reverse)
		if q.Limit > 0 {
			want = want[:min(q.Limit, len(want))]
		}
		same(t, what, collect(t, seq), want)
	}
	check("query", m.items, m.db.Query(ctx, q))
	for _, s := range m.snaps {
		check("query of snapshot", s.items, s.snap.Query(ctx, q))
	}
}

func (m *machine) scan(t *rapid.T) {
	reverse := rapid.Bool().Draw(t, "reverse")
	m.compareAll(t, m.items, reverse, m.db.Scan(ctx, engine.Scan{Reverse: reverse}))
	for _, s := range m.snaps {
		m.compareAll(t, s.items, reverse, s.snap.Scan(ctx, engine.Scan{Reverse: reverse}))
	}
	from := drawKey(t)
	want := m.sorted(m.items, func(k engine.Key) bool {
		c := compareKeys(k, from)
		return c != 0 && (c > 0) != reverse
	}, reverse)
	got := collect(t, m.db.Scan(ctx, engine.Scan{Reverse: reverse, StartAfter: from}))
	same(t, "start after", got, want)
}

// pages reads a query and a scan in pages and expects the unpaged result.
func (m *machine) pages(t *rapid.T) {
	size := rapid.IntRange(1, 5).Draw(t, "page")
	q := engine.Query{PK: []byte(drawPart(t)), Reverse: rapid.Bool().Draw(t, "reverse")}
	q.SK, _ = drawCondition(t)
	want := collect(t, m.db.Query(ctx, q))
	var got []modelItem
	for q.Limit = size; ; {
		n := 0
		for it, err := range m.db.Query(ctx, q) {
			must(t, err)
			it = it.Clone()
			got = append(got, modelItem{it.Key, it.Value, it.Expiry})
			q.After = q.CursorAfter(it)
			n++
		}
		if n < size {
			break
		}
	}
	same(t, "pages of query", got, want)

	s := engine.Scan{Reverse: q.Reverse, Unordered: rapid.Bool().Draw(t, "unordered")}
	want, got = collect(t, m.db.Scan(ctx, s)), nil
	for s.Limit = size; ; {
		n := 0
		for it, err := range m.db.Scan(ctx, s) {
			must(t, err)
			it = it.Clone()
			got = append(got, modelItem{it.Key, it.Value, it.Expiry})
			s.After = s.CursorAfter(it)
			n++
		}
		if n < size {
			break
		}
	}
	same(t, "pages of scan", got, want)
}

func (m *machine) segments(t *rapid.T) {
	n := rapid.SampledFrom([]int{1, 2, 3, 7, 256}).Draw(t, "segments")
	var got []modelItem
	for i := range n {
		s := engine.Scan{Segment: i, Segments: n, Unordered: i%2 == 0}
		got = append(got, collect(t, m.db.Scan(ctx, s))...)
	}
	slices.SortFunc(got, func(a, b modelItem) int { return compareKeys(a.key, b.key) })
	same(t, "segments", got, m.sorted(m.items, nil, false))
}

func (m *machine) snapshot(t *rapid.T) {
	if len(m.snaps) > 3 {
		return
	}
	s, err := m.db.Snapshot()
	must(t, err)
	m.snaps = append(m.snaps, modelSnapshot{s, maps.Clone(m.items)})
}

func (m *machine) dropSnapshot(t *rapid.T) {
	if len(m.snaps) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.snaps)-1).Draw(t, "which")
	must(t, m.snaps[i].snap.Close())
	m.snaps = slices.Delete(m.snaps, i, i+1)
}

func (m *machine) flush(t *rapid.T) { must(t, m.db.Flush(ctx)) }

func (m *machine) compact(t *rapid.T) {
	must(t, m.db.Compact(ctx))
	if len(m.snaps) > 0 {
		return
	}
	got := m.db.Metrics().Total
	if want := uint64(len(m.live(m.items))); got.Records != want || got.Tombstones != 0 {
		t.Fatalf("after Compact %d records, %d tombstones; want %d and 0",
			got.Records, got.Tombstones, want)
	}
}

func (m *machine) checkpoint(t *rapid.T) {
	m.names++
	dir := fmt.Sprintf("copy-%d", m.names)
	must(t, m.db.Checkpoint(ctx, dir, nil))
	opts := m.opts
	opts.ReadOnly = rapid.Bool().Draw(t, "readOnly")
	db, err := engine.OpenFS(m.fs, dir, &opts)
	must(t, err)
	m.compareAll(t, m.items, false, db.Scan(ctx, engine.Scan{}))
	must(t, db.Close())
}

func (m *machine) reopen(t *rapid.T) {
	m.close(t)
	m.open(t)
	m.compareAll(t, m.items, false, m.db.Scan(ctx, engine.Scan{}))
}

func (m *machine) readOnly(t *rapid.T) {
	m.close(t)
	opts := m.opts
	opts.ReadOnly = true
	db, err := engine.OpenFS(m.fs, "db", &opts)
	must(t, err)
	m.compareAll(t, m.items, false, db.Scan(ctx, engine.Scan{}))
	if err := db.Put(drawKey(t), nil); !errors.Is(err, engine.ErrReadOnly) {
		t.Fatalf("put on a read-only database: %v", err)
	}
	must(t, db.Close())
	m.open(t)
}

func (m *machine) advanceClock(t *rapid.T) {
	m.clock.Add(int64(rapid.IntRange(1, 40).Draw(t, "ms")))
}

func (m *machine) verify(t *rapid.T) {
	if _, err := m.db.Verify(ctx, nil); err != nil {
		t.Fatalf("verify: %v", err)
	}
}
