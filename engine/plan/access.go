package plan

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// path is a way to read a table: an index, or its rows, with everything about it that does
// not depend on values. It is a node of a Prepared, and immutable once it is in one.
type path struct {
	q     *query
	rel   *relation
	index *schema.Index // nil: the rows
	key   spans.Key
	// columns of the key that are the index's own: after them is the row's key.
	own int
	// pred are the terms that spans and filters have to see to.
	pred    []expr.Expr
	settled *settled // of a path that is in a tree
	need    need
	layout  []ColumnRef
	entry   schema.ColumnSet // what is known before the row is fetched

	// Flags are together: a path is large, and there are many.
	covering bool
	keysOnly bool
	counts   bool // no column is wanted
	repeats  bool // a row may be found several times, through several entries
	ordered  bool
	reverse  bool
	total    bool // order distinguishes any two rows
	point    bool
	unique   bool // of a probe: at most one row
	exact    bool // all that is read is a row of the result, as far as is known
	fullScan bool
	// takesAfter: a cursor of the query becomes part of the predicate.
	takesAfter bool

	fixed    int // leading columns that are the same in a stream and differ between streams
	order    []operator.OrderColumn
	operands []expr.Expr // of a point: the values of the key columns
	// probe is of the right side of a lookup join: in a tree it is over the layout of the left
	// side.
	probe []expr.Expr
	skip  *skipPath
	limit int64 // wanted rows if known from the shape (MIN, MAX), else -1

	scan     estimate.Scan
	left     float64 // share of the rows that zones leave
	rows     float64
	reads    float64 // entries, and rows that are fetched for them
	estimate operator.Estimate
	whole    float64 // the cost without limit
}

// settled is what Bind needs of a path. It is made when a plan with the path is first bound: most
// paths that are tried get into none.
type settled struct {
	once     sync.Once
	template *spans.Template
	zones    *spans.ZoneTemplate // nil: blocks are not tested

	// fixed is what has been bound where parameters make no difference to it; nil: not yet, or they
	// do. Executions share it.
	fixed atomic.Pointer[boundPath]

	whole struct { // the whole of pred, over slots: most values leave less
		once sync.Once
		filters
	}
}

// boundPath is what values make of a path.
type boundPath struct {
	spans   spans.Set
	streams []Stream
	tests   filters
}

// skipPath says which first columns are skipped over; template makes the spans of the
// columns after them, nil if one entry is wanted of each.
type skipPath struct {
	columns  int
	template *spans.Template
}

// filters divides a predicate into what an entry can decide and the rest.
type filters struct{ entryPart, rowPart expr.Expr }

// usualIndexes is room for the indexes of most tables, and their rows.
const usualIndexes = 8

// usable appends the indexes that may be used for a relation to all, which is empty; nil stands for
// its rows.
func (q *query) usable(all []*schema.Index, r *relation) ([]*schema.Index, error) {
	hint, hinted := q.sel.Hints.Index[r.source]
	if r.source >= len(q.sel.From) || q.sel.From[r.source].Table != r.table {
		hinted = false
	}
	all = append(all, nil)
	if !q.sel.Hints.NoIndex {
		for _, x := range r.table.Indexes {
			if x.State == schema.Ready && q.answers(r, x) {
				all = append(all, x)
			}
		}
	}
	if !hinted {
		return all, nil
	}
	if hint == PrimaryIndex {
		return all[:1], nil
	}
	for _, x := range all[1:] {
		if x.Name == hint {
			return []*schema.Index{x}, nil
		}
	}
	if r.table.Index(hint) == nil {
		return nil, queryError(0, "table %s has no index %q", r.name, hint)
	}
	return nil, queryError(0, "index %s of %s cannot answer the query", hint, r.name)
}

// PrimaryIndex is the name in Hints.Index for the rows themselves.
const PrimaryIndex = "primary"

// answers says whether an index has an entry for every row that the query wants.
func (q *query) answers(r *relation, x *schema.Index) bool {
	if x.Where != nil && !implies(r, r.pred, x.Where) {
		return false
	}
	return !slices.ContainsFunc(x.Columns, func(c schema.IndexColumn) bool { return c.Each }) ||
		!spans.Compile(keyFor(r, x), expr.AllOf(r.pred)).Incomplete()
}

// implies says whether the terms make the condition of a partial index true: each of its
// terms is one of them, or an interval of a column around theirs.
func implies(r *relation, terms []expr.Expr, where expr.Expr) bool {
	for _, w := range partialTerms(r, where) {
		if !slices.ContainsFunc(terms, func(t expr.Expr) bool { return sameTerm(t, w) }) &&
			!includes(r, terms, w) {
			return false
		}
	}
	return true
}

// partialTerms returns the terms of a partial index's condition, with columns of the
// relation.
func partialTerms(r *relation, where expr.Expr) []expr.Expr {
	moved := lift(where, r.source)
	return expr.Terms(nil, spans.NormaliseFor(moved, r.info, nil))
}

