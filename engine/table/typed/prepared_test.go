package typed_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
)

// openFew opens a table of n shipments; some agree in at.
func openFew(t *testing.T, n int64) (*shipments, []shipment) {
	t.Helper()
	p := newShipments(typed.NewTable[shipment]("shipments"))
	p.db = openTyped(t, p.of)
	var rows []shipment
	for i := range n {
		r := shipmentOf(i)
		r.At %= 50
		rows = append(rows, r)
	}
	ok(t, second(p.of.InsertMany(ctx, p.db, rows)))
	return p, rows
}

// condition is a predicate and what it means.
type condition struct {
	p     typed.Predicate[shipment]
	holds func(*shipment) bool
}

// conditions draws some conditions; all must be true.
func (p *shipments) conditions(rnd *rand.Rand, rows []shipment) (all []condition) {
	some := rows[rnd.IntN(len(rows))]
	status := typed.Col(p.of, func(r *shipment) *string { return &r.Status })
	weight := typed.Col(p.of, func(r *shipment) *int64 { return &r.Weight })
	lo, hi := rnd.Int64N(60)-5, rnd.Int64N(60)-5
	every := []condition{
		{p.at.Ge(lo), func(r *shipment) bool { return r.At >= lo }},
		{p.at.Lt(hi), func(r *shipment) bool { return r.At < hi }},
		{p.at.Between(lo, hi), func(r *shipment) bool { return r.At >= lo && r.At <= hi }},
		{p.at.Eq(some.At), func(r *shipment) bool { return r.At == some.At }},
		{p.code.Eq(some.Code), func(r *shipment) bool { return r.Code == some.Code }},
		{p.seq.Gt(some.Seq), func(r *shipment) bool { return r.Seq > some.Seq }},
		{p.seq.Le(some.Seq), func(r *shipment) bool { return r.Seq <= some.Seq }},
		{status.Eq(some.Status), func(r *shipment) bool { return r.Status == some.Status }},
		{weight.Ne(some.Weight), func(r *shipment) bool { return r.Weight != some.Weight }},
		{p.id.Ge(some.ID), func(r *shipment) bool { return r.ID >= some.ID }},
		{p.id.Eq(some.ID), func(r *shipment) bool { return r.ID == some.ID }},
		{status.NotNull(), func(*shipment) bool { return true }},
		{typed.And(p.at.Gt(lo), weight.Lt(500)),
			func(r *shipment) bool { return r.At > lo && r.Weight < 500 }},
		{typed.Or(p.at.Lt(lo), p.seq.Eq(some.Seq)),
			func(r *shipment) bool { return r.At < lo || r.Seq == some.Seq }},
	}
	for range 1 + rnd.IntN(3) {
		all = append(all, every[rnd.IntN(len(every))])
	}
	return all
}

// Queries that are described again each time, with other values, return what their conditions
// say, from a database, a snapshot and a transaction.
//
// Promise (tables): Queries built again with other constants, read through kept plans, are those
// of brute force; a unique key that moves while it is read is answered from one moment. Also
// `TestUniqueKeyThatMovesBetweenReads`.
func TestUnpreparedQueries(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	p, rows := openFew(t, 400)
	rnd := rand.New(rand.NewPCG(7, 7))
	snap, err := p.db.Snapshot(ctx)
	fatal(t, err)
	defer func() { fatal(t, snap.Close()) }()
	runs := testutil.Effort(300, 1500)
	for i := range runs {
		if i == runs/2 { // from now on there are statistics
			_, err := p.db.Analyze(ctx, "shipments", nil)
			fatal(t, err)
		}
		all := p.conditions(rnd, rows)
		q, text := p.of.Where(), ""
		for _, c := range all {
			q, text = q.Where(c.p), text+" AND "+c.p.String()
		}
		orders := [][]typed.Term[shipment]{nil, {p.at.Asc()}, {p.seq.Desc()},
			{p.at.Desc(), p.id.Desc()}}
		order := rnd.IntN(len(orders))
		if q = q.OrderBy(orders[order]...); rnd.IntN(3) == 0 {
			q = q.Limit(1 + rnd.IntN(5))
		}
		var want []shipment
		for _, r := range rows {
			if !slices.ContainsFunc(all, func(c condition) bool { return !c.holds(&r) }) {
				want = append(want, r)
			}
		}
		readers := []table.Reader{p.db, snap}
		for _, r := range readers {
			p.agree(t, r, q, order, want, text)
		}
		if i%10 == 0 {
			fatal(t, p.db.Update(ctx, func(tx *table.Tx) error {
				p.agree(t, tx, q, order, want, text)
				return nil
			}))
		}
	}
}

