package logical

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
)

// Shape writes a query without the values of parameters, so that equal bytes mean equal
// plans. It is not stored; only cursors hold a checksum of it, which new versions may
// change: then they are refused.
type Shape struct {
	b []byte
	// keyed is set for keys in a cache. Without it a table is that of any version, and neither
	// tables nor columns of results have names.
	keyed bool
	stats stats.Source // of keys; nil: nothing is known
	// literals are the values that are left out.
	literals literals
}

var shapes = sync.Pool{New: func() any { return new(Shape) }}

// KeyOf returns the shape of a query as its key in a cache. The caller releases it.
func KeyOf(sel *Select, known stats.Source) *Shape {
	s := shapes.Get().(*Shape)
	s.key(nil, sel, known)
	return s
}

func (s *Shape) key(mark []byte, sel *Select, known stats.Source) {
	s.b, s.keyed, s.stats = append(s.b[:0], mark...), true, known
	s.query(sel, true)
}

// Bytes returns the key, until Release.
func (s *Shape) Bytes() []byte { return s.b }

// Release gives the memory back.
func (s *Shape) Release() {
	s.stats = nil
	clear(s.literals.values)
	s.literals = literals{values: s.literals.values[:0]}
	if cap(s.b) <= spans.MaxKeptScratch {
		shapes.Put(s)
	}
}

func (s *Shape) int(n int) { s.b = binary.AppendVarint(s.b, int64(n)) }

func (s *Shape) text(t string) {
	s.int(len(t))
	s.b = append(s.b, t...)
}

func (s *Shape) label(t string) {
	if s.keyed {
		s.text(t)
	}
}

func (s *Shape) bool(b bool) {
	if b {
		s.int(1)
	} else {
		s.int(0)
	}
}

// expr writes a tree, the root first.
func (s *Shape) expr(e expr.Expr) {
	if e == nil {
		s.int(0)
		return
	}
	s.text(nameOf(e))
	switch e := e.(type) {
	case expr.Const:
		s.b = expr.AppendValue(s.b, e.Value)
	case expr.Param:
		s.int(e.Index)
		s.int(int(e.Collation))
	case expr.Column:
		s.int(e.Source)
		s.int(e.Ordinal)
		if e.Source == Unresolved {
			s.text(e.Table)
			s.text(e.Name)
		}
	case expr.Slot:
		s.int(e.I)
	case expr.Agg:
		s.int(e.Index)
	case expr.Cmp:
		s.int(int(e.Op))
		s.operands(e.L, e.R)
		return
	case expr.In:
		s.bool(e.Not)
	case expr.Between:
		s.bool(e.Not)
	case expr.Like:
		s.bool(e.Not)
		s.bool(e.Fold)
		s.int(int(e.Escape))
	case expr.IsDistinct:
		s.bool(e.Not)
	case expr.Cast:
		s.text(e.To.String())
	case expr.Case:
		s.bool(e.X != nil)
	case expr.IsNull:
		s.bool(e.Not)
		s.operands(e.X)
		return
	case expr.Arith:
		s.int(int(e.Op))
	case expr.Func:
		s.text(e.Name)
	case expr.Subquery:
		s.int(int(e.Kind))
		if sel, ok := e.Query.(*Select); ok && sel != nil {
			s.query(sel, true)
		}
	}
	var room [4]expr.Expr
	s.operands(expr.AppendChildren(room[:0], e)...)
}

func (s *Shape) operands(list ...expr.Expr) {
	s.int(len(list))
	for _, c := range list {
		s.expr(c)
	}
}

// where writes the condition of a query without its literals.
func (s *Shape) where(e expr.Expr) {
	if combines(e) {
		s.text(nameOf(e))
		var room [4]expr.Expr
		terms := expr.AppendChildren(room[:0], e)
		s.int(len(terms))
		for _, t := range terms {
			s.where(t)
		}
		return
	}
	c, compares := e.(expr.Cmp)
	if !compares || !s.literals.take(c) {
		s.expr(e)
		return
	}
	s.int(leftOut)
	s.int(int(c.Op))
	s.expr(c.L)
}

