package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// bucket returns the PK of partition i of an index that is spread over partitions.
func bucket(i int) []byte { return fmt.Appendf(nil, "index/%03d", i) }

func buckets(n int) (pks [][]byte) {
	for i := range n {
		pks = append(pks, bucket(i))
	}
	return pks
}

// loadBuckets spreads entries 0, 1, … over partitions.
func loadBuckets(t testing.TB, db *engine.DB, partitions, entries int) {
	t.Helper()
	b := engine.NewBatch()
	for i := range entries {
		k := engine.Key{PK: bucket(i * 7919 % partitions), SK: fmt.Appendf(nil, "%08d", i)}
		ok(t, b.Put(k, []byte("0123456789")))
	}
	ok(t, db.Apply(ctx, b))
}

// What a transaction has gathered, counted, looked up, or scanned within bounds does not change
// until it commits, or it fails, and so is what its iterators may move over; what lies beside does
// not matter, nor what lies before the position it has started from.
//
// Promise (reads and writes): What a transaction has gathered, looked up at once or scanned in
// bounds does not change before it commits, or it fails.
func TestChangesOfAGatheredRangeConflict(t *testing.T) {
	span := []keycodec.Span{{Start: []byte("b"), End: []byte("d")}, {Start: []byte("m")}}
	g := engine.Gather{PKs: [][]byte{[]byte("p1"), []byte("p2")}, Spans: span, Limit: 1}
	after := g
	after.StartAfter = pksk("p1", "c")
	byPartition := after
	byPartition.ByPartition = true
	scan := engine.Scan{From: engine.K("p1"), To: engine.K("p3")}
	read := map[string]func(tx *engine.Tx) error{
		"gather":       func(tx *engine.Tx) error { return lastOf(tx.Gather(ctx, g)) },
		"after":        func(tx *engine.Tx) error { return lastOf(tx.Gather(ctx, after)) },
		"by partition": func(tx *engine.Tx) error { return lastOf(tx.Gather(ctx, byPartition)) },
		"count":        func(tx *engine.Tx) error { return second(tx.CountGather(ctx, g)) },
		"scan":         func(tx *engine.Tx) error { return lastOf(tx.Scan(ctx, scan)) },
		"unordered": func(tx *engine.Tx) error {
			return second(tx.CountScan(ctx, engine.Scan{From: scan.From, To: scan.To}))
		},
		"all": func(tx *engine.Tx) error { return oneOf(tx.ScanIterator(ctx, scan)) },
		"iterate": func(tx *engine.Tx) error {
			return oneOf(tx.QueryIterator(ctx, engine.Query{PK: []byte("p1")}))
		},
		"many": func(tx *engine.Tx) error {
			var r engine.Results
			keys := []engine.Key{pksk("p0", "c"), pksk("p1", "c"), pksk("p2", "c")}
			ok(t, tx.Delete(keys[0])) // its own
			return tx.MultiGet(ctx, keys, &r)
		},
	}
	cases := []struct {
		pk, sk   string
		conflict string // the transactions that must fail
	}{
		{"p1", "c", "gather count scan unordered all iterate many"},
		{"p1", "b", "gather count scan unordered all iterate"},
		{"p1", "cc", "gather count scan unordered after by partition all iterate"},
		{"p2", "c", "gather count scan unordered after by partition all many"},
		{"p2", "b", "gather count scan unordered by partition all"},
		{"p2", "z", "gather count scan unordered after by partition all"},
		{"p1", "d", "scan unordered all iterate"},
		{"p2", "", "scan unordered all"},
		{"p3", "c", ""},
		{"p0", "c", ""},
	}
	for name, f := range read {
		for _, c := range cases {
			db := openMemory(t, engine.Options{Durability: engine.Process})
			ok(t, db.Put(pksk("p1", "c"), []byte("v")))
			err := db.Update(ctx, func(tx *engine.Tx) error {
				ok(t, f(tx))
				k := engine.Key{PK: []byte(c.pk)}
				if c.sk != "" {
					k.SK = []byte(c.sk)
				}
				ok(t, db.Put(k, nil))
				return tx.Put(pk("result"), nil)
			})
			want := strings.Contains(c.conflict, name)
			if got := errors.Is(err, engine.ErrConflict); got != want || err != nil && !got {
				t.Errorf("%s, write of %s/%s: %v, want a conflict: %v", name, c.pk, c.sk, err, want)
			}
		}
	}
}

