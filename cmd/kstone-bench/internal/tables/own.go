package tables

import (
	"errors"
	"math/rand/v2"

	core "github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// Contestants where kstone is compared with itself.
const (
	caseOwn     = "point get by primary key"
	ownRaw      = "Get and decode"
	ownLoad     = "struct, Load"
	ownPrepared = "struct, prepared"
	ownOnce     = "struct, not prepared"
	ownConstant = "struct, not prepared, a constant"
	valTable    = "values, Table.Get"
	valPrepared = "values, prepared"
	valOnce     = "values, not prepared"
)

// own compares ways to read a row by its primary key: what the engine and the codec of rows
// take at least, and what is above them.
func (b *bench) own(s *kstoneStore) error {
	raw := rawGetter{t: s.orders.Schema(), db: s.engine}
	raw.row = raw.t.Row()
	all := raw.t.All()
	prepared, err := s.db.Prepare(s.where(s.compare(colID, expr.Eq, 0)))
	if err != nil {
		return err
	}
	var row Row
	only := func(rows *table.Rows, err error) error {
		if err != nil {
			return err
		}
		for v, err := range rows.All() {
			if err = errors.Join(err, rowOf(v, &row)); err != nil {
				return err
			}
		}
		return nil
	}
	ways := []struct {
		name string
		get  func(id int64) error
	}{
		{ownRaw, func(id int64) error { return raw.get(id, &all, &row) }},
		{ownLoad, func(id int64) error { return s.load(b.ctx, id, &row) }},
		{ownPrepared, func(id int64) error { return s.get(b.ctx, id, &row) }},
		{ownOnce, func(id int64) error { return s.getOnce(b.ctx, id, &row) }},
		{ownConstant, func(id int64) error { return s.getConstant(b.ctx, id, &row) }},
		{valTable, func(id int64) error {
			v, err := s.orders.Get(b.ctx, expr.Int(id))
			if err != nil {
				return err
			}
			return rowOf(v, &row)
		}},
		{valPrepared, func(id int64) error {
			return only(prepared.Query(b.ctx, s.db, expr.Int(id)))
		}},
		{valOnce, func(id int64) error {
			return only(s.db.Query(b.ctx, s.where(s.compare(colID, expr.Eq, 0)), id))
		}},
	}
	for round := range b.Repeat * ownRounds {
		err := b.turns(round, len(ways), func(i int) entry {
			rnd := rand.New(rand.NewPCG(uint64(round), 1))
			return entry{groupOwn, caseOwn, ways[i].name, 1, 1, b.Short, func(int) error {
				id := 1 + rnd.Int64N(b.data.n)
				err := ways[i].get(id)
				return differs(err, row.ID, id)
			}}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rawGetter reads rows with the engine and the codec alone. It keeps its memory.
type rawGetter struct {
	db        *core.DB
	t         *schema.Table
	key       [1]expr.Value
	pk, value []byte
	row       []expr.Value
}

func (r *rawGetter) get(id int64, all *schema.ColumnSet, dst *Row) (err error) {
	r.key[0] = expr.Int(id)
	if r.pk, err = r.t.AppendPK(r.pk[:0], r.key[:]...); err != nil {
		return err
	}
	if r.value, err = r.db.AppendGet(r.value[:0], core.Key{PK: r.pk}); err != nil {
		return err
	}
	if err = r.t.Decode(r.row, keycodec.Key{PK: r.pk}, r.value, all); err != nil {
		return err
	}
	return rowOf(r.row, dst)
}

// spanCase is a predicate over two columns of integers.
type spanCase struct {
	name   string
	pred   expr.Expr
	params int
	spans  int
}

// spanCases are the mixes that the target is about, and a longer list.
func spanCases() []spanCase {
	col := func(i int) expr.Expr { return expr.Column{Ordinal: i, Name: string(rune('a' + i))} }
	cmp := func(i int, op expr.Op, param int) expr.Expr {
		return expr.Cmp{Op: op, L: col(i), R: expr.Param{Index: param}}
	}
	and := func(terms ...expr.Expr) expr.Expr { return expr.And{Terms: terms} }
	or := func(terms ...expr.Expr) expr.Expr { return expr.Or{Terms: terms} }
	in := expr.In{X: col(0)}
	for i := range 10 {
		in.List = append(in.List, expr.Param{Index: i})
	}
	return []spanCase{
		{"a = ?", cmp(0, expr.Eq, 0), 1, 1},
		{"a = ? AND b >= ? AND b < ?", and(cmp(0, expr.Eq, 0), cmp(1, expr.Ge, 1),
			cmp(1, expr.Lt, 2)), 3, 1},
		{"((a = ? AND b = ?) OR a = ?) AND b >= ?", and(or(and(cmp(0, expr.Eq, 0),
			cmp(1, expr.Eq, 1)), cmp(0, expr.Eq, 2)), cmp(1, expr.Ge, 3)), 4, 1},
		{"a = ? OR a > ? AND a < ?", or(cmp(0, expr.Eq, 0), and(cmp(0, expr.Gt, 1),
			cmp(0, expr.Lt, 2))), 3, 2},
		{spansLong, in, 10, 10},
	}
}

// spansLong is beyond what the target is about.
const spansLong = "a IN (10 values)"

// spans measures how long the spans of a prepared query take.
func (b *bench) spans() error {
	key := spans.Key{Ordinals: []int{0, 1}, Fields: []keycodec.Field{
		{Name: "a", Type: keycodec.TypeInt64}, {Name: "b", Type: keycodec.TypeInt64}}}
	cases := spanCases()
	templates := make([]*spans.Template, len(cases))
	builders := make([]spans.Builder, len(cases))
	for i, c := range cases {
		templates[i] = spans.Compile(key, spans.Normalise(c.pred))
	}
	params := make([]expr.Value, 10)
	for round := range b.Repeat * ownRounds {
		err := b.turns(round, len(cases), func(i int) entry {
			c, n := cases[i], int64(0)
			return entry{groupSpans, c.name, subject, 1, 1, b.Short, func(int) error {
				n++
				for j := range c.params {
					params[j] = expr.Int(n + 10*int64(j))
				}
				s := builders[i].Build(templates[i], params[:c.params], 0)
				return differs(nil, len(s.Spans), c.spans)
			}}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