// info is a ColumnInfo of one relation.
func (r *relation) info(_, ordinal int) (keycodec.Field, bool) {
	c, ok := r.columnOf(ordinal)
	return c.Field(schema.KeyColumn{}), ok && !c.List
}

// sameTerm compares terms without regard to how columns are shown.
func sameTerm(a, b expr.Expr) bool {
	return expr.Equal(a, b) || expr.Equal(unqualified(a), unqualified(b))
}

func unqualified(e expr.Expr) expr.Expr {
	return expr.MapColumns(e, func(c expr.Column) expr.Expr { return plain(c) })
}

// includes says whether the constant terms on the column of w keep to the values for which
// w is true.
func includes(r *relation, terms []expr.Expr, w expr.Expr) bool {
	column, ok := soleColumn(w)
	if !ok {
		return false
	}
	var same []expr.Expr
	for _, t := range terms {
		if c, ok := soleColumn(t); ok && c.Ordinal == column.Ordinal {
			same = append(same, t)
		}
	}
	if len(same) == 0 {
		return false
	}
	info, _ := r.columnOf(column.Ordinal)
	if info.List { // its field is that of an element, which is never NULL
		return false
	}
	fields := []keycodec.Field{info.Field(schema.KeyColumn{})}
	outer := spans.Build(fields, []int{column.Ordinal}, r.source, w, 0)
	inner := spans.Build(fields, []int{column.Ordinal}, r.source, expr.AllOf(same), 0)
	if !outer.Exact || outer.Truncated || inner.Truncated {
		return false
	}
	i := 0
	for _, s := range inner.Spans {
		for i < len(outer.Spans) && outer.Spans[i].Hi != nil &&
			string(outer.Spans[i].Hi) <= string(s.Lo) {
			i++
		}
		if i == len(outer.Spans) || string(s.Lo) < string(outer.Spans[i].Lo) {
			return false
		}
		if hi := outer.Spans[i].Hi; hi != nil && (s.Hi == nil || string(s.Hi) > string(hi)) {
			return false
		}
	}
	return true
}

// soleColumn returns the only column of a term without parameters.
func soleColumn(e expr.Expr) (column expr.Column, ok bool) {
	n := 0
	ok = true
	expr.Walk(e, func(x expr.Expr) bool {
		switch x := x.(type) {
		case expr.Column:
			if n == 0 || x.Ordinal != column.Ordinal {
				n++
			}
			column = x
		case expr.Param, expr.Subquery, expr.Apply:
			ok = false
		}
		return true
	})
	return column, ok && n == 1
}

// keyFor describes the key of an index or of rows.
func keyFor(r *relation, x *schema.Index) spans.Key {
	k := r.table.SearchKey(x)
	return spans.Key{Source: r.source, Fields: k.Fields, Ordinals: k.Ordinals, Each: k.Each,
		Keep: k.Keep}
}

// spread returns the index that says in which buckets the path reads: its own, or the sharded
// primary key. It is nil where rows are spread by their partition keys.
func (p *path) spread() *schema.Index {
	if p.index == nil {
		return p.rel.table.Primary()
	}
	return p.index
}

// sharded reports whether the bucket that is read follows from the first columns of the key.
func (p *path) sharded() bool {
	x := p.spread()
	return x != nil && x.Sharded()
}

// newPath describes an index, or the rows, as a way to read a relation; keysToo is for
// the rows' keys beside the columns.
func (q *query) newPath(r *relation, x *schema.Index, keysToo bool) *path {
	p := q.spare
	if q.spare = nil; p == nil {
		p = new(path)
	}
	*p = path{q: q, rel: r, index: x, key: keyFor(r, x), limit: -1}
	p.own = len(p.key.Fields)
	p.pred = r.pred
	if x != nil {
		p.own = len(x.Columns)
		if x.Where != nil {
			p.pred = withoutTerms(r.pred, partialTerms(r, x.Where))
		}
		p.repeats = p.key.Each != nil
	}
	wanted := schema.Columns(r.need.ordinals...)
	read := wanted
	of := p.elementTerm()
	for i, t := range p.pred {
		columns := r.columnsOf(t)
		wanted.Union(columns)
		if i != of {
			read.Union(columns)
		}
	}
	p.need, p.layout = q.layoutOf(r, wanted, r.need.rowKey || keysToo || p.repeats)
	p.setCover(read)
	return p
}

// elementTerm returns which term says of what element entries are read, if one does alone: the list
// is not read for it. If it is tested after all, see test.
func (p *path) elementTerm() int {
	at := -1
	for i, t := range p.pred {
		c, ok := t.(expr.Contains)
		if !ok || !p.repeats || !spans.IsConstant(c.Item) ||
			p.rel.columnsOf(t) != schema.Columns(p.index.Columns[p.index.Each()].Ordinal) {
			continue
		}
		if at >= 0 {
			return -1
		}
		at = i
	}
	return at
}