// oneOf moves an iterator by one item and closes it.
func oneOf(i *engine.Iterator, err error) error {
	if err != nil {
		return err
	}
	i.Next()
	return i.Close()
}

// In a transaction, what it has written itself has version 0, however it is read.
func TestOwnWritesHaveNoVersion(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	ok(t, db.Put(pksk("p", "old"), nil))
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		ok(t, tx.Put(pksk("p", "new"), nil))
		var got []string
		note := func(it engine.Item, err error) bool {
			ok(t, err)
			got = append(got, fmt.Sprintf("%s:%d", it.Key.SK, it.Version))
			return true
		}
		tx.Query(ctx, engine.Query{PK: []byte("p")})(note)
		tx.Scan(ctx, engine.Scan{})(note)
		tx.Gather(ctx, engine.Gather{PKs: [][]byte{[]byte("p")}})(note)
		var many engine.Results
		ok(t, tx.MultiGet(ctx, []engine.Key{pksk("p", "new"), pksk("p", "old")}, &many))
		for _, it := range many.All() {
			note(it, nil)
		}
		if want := "[new:0 old:1 new:0 old:1 new:0 old:1 new:0 old:1]"; fmt.Sprint(got) != want {
			t.Errorf("versions %v, want %s", got, want)
		}
		return nil
	}))
}

// Bad gatherings are refused, by iterations and counts alike, and so are cursors of others.
func TestBadGathers(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	pks := buckets(2)
	good := engine.Gather{PKs: pks}
	cursor := good.CursorAfter(engine.Item{Key: engine.Key{PK: pks[0], SK: []byte("x")}})
	span := func(a, b string) keycodec.Span {
		return keycodec.Span{Start: []byte(a), End: []byte(b)}
	}
	pos := engine.Key{SK: []byte("x")}
	type gather = engine.Gather
	type spans = []keycodec.Span
	bad := map[string]struct {
		g    gather
		want error
	}{
		"limit":      {gather{PKs: pks, Limit: -1}, engine.ErrInvalid},
		"empty PK":   {gather{PKs: [][]byte{{}}}, engine.ErrEmptyPK},
		"descending": {gather{PKs: [][]byte{pks[1], pks[0]}}, engine.ErrInvalid},
		"twice":      {gather{PKs: [][]byte{pks[1], pks[1]}}, engine.ErrInvalid},
		"too few":    {gather{PKs: pks, Each: make([]spans, 1)}, engine.ErrInvalid},
		"two lists": {gather{PKs: pks, Each: make([]spans, 2), Spans: spans{{}}},
			engine.ErrInvalid},
		"spans": {gather{PKs: pks, Spans: spans{span("b", "c"), span("a", "b")}},
			engine.ErrInvalid},
		"empty between": {gather{PKs: pks, Spans: spans{span("a", "d"), span("d", "a"),
			span("c", "e")}}, engine.ErrInvalid},
		"open":        {gather{PKs: pks, Spans: spans{{}, span("a", "b")}}, engine.ErrInvalid},
		"position":    {gather{PKs: pks, StartAfter: pos}, engine.ErrEmptyPK},
		"damaged":     {gather{PKs: pks, After: cursor[1:]}, engine.ErrInvalidCursor},
		"other PKs":   {gather{PKs: pks[:1], After: cursor}, engine.ErrInvalidCursor},
		"other spans": {gather{PKs: pks, Spans: spans{{}}, After: cursor}, engine.ErrInvalidCursor},
		"other lists": {gather{PKs: pks, Each: make([]spans, 2), After: cursor},
			engine.ErrInvalidCursor},
		"other order": {gather{PKs: pks, Reverse: true, After: cursor}, engine.ErrInvalidCursor},
		"by partition": {gather{PKs: pks, ByPartition: true, After: cursor},
			engine.ErrInvalidCursor},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			n := 0
			for _, err := range db.Gather(ctx, c.g) {
				wantIs(t, err, c.want)
				n++
			}
			if n != 1 {
				t.Errorf("%d errors", n)
			}
			wantIs(t, second(db.CountGather(ctx, c.g)), c.want)
		})
	}
	for _, g := range []engine.Gather{good, {}, {PKs: pks, After: cursor}} {
		ok(t, lastOf(db.Gather(ctx, g)))
	}
	s := engine.Scan{From: engine.K("a"), To: engine.K("b")}
	s.After = s.CursorAfter(engine.Item{Key: pk("a")})
	ok(t, lastOf(db.Scan(ctx, s)))
	for _, other := range []engine.Scan{{From: s.From}, {To: s.To}, {From: s.To, To: s.From}, {}} {
		other.After = s.After
		wantIs(t, lastOf(db.Scan(ctx, other)), engine.ErrInvalidCursor)
	}
	q := engine.Query{PK: []byte("a"), SK: engine.SKRange(nil, nil)}
	q.After = q.CursorAfter(engine.Item{Key: pksk("a", "x")})
	ok(t, lastOf(db.Query(ctx, q)))
	q.SK = engine.SKRange(nil, []byte{})
	wantIs(t, lastOf(db.Query(ctx, q)), engine.ErrInvalidCursor)
}

