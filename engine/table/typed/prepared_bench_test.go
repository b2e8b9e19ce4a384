package typed_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
)

// shipment is a row of the benchmarks of queries.
type shipment struct {
	ID     int64  `kstone:"id,pk"`
	Code   string `kstone:"code"`
	At     int64  `kstone:"at"`
	Seq    int64  `kstone:"seq"`
	Weight int64  `kstone:"weight"`
	Price  int64  `kstone:"price"`
	Status string `kstone:"status"`
	Note   string `kstone:"note"`
}

const shipmentCount = 200_000

// shipmentOf returns a row: at and seq are permutations of the ids.
func shipmentOf(i int64) shipment {
	return shipment{ID: i, Code: fmt.Sprintf("%016X", uint64(i+1)*0x9e3779b97f4a7c15),
		At: i * 7919 % shipmentCount, Seq: i * 104_729 % shipmentCount,
		Weight: i % 977, Price: i % 100_003,
		Status: []string{"new", "paid", "sent"}[i%3],
		Note:   fmt.Sprintf("shipment %d, to be left with the neighbours", i)}
}

// shipments are the queries of the benchmarks.
type shipments struct {
	db                        *table.DB
	of                        *typed.Table[shipment]
	id                        typed.Column[shipment, int64]
	code                      typed.Column[shipment, string]
	at, seq                   typed.Column[shipment, int64]
	byID, byCode, byAt, bySeq *typed.Prepared[shipment]
	isID, lo, hi, from        typed.Arg[int64]
	isCode                    typed.Arg[string]
	most                      typed.Arg[int]
	covered                   *table.Prepared
}

func newShipments(of *typed.Table[shipment]) *shipments {
	p := &shipments{of: of}
	p.id = typed.Col(of, func(r *shipment) *int64 { return &r.ID })
	p.code = typed.Col(of, func(r *shipment) *string { return &r.Code })
	p.at = typed.Col(of, func(r *shipment) *int64 { return &r.At })
	p.seq = typed.Col(of, func(r *shipment) *int64 { return &r.Seq })
	price := typed.Col(of, func(r *shipment) *int64 { return &r.Price })
	of.Index("by_at", p.at.Asc()).Include(price)
	of.Unique("by_code", p.code.Asc())
	of.Index("by_seq", p.seq.Asc()).Shard(16)
	p.isID, p.isCode = p.id.Arg("id"), p.code.Arg("code")
	p.lo, p.hi, p.from = p.at.Arg("lo"), p.at.Arg("hi"), p.seq.Arg("from")
	p.most = typed.Arg[int]{Name: "most"}
	p.byID = of.Where(p.id.EqArg(p.isID)).Prepare()
	p.byCode = of.Where(p.code.EqArg(p.isCode)).Prepare()
	p.byAt = of.Where(p.at.GeArg(p.lo), p.at.LtArg(p.hi)).OrderBy(p.at.Asc()).Prepare()
	p.bySeq = of.Where(p.seq.GeArg(p.from)).OrderBy(p.seq.Asc()).LimitArg(p.most).Prepare()
	return p
}

func openShipments(t testing.TB, n int64) *shipments {
	t.Helper()
	e, err := engine.Open(t.TempDir(), &engine.Options{Durability: engine.Process,
		MemtableBytes: 64 << 20, CacheBytes: 256 << 20})
	fatal(t, err)
	p := newShipments(typed.NewTable[shipment]("shipments"))
	p.db, err = local.Open(ctx, e, nil)
	fatal(t, err)
	t.Cleanup(func() {
		fatal(t, p.db.Close())
		fatal(t, e.Close())
	})
	fatal(t, typed.Migrate(ctx, p.db, p.of))
	rows := make([]shipment, 0, 1000)
	for i := range n {
		rows = append(rows, shipmentOf(i))
		if len(rows) == cap(rows) || i == n-1 {
			_, err := p.of.InsertMany(ctx, p.db, rows)
			fatal(t, err)
			rows = rows[:0]
		}
	}
	fatal(t, e.Compact(ctx))
	_, err = p.db.Analyze(ctx, "shipments", nil)
	fatal(t, err)
	tab, err := p.db.Table("shipments")
	fatal(t, err)
	column := func(name string) expr.Expr { return tab.Schema().Ref(0, tab.Schema().Column(name)) }
	p.covered, err = p.db.Prepare(&plan.Select{
		From: []plan.Source{{Table: tab.Schema()}},
		Where: expr.And{Terms: []expr.Expr{
			expr.Cmp{Op: expr.Ge, L: column("at"), R: expr.Param{Index: 0}},
			expr.Cmp{Op: expr.Lt, L: column("at"), R: expr.Param{Index: 1}}}},
		Columns: []plan.Output{{Expr: column("at")}, {Expr: column("price")}},
		OrderBy: []plan.Order{{Expr: column("at")}},
	})
	fatal(t, err)
	return p
}

func fatal(t testing.TB, err error) {
	if err != nil { // Helper takes longer than what is measured
		t.Helper()
		t.Fatal(err)
	}
}

// read counts the rows of a query.
func (p *shipments) read(t testing.TB, rows func(func(shipment, error) bool)) (n int) {
	t.Helper()
	rows(func(_ shipment, err error) bool {
		fatal(t, err)
		n++
		return true
	})
	return n
}

