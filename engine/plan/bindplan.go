package plan

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// binder turns the nodes of a Prepared, which are shared and not changed, into those of a
// Plan. It belongs to one call of Bind.
type binder struct {
	opt    *Options
	params []expr.Value
	// values is from where on parameters are those of subqueries; pending says that these
	// are not known yet.
	values  int
	pending bool
	// lists says that a parameter is a list of values for an IN, listed that one of the caller's
	// is.
	lists, listed bool
	// arguments are parameters that have other values in another run of the same plan.
	arguments map[int]bool
	// order and after are the order of the query and the values of a cursor in it, nil
	// without one.
	order []Order
	after []expr.Value
	// never says that a term without columns is not true.
	never   bool
	builder *spans.Builder
}

// expr returns an expression with parameters that are lists spelled out.
func (b *binder) expr(e expr.Expr) expr.Expr {
	if !b.lists {
		return e
	}
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		switch x := x.(type) {
		case expr.In:
			var items []expr.Expr
			for _, item := range x.List {
				items = b.spellOut(items, item)
			}
			return expr.In{X: x.X, List: items, Not: x.Not}
		case expr.Cmp: // of a list of one item
			if _, ok := spans.IsList(x.R); ok {
				return expr.In{X: x.L, List: b.spellOut(nil, x.R), Not: x.Op == expr.Ne}
			}
		}
		return x
	})
}

// spellOut appends an item of a list, which may be a parameter that is a list itself.
func (b *binder) spellOut(items []expr.Expr, item expr.Expr) []expr.Expr {
	p, ok := spans.IsList(item)
	if !ok {
		if p, ok = item.(expr.Param); !ok {
			return append(items, item)
		}
	}
	if p.Index >= len(b.params) || b.pending && p.Index >= b.values || b.arguments[p.Index] {
		return append(items, p)
	}
	v := b.params[p.Index]
	if v.Kind() != expr.KindList {
		return append(items, expr.Const{Value: v})
	}
	for e := range v.Elements() {
		items = append(items, expr.Const{Value: e})
	}
	return items
}

func (b *binder) exprs(list []expr.Expr) []expr.Expr {
	if !b.lists {
		return list
	}
	out := make([]expr.Expr, len(list))
	for i, e := range list {
		out[i] = b.expr(e)
	}
	return out
}

func (b *binder) keys(list []Order) []Order {
	if !b.lists {
		return list
	}
	out := make([]Order, len(list))
	for i, k := range list {
		k.Expr = b.expr(k.Expr)
		out[i] = k
	}
	return out
}

// isPending says whether an expression needs the value of a subquery that has not run.
func (b *binder) isPending(terms []expr.Expr) bool {
	return b.pending && hasResolved(terms, b.values)
}

// countOf evaluates LIMIT or OFFSET; def is what NULL and none mean.
func countOf(e expr.Expr, params []expr.Value, name string, def int64) (int64, error) {
	var v expr.Value
	param := 0
	switch x := e.(type) {
	case nil:
		return def, nil
	case expr.Const:
		v = x.Value
	default:
		var err error
		if p, ok := e.(expr.Param); ok && p.Index < len(params) {
			v, param = params[p.Index], p.Index+1
		} else if v, err = expr.Eval(e, nil, params); err != nil {
			return 0, fmt.Errorf("plan: %s: %w", name, err)
		}
	}
	if v.IsNull() {
		return def, nil
	}
	n, ok := v.AsInt()
	if !ok || n < 0 {
		return 0, aboutParam(param, "%s is %s, not a whole number from 0 on", name, v)
	}
	return n, nil
}

// Operators of a Prepared that those of a Plan are made of.
type (
	// gate is a condition without columns, which Bind decides.
	gate struct{ Filter }
	// resume marks the place for the terms that a cursor stands for; keys are the terms of
	// the order, over slots.
	resume struct {
		Filter
		keys []expr.Expr
	}
	// limit is a Limit whose numbers are not known yet.
	limit struct {
		Limit
		count, offset expr.Expr
	}
)