// blocks returns how many blocks f asks for.
func blocks(db *engine.DB, f func()) uint64 {
	before := db.Metrics()
	f()
	m := db.Metrics()
	return m.BlockHits + m.BlockMisses - before.BlockHits - before.BlockMisses
}

// A scan within bounds asks for no block of a file outside of them, and for few otherwise.
//
// Promise (reads and writes): A scan in bounds reads no block of files outside of them; spans
// that are not reached are not sought, nor opened are partitions that a limit does not reach.
// Also `TestGatherSeeksLazily`, `TestGatherOpensFewPartitions`.
func TestScanReadsItsBoundsOnly(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openMemory(t, engine.Options{Durability: engine.Process, BlockBytes: 1 << 10})
	loadBuckets(t, db, 300, 20_000)
	ok(t, db.Compact(ctx))
	at := func(i int) engine.Key { return engine.Key{PK: bucket(i)} }
	read := func(s engine.Scan) (items int, asked uint64) {
		asked = blocks(db, func() { items = len(takeAll(t, db.Scan(ctx, s))) })
		return items, asked
	}
	for _, unordered := range []bool{false, true} {
		all, whole := read(engine.Scan{Unordered: unordered})
		for _, s := range []engine.Scan{
			{From: engine.K("index0")}, {To: engine.K("index/")},
			{From: engine.K("a"), To: engine.K("b")},
			{From: at(5), To: at(5)}, {From: at(6), To: at(5)}, {To: engine.K("")},
		} {
			for s.Unordered = unordered; ; s.Reverse = true {
				if items, n := read(s); n > 0 || items > 0 {
					t.Errorf("%+v asks for %d blocks and has %d items", s, n, items)
				}
				if s.Reverse {
					break
				}
			}
		}
		s := engine.Scan{From: at(10), To: at(20), Unordered: unordered}
		items, n := read(s)
		if items < all/31 || items > all/29 || n > whole/3 {
			t.Errorf("10 of 300 partitions: %d of %d items, %d of %d blocks", items, all, n, whole)
		}
	}
}

// A gathering with a limit reads of each partition little, and nothing of the spans that
// it does not reach.
func TestGatherSeeksLazily(t *testing.T) {
	const n = 16
	db := openMemory(t, engine.Options{Durability: engine.Process, BlockBytes: 1 << 10})
	loadBuckets(t, db, n, 20_000)
	ok(t, db.Compact(ctx))
	g := engine.Gather{PKs: buckets(n), Each: make([][]keycodec.Span, n), Limit: 10}
	for i := range g.Each {
		// Each partition begins somewhere else, and has spans after that.
		for j := range 4 {
			from := fmt.Appendf(nil, "%08d", 1000*i+200*j)
			to := fmt.Appendf(nil, "%08d", 1000*i+200*j+100)
			g.Each[i] = append(g.Each[i], keycodec.Span{Start: from, End: to})
		}
	}
	for _, reverse := range []bool{false, true} {
		g.Reverse = reverse
		asked := blocks(db, func() {
			if items := takeAll(t, db.Gather(ctx, g)); len(items) != 10 {
				t.Fatalf("%d items", len(items))
			}
		})
		if asked > 6 {
			t.Errorf("reverse %v: 10 items of 2 or 3 spans ask for %d blocks", reverse, asked)
		}
	}
	g = engine.Gather{PKs: buckets(n), Limit: 10}
	if asked := blocks(db, func() { takeAll(t, db.Gather(ctx, g)) }); asked > n+2 {
		t.Errorf("10 items of %d partitions ask for %d blocks", n, asked)
	}
}