// leftOut begins a comparison with a value that is left out: no name has that length.
const leftOut = -1

// nameOf returns the name of the type of a node; frequent ones do without
// reflection.
func nameOf(e expr.Expr) string {
	switch e.(type) {
	case expr.Column:
		return "Column"
	case expr.Param:
		return "Param"
	case expr.Const:
		return "Const"
	case expr.Cmp:
		return "Cmp"
	case expr.And:
		return "And"
	case expr.Or:
		return "Or"
	case expr.IsNull:
		return "IsNull"
	case expr.In:
		return "In"
	case expr.Not:
		return "Not"
	case expr.Between:
		return "Between"
	case expr.Arith:
		return "Arith"
	}
	return fmt.Sprintf("%T", e)[len("expr."):]
}

// query writes a query; cuts says whether what only cuts the result matters. What is no
// expression comes first, with the number of the expressions of each kind.
func (s *Shape) query(sel *Select, cuts bool) {
	s.int(len(sel.From))
	for _, f := range sel.From {
		if s.bool(f.Table != nil); f.Table != nil {
			s.table(f.Table)
		}
		s.label(f.Alias)
		s.int(len(f.Queries))
		for _, inner := range f.Queries {
			s.query(inner, true)
		}
	}
	for _, j := range sel.Joins {
		s.int(int(j.Kind))
	}
	s.int(len(sel.GroupBy))
	s.int(len(sel.Aggregates))
	for _, a := range sel.Aggregates {
		s.int(int(a.Func))
		s.bool(a.Distinct)
		s.int(int(a.Collation))
		s.terms(a.Order)
	}
	s.bool(sel.Columns == nil)
	s.int(len(sel.Columns))
	for _, o := range sel.Columns {
		s.label(o.Name)
	}
	s.bool(sel.Distinct)
	s.terms(sel.OrderBy)
	s.bool(sel.RowKeys)
	sel.rowPlaces(func(e *expr.Expr) {
		if sel == s.literals.of && e == &sel.Where {
			s.where(*e)
			return
		}
		s.expr(*e)
	})
	if cuts {
		s.expr(sel.Limit)
		s.expr(sel.Offset)
		s.bool(sel.Page || sel.After != nil)
		s.hints(&sel.Hints)
	}
}

// table writes a table and what else a plan depends on: the version of its definition, and the
// epoch of its statistics.
func (s *Shape) table(t *schema.Table) {
	s.int(int(t.ID))
	if !s.keyed {
		return
	}
	s.text(t.Name)
	s.int(int(t.Version))
	for _, x := range t.Indexes {
		s.int(int(x.ID))
		s.int(int(x.State))
	}
	if s.stats == nil {
		return
	}
	if st := s.stats.Table(t); st != nil {
		s.int(int(st.Epoch))
	}
}

// terms writes what ORDER BY says beside its expressions.
func (s *Shape) terms(order []operator.Order) {
	s.int(len(order))
	for _, o := range order {
		s.bool(o.Desc)
		s.bool(o.NullsLast)
	}
}

func (s *Shape) hints(h *Hints) {
	if len(h.Index) > 0 {
		for _, source := range slices.Sorted(maps.Keys(h.Index)) {
			s.int(source)
			s.text(h.Index[source])
		}
	}
	s.bool(h.NoIndex)
	s.bool(h.RefuseFullScan)
	s.bool(h.ForceOrder)
	s.text(h.ForceJoin)
}

// Fingerprint is what binds a cursor to its query and to its order: everything but how much is
// returned. Names do not count: a table that is renamed between two pages has the same rows.
func Fingerprint(sel *Select, total []operator.Order) uint32 {
	var s Shape
	s.query(sel, false)
	s.terms(total)
	for _, o := range total {
		s.expr(o.Expr)
	}
	return crc32.Checksum(s.b, castagnoli)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
