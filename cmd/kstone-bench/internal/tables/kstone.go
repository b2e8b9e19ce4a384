package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"

	core "github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

const kstoneTuning = "Rows are structs, queries those of package table; the index over `seq` has " +
	"16 buckets, that over `at` includes `amount`. Defaults, but for the budgets."

// seqBuckets is the number of buckets of the index over seq.
const seqBuckets = 16

// kstoneStore is the table as structs. One query, the covering one, returns values.
type kstoneStore struct {
	engine *core.DB
	db     *table.DB
	orders *table.Table

	rows                      *typed.Table[Row]
	id, at, seq               typed.Column[Row, int64]
	code                      typed.Column[Row, string]
	argID, argLo, argHi       typed.Arg[int64]
	argCode                   typed.Arg[string]
	argLimit                  typed.Arg[int]
	byID, byCode, byAt, bySeq *typed.Prepared[Row]
	covered                   *table.Prepared
}

func openKstone(ctx context.Context, s settings) (store, error) {
	durability := core.Process
	if s.sync {
		durability = core.Sync
	}
	return openKstoneTable(ctx, s.dir, durability, func(k *kstoneStore) {
		if s.indexes >= 1 {
			amount := typed.Col(k.rows, func(r *Row) *int64 { return &r.Amount })
			k.rows.Index("by_at", k.at.Asc()).Include(amount)
		}
		if s.indexes >= 3 {
			k.rows.Unique("by_code", k.code.Asc())
			k.indexSeq(seqBuckets)
		}
	})
}

// indexSeq has an index over seq with so many buckets; 0 means that it is not sharded.
func (s *kstoneStore) indexSeq(buckets int) {
	if x := s.rows.Index("by_seq", s.seq.Asc()); buckets > 0 {
		x.Shard(buckets)
	}
}

func openKstoneTable(ctx context.Context, dir string, durability core.Durability,
	index func(*kstoneStore)) (*kstoneStore, error) {
	e, err := core.Open(dir, &core.Options{Durability: durability, MemtableBytes: bufferBytes,
		CacheBytes: cacheBytes})
	if err != nil {
		return nil, err
	}
	s := &kstoneStore{engine: e}
	s.describe()
	index(s)
	if s.db, err = local.Open(ctx, e, nil); err == nil {
		err = typed.Migrate(ctx, s.db, s.rows)
	}
	if err == nil {
		s.orders, err = s.db.Table(s.rows.Name())
	}
	if err == nil {
		s.covered, err = s.db.Prepare(s.coveredQuery())
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// describe makes the table and its queries.
func (s *kstoneStore) describe() {
	s.rows = typed.NewTable[Row]("orders")
	s.id = typed.Col(s.rows, func(r *Row) *int64 { return &r.ID })
	s.code = typed.Col(s.rows, func(r *Row) *string { return &r.Code })
	s.at = typed.Col(s.rows, func(r *Row) *int64 { return &r.At })
	s.seq = typed.Col(s.rows, func(r *Row) *int64 { return &r.Seq })
	s.argID, s.argCode, s.argLo, s.argHi = s.id.Arg("id"), s.code.Arg("code"), s.at.Arg("lo"),
		s.at.Arg("hi")
	s.argLimit = typed.Arg[int]{Name: "limit"}
	s.byID = s.rows.Where(s.id.EqArg(s.argID)).Prepare()
	s.byCode = s.rows.Where(s.code.EqArg(s.argCode)).Prepare()
	s.byAt = s.rows.Where(s.at.GeArg(s.argLo), s.at.LtArg(s.argHi)).OrderBy(s.at.Asc()).Prepare()
	s.bySeq = s.rows.Where(s.seq.GeArg(s.argLo)).OrderBy(s.seq.Asc()).LimitArg(s.argLimit).
		Prepare()
}

func (s *kstoneStore) insert(ctx context.Context, rows []Row) error {
	if len(rows) == 1 {
		return s.rows.Insert(ctx, s.db, &rows[0])
	}
	n, err := s.rows.InsertMany(ctx, s.db, rows)
	if err == nil && n != len(rows) {
		err = fmt.Errorf("%d of %d rows are inserted", n, len(rows))
	}
	return err
}

func (s *kstoneStore) settle(ctx context.Context) error {
	if err := s.engine.Compact(ctx); err != nil {
		return err
	}
	_, err := s.db.Analyze(ctx, s.orders.Name(), nil)
	return err
}

func (s *kstoneStore) close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.engine.Close())
}

