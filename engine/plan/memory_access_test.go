package plan_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// found is an item of a stream with what a merge compares.
type found struct {
	*item
	suffix []byte
}

// access reads the streams of an access, checking what the plan promises about them.
func (e *execution) access(n *plan.Access) (out [][]expr.Value) {
	if n.Deferred {
		panic("a deferred access is run")
	}
	var all []found
	seen := map[*item]bool{}
	for _, s := range n.Streams {
		items := e.stream(n, s)
		for i, f := range items {
			if seen[f.item] {
				panic("an item is in two ranges")
			}
			seen[f.item] = true
			if i > 0 && n.Ordered && !precedes(items[i-1], f, n.Reverse) {
				panic("a stream is out of order")
			}
		}
		if n.Skip != nil {
			items = e.skip(n, items)
		}
		all = append(all, items...)
	}
	if n.Merge {
		slices.SortStableFunc(all, func(a, b found) int {
			c := bytes.Compare(a.suffix, b.suffix)
			if n.Reverse {
				return -c
			}
			return c
		})
	}
	if n.Point && len(all) > 1 {
		panic("a point finds more than one")
	}
	for _, f := range all {
		if n.Limit >= 0 && len(out) == int(n.Limit) {
			break
		}
		if row, ok := e.deliver(n, f.item); ok {
			out = append(out, row)
		}
	}
	return out
}

func precedes(a, b found, reverse bool) bool {
	c := bytes.Compare(a.pk, b.pk)
	if c == 0 {
		c = bytes.Compare(a.sk, b.sk)
	}
	return c < 0 != reverse
}

// stream returns the items of a stream in reading order.
func (e *execution) stream(n *plan.Access, s plan.Stream) (out []found) {
	if s.PK != nil && len(s.Ranges) == 0 {
		return e.between(n, s, func(it *item) []byte { return nil }, nil, nil)
	}
	for _, r := range s.Ranges {
		key := func(it *item) []byte { return it.sk }
		if s.PK == nil {
			key = func(it *item) []byte { return it.pk }
		}
		out = append(out, e.between(n, s, key, r.Lo, r.Hi)...)
	}
	return out
}

func (e *execution) between(n *plan.Access, s plan.Stream, key func(*item) []byte,
	lo, hi []byte) (out []found) {
	for _, it := range e.m.of(n) {
		if s.PK != nil && !bytes.Equal(it.pk, s.PK) {
			continue
		}
		if k := key(it); bytes.Compare(k, lo) < 0 || hi != nil && bytes.Compare(k, hi) >= 0 {
			continue
		}
		f := found{item: it}
		if s.PK != nil && len(it.sk) >= s.Prefix {
			f.suffix = it.sk[s.Prefix:]
		}
		out = append(out, f)
	}
	if n.Reverse {
		slices.Reverse(out)
	}
	return out
}

// skip keeps what a skip scan would have read.
func (e *execution) skip(n *plan.Access, items []found) (out []found) {
	last := "none"
	for _, f := range items {
		p := prefixOf(n.Spread(), f.sk, n.Skip.Columns)
		if n.Skip.Ranges != nil {
			rest := f.sk[len(p):]
			for _, r := range n.Skip.Ranges {
				below := r.Hi == nil || bytes.Compare(rest, r.Hi) < 0
				if below && bytes.Compare(rest, r.Lo) >= 0 {
					out = append(out, f)
				}
			}
			continue
		}
		if string(p) == last {
			continue
		}
		if _, ok := e.deliver(n, f.item); ok {
			last = string(p)
			out = append(out, f)
		}
	}
	return out
}

func prefixOf(x *schema.Index, sk []byte, columns int) []byte {
	rest := sk
	for _, f := range x.Fields()[:columns] {
		rest = must(f.Skip(rest))
	}
	return sk[:len(sk)-len(rest)]
}

