package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	core "github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

const kstoneTuning = "Rows are structs, queries those of package table; the index over `seq` has " +
	"16 buckets, that over `at` includes `amount`. Defaults, but for the budgets."

// Ordinals of the columns.
const (
	colID = iota
	colCode
	colAt
	colSeq
	colCustomer
	colAmount
	colStatus
	colNote
)

// seqBuckets is the number of buckets of the index over seq.
const seqBuckets = 16

type kstoneStore struct {
	engine *core.DB
	db     *table.DB
	orders *table.Table
}

func openKstone(ctx context.Context, s settings) (store, error) {
	durability := core.Process
	if s.sync {
		durability = core.Sync
	}
	return openKstoneTable(ctx, s.dir, durability, kstoneSchema(s.indexes, seqBuckets))
}

func openKstoneTable(ctx context.Context, dir string, durability core.Durability,
	def *schema.Table) (*kstoneStore, error) {
	e, err := core.Open(dir, &core.Options{Durability: durability, MemtableBytes: bufferBytes,
		CacheBytes: cacheBytes})
	if err != nil {
		return nil, err
	}
	s := &kstoneStore{engine: e}
	if s.db, err = table.Open(ctx, e, nil); err == nil {
		s.orders, err = s.db.CreateTable(ctx, def)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// kstoneSchema returns the definition of the table with 0, 1 or 3 indexes. That over seq has
// so many buckets; 0 means that it is not sharded.
func kstoneSchema(indexes, buckets int) *schema.Table {
	key := func(ordinal int) []schema.IndexColumn {
		return []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: ordinal}}}
	}
	def := &schema.Table{Name: "orders", PK: []schema.KeyColumn{{Ordinal: colID}},
		Columns: []schema.Column{
			{Name: "id", Type: keycodec.TypeInt64}, {Name: "code", Type: keycodec.TypeString},
			{Name: "at", Type: keycodec.TypeInt64}, {Name: "seq", Type: keycodec.TypeInt64},
			{Name: "customer", Type: keycodec.TypeInt64},
			{Name: "amount", Type: keycodec.TypeInt64},
			{Name: "status", Type: keycodec.TypeString}, {Name: "note", Type: keycodec.TypeString},
		}}
	all := []*schema.Index{
		{Name: "by_at", Columns: key(colAt), Include: []int{colAmount}},
		{Name: "by_code", Columns: key(colCode), Unique: true},
		kstoneSeqIndex(buckets),
	}
	def.Indexes = all[:indexes]
	return def
}

func kstoneSeqIndex(buckets int) *schema.Index {
	x := &schema.Index{Name: "by_seq",
		Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: colSeq}}}}
	if buckets > 0 {
		x.Shard = shard.Spec{Function: shard.Mix64, Count: buckets}
	}
	return x
}