// over is what an operator with one input has.
func over(s operator.Step, input Node) operator.Unary {
	return operator.Unary{Step: s, Input: input}
}

// bind returns the operator of a plan for the operator of a Prepared.
func (b *binder) bind(n Node) (Node, error) {
	switch n := n.(type) {
	case *path:
		return b.access(n)
	case *gate:
		return b.gate(n)
	case *resume:
		return b.resume(n)
	case *limit:
		return b.limit(n)
	case *OneRow:
		return b.noneIfNever(&OneRow{Step: n.Step}, n.Step), nil
	case *Union:
		return b.union(n)
	case *Intersect:
		in, err := bindAll(b, n.Inputs)
		return &Intersect{Step: n.Step, Inputs: in}, err
	case *Filter:
		in, err := b.input(&n.Unary)
		return &Filter{Unary: in, Pred: b.expr(n.Pred)}, err
	case *Project:
		in, err := b.input(&n.Unary)
		return &Project{Unary: in, Exprs: b.exprs(n.Exprs)}, err
	case *Sort:
		return b.sort(n)
	case *Group:
		return b.group(n)
	case *Distinct:
		in, err := b.input(&n.Unary)
		return &Distinct{Unary: in, Mode: n.Mode, Columns: n.Columns,
			Collations: n.Collations}, err
	case *Fetch:
		in, err := b.input(&n.Unary)
		return &Fetch{Unary: in, Source: n.Source, Filter: b.expr(n.Filter)}, err
	case *Derived:
		in, err := b.whole(&n.Unary) // a group below would return a row
		return b.noneIfNever(&Derived{Unary: in}, n.Step), err
	case *Keep:
		in, err := b.whole(&n.Unary) // its rows are for other runs, too
		return b.noneIfNever(&Keep{Unary: in, Of: n}, n.Step), err
	case *JoinNode:
		return b.join(n)
	case *fallback:
		return b.fallback(n)
	}
	return nil, fmt.Errorf("plan: an operator of type %T is not bound", n)
}

// input binds what an operator with one input has.
func (b *binder) input(n *operator.Unary) (operator.Unary, error) {
	in, err := b.bind(n.Input)
	return over(n.Step, in), err
}

// whole is input of what is read also if some term is never true.
func (b *binder) whole(n *operator.Unary) (operator.Unary, error) {
	inner := *b
	inner.never = false
	return inner.input(n)
}