// Gatherings and scans within bounds allocate for each call and partition, nothing for
// items.
func TestRangesDoNotAllocate(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db := openMemory(t, engine.Options{Durability: engine.Process})
	const n = 20_000
	loadBuckets(t, db, 16, n)
	pks, half := buckets(16), []byte("00010000")
	few := []keycodec.Span{{End: half}, {Start: half}}
	count := func(seq func(func(engine.Item, error) bool)) {
		items := 0
		seq(func(_ engine.Item, err error) bool {
			ok(t, err)
			items++
			return true
		})
		if items != n {
			t.Fatalf("%d items", items)
		}
	}
	for _, state := range []string{"memtables", "files"} {
		scan := engine.Scan{From: engine.Key{PK: pks[0]}, Unordered: true}
		gather := func(g engine.Gather) func() {
			g.PKs = pks
			return func() { count(db.Gather(ctx, g)) }
		}
		for name, f := range map[string]func(){
			"merged":       gather(engine.Gather{}),
			"reverse":      gather(engine.Gather{Reverse: true}),
			"spans":        gather(engine.Gather{Spans: few}),
			"by partition": gather(engine.Gather{ByPartition: true}),
			"scan":         func() { count(db.Scan(ctx, scan)) },
			"count": func() {
				if c, err := db.CountGather(ctx, engine.Gather{PKs: pks}); c != n || err != nil {
					t.Fatal(c, err)
				}
			},
		} {
			if got := testutil.AllocsPerRun(5, f); got > 64 {
				t.Errorf("%s of %s allocates %.0f objects for %d items", name, state, got, n)
			} else {
				t.Logf("%s of %s: %.0f objects for %d items", name, state, got, n)
			}
		}
		ok(t, db.Compact(ctx))
	}
}

// A gathering with a limit looks into the rows of few partitions, if their blocks are in
// memory, and into none that has nothing within its span.
func TestGatherOpensFewPartitions(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const n = 64
	db := openMemory(t, engine.Options{Durability: engine.Process})
	loadBuckets(t, db, n, 40_000)
	ok(t, db.Compact(ctx))
	takeAll(t, db.Gather(ctx, engine.Gather{PKs: buckets(n)})) // everything is cached now
	for _, reverse := range []bool{false, true} {
		for _, c := range []struct {
			span  keycodec.Span
			limit int
			items int
			most  uint64
		}{
			{keycodec.Span{Start: []byte("00010003"), End: []byte("00030000")}, 5, 5, 24},
			{keycodec.Span{Start: []byte("000200"), End: []byte("000201")}, 1000, 100, 80},
			{keycodec.Span{Start: []byte("00020000"), End: []byte("00020003")}, 1000, 3, 12},
		} {
			g := engine.Gather{
				PKs: buckets(n), Spans: []keycodec.Span{c.span}, Limit: c.limit, Reverse: reverse,
			}
			asked := blocks(db, func() {
				if items := takeAll(t, db.Gather(ctx, g)); len(items) != c.items {
					t.Errorf("%d items of %q", len(items), c.span)
				}
			})
			if asked > c.most {
				t.Errorf("%d items, reverse %v, look into %d blocks", c.items, reverse, asked)
			}
		}
	}
}

// gatherOrder compares keys in the order of a Gather.
func gatherOrder(g *engine.Gather, a, b engine.Key) int {
	d := cmp.Or(bytes.Compare(a.SK, b.SK), bytes.Compare(a.PK, b.PK))
	if g.ByPartition {
		d = compareKeys(a, b)
	}
	if g.Reverse {
		d = -d
	}
	return d
}

// lateCancel is a context that is found cancelled when it is looked at for the second time.
type lateCancel struct {
	context.Context
	looks atomic.Int64
}

func (c *lateCancel) Err() error {
	if c.looks.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

// A Gather of many partitions that hold nothing can be canceled, too.
func TestGatherOfNothingHeedsItsContext(t *testing.T) {
	db := openMemory(t, engine.Options{})
	var g engine.Gather
	for i := range 1000 {
		g.PKs = append(g.PKs, fmt.Appendf(nil, "%04d", i))
	}
	for _, g.ByPartition = range []bool{false, true} {
		var err error
		for _, err = range db.Gather(&lateCancel{Context: ctx}, g) {
		}
		wantIs(t, err, context.Canceled)
	}
	_, err := db.CountGather(&lateCancel{Context: ctx}, g)
	wantIs(t, err, context.Canceled)
}
