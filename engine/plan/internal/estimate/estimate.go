// Package estimate says how many rows satisfy terms, and what work costs, by statistics. It
// knows tables and terms, and no queries.
package estimate

import (
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Estimator answers how many rows of one relation satisfy something.
//
// Invariant: a term more in an AND never raises an estimate, a term more in an OR never
// lowers it, and a range inside another one is never estimated higher.
type Estimator struct {
	table *schema.Table
	stats *stats.Table
	sub   float64 // rows of a relation that is a subquery
	// given are the values of parameters, as far as they are known.
	given []expr.Value
	// lists are the expected lengths of lists that come as parameters, by their index.
	lists map[int]float64
	// share is what a bound that is not known leaves of the rows; 0: DefaultRange.
	share float64
	// live counts ranges, nil if that is not worth it. rows is the number of rows that there
	// are, 0 if it is about that of the statistics.
	live *Live
	rows float64
}

// WithLists takes the expected lengths of lists that come as parameters, by their index.
func (e *Estimator) WithLists(lists map[int]float64) *Estimator {
	e.lists = lists
	return e
}

// WithShare takes what a bound that is not known leaves of the rows; 0 is DefaultRange.
func (e *Estimator) WithShare(share float64) *Estimator {
	e.share = share
	return e
}

// ForTable makes an estimator for a table with the statistics s, nil if there are none; given
// are the values of parameters, as far as they are known.
func ForTable(t *schema.Table, s *stats.Table, given []expr.Value) *Estimator {
	return &Estimator{table: t, stats: s, given: given}
}

// ForSubquery makes an estimator for a subquery of so many rows.
func ForSubquery(rows float64, given []expr.Value) *Estimator {
	return &Estimator{sub: rows, given: given}
}

// Rows estimates the number of rows.
func (e *Estimator) Rows() float64 {
	switch {
	case e.table == nil:
		return e.sub
	case e.rows > 0:
		return e.rows
	case e.stats == nil:
		return defaultRows
	}
	return max(1, e.stats.Rows)
}

// Entries returns the number of entries of an index, or of rows.
func (e *Estimator) Entries(x *schema.Index) float64 {
	if k := e.stats.Key(x); k != nil && x != nil {
		return max(1, k.Entries*e.growth())
	}
	if x != nil && x.Where != nil {
		return max(1, e.Rows()*e.Selectivity(expr.Terms(nil, spans.Normalise(x.Where))))
	}
	return e.Rows()
}

// EntryBytes estimates the size of an entry of an index, or of a row.
func (e *Estimator) EntryBytes(x *schema.Index) float64 {
	if k := e.stats.Key(x); k != nil && x != nil && k.EntryBytes > 0 {
		return k.EntryBytes
	}
	if x != nil {
		return float64(defaultEntryBytes + defaultColumnBytes*(len(x.Columns)+len(x.Include)))
	}
	if e.stats != nil && e.stats.RowBytes > 0 {
		return e.stats.RowBytes
	}
	return defaultRowBytes
}

// KeyColumns returns the key columns of an index, or of rows.
func KeyColumns(t *schema.Table, x *schema.Index) []schema.KeyColumn {
	if x == nil {
		return slices.Concat(t.PK, t.SK)
	}
	columns := make([]schema.KeyColumn, len(x.Columns))
	for i, c := range x.Columns {
		columns[i] = c.KeyColumn
	}
	return columns
}

// keyLen is the number of columns that KeyColumns returns, and keyColumn one of them.
func keyLen(t *schema.Table, x *schema.Index) int {
	if x == nil {
		return len(t.PK) + len(t.SK)
	}
	return len(x.Columns)
}

func keyColumn(t *schema.Table, x *schema.Index, i int) schema.KeyColumn {
	switch {
	case x != nil:
		return x.Columns[i].KeyColumn
	case i < len(t.PK):
		return t.PK[i]
	}
	return t.SK[i-len(t.PK)]
}

// Distinct estimates the number of different values of the first n columns of a key.
func (e *Estimator) Distinct(x *schema.Index, n int) float64 {
	rows := e.Entries(x)
	if e.table == nil {
		return max(1, rows*DefaultDistinct)
	}
	if d, ok := e.stats.Key(x).Values(n); ok {
		return min(rows, e.grown(keyColumn(e.table, x, 0).Ordinal, d, e.stats.Key(x).Entries))
	}
	columns := keyLen(e.table, x)
	if n >= columns && (x == nil || x.Unique) {
		return rows
	}
	d := 1.0
	for i := range min(n, columns) {
		d *= e.Values(keyColumn(e.table, x, i).Ordinal)
	}
	return min(rows, d)
}

// Values estimates the number of different values of a column.
func (e *Estimator) Values(ordinal int) float64 {
	rows := e.Rows()
	if e.table == nil {
		return max(1, rows*DefaultDistinct)
	}
	for x := range e.KeysWith(ordinal) {
		if d, ok := e.stats.Key(x).Values(1); ok {
			return min(rows, e.grown(ordinal, d, e.stats.Key(x).Entries))
		}
	}
	if e.stats != nil && ordinal < len(e.stats.Distinct) && e.stats.Distinct[ordinal] >= 1 {
		return min(rows, e.grown(ordinal, e.stats.Distinct[ordinal], e.stats.Rows))
	}
	for x := range e.KeysWith(ordinal) {
		if keyLen(e.table, x) == 1 && (x == nil || x.Unique) {
			return rows
		}
	}
	if e.table.Columns[ordinal].Type == keycodec.TypeBool {
		return 2
	}
	return max(1, rows*DefaultDistinct)
}

// Together estimates the number of different values that columns have together.
func (e *Estimator) Together(ordinals []int) float64 {
	var few [4]equality
	equals := equalities(few[:0])
	for _, o := range ordinals {
		equals = equals.with(o, nil) // a value that is not known
	}
	return max(1, min(e.Rows(), 1/e.allEqual(equals)))
}

// manyValues is from which share of the rows on new rows are taken to have new values.
const manyValues = 0.1

// grown is the number of different values of a column that there are now, or of a key that begins
// with it, of d among so many rows when the statistics were made. New rows have new values, too, of
// a column that rises.
func (e *Estimator) grown(ordinal int, d, rows float64) float64 {
	if d < manyValues*rows && !e.rises(ordinal) {
		return d
	}
	return max(1, d*e.growth())
}

// KeysWith returns the indexes, and nil for the rows, whose first column it is.
func (e *Estimator) KeysWith(ordinal int) iter.Seq[*schema.Index] {
	return func(yield func(*schema.Index) bool) {
		if e.table == nil {
			return
		}
		if keyLen(e.table, nil) > 0 && keyColumn(e.table, nil, 0).Ordinal == ordinal &&
			!yield(nil) {
			return
		}
		for _, x := range e.table.Indexes {
			if x.State == schema.Ready && x.Where == nil && x.Columns[0].Ordinal == ordinal &&
				!yield(x) {
				return
			}
		}
	}
}

// differ reports whether two operands are known to have different values of a column, so that it
// is not equal to both.
func (e *Estimator) differ(ordinal int, a, b expr.Expr) bool {
	order, known := e.compared(ordinal, a, b)
	return known && order != 0
}

// folded returns a value as a column compares it.
func (e *Estimator) folded(ordinal int, v expr.Value) expr.Value {
	if text, ok := v.AsString(); ok && e.table != nil {
		if c := e.table.Columns[ordinal].Collation; c != keycodec.CollateBytes {
			return expr.String(c.Fold(text))
		}
	}
	return v
}

// compared returns the order of the values of two operands in a column, if both are known.
func (e *Estimator) compared(ordinal int, a, b expr.Expr) (order int, ok bool) {
	v, known := e.known(a)
	w, both := e.known(b)
	order, comparable := expr.Compare(e.folded(ordinal, v), e.folded(ordinal, w))
	return order, known && both && comparable
}

// known returns the value of an operand if it is known.
func (e *Estimator) known(operand expr.Expr) (v expr.Value, ok bool) {
	switch x := operand.(type) {
	case expr.Const:
		return x.Value, true
	case expr.Param:
		if x.Index < len(e.given) {
			v = e.given[x.Index]
			return v, !v.IsNull()
		}
	}
	return v, false
}

// encode appends a value as column i of a key holds it to dst, which is empty.
func (e *Estimator) encode(dst []byte, x *schema.Index, i int, v expr.Value) ([]byte, bool) {
	column := keyColumn(e.table, x, i)
	field := e.table.Columns[column.Ordinal].Field(column)
	if v.IsNull() {
		return nil, false
	}
	v, p := spans.Place(&field, v)
	if p != spans.Exact && p != spans.Between {
		return nil, false
	}
	return schema.AppendKeyField(dst, &field, v)
}

// shortBytes is the length of most encoded values.
const shortBytes = 32

// bounds is what the terms of an AND say about the range of a column.
type bounds struct {
	lo, hi         expr.Value // NULL: none that is known
	above, below   bool       // lo, hi itself is out of it
	loOpen, hiOpen bool       // there is a bound whose value is not known
}

// within estimates the fraction of rows in a range of a column.
func (e *Estimator) within(ordinal int, b bounds) float64 {
	f, open := 1.0, DefaultRange
	if e.share > 0 {
		open = e.share
	}
	if b.loOpen {
		f *= open
	}
	if b.hiOpen {
		f *= open
	}
	if b.lo.IsNull() && b.hi.IsNull() {
		return f
	}
	if order, ok := expr.Compare(b.lo, b.hi); ok && order > 0 {
		return 0
	}
	n, few := e.count(ordinal, b)
	for x := range e.KeysWith(ordinal) {
		if few && n <= surelyFew && keyLen(e.table, x) == 1 && (x == nil || x.Unique) {
			continue // at most as many rows
		}
		if g, ok := e.countedRange(x, 0, nil, b); ok {
			return f * g
		}
	}
	for x := range e.KeysWith(ordinal) {
		if g, ok := e.histogram(x, b, n); ok {
			return f * g
		}
	}
	if g, ok := e.inExtent(ordinal, b); ok {
		f *= g
	} else {
		if !b.lo.IsNull() {
			f *= DefaultRange
		}
		if !b.hi.IsNull() {
			f *= DefaultRange
		}
	}
	if few {
		f = min(f, n/max(1, e.Values(ordinal)))
	}
	return f
}

// count returns how many values a range of integers has, infinitely many of any other.
func (e *Estimator) count(ordinal int, b bounds) (n float64, ok bool) {
	if e.table == nil || spans.WidthOf(e.table.Columns[ordinal].Type) == 0 {
		return math.Inf(1), false
	}
	lo, known := b.lo.AsInt()
	hi, both := b.hi.AsInt()
	if !known || !both {
		return math.Inf(1), false
	}
	n = float64(hi) - float64(lo) + 1
	if b.above {
		n--
	}
	if b.below {
		n--
	}
	return max(0, n), true
}

// histogram estimates a range of n values by the histogram of a key that begins with the column.
func (e *Estimator) histogram(x *schema.Index, b bounds, n float64) (f float64, ok bool) {
	if e.stats.Key(x) == nil {
		return 0, false
	}
	var room [2 * shortBytes]byte
	lo, hi, ok := e.encodeBounds(room[:], x, 0, b)
	if !ok {
		return 0, false
	}
	lo, hi = e.withoutNulls(x, 0, lo, hi)
	return e.histogramOf(x, lo, hi, n)
}

// histogramOf is histogram for a range of bytes.
func (e *Estimator) histogramOf(x *schema.Index, lo, hi []byte, n float64) (f float64, ok bool) {
	k := e.stats.Key(x)
	if k == nil {
		return 0, false
	}
	f, ok = k.Histogram.Fraction(lo, hi)
	one := e.rare(keyColumn(e.table, x, 0).Ordinal, k)
	if k.Histogram.Outside(lo, hi) {
		return min(one, k.Unseen(e.stats.Sampled)), true
	}
	inside, outside := k.HeavyInside(lo, hi), k.HeavyInside(nil, nil)
	return max(min(f, 1-(outside-inside), inside+n*one), inside, one), ok
}

// encodeBounds returns a range of column i of a key as bytes, in room if they fit.
func (e *Estimator) encodeBounds(room []byte, x *schema.Index, i int, b bounds) (lo, hi []byte,
	ok bool) {
	half := len(room) / 2
	loOK, hiOK := b.lo.IsNull(), b.hi.IsNull()
	if !loOK {
		lo, loOK = e.encode(room[:0:half], x, i, b.lo)
	}
	if !hiOK {
		hi, hiOK = e.encode(room[half:half], x, i, b.hi)
	}
	if !loOK || !hiOK {
		return nil, nil, false
	}
	loOut, hiOut := b.above, b.below
	if keyColumn(e.table, x, i).Desc {
		lo, hi, loOut, hiOut = hi, lo, hiOut, loOut
	}
	if lo != nil && loOut {
		if lo, ok = keycodec.PrefixEnd(lo[:0], lo); !ok {
			return nil, nil, false
		}
	}
	if hi != nil && !hiOut {
		hi, ok = keycodec.PrefixEnd(hi[:0], hi)
		if !ok {
			hi = nil
		}
	}
	return lo, hi, true
}

// Selectivity estimates the fraction of rows that satisfy all terms.
func (e *Estimator) Selectivity(terms []expr.Expr) float64 {
	f := 1.0
	var few [4]equality
	equals := equalities(few[:0])
	var some [3]columnRange
	ranges := some[:0]
	var lists []expr.In
	for _, t := range terms {
		if in, ok := t.(expr.In); ok && e.live != nil {
			lists = e.withList(lists, in)
			continue
		}
		if c, ok := t.(expr.Cmp); ok {
			column, ok := c.L.(expr.Column)
			_, list := spans.IsList(c.R)
			if ok && list && c.Op == expr.Eq && e.live != nil {
				lists = e.withList(lists, expr.In{X: column, List: []expr.Expr{c.R}})
				continue
			}
			if ok && !list && spans.IsConstant(c.R) {
				if c.Op == expr.Eq {
					first, again := equals.of(column.Ordinal)
					if !again {
						equals = equals.with(column.Ordinal, c.R)
						continue
					}
					order, known := e.compared(column.Ordinal, first, c.R)
					if known && order != 0 {
						return 0
					}
					if known || expr.Equal(first, c.R) {
						continue
					}
				}
				v, known := e.known(c.R)
				v = e.folded(column.Ordinal, v)
				at := slices.IndexFunc(ranges, func(r columnRange) bool {
					return r.ordinal == column.Ordinal
				})
				if at >= 0 {
					if ranges[at].add(c.Op, v, known) {
						continue
					}
				} else if r := (columnRange{ordinal: column.Ordinal}); r.add(c.Op, v, known) {
					ranges = append(ranges, r)
					continue
				}
			}
		}
		f *= e.term(t)
	}
	if len(ranges) == 1 && len(equals)+len(lists) == 0 { // there is nothing to see together
		return f * e.within(ranges[0].ordinal, ranges[0].bounds)
	}
	for _, q := range equals {
		if e.contradicts(q.ordinal, q.operand, terms) {
			return 0
		}
	}
	return e.together(e.columns(f, equals, lists, ranges), terms)
}

// columns estimates what is left of a share by what is said about columns: values, lists and
// ranges, one of each at most. What leaves a value that a column has anyway changes nothing.
func (e *Estimator) columns(f float64, equals equalities, lists []expr.In,
	ranges []columnRange) float64 {
	type restriction struct {
		ordinal int
		share   float64
	}
	var own []restriction // of columns that have a value in them
	for _, in := range lists {
		if o, ok := e.listHas(equals, in); ok {
			own = append(own, restriction{o, e.list(in)})
			continue
		}
		share, at := e.listAmong(equals, ranges, in)
		if f *= share; at >= 0 {
			ranges = slices.Delete(ranges, at, at+1)
		}
	}
	slices.SortFunc(ranges, func(a, b columnRange) int { return a.ordinal - b.ordinal })
	for _, r := range ranges {
		share := e.within(r.ordinal, r.bounds)
		if e.rangeHas(equals, r) {
			own = append(own, restriction{r.ordinal, share})
			continue
		}
		f *= share
	}
	least := f * e.allEqual(equals)
	for _, r := range own {
		rest := slices.Clone(equals).without(r.ordinal)
		least = min(least, f*r.share*e.allEqual(rest))
	}
	return least
}

// rangeHas reports whether a column has a value that is known to be in its range.
func (e *Estimator) rangeHas(equals equalities, r columnRange) bool {
	operand, ok := equals.of(r.ordinal)
	if !ok || r.loOpen || r.hiOpen {
		return false
	}
	v, ok := e.known(operand)
	return ok && r.has(e.folded(r.ordinal, v))
}

// columnRange is the range of a column.
type columnRange struct {
	ordinal int
	bounds
}

// equalities are columns with a value each, in ascending order of the columns.
type equalities []equality

type equality struct {
	ordinal int
	operand expr.Expr
}

// of returns the value of a column, if it has one.
func (l equalities) of(ordinal int) (operand expr.Expr, ok bool) {
	for _, q := range l {
		if q.ordinal == ordinal {
			return q.operand, true
		}
	}
	return nil, false
}

// with returns the list with a value for a column.
func (l equalities) with(ordinal int, operand expr.Expr) equalities {
	for i := range l {
		switch {
		case l[i].ordinal == ordinal:
			l[i].operand = operand
			return l
		case l[i].ordinal > ordinal:
			return slices.Insert(l, i, equality{ordinal, operand})
		}
	}
	return append(l, equality{ordinal, operand})
}

// without returns the list without a column.
func (l equalities) without(ordinal int) equalities {
	return slices.DeleteFunc(l, func(q equality) bool { return q.ordinal == ordinal })
}

// has reports whether a value is in the bounds.
func (b *bounds) has(v expr.Value) bool {
	lo, okLo := expr.Compare(v, b.lo)
	hi, okHi := expr.Compare(v, b.hi)
	return (b.lo.IsNull() || okLo && (lo > 0 || lo == 0 && !b.above)) &&
		(b.hi.IsNull() || okHi && (hi < 0 || hi == 0 && !b.below))
}

// add takes a comparison with v, if that is known, into a range, if it is one.
func (b *bounds) add(op expr.Op, v expr.Value, known bool) bool {
	switch op {
	case expr.Gt, expr.Ge:
		if !known {
			b.loOpen = true
		} else if order, _ := expr.Compare(v, b.lo); b.lo.IsNull() || order > 0 {
			b.lo, b.above = v, op == expr.Gt
		} else if order == 0 && op == expr.Gt {
			b.above = true
		}
	case expr.Lt, expr.Le:
		if !known {
			b.hiOpen = true
		} else if order, _ := expr.Compare(v, b.hi); b.hi.IsNull() || order < 0 {
			b.hi, b.below = v, op == expr.Lt
		} else if order == 0 && op == expr.Lt {
			b.below = true
		}
	default:
		return false
	}
	return true
}

// term estimates one term of an AND.
func (e *Estimator) term(t expr.Expr) float64 {
	switch t := t.(type) {
	case expr.Const:
		if spans.IsFalse(t) {
			return 0
		}
		return 1
	case expr.And:
		return e.Selectivity(t.Terms)
	case expr.Or:
		miss := 1.0
		for _, x := range t.Terms {
			miss *= 1 - e.Selectivity([]expr.Expr{x})
		}
		return 1 - miss
	case expr.Cmp:
		c, ok := t.L.(expr.Column)
		if _, list := spans.IsList(t.R); list {
			return e.list(expr.In{X: t.L, List: []expr.Expr{t.R}, Not: t.Op == expr.Ne})
		}
		switch {
		case ok && t.Op == expr.Eq && spans.IsConstant(t.R):
			return e.equal(c.Ordinal, t.R)
		case ok && t.Op == expr.Ne && spans.IsConstant(t.R):
			return max(0, 1-e.equal(c.Ordinal, t.R)-e.nulls(c.Ordinal))
		case t.Op == expr.Eq:
			return DefaultDistinct
		}
		return DefaultRange
	case expr.In:
		return e.list(t)
	case expr.BeginsWith:
		prefix, _ := e.known(t.Prefix)
		return e.beginning(t.X, prefix)
	case expr.Like:
		if prefix := e.prefixOf(t); spans.OpenLike(t) && prefix != "" {
			return e.beginning(t.X, expr.String(prefix))
		}
	case expr.IsNull:
		return e.isNull(t)
	case expr.Contains:
		if c, ok := t.X.(expr.Column); ok {
			return e.contains(c.Ordinal, t.Item)
		}
	case expr.Not:
		return 1 - e.Selectivity([]expr.Expr{t.X})
	}
	return DefaultOther
}

// prefixOf returns what all texts of a LIKE are known to begin with.
func (e *Estimator) prefixOf(t expr.Like) string {
	v, err := expr.Eval(t.Pattern, nil, e.given)
	if err != nil {
		return ""
	}
	pattern, _ := v.AsString()
	text, _, _ := expr.LikePrefix(pattern, t.Escape)
	return text
}

func (e *Estimator) isNull(t expr.IsNull) float64 {
	f := defaultNull
	if c, ok := t.X.(expr.Column); ok && e.table != nil {
		f = e.nulls(c.Ordinal)
	}
	if t.Not {
		return 1 - f
	}
	return f
}

// nulls estimates the fraction of rows in which a column is NULL.
func (e *Estimator) nulls(ordinal int) float64 {
	if e.table == nil || !e.table.Columns[ordinal].Nullable {
		return 0
	}
	known, f := false, 0.0
	for x := range e.KeysWith(ordinal) {
		if null, ok := e.null(x, 0); ok {
			if g, ok := e.countedValue(x, null); ok {
				return g
			}
		}
		if k := e.stats.Key(x); k != nil {
			known, f = true, k.Nulls
		}
	}
	if !known {
		f = e.nullsOf(ordinal)
	}
	return f
}

// jointColumns is up to how many equalities every subset is looked at.
const jointColumns = 6

// allEqual estimates columns with a value each. Where a key begins with several of them,
// its own count of different values is better than to multiply. The smallest estimate
// over all subsets is taken, so that a column more never raises it.
func (e *Estimator) allEqual(equals equalities) float64 {
	least := 1.0
	if len(equals) > jointColumns {
		for _, q := range equals[jointColumns:] {
			least *= e.equal(q.ordinal, q.operand)
		}
		equals = equals[:jointColumns]
	}
	best := 1.0
	for set := range uint64(1) << len(equals) {
		best = min(best, e.joint(equals, set))
	}
	return least * best
}

// joint estimates the columns of a subset.
func (e *Estimator) joint(equals equalities, set uint64) float64 {
	known, covered := 1.0, uint64(0)
	pair, paired := 1.0, false
	if e.table != nil && set&(set-1) != 0 {
		for i := range len(e.table.Indexes) + 1 {
			var x *schema.Index
			if i < len(e.table.Indexes) {
				x = e.table.Indexes[i]
			}
			n, columns := e.jointPrefix(x, equals, set)
			if n < 2 || n <= bits.OnesCount64(covered) {
				continue
			}
			known, covered = 1/max(1, e.Distinct(x, n)), columns
			pair, paired = 1, false
			first, _ := equals.of(keyColumn(e.table, x, 0).Ordinal)
			second, _ := equals.of(keyColumn(e.table, x, 1).Ordinal)
			if f, ok := e.countedPrefix(x, n, equals); ok {
				pair, paired = f, true
			} else if f, ok := e.pair(x, first, second); ok {
				pair, paired = f, n == 2
			}
		}
	}
	// What a value is more or less frequent than the average one of its column, the
	// combination is, too, and it is less frequent than its values: a key that has both is read
	// rather than one of them.
	least := 1.0
	for i, q := range equals {
		if covered>>i&1 != 0 {
			f := e.equal(q.ordinal, q.operand)
			known, least = known*e.Skew(q.ordinal, q.operand), min(least, f)
		}
	}
	if paired {
		known = pair
	}
	if covered != 0 {
		known = min(known, pair, least*0.9)
	}
	for i, q := range equals {
		if set>>i&1 != 0 && covered>>i&1 == 0 {
			known *= e.equal(q.ordinal, q.operand)
		}
	}
	return known
}

// jointPrefix returns how many first columns of a key are in a set, and which they are, if
// they were counted.
func (e *Estimator) jointPrefix(x *schema.Index, equals equalities, set uint64) (n int,
	columns uint64) {
	if x != nil && (x.State != schema.Ready || x.Where != nil) {
		return 0, 0
	}
	all := keyLen(e.table, x)
	for n < all {
		ordinal := keyColumn(e.table, x, n).Ordinal
		at := slices.IndexFunc(equals, func(q equality) bool { return q.ordinal == ordinal })
		if at < 0 || set>>at&1 == 0 {
			break
		}
		columns |= 1 << at
		n++
	}
	_, counted := e.stats.Key(x).Values(n)
	counted = counted || e.live != nil
	if unique := x == nil || x.Unique; counted || unique && n == all {
		return n, columns
	}
	return 0, 0
}

// Clamp keeps estimates away from zero, so that plans for "nothing" still differ.
func Clamp(f float64) float64 {
	if math.IsNaN(f) || f < 0.001 {
		return 0.001
	}
	return f
}