// raw is what the queries come down to: the entries of a range, and their rows.
type raw struct {
	e       *engine.DB
	pks     [][]byte
	spans   []keycodec.Span
	keys    []engine.Key
	results engine.Results
}

func (r *raw) read(t testing.TB, limit int, rowPrefix []byte, fetch bool) (n int) {
	r.keys = r.keys[:0]
	var arena []byte
	for it, err := range r.e.Gather(ctx, engine.Gather{PKs: r.pks, Spans: r.spans, Limit: limit}) {
		fatal(t, err)
		n++
		if fetch {
			start := len(arena)
			arena = append(append(arena, rowPrefix...), it.Key.SK[8:]...)
			r.keys = append(r.keys, engine.Key{PK: arena[start:len(arena):len(arena)]})
		}
	}
	if fetch {
		fatal(t, r.e.MultiGet(ctx, r.keys, &r.results))
	}
	return n
}

// benched runs queries as benchmarks.
type benched struct {
	*shipments
	b      *testing.B
	raw    raw
	schema *schema.Table
}

// run runs a benchmark of what returns so many rows; n counts the operations.
func (q *benched) run(name string, want int, f func(n int) int) {
	q.b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if got := f(n); got != want {
				b.Fatalf("%d rows", got)
			}
		}
	})
}

// engine reads the entries of an index, from start on, and their rows, with the
// engine alone.
func (q *benched) engine(name, index string, want int, fetch bool, span func(int) keycodec.Span) {
	x, prefix := q.schema.Index(index), q.schema.AppendRowPrefix(nil)
	q.raw.pks = nil
	for i := range x.Buckets() {
		q.raw.pks = append(q.raw.pks, x.BucketPK(nil, i))
	}
	q.run(name, want, func(n int) int {
		q.raw.spans[0] = span(n)
		return q.raw.read(q.b, want, prefix, fetch)
	})
}

// one is the count of a single row.
func (q *benched) one(_ shipment, err error) int {
	fatal(q.b, err)
	return 1
}

// at draws where a range begins.
func at(n int) int64 { return int64(n) * 7907 % (shipmentCount - 20) }

// BenchmarkQueries runs the queries that applications are made of on 200,000 rows, prepared,
// described again, and by the engine alone.
func BenchmarkQueries(b *testing.B) {
	p := openShipments(b, shipmentCount)
	tab, err := p.db.Table("shipments")
	fatal(b, err)
	q := &benched{p, b, raw{e: local.Engine(p.db), spans: make([]keycodec.Span, 1)}, tab.Schema()}
	q.run("point", 1, func(n int) int { return q.one(p.byID.First(ctx, p.db, p.isID.Is(at(n)))) })
	q.run("point/unprepared", 1, func(n int) int {
		return q.one(p.of.Where(p.id.Eq(at(n))).First(ctx, p.db))
	})
	q.run("unique", 1, func(n int) int {
		return q.one(p.byCode.First(ctx, p.db, p.isCode.Is(codes[n%len(codes)])))
	})
	q.run("unique/unprepared", 1, func(n int) int {
		return q.one(p.of.Where(p.code.Eq(codes[n%len(codes)])).First(ctx, p.db))
	})
	q.ranges()
	q.run("first", 10, func(n int) int {
		return p.read(b, p.bySeq.All(ctx, p.db, p.from.Is(at(n)), p.most.Is(10)))
	})
	q.run("first/unprepared", 10, func(n int) int {
		query := p.of.Where(p.seq.Ge(at(n))).OrderBy(p.seq.Asc()).Limit(10)
		return p.read(b, query.All(ctx, p.db))
	})
	from := func(n int) keycodec.Span {
		return keycodec.Span{Start: keycodec.AppendInt64(nil, at(n))}
	}
	weight := typed.Col(p.of, func(r *shipment) *int64 { return &r.Weight })
	q.run("scan", 205, func(int) int {
		return p.read(b, p.of.Where(weight.Eq(7)).All(ctx, p.db))
	})
	q.engine("first/raw", "by_seq", 10, true, from)
	q.engine("first/entries", "by_seq", 10, false, from)
}

// ranges runs the queries of 20 rows.
func (q *benched) ranges() {
	p, b := q.shipments, q.b
	q.run("range", 20, func(n int) int {
		return p.read(b, p.byAt.All(ctx, p.db, p.lo.Is(at(n)), p.hi.Is(at(n)+20)))
	})
	q.run("range/unprepared", 20, func(n int) int {
		query := p.of.Where(p.at.Ge(at(n)), p.at.Lt(at(n)+20)).OrderBy(p.at.Asc())
		return p.read(b, query.All(ctx, p.db))
	})
	between := func(n int) keycodec.Span {
		return keycodec.Span{Start: keycodec.AppendInt64(nil, at(n)),
			End: keycodec.AppendInt64(nil, at(n)+20)}
	}
	q.engine("range/raw", "by_at", 20, true, between)
	q.run("covered", 20, func(n int) int {
		result, err := p.covered.Query(ctx, p.db, expr.Int(at(n)), expr.Int(at(n)+20))
		fatal(b, err)
		k := 0
		for row, err := range result.All() {
			fatal(b, err)
			k += len(row) / 2
		}
		return k
	})
	q.engine("covered/raw", "by_at", 20, false, between)
}

// codes are those of some rows.
var codes = func() (all []string) {
	for i := range int64(4096) {
		all = append(all, shipmentOf(i*7907%shipmentCount).Code)
	}
	return all
}()