// agree compares the rows of a query with those that it should have without a limit.
func (p *shipments) agree(t *testing.T, r table.Reader, q typed.Query[shipment], order int,
	want []shipment, text string) {
	t.Helper()
	var got, each []shipment
	for row, err := range q.All(ctx, r) {
		fatal(t, err)
		got = append(got, row)
	}
	for row, err := range q.Each(ctx, r) {
		fatal(t, err)
		c := *row
		c.Code, c.Status = strings.Clone(c.Code), strings.Clone(c.Status)
		c.Note = strings.Clone(c.Note)
		each = append(each, c)
	}
	if !slices.Equal(got, each) {
		t.Fatalf("%s: All\n%v\nEach\n%v", text, got, each)
	}
	keys := []func(*shipment) int64{nil, func(r *shipment) int64 { return r.At },
		func(r *shipment) int64 { return -r.Seq },
		func(r *shipment) int64 { return -r.At*10_000 - r.ID }}
	key := keys[order]
	if key != nil {
		slices.SortStableFunc(want, func(a, b shipment) int { return int(key(&a) - key(&b)) })
	}
	first, err := q.First(ctx, r)
	if len(want) == 0 != errors.Is(err, table.ErrNotFound) {
		t.Fatalf("%s: First: %v", text, err)
	}
	if len(want) > 0 &&
		(!slices.Contains(want, first) || key != nil && key(&first) != key(&want[0])) {
		t.Fatalf("%s: First is %v", text, first)
	}
	n, err := q.Count(ctx, r)
	fatal(t, err)
	if int(n) != len(got) || len(got) > len(want) || len(got) < min(len(want), 1) {
		t.Fatalf("%s: %d rows and a count of %d, want %d or a limit", text, len(got), n, len(want))
	}
	seen := map[int64]bool{}
	for i := range got {
		ok := slices.Contains(want, got[i]) && !seen[got[i].ID]
		if !ok || key != nil && key(&got[i]) != key(&want[i]) {
			t.Fatalf("%s: row %d is %v\n got %v\nwant %v", text, i, got[i], got, want)
		}
		seen[got[i].ID] = true
	}
}

