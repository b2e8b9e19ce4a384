package table

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// shapes counts the queries that were run, by their shape.
type shapes struct {
	most int

	mu  sync.Mutex
	all []*shape
	by  map[uint64]*shape // all, by the IDs of their plans
}

// shape is what is known about the executions of one prepared query. Why it has a copy of the query
// and not the plan: it stays when the plan, with all that this was made of, is dropped.
type shape struct {
	sel   plan.Select
	count atomic.Int64
	// What executions have scanned and returned beyond one each. Why: most short ones are of one
	// row, and each addition costs a fiftieth of a point.
	scanned, returned atomic.Int64
}

// of returns the shape of a query, nil if there are too many already.
func (s *shapes) of(c *compiled) *shape {
	if s.most <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := c.plan.ID()
	if one := s.by[key]; one != nil || len(s.all) >= s.most {
		return one
	}
	one := &shape{sel: *c.sel}
	one.sel.Position = nil // it has the text and its tree
	if s.all = append(s.all, one); s.by == nil {
		s.by = map[uint64]*shape{}
	}
	s.by[key] = one
	return one
}

func addBeyondOne(to *atomic.Int64, n int64) {
	if n != 1 {
		to.Add(n - 1)
	}
}

// finished counts an execution and logs it if it was slow.
func (r *Rows) finished(start time.Time, err error) {
	scanned := max(r.returned, r.read)
	if r.ran != nil {
		scanned = keysRead(r.ran.Root)
	}
	if s := r.compiled.shape; s != nil {
		s.count.Add(1)
		addBeyondOne(&s.scanned, scanned)
		addBeyondOne(&s.returned, r.returned)
	}
	db := r.prepared.db
	if db.opt.SlowQuery <= 0 {
		return
	}
	took := db.opt.Clock().Sub(start)
	if took < db.opt.SlowQuery {
		return
	}
	attrs := []slog.Attr{
		slog.Duration("time", took), slog.String("query", Shape(r.compiled.sel)),
		slog.Int64("rows", r.returned), slog.Int64("read", scanned),
	}
	if db.opt.LogValues {
		attrs = append(attrs, slog.String("values", join(r.request.Params)))
		if r.ran != nil {
			attrs = append(attrs, slog.String("plan", r.ran.ExplainAnalyze().String()))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	db.opt.Logger.LogAttrs(r.ctx, slog.LevelWarn, "slow query", attrs...)
}

// keysRead adds up the entries and rows that the steps of a plan have read.
func keysRead(n plan.Node) int64 {
	read := int64(0)
	if a := n.Actual(); a != nil {
		read = a.Keys
	}
	for _, c := range n.Children() {
		read += keysRead(c)
	}
	return read
}

// Shape returns a query in words like those of SQL, with a question mark for every value,
// so that it can be logged.
func Shape(sel *plan.Select) string {
	sel = sel.MapExprs(withoutValues)
	var b strings.Builder
	b.WriteString("SELECT ")
	if sel.Distinct {
		b.WriteString("DISTINCT ")
	}
	list := func(before string, n int, item func(i int) string) {
		for i := range n {
			if i > 0 {
				before = ", "
			}
			b.WriteString(before + item(i))
		}
	}
	if len(sel.Columns) == 0 {
		b.WriteString("*")
	}
	list("", len(sel.Columns), func(i int) string { return sel.Columns[i].Expr.String() })
	for i, s := range sel.From {
		switch {
		case i == 0:
			b.WriteString(" FROM " + s.Name())
		case sel.Joins[i-1].On == nil:
			fmt.Fprintf(&b, " %s JOIN %s", sel.Joins[i-1].Kind, s.Name())
		default:
			fmt.Fprintf(&b, " %s JOIN %s ON %s", sel.Joins[i-1].Kind, s.Name(), sel.Joins[i-1].On)
		}
	}
	clause := func(name string, e expr.Expr) {
		if e != nil {
			b.WriteString(name + e.String())
		}
	}
	clause(" WHERE ", sel.Where)
	list(" GROUP BY ", len(sel.GroupBy), func(i int) string { return sel.GroupBy[i].String() })
	clause(" HAVING ", sel.Having)
	list(" ORDER BY ", len(sel.OrderBy), func(i int) string {
		if sel.OrderBy[i].Desc {
			return sel.OrderBy[i].Expr.String() + " DESC"
		}
		return sel.OrderBy[i].Expr.String()
	})
	clause(" LIMIT ", sel.Limit)
	clause(" OFFSET ", sel.Offset)
	return b.String()
}

// hidden stands for a value.
type hiddenQuery struct{ sel *plan.Select }

// String implements fmt.Stringer.
func (h hiddenQuery) String() string { return Shape(h.sel) }

func withoutValues(e expr.Expr) expr.Expr {
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		switch x := x.(type) {
		case expr.Const:
			return expr.Slot{Name: "?"}
		case expr.Like:
			x.Escape = 0
			return x
		case expr.Subquery:
			if inner, ok := x.Query.(*plan.Select); ok && inner != nil {
				return expr.Subquery{Query: hiddenQuery{inner}, Kind: x.Kind}
			}
		}
		return x
	})
}