func (s *kstoneStore) insert(ctx context.Context, rows []Row) error {
	if len(rows) == 1 {
		r := kstoneRow(rows[0])
		return orders.Insert(ctx, s.db, &r)
	}
	structs := make([]kstoneRow, len(rows))
	for i, r := range rows {
		structs[i] = kstoneRow(r)
	}
	n, err := orders.InsertMany(ctx, s.db, structs)
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

// kstoneSession reads rows of values with prepared queries.
type kstoneSession struct {
	*kstoneStore
	byID, byCode, byAt, covered, bySeq *table.Prepared
}

func (s *kstoneStore) session(context.Context) (session, error) {
	k, err := s.values()
	return typedSession{k}, err
}

// values returns what reads rows of values.
func (s *kstoneStore) values() (*kstoneSession, error) {
	k := &kstoneSession{kstoneStore: s}
	var errs []error
	prepare := func(sel *plan.Select) *table.Prepared {
		p, err := s.db.Prepare(sel)
		errs = append(errs, err)
		return p
	}
	k.byID = prepare(s.where(s.equal(colID)))
	k.byCode = prepare(s.where(s.equal(colCode)))
	k.byAt = prepare(s.rangeQuery())
	k.covered = prepare(s.coveredQuery())
	k.bySeq = prepare(s.firstQuery())
	return k, errors.Join(errs...)
}

// where selects the whole rows that satisfy a condition.
func (s *kstoneStore) where(e expr.Expr) *plan.Select {
	return &plan.Select{From: []plan.Source{{Table: s.orders.Schema()}}, Where: e}
}

func (s *kstoneStore) equal(ordinal int) expr.Expr { return s.compare(ordinal, expr.Eq, 0) }

func (s *kstoneStore) compare(ordinal int, op expr.Op, param int) expr.Expr {
	return expr.Cmp{Op: op, L: s.orders.Schema().Ref(0, ordinal), R: expr.Param{Index: param}}
}

func (s *kstoneStore) rangeQuery() *plan.Select {
	sel := s.where(expr.And{Terms: []expr.Expr{
		s.compare(colAt, expr.Ge, 0), s.compare(colAt, expr.Lt, 1)}})
	sel.OrderBy = []plan.Order{{Expr: s.orders.Schema().Ref(0, colAt)}}
	return sel
}

func (s *kstoneStore) coveredQuery() *plan.Select {
	sel, t := s.rangeQuery(), s.orders.Schema()
	sel.Columns = []plan.Output{{Expr: t.Ref(0, colAt)}, {Expr: t.Ref(0, colAmount)}}
	return sel
}

func (s *kstoneStore) firstQuery() *plan.Select {
	sel := s.where(s.compare(colSeq, expr.Ge, 0))
	sel.OrderBy = []plan.Order{{Expr: s.orders.Schema().Ref(0, colSeq)}}
	sel.Limit = expr.Param{Index: 1}
	return sel
}

func (k *kstoneSession) get(ctx context.Context, id int64, r *Row) error {
	return k.one(ctx, k.byID, r, expr.Int(id))
}

// getOnce describes the query again, as an ad-hoc query is.
func (k *kstoneSession) getOnce(ctx context.Context, id int64, r *Row) error {
	rows, err := k.db.Query(ctx, k.where(k.equal(colID)), id)
	if err != nil {
		return err
	}
	return only(rows, r)
}

func (k *kstoneSession) getCode(ctx context.Context, code string, r *Row) error {
	return k.one(ctx, k.byCode, r, expr.String(code))
}

func (k *kstoneSession) one(ctx context.Context, p *table.Prepared, r *Row,
	params ...expr.Value) error {
	rows, err := p.Query(ctx, k.db, params...)
	if err != nil {
		return err
	}
	return only(rows, r)
}

// only reads the one row of a result.
func only(rows *table.Rows, r *Row) error {
	found := false
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		found = true
		if err := rowOf(row, r); err != nil {
			return err
		}
	}
	if !found {
		return table.ErrNotFound
	}
	return nil
}

// rowOf turns the columns of a row into a Row, which owns its texts.
func rowOf(v []expr.Value, r *Row) error {
	if len(v) != colNote+1 {
		return fmt.Errorf("a row of %d columns", len(v))
	}
	ok := true
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
	*r = Row{number(colID), text(colCode), number(colAt), number(colSeq), number(colCustomer),
		number(colAmount), text(colStatus), text(colNote)}
	if !ok {
		return fmt.Errorf("columns of other types: %v", v)
	}
	return nil
}

func (k *kstoneSession) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	return k.several(ctx, k.byAt, dst, expr.Int(lo), expr.Int(hi))
}

func (k *kstoneSession) firstBySeq(ctx context.Context, dst []Row, from int64,
	limit int) ([]Row, error) {
	return k.several(ctx, k.bySeq, dst, expr.Int(from), expr.Int(int64(limit)))
}

func (k *kstoneSession) several(ctx context.Context, p *table.Prepared, dst []Row,
	params ...expr.Value) ([]Row, error) {
	rows, err := p.Query(ctx, k.db, params...)
	if err != nil {
		return dst, err
	}
	for row, err := range rows.All() {
		if err != nil {
			return dst, err
		}
		dst = slices.Grow(dst, 1)[:len(dst)+1]
		if err := rowOf(row, &dst[len(dst)-1]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (k *kstoneSession) rangeCovered(ctx context.Context, dst []pair,
	lo, hi int64) ([]pair, error) {
	rows, err := k.covered.Query(ctx, k.db, expr.Int(lo), expr.Int(hi))
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

// explain returns the plans of the queries.
func (k *kstoneSession) explain() (map[string]string, error) {
	plans := map[string]string{}
	var errs []error
	for name, q := range map[string]struct {
		p      *table.Prepared
		params []expr.Value
	}{
		"byCode":  {k.byCode, []expr.Value{expr.String("A")}},
		"byAt":    {k.byAt, []expr.Value{expr.Int(1), expr.Int(20)}},
		"covered": {k.covered, []expr.Value{expr.Int(1), expr.Int(20)}},
		"bySeq":   {k.bySeq, []expr.Value{expr.Int(1), expr.Int(10)}},
	} {
		e, err := q.p.Explain(k.db, q.params...)
		if errs = append(errs, err); err == nil {
			plans[name] = e.String()
		}
	}
	return plans, errors.Join(errs...)
}

func (k *kstoneSession) close() error { return nil }