func (s *kstoneStore) session(context.Context) (session, error) { return s, nil }

func (s *kstoneStore) get(ctx context.Context, id int64, r *Row) (err error) {
	*r, err = s.byID.First(ctx, s.db, s.argID.Is(id))
	return err
}

// getOnce builds the query again, as an ad-hoc query is, with a parameter as the others have.
func (s *kstoneStore) getOnce(ctx context.Context, id int64, r *Row) (err error) {
	*r, err = s.rows.Where(s.id.EqArg(s.argID)).First(ctx, s.db, s.argID.Is(id))
	return err
}

// getConstant is getOnce of a query that has the value in it.
func (s *kstoneStore) getConstant(ctx context.Context, id int64, r *Row) (err error) {
	*r, err = s.rows.Where(s.id.Eq(id)).First(ctx, s.db)
	return err
}

// load is the fastest way to a row.
func (s *kstoneStore) load(ctx context.Context, id int64, r *Row) error {
	r.ID = id
	return s.rows.Load(ctx, s.db, r)
}

func (s *kstoneStore) getCode(ctx context.Context, text string, r *Row) (err error) {
	*r, err = s.byCode.First(ctx, s.db, s.argCode.Is(text))
	return err
}

func (s *kstoneStore) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	return s.several(ctx, s.byAt, dst, s.argLo.Is(lo), s.argHi.Is(hi))
}

func (s *kstoneStore) firstBySeq(ctx context.Context, dst []Row, from int64, limit int) ([]Row,
	error) {
	return s.several(ctx, s.bySeq, dst, s.argLo.Is(from), s.argLimit.Is(limit))
}

func (s *kstoneStore) several(ctx context.Context, q *typed.Prepared[Row], dst []Row,
	bindings ...typed.Binding) ([]Row, error) {
	for v, err := range q.All(ctx, s.db, bindings...) {
		if err != nil {
			return dst, err
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// compare is a condition on a column, where the query is of values.
func (s *kstoneStore) compare(column int, op expr.Op, param int) expr.Expr {
	return expr.Cmp{Op: op, L: s.orders.Schema().Ref(0, column), R: expr.Param{Index: param}}
}

// Ordinals of columns.
const (
	colID     = 0
	colAt     = 2
	colAmount = 5
)

func (s *kstoneStore) where(e expr.Expr) *plan.Select {
	return &plan.Select{From: []plan.Source{{Table: s.orders.Schema()}}, Where: e}
}

func (s *kstoneStore) coveredQuery() *plan.Select {
	sel, t := s.where(expr.And{Terms: []expr.Expr{
		s.compare(colAt, expr.Ge, 0), s.compare(colAt, expr.Lt, 1)}}), s.orders.Schema()
	sel.OrderBy = []plan.Order{{Expr: t.Ref(0, colAt)}}
	sel.Columns = []plan.Output{{Expr: t.Ref(0, colAt)}, {Expr: t.Ref(0, colAmount)}}
	return sel
}

func (s *kstoneStore) rangeCovered(ctx context.Context, dst []pair, lo, hi int64) ([]pair,
	error) {
	rows, err := s.covered.Query(ctx, s.db, expr.Int(lo), expr.Int(hi))
	if err != nil {
		return dst, err
	}
	for row, err := range rows.All() {
		if err != nil {
			return dst, err
		}
		at, ok1 := row[0].AsInt()
		amount, ok2 := row[1].AsInt()
		if !ok1 || !ok2 {
			return dst, fmt.Errorf("columns of other types: %v", row)
		}
		dst = append(dst, pair{at, amount})
	}
	return dst, nil
}

// rowOf turns the columns of a row into a Row, which owns its texts.
func rowOf(v []expr.Value, r *Row) error {
	ok := len(v) == 8
	number := func(i int) int64 {
		n, is := v[i].AsInt()
		ok = ok && is
		return n
	}
	text := func(i int) string {
		s, is := v[i].AsString()
		ok = ok && is
		return strings.Clone(s)
	}
	if ok {
		*r = Row{number(colID), text(1), number(colAt), number(3), number(4), number(colAmount),
			text(6), text(7)}
	}
	if !ok {
		return fmt.Errorf("columns of other types: %v", v)
	}
	return nil
}