// deliver makes the row of an item, if the filters let it through. What the entry does
// not know is not there for Filter.
func (e *execution) deliver(n *plan.Access, it *item) ([]expr.Value, bool) {
	row := e.m.byKey[keyID(it.key.PK, it.key.SK)]
	r := make([]expr.Value, len(n.Layout()))
	var covers schema.ColumnSet
	if it.entry {
		covers = n.Index.Covers()
	}
	for i, c := range n.Layout() {
		switch {
		case c.Ordinal == plan.RowPK:
			r[i] = expr.Bytes(it.key.PK)
		case c.Ordinal == plan.RowSK:
			if it.key.SK != nil {
				r[i] = expr.Bytes(it.key.SK)
			}
		case !it.entry || covers.Has(c.Ordinal):
			r[i] = row[c.Ordinal]
		case n.Covering:
			panic(fmt.Sprintf("%s is not covered", c.Name))
		}
	}
	if !e.test(n.Filter, r) {
		return nil, false
	}
	for i, c := range n.Layout() {
		if c.Ordinal >= 0 {
			r[i] = row[c.Ordinal]
		}
	}
	return r, e.test(n.Residual, r)
}

// probe finds the right rows of a lookup join.
func (e *execution) probe(n *plan.Access, left []expr.Value) (out [][]expr.Value) {
	pk, sk, ok := n.AppendProbe(nil, nil, e.values(n.Probe.Exprs, left))
	if !ok {
		return nil
	}
	for _, it := range e.m.of(n) {
		if !bytes.Equal(it.pk, pk) || !bytes.HasPrefix(it.sk, sk) {
			continue
		}
		if row, ok := e.deliver(n, it); ok {
			out = append(out, row)
		}
	}
	if n.Probe.Unique && len(out) > 1 {
		panic("a unique probe finds more than one")
	}
	return out
}

func (e *execution) join(n *plan.JoinNode) (out [][]expr.Value) {
	left := e.node(n.Left)
	var right [][]expr.Value
	lookup, _ := n.Right.(*plan.Access)
	if n.Method != plan.JoinLookup {
		right = e.node(n.Right)
	}
	if n.Method == plan.JoinMerge {
		e.checkMerge(n, left, right)
	}
	for _, l := range left {
		if n.Method == plan.JoinLookup {
			right = e.probe(lookup, l)
		}
		matched, unknown := e.matches(n, l, right)
		switch n.Kind {
		case plan.Semi:
			if len(matched) > 0 {
				out = append(out, l)
			}
		case plan.Anti:
			if len(matched) == 0 && (!n.NullAware || !unknown) {
				out = append(out, l)
			}
		default:
			for _, r := range matched {
				out = append(out, slices.Concat(l, r))
			}
			if n.Kind == plan.Left && len(matched) == 0 {
				nulls := make([]expr.Value, len(n.Right.Layout()))
				out = append(out, slices.Concat(l, nulls))
			}
		}
	}
	return out
}

// matches returns the right rows that join a left row, and whether a key was NULL.
func (e *execution) matches(n *plan.JoinNode, l []expr.Value, right [][]expr.Value) (
	matched [][]expr.Value, unknown bool) {
	for _, r := range right {
		ok := true
		for i := range n.LeftKeys {
			a, b := e.value(n.LeftKeys[i], l), e.value(n.RightKeys[i], r)
			unknown = unknown || a.IsNull() || b.IsNull()
			c, comparable := expr.Compare(a, b)
			ok = ok && !a.IsNull() && !b.IsNull() && comparable && c == 0
		}
		if ok && e.test(n.On, slices.Concat(l, r)) {
			matched = append(matched, r)
		}
	}
	return matched, unknown
}

func (e *execution) checkMerge(n *plan.JoinNode, left, right [][]expr.Value) {
	for _, side := range []struct {
		rows [][]expr.Value
		keys []expr.Expr
	}{{left, n.LeftKeys}, {right, n.RightKeys}} {
		for i := 1; i < len(side.rows); i++ {
			for k, o := range n.MergeOrder {
				a, b := e.value(side.keys[k], side.rows[i-1]), e.value(side.keys[k], side.rows[i])
				c := compareNulls(a, b, o.Desc, o.NullsLast)
				if c > 0 {
					panic("a side of a merge join is out of order")
				}
				if c < 0 {
					break
				}
			}
		}
	}
}
