package typed

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// A query that is built again each time, with other values, is prepared once: its constants
// become parameters, and it is kept under its shape in the DB's cache of plans. That is done with
// comparisons of columns only, which all must be true. All other queries, and those of a table
// with an index that has only some of the rows, which a constant may allow to be used, are
// prepared as they are.
//
// Why not the shape of the plan.Select that plan.Cache.Prepare finds: making one for the
// database costs more than many queries do (docs/decisions/0023).

// shape is a query without its constants.
type shape struct {
	key       []byte
	constants []expr.Value // in their order
}

// reset returns the shape's memory, and nothing else of it.
func (s *shape) reset() shape {
	clear(s.constants)
	return shape{s.key[:0], s.constants[:0]}
}

// Tags of what a key is made of.
const (
	tagConstant = iota
	tagParam
	tagCmp
	tagBetween
	tagNull
	tagOrder
	tagLimit
	tagOffset
)

// of sets the shape to that of a query, whatever its constants are. It reports
// whether shapes like it are kept.
func (s *shape) of(where []expr.Expr, limit, offset expr.Expr, index string,
	b *binding) (ok bool) {
	s.key = binary.AppendUvarint(append(s.key, plan.KeyOfStructs), b.id)
	for _, e := range where {
		if !s.term(e, b) {
			return false
		}
	}
	s.text(index)
	return s.count(tagLimit, limit) && s.count(tagOffset, offset)
}

// order adds a term of ORDER BY.
func (s *shape) order(o plan.Order) bool {
	s.key = append(s.key, tagOrder, flags(o.Desc, o.NullsLast))
	return s.column(o.Expr)
}

func flags(desc, nullsLast bool) (f byte) {
	if desc {
		f = 1
	}
	if nullsLast {
		f |= 2
	}
	return f
}

func (s *shape) int(n int) { s.key = binary.AppendVarint(s.key, int64(n)) }

func (s *shape) text(t string) {
	s.int(len(t))
	s.key = append(s.key, t...)
}

// term adds a term of WHERE.
func (s *shape) term(e expr.Expr, b *binding) bool {
	switch e := e.(type) {
	case expr.And:
		for _, t := range e.Terms {
			if !s.term(t, b) {
				return false
			}
		}
		return true
	case expr.Cmp:
		s.key = append(s.key, tagCmp, byte(e.Op))
		return s.column(e.L) && s.operand(e.L, e.R, b)
	case expr.Between:
		s.key = append(s.key, tagBetween)
		return !e.Not && s.column(e.X) && s.operand(e.X, e.Lo, b) &&
			s.operand(e.X, e.Hi, b)
	case expr.IsNull:
		s.key = append(s.key, tagNull, flags(e.Not, false))
		return s.column(e.X)
	}
	return false
}

func (s *shape) column(e expr.Expr) bool {
	c, ok := e.(expr.Column)
	s.int(c.Ordinal)
	return ok
}

// operand adds what a column is compared with. Constants are numbered by their order.
func (s *shape) operand(column, e expr.Expr, b *binding) bool {
	switch e := e.(type) {
	case expr.Const:
		ordinal := b.ordinals[column.(expr.Column).Ordinal]
		if e.IsNull() || len(s.constants) == mostConstants || b.partial.Has(ordinal) {
			return false
		}
		s.key = append(s.key, tagConstant, byte(e.Kind()))
		s.constants = append(s.constants, e.Value)
		return true
	case expr.Param:
		s.key = append(s.key, tagParam)
		s.text(e.Name)
		return true
	}
	return false
}

// count adds LIMIT or OFFSET. A constant is part of the shape: plans depend on it, and there
// are not many.
func (s *shape) count(tag byte, e expr.Expr) bool {
	if e == nil {
		return true
	}
	s.key = append(s.key, tag)
	switch e := e.(type) {
	case expr.Const:
		n, ok := e.AsInt()
		s.int(int(n))
		return ok
	case expr.Param:
		s.int(-1)
		s.text(e.Name)
		return true
	}
	return false
}

// constantName is the name of the parameter that stands for constant i. No Arg has it.
func constantName(i int) string { return string([]byte{0, byte(i >> 8), byte(i)}) }

// constantOf is the opposite of constantName; ok is false for the names of others.
func constantOf(name string) (i int, ok bool) {
	if len(name) != 3 || name[0] != 0 {
		return 0, false
	}
	return int(name[1])<<8 | int(name[2]), true
}

// mostConstants bounds the constants that become parameters.
const mostConstants = 1000

// parameterise returns terms with their constants replaced by parameters.
func parameterise(terms []expr.Expr) []expr.Expr {
	n := 0
	out := make([]expr.Expr, len(terms))
	for i, t := range terms {
		out[i] = expr.Map(t, func(e expr.Expr) expr.Expr {
			if _, ok := e.(expr.Const); !ok {
				return e
			}
			n++
			return expr.Param{Index: unnumbered, Name: constantName(n - 1)}
		})
	}
	return out
}

// planned returns a plan of the query and sets the values of its parameters in x: one that is
// kept, if the query is of a shape that is.
func (q *Query[T]) planned(x *run[T], r table.Reader, bindings []Binding) (*preparedFor, error) {
	b, err := q.table.bind(r.DB())
	if err != nil {
		return nil, err
	}
	f, err := q.known(x, b)
	if f == nil && err == nil {
		f, err = q.preparedOn(b)
	}
	if err == nil {
		x.params, err = f.args.values(x.params, bindings, x.shape.constants)
	}
	return f, err
}

// known returns the plan that is kept for queries like this one, nil if none are kept.
func (q *Query[T]) known(x *run[T], b *binding) (*preparedFor, error) {
	if q.page || q.distinct || hinted(&q.hints) ||
		!x.shape.of(q.where, q.limit, q.offset, q.index, b) {
		return nil, nil
	}
	for _, t := range q.order {
		if !x.shape.order(t.order()) {
			return nil, nil
		}
	}
	plans := b.table.DB().Plans()
	if f, ok := plans.Get(x.shape.key).(*preparedFor); ok {
		return f, nil
	}
	g := *q // with parameters in place of its constants
	g.where = parameterise(q.where)
	f, err := g.preparedOn(b)
	if err == nil {
		plans.Keep(x.shape.key, f)
	}
	return f, err
}

func hinted(h *plan.Hints) bool {
	return h.Index != nil || h.NoIndex || h.RefuseFullScan || h.ForceOrder || h.ForceJoin != ""
}