// A row is found by its unique key while others take over keys and give them back, and it is
// never another one.
func TestUniqueKeysThatMove(t *testing.T) {
	p, rows := openFew(t, 60)
	a, b := rows[3], rows[4]
	codes := []string{a.Code, b.Code}
	swaps := testutil.Effort(80, 300)
	var done atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		defer done.Store(true)
		x, y := a, b
		for range swaps {
			x.Code, y.Code = y.Code, x.Code
			err := p.db.Update(ctx, func(tx *table.Tx) error {
				away := x
				away.Code = "away"
				for _, r := range []*shipment{&away, &y, &x} {
					if err := p.of.Put(ctx, tx, r); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	reads := 0
	for ; !done.Load() && !t.Failed(); reads++ {
		code := codes[reads%2]
		var row shipment
		var err error
		if reads%3 == 0 {
			row, err = p.of.Where(p.code.Eq(code)).First(ctx, p.db)
		} else {
			row, err = p.byCode.First(ctx, p.db, p.isCode.Is(code))
		}
		if err != nil || row.Code != code || row.ID != a.ID && row.ID != b.ID {
			t.Errorf("%q: %v, %v", code, row, err)
		}
	}
	writer.Wait()
	t.Logf("%d reads, %d swaps", reads, swaps)
}

// What queries allocate, with 20 rows or with 10.
func TestQueriesAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	p, rows := openFew(t, 1000)
	for _, c := range []struct {
		name string
		most float64
		run  func(i int64) int
		want int
	}{
		// The struct and its texts.
		{"unique", 4, func(i int64) int {
			_, err := p.byCode.First(ctx, p.db, p.isCode.Is(rows[i].Code))
			fatal(t, err)
			return 1
		}, 1},
		{"first", 40, func(i int64) int {
			return p.read(t, p.bySeq.All(ctx, p.db, p.from.Is(i), p.most.Is(10)))
		}, 10},
		{"first, each", 30, func(i int64) int {
			n := 0
			for _, err := range p.bySeq.Each(ctx, p.db, p.from.Is(i), p.most.Is(10)) {
				fatal(t, err)
				n++
			}
			return n
		}, 10},
		{"first, unprepared", 60, func(i int64) int {
			q := p.of.Where(p.seq.Ge(i)).OrderBy(p.seq.Asc()).Limit(10)
			return p.read(t, q.All(ctx, p.db))
		}, 10},
		{"range, unprepared", 75, func(i int64) int {
			at := i % 40
			q := p.of.Where(p.at.Ge(at), p.at.Lt(at+1)).OrderBy(p.at.Asc())
			return p.read(t, q.All(ctx, p.db))
		}, 20},
	} {
		i := int64(0)
		got := testutil.AllocsPerRun(100, func() {
			i++
			if n := c.run(i); n != c.want {
				t.Fatalf("%s: %d rows", c.name, n)
			}
		})
		t.Logf("%s: %v allocations", c.name, got)
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
	}
}

// A prepared query needs a value of the right kind for every parameter.
func TestPreparedQueriesCheckParameters(t *testing.T) {
	p, _ := openFew(t, 10)
	count := func(bindings ...typed.Binding) (n int, err error) {
		for _, e := range p.bySeq.All(ctx, p.db, bindings...) {
			if err = e; err == nil {
				n++
			}
		}
		return n, err
	}
	wrong := typed.Arg[string]{Name: "from"}
	for name, bindings := range map[string][]typed.Binding{
		"none":      nil,
		"one":       {p.from.Is(1)},
		"a text":    {wrong.Is("x"), p.most.Is(3)},
		"below all": {p.from.Is(1), p.most.Is(-1)},
	} {
		if n, err := count(bindings...); err == nil || n > 0 {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
	if n, err := count(p.from.Is(0), p.most.Is(3)); n != 3 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}

// hooked is a store that calls a function once, after a read of an entry.
type hooked struct {
	store.Store
	after func()
}

// Get implements store.Reader.
func (h *hooked) Get(ctx context.Context, dst []byte, key store.Key) ([]byte, error) {
	out, err := h.Store.Get(ctx, dst, key)
	if f := h.after; f != nil && key.PK[0] == 'i' {
		h.after = nil
		f()
	}
	return out, err
}

// What happens between the reads of an entry and of its row does not make another row the
// answer, nor none.
func TestUniqueKeyThatMovesBetweenReads(t *testing.T) {
	e, err := engine.Open("db", &engine.Options{InMemory: true, Durability: engine.Process})
	fatal(t, err)
	h := &hooked{Store: local.New(e)}
	p := newShipments(typed.NewTable[shipment]("shipments"))
	p.db, err = table.OpenStore(ctx, h, nil)
	fatal(t, err)
	t.Cleanup(func() {
		fatal(t, p.db.Close())
		fatal(t, e.Close())
	})
	fatal(t, typed.Migrate(ctx, p.db, p.of))
	a, b, c := shipmentOf(1), shipmentOf(2), shipmentOf(1)
	c.Note = "another note"
	put := func(rows ...shipment) {
		for i := range rows {
			fatal(t, p.of.Put(ctx, p.db, &rows[i]))
		}
	}
	away, taken := a, b
	away.Code, taken.Code = "away", a.Code
	for _, change := range []struct {
		name string
		f    func()
		want []int64 // the row, if any
	}{
		{"nothing", func() {}, []int64{a.ID}},
		{"another column", func() { put(c) }, []int64{a.ID}},
		{"no row has it", func() { put(away) }, nil},
		{"the row is gone", func() { fatal(t, p.of.Delete(ctx, p.db, p.id.Eq(a.ID))) }, nil},
		{"another row has it", func() { put(away, taken) }, []int64{b.ID}},
	} {
		put(b, a)
		for _, prepared := range []bool{true, false} {
			put(b, a)
			h.after = change.f
			var row shipment
			if prepared {
				row, err = p.byCode.First(ctx, p.db, p.isCode.Is(a.Code))
			} else {
				row, err = p.of.Where(p.code.Eq(a.Code)).First(ctx, p.db)
			}
			var got []int64
			if err == nil {
				got = []int64{row.ID}
			}
			other := err == nil && row.Code != a.Code
			if h.after != nil || !slices.Equal(got, change.want) || other {
				t.Errorf("%s: %v, %v", change.name, row, err)
			}
		}
	}
}