func withoutTerms(terms, drop []expr.Expr) (kept []expr.Expr) {
	for _, t := range terms {
		if !slices.ContainsFunc(drop, func(d expr.Expr) bool { return sameTerm(t, d) }) {
			kept = append(kept, t)
		}
	}
	return kept
}

// maxTerms bounds the terms whose columns are remembered.
const maxTerms = 16

// columnsOf is columnsIn while the relation is planned: all of its paths ask for those of the same
// terms.
func (r *relation) columnsOf(t expr.Expr) schema.ColumnSet {
	if r.parts == nil {
		r.parts = new(pathParts).begin()
	}
	for i := range r.parts.terms {
		if known := &r.parts.terms[i]; expr.Shared(known.term, t) {
			return known.columns
		}
	}
	s := columnsIn(t, r.source)
	if r.parts.terms == nil {
		r.parts.terms = make([]termColumns, 0, min(len(r.pred)+1, maxTerms))
	}
	if len(r.parts.terms) < maxTerms {
		r.parts.terms = append(r.parts.terms, termColumns{t, s})
	}
	return s
}

// columnsIn returns the columns of a source, a table, that are in an expression.
func columnsIn(e expr.Expr, source int) (s schema.ColumnSet) {
	for c := range expr.Columns(e) {
		if c.Source == source && c.Ordinal >= 0 {
			s.Add(c.Ordinal)
		}
	}
	return s
}

func addColumns(n *need, e expr.Expr, source int) {
	for c := range expr.Columns(e) {
		if c.Source == source {
			n.add(c.Ordinal)
		}
	}
}

// setCover decides from where what is needed is read.
func (p *path) setCover(wanted schema.ColumnSet) {
	p.counts = wanted.Empty() && !p.need.rowKey
	if p.index == nil {
		p.entry, p.covering = wanted, true
		p.keysOnly = wanted.Within(rowKeyColumns(p.rel.table))
		return
	}
	p.entry = p.index.Covers()
	p.covering = wanted.Within(p.entry)
	p.keysOnly = wanted.Within(keyColumns(p.rel.table, p.index)) &&
		!(p.index.Unique && p.need.rowKey)
}

// rowKeyColumns returns the columns that a row's key gives back.
func rowKeyColumns(t *schema.Table) (s schema.ColumnSet) {
	for _, columns := range [...][]schema.KeyColumn{t.PK, t.SK} {
		for _, c := range columns {
			if t.Columns[c.Ordinal].Collation == keycodec.CollateBytes {
				s.Add(c.Ordinal)
			}
		}
	}
	return s
}

// keyColumns returns the columns that the key of an entry alone gives back. A collated
// column in a key has lost its case, one with an entry for each element is not there as a
// list, and the row's key is in the value of an entry that is unique.
func keyColumns(t *schema.Table, x *schema.Index) (s schema.ColumnSet) {
	if !x.Unique {
		s = rowKeyColumns(t)
	}
	for _, c := range x.Columns {
		if !c.Each && t.Columns[c.Ordinal].Collation == keycodec.CollateBytes {
			s.Add(c.Ordinal)
		}
	}
	return s
}

// settle returns what Bind needs of a path that is in a tree.
func (p *path) settle() *settled {
	s := p.settled
	s.once.Do(func() {
		pred := expr.AllOf(p.pred)
		s.template, s.zones = spans.Compile(p.key, pred), p.zonesOf(p.pred, pred)
	})
	return s
}

// filtersOf returns the whole of the terms that binder.terms has returned for a path in a tree.
func (p *path) filtersOf(terms []expr.Expr, own bool) filters {
	if !own {
		return p.split(terms)
	}
	w := &p.settled.whole
	w.once.Do(func() { w.filters = p.split(p.pred) })
	return w.filters
}

// split rewrites terms to slots and divides them by what the entry knows.
func (p *path) split(terms []expr.Expr) filters {
	var entry, row []expr.Expr
	for _, t := range terms {
		slotted := toSlots(t, p.layout)
		if p.index != nil && columnsIn(t, p.rel.source).Within(p.entry) {
			entry = append(entry, slotted)
		} else {
			row = append(row, slotted)
		}
	}
	return filters{expr.AllOf(entry), expr.AllOf(row)}
}

// toSlots replaces columns by their places in a layout. What is not in the layout stays.
func toSlots(e expr.Expr, layout []ColumnRef) expr.Expr {
	var known [4]struct { // a column is often there several times
		column expr.Column
		slot   expr.Expr
	}
	n := 0
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		c, ok := x.(expr.Column)
		if !ok {
			return x
		}
		for i := range min(n, len(known)) {
			if k := &known[i]; k.column == c {
				return k.slot
			}
		}
		for i := range layout {
			if l := &layout[i]; l.Source == c.Source && l.Ordinal == c.Ordinal {
				slot := expr.Expr(expr.Slot{I: i, Name: c.String(), Collation: c.Collation})
				known[n%len(known)].column, known[n%len(known)].slot = c, slot
				n++
				return slot
			}
		}
		return x
	})
}
