package operator

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Divisions say which steps of a plan several goroutines may run, each on its share of the items of
// an access, and which sides hash joins keep. The zero Divisions divide nothing.
type Divisions struct {
	params  []expr.Value
	below   map[Node]*Access
	gathers map[Node]*Access
	swapped map[*Join]bool
}

// Divide returns the divisions of a plan with values of its parameters. Whole says that nothing is
// divided.
func Divide(root Node, params []expr.Value, whole bool) Divisions {
	d := Divisions{params: params}
	d.walk(root, whole)
	return d
}

// set sets an element of a map, which most plans do not need.
func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// Below returns the access whose items are divided below a group or sort, which brings rows of its
// own together, or nil.
func (d *Divisions) Below(n Node) *Access { return d.below[n] }

// Gathers returns the access whose items are divided where the rows of a step are handed on in the
// order of the parts that they come from; nil if they are not.
func (d *Divisions) Gathers(n Node) *Access { return d.gathers[n] }

// Swapped reports whether a hash join keeps its left side, since it is smaller and nobody wants the
// order of the rows.
func (d *Divisions) Swapped(n *Join) bool { return d.swapped[n] }

// Parallel reports whether the items of an access are divided.
func (d *Divisions) Parallel(n *Access) bool {
	for _, leaves := range []map[Node]*Access{d.below, d.gathers} {
		for _, leaf := range leaves {
			if leaf == n {
				return true
			}
		}
	}
	return false
}

// walk looks for divisions of a step and of those below it, from above. Within says that one of
// those above is divided.
func (d *Divisions) walk(n Node, within bool) {
	if !within && selects(n) {
		if leaf := d.leafOf(n, false); leaf != nil {
			set(&d.gathers, n, leaf)
			within = true
		}
	}
	switch n := n.(type) {
	case *Group:
		if (n.Mode == GroupHash || len(n.Keys) == 0) && !Concatenates(n.Aggregates) {
			d.loosen(n.Input)
		}
		if !within && !n.Counts() && mergeable(n, d.params) {
			within = d.divideBelow(n, n.Input)
		}
	case *Sort:
		if n.Prefix > 0 {
			break // the order of the input is of use
		}
		d.loosen(n.Input)
		if !within {
			within = d.divideBelow(n, n.Input)
		}
	}
	for _, c := range n.Children() {
		d.walk(c, within)
	}
}

// divideBelow divides what is below a step, and reports whether that can be done.
func (d *Divisions) divideBelow(n, input Node) bool {
	leaf := d.leafOf(input, false)
	if leaf != nil {
		set(&d.below, n, leaf)
	}
	return leaf != nil
}

// Counts reports whether the group is the number of items of an access, which a store may know
// without reading them.
func (n *Group) Counts() bool {
	a, ok := n.Input.(*Access)
	if !ok || len(n.Keys) > 0 || a.Filter != nil || a.Residual != nil || a.Limit >= 0 ||
		a.Skip != nil || a.Index != nil && !a.Covering {
		return false
	}
	return !slices.ContainsFunc(n.Aggregates, func(a Aggregate) bool {
		return a.Func != Count || a.Arg != nil
	})
}

// leafOf returns the access whose items are divided among the workers, or nil.
// Grouped says that the rows of each stream are grouped by themselves, in their order.
func (d *Divisions) leafOf(n Node, grouped bool) *Access {
	switch n := n.(type) {
	case *Access:
		if n.Divisible() && (grouped || !n.Ordered && !n.Merge) {
			return n
		}
	case *Filter:
		return d.leafOf(n.Input, grouped)
	case *Project:
		return d.leafOf(n.Input, grouped)
	case *Derived:
		return d.leafOf(n.Input, false)
	case *Join:
		switch {
		case d.swapped[n]:
			return d.leafOf(n.Right, false)
		case n.Kind == Full: // what is left of the right side is known at the end
		case n.Method == JoinHash || n.Method == JoinLookup:
			return d.leafOf(n.Left, false)
		}
	case *Group:
		if n.Mode == GroupPerBucket && len(n.Keys) > 0 {
			return d.leafOf(n.Input, true)
		}
	}
	return nil
}

// selects reports whether a step has fewer rows than its access reads, or more work with them. Why:
// to copy all rows of a scan costs about as much as to read them.
func selects(n Node) bool {
	switch n := n.(type) {
	case *Access:
		return n.Residual != nil || n.Filter != nil
	case *Project:
		return selects(n.Input)
	case *Derived:
		return selects(n.Input)
	}
	return true
}

// loosen lets hash joins keep their left side if it is the smaller one. The order of the rows is
// lost, so it is for inputs that are grouped or sorted.
func (d *Divisions) loosen(n Node) {
	switch n := n.(type) {
	case *Filter:
		d.loosen(n.Input)
	case *Project:
		d.loosen(n.Input)
	case *Join:
		if n.Method == JoinHash && n.Kind == Inner {
			set(&d.swapped, n, n.Left.Estimate().Rows < n.Right.Estimate().Rows)
			d.loosen(n.Right)
		}
		if n.Method == JoinHash || n.Method == JoinLookup {
			d.loosen(n.Left)
		}
	}
}

// Concatenates reports whether the order of the rows makes a difference for a result.
func Concatenates(aggregates []Aggregate) bool {
	return slices.ContainsFunc(aggregates, func(a Aggregate) bool { return a.Func == Concat })
}

// mergeable reports whether the groups of parts of the input can be brought together, with a result
// that does not depend on the parts.
func mergeable(n *Group, params []expr.Value) bool {
	if len(n.Keys) > 0 && n.Mode != GroupHash {
		return false
	}
	for i := range n.Aggregates {
		a := &n.Aggregates[i]
		switch {
		case a.Distinct || a.Func == Concat:
			return false
		case a.Arg == nil || a.Func == Count || a.Func == Any:
		case a.Func == Min || a.Func == Max:
			if max(expr.CollationOf(a.Arg), a.Collation) != keycodec.CollateBytes {
				return false // which of two equal texts it is depends on the order
			}
		case !exact(n.Input, a.Arg, params):
			return false
		}
	}
	return true
}

// exact reports whether a sum of an expression does not depend on the order of the rows: it has no
// floats.
func exact(input Node, e expr.Expr, params []expr.Value) bool {
	tables := map[int]*schema.Table{}
	sources(input, tables)
	layout := input.Layout()
	ok := true
	expr.Walk(e, func(e expr.Expr) bool {
		switch e := e.(type) {
		case expr.Const:
			ok = ok && e.Kind() != expr.KindFloat
		case expr.Param:
			ok = ok && uint(e.Index) < uint(len(params)) && params[e.Index].Kind() != expr.KindFloat
		case expr.Arith:
		case expr.Slot:
			c := layout[e.I]
			t := tables[c.Source]
			ok = ok && t != nil && c.Ordinal >= 0 && // it is not computed
				exactType(t.Columns[c.Ordinal].Type)
		default:
			ok = false
		}
		return ok
	})
	return ok
}

// exactType reports whether numbers of a type are added without rounding.
func exactType(t keycodec.Type) bool {
	return t != keycodec.TypeFloat32 && t != keycodec.TypeFloat64
}

// sources collects the tables that are read.
func sources(n Node, tables map[int]*schema.Table) {
	if a, ok := n.(*Access); ok {
		tables[a.Source] = a.Table
	}
	if _, ok := n.(*Derived); ok {
		return // it numbers its sources by itself
	}
	for _, c := range n.Children() {
		sources(c, tables)
	}
}