func bindAll(b *binder, nodes []Node) (out []Node, err error) {
	for _, n := range nodes {
		c, err := b.bind(n)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (b *binder) union(n *Union) (Node, error) {
	in, err := bindAll(b, n.Inputs)
	if err != nil {
		return nil, err
	}
	if a, ok := in[0].(*Access); ok && len(in) == 1 && !a.Spans.Repeats && !a.Deferred {
		return a, nil // the path might have found a row twice; these values do not
	}
	return &Union{Step: n.Step, Inputs: in, All: n.All}, nil
}

func (b *binder) resume(n *resume) (Node, error) {
	in, err := b.bind(n.Input)
	if err != nil || b.after == nil {
		return in, err
	}
	return &Filter{Unary: over(n.Step, in), Pred: rowsAfter(n.keys, b.order, b.after)}, nil
}

// gate decides a condition without columns. If it is not true, nothing is read.
func (b *binder) gate(n *gate) (Node, error) {
	if b.isPending([]expr.Expr{n.Pred}) {
		in, err := b.bind(n.Input)
		return &Filter{Unary: over(n.Step, in), Pred: n.Pred}, err
	}
	t, err := expr.Test(b.expr(n.Pred), nil, b.params)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	inner := *b
	inner.never = b.never || t != expr.True
	return inner.bind(n.Input)
}

func (b *binder) sort(n *Sort) (Node, error) {
	in, err := b.bind(n.Input)
	out := &Sort{Unary: over(n.Step, in), Keys: b.keys(n.Keys), Prefix: n.Prefix, Limit: -1}
	if s, ok := in.(*Sort); ok { // of a path whose order cannot be had
		out.Input, out.Prefix = s.Input, 0
	}
	return out, err
}

func (b *binder) limit(n *limit) (Node, error) {
	in, err := b.bind(n.Input)
	if err != nil {
		return nil, err
	}
	out := &Limit{Unary: over(n.Step, in)}
	if out.Count, err = countOf(n.count, b.params, "LIMIT", -1); err != nil {
		return nil, err
	}
	if out.Offset, err = countOf(n.offset, b.params, "OFFSET", 0); err != nil {
		return nil, err
	}
	if out.Count >= 0 && out.Count+out.Offset >= out.Count {
		pushLimit(in, out.Count+out.Offset)
	}
	if out.Count < 0 && out.Offset == 0 {
		return in, nil
	}
	return out, nil
}

// pushLimit passes to the operators below how many rows are wanted of them at most.
func pushLimit(n Node, rows int64) {
	switch n := n.(type) {
	case *Access:
		if n.Limit < 0 || rows < n.Limit {
			n.Limit = rows
		}
	case *Project:
		pushLimit(n.Input, rows)
	case *Sort:
		n.Limit = rows
	case *Union:
		for _, in := range n.Inputs {
			if n.All {
				pushLimit(in, rows)
			}
		}
	}
}

func (b *binder) group(n *Group) (Node, error) {
	in, err := b.bind(n.Input)
	if err != nil {
		return nil, err
	}
	out := &Group{Unary: over(n.Step, in), Mode: n.Mode, Keys: b.exprs(n.Keys),
		Aggregates: n.Aggregates}
	if b.lists {
		out.Aggregates = nil
		for _, a := range n.Aggregates {
			a.Arg, a.Order = b.expr(a.Arg), b.keys(a.Order)
			out.Aggregates = append(out.Aggregates, a)
		}
	}
	markExtremes(out)
	return out, nil
}

// noneIfNever returns an operator for whose rows some term is never true.
func (b *binder) noneIfNever(n Node, s operator.Step) Node {
	if !b.never {
		return n
	}
	return &Limit{Unary: over(s, n), Count: 0}
}

func (b *binder) join(n *JoinNode) (Node, error) {
	left, err := b.bind(n.Left)
	if err != nil {
		return nil, err
	}
	inner := *b
	inner.after, inner.never = nil, b.never && n.Kind == Full // else no rows on the left suffice
	right, err := inner.bind(n.Right)
	if err != nil {
		return nil, err
	}
	both := n.Kind == Inner || n.Kind == Semi // have to have rows
	switch {
	case both && nothing(right) && !nothing(left):
		inner.after, inner.never = b.after, true
		left, err = inner.bind(n.Left)
	case n.Kind != Full && nothing(left) && !nothing(right):
		inner.never = true
		right, err = inner.bind(n.Right)
	}
	if err != nil {
		return nil, err
	}
	out := *n
	if out.Left, out.Right = left, right; n.Whole != nil {
		if out.Whole, err = inner.bind(n.Whole); err != nil {
			return nil, err
		}
	}
	out.LeftKeys, out.RightKeys = b.exprs(n.LeftKeys), b.exprs(n.RightKeys)
	out.On, out.MergeOrder = b.expr(n.On), b.keys(n.MergeOrder)
	return &out, nil
}

// nothing reports whether an operator is known to return no rows, for what it reads.
func nothing(n Node) bool {
	switch n := n.(type) {
	case *Access:
		return len(n.Spans.Spans) == 0 && !n.Deferred && n.Probe == nil
	case *Limit:
		return n.Count == 0 || nothing(n.Input)
	case *Filter, *Project, *Sort, *Distinct:
		return nothing(n.Children()[0])
	case *JoinNode:
		return n.Kind != Full && nothing(n.Left) ||
			(n.Kind == Inner || n.Kind == Semi) && nothing(n.Right)
	}
	return false
}
