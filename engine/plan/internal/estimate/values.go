package estimate

import (
	"iter"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// equal estimates the fraction of rows with one value in a column.
func (e *Estimator) equal(ordinal int, operand expr.Expr) float64 {
	value, _ := e.known(operand)
	return e.equalTo(ordinal, value)
}

// Skew returns how many times more frequent a value of a column is than the average one.
func (e *Estimator) Skew(ordinal int, operand expr.Expr) float64 {
	return e.equal(ordinal, operand) * max(1, e.Values(ordinal))
}

// equalTo is equal for a value, which is NULL if it is not known. A value that is not among the
// frequent ones shares what they leave with the others.
func (e *Estimator) equalTo(ordinal int, value expr.Value) float64 {
	if value.IsNull() {
		return 1 / max(1, e.Values(ordinal))
	}
	var room, after [shortBytes]byte
	if e.live != nil {
		for x := range e.KeysWith(ordinal) {
			if v, ok := e.encode(room[:0], x, 0, value); ok {
				if f, ok := e.countedValue(x, v); ok {
					return f
				}
			}
		}
	}
	for x := range e.KeysWith(ordinal) {
		k := e.stats.Key(x)
		if k == nil || len(k.Heavy) == 0 && len(k.Histogram.Bounds) == 0 {
			continue
		}
		v, ok := e.encode(room[:0], x, 0, value)
		if !ok {
			continue
		}
		if f, ok := stats.Share(k.Heavy, v); ok {
			return f
		}
		rare := e.rare(ordinal, k)
		if end, ok := keycodec.PrefixEnd(after[:0], v); ok && k.Histogram.Outside(v, end) {
			rare = min(rare, k.Unseen(e.stats.Sampled))
		}
		return rare
	}
	return 1 / max(1, e.Values(ordinal))
}

// beginning estimates the texts, or byte strings, of a column that begin with one, which is NULL if
// it is not known.
func (e *Estimator) beginning(x expr.Expr, prefix expr.Value) float64 {
	c, ok := x.(expr.Column)
	if !ok || prefix.IsNull() {
		return defaultPrefix
	}
	for x := range e.KeysWith(c.Ordinal) {
		field := e.table.Columns[c.Ordinal].Field(keyColumn(e.table, x, 0))
		var room [shortBytes]byte
		lo, ok := spans.AppendOpen(room[:0], &field, prefix)
		if !ok || c.Collation != field.Collation {
			continue
		}
		hi, _ := keycodec.PrefixEnd(nil, lo)
		if f, ok := e.counted(x, lo, hi, 0); ok {
			return f
		}
		if f, ok := e.histogramOf(x, lo, hi, math.Inf(1)); ok {
			return f
		}
	}
	return defaultPrefix
}

// contains estimates the fraction of rows whose list has a value: an index has an entry for each
// value of a list.
func (e *Estimator) contains(ordinal int, item expr.Expr) float64 {
	f := e.equal(ordinal, item)
	for x := range e.KeysWith(ordinal) {
		return min(1, f*e.Entries(x)/e.Rows())
	}
	return f
}

// pair estimates the fraction of rows with two values in the first two columns of a key.
func (e *Estimator) pair(x *schema.Index, first, second expr.Expr) (f float64, ok bool) {
	k := e.stats.Key(x)
	if k == nil || len(k.Pairs) == 0 {
		return 0, false
	}
	v, known := e.known(first)
	w, both := e.known(second)
	if !known || !both {
		return 0, false
	}
	a, ok := e.encode(nil, x, 0, v)
	b, also := e.encode(nil, x, 1, w)
	if !ok || !also {
		return 0, false
	}
	if f, ok := stats.Share(k.Pairs, append(a, b...)); ok {
		return f, true
	}
	return max(stats.Rare(k.Pairs, 0, e.Distinct(x, 2)), 1/max(1, k.Entries)), true
}

// rare estimates the fraction of rows with one value that is not among the frequent ones of a
// key. It is never zero: the value may have come after the statistics.
func (e *Estimator) rare(ordinal int, k *stats.Key) float64 {
	return max(stats.Rare(k.Heavy, k.Nulls, e.Values(ordinal)), 1/max(1, k.Entries))
}

// Risk returns how many times more look-ups of a key should be expected to find than rows, which
// is by the average value: one of them may be that of the most frequent value. It is the fourth
// root of what that would do.
func (e *Estimator) Risk(x *schema.Index, rows float64) float64 {
	k := e.stats.Key(x)
	if k == nil || len(k.Heavy) == 0 || rows <= 0 {
		return 1
	}
	return math.Pow(1+k.Heavy[0].Fraction*k.Entries/rows, 0.25)
}

// list estimates column IN (constants).
func (e *Estimator) list(in expr.In) float64 {
	f := 0.0
	c, ok := in.X.(expr.Column)
	if !ok {
		f = DefaultDistinct * float64(len(in.List))
	} else if len(in.List) > 0 {
		id := listID{&in.List[0], len(in.List)}
		f = e.remembered(c.Ordinal, id, id.n, func() float64 {
			return e.listed(c.Ordinal, in.List)
		})
	}
	if f = min(1, f); in.Not && ok {
		return max(0, 1-f-e.nulls(c.Ordinal))
	} else if in.Not {
		return 1 - f
	}
	return f
}

// listed estimates the values of a list, which may have lists among them.
func (e *Estimator) listed(ordinal int, list []expr.Expr) (f float64) {
	all := e.items(ordinal, len(list))
	for _, item := range list {
		if values, many := e.listOf(item); many {
			f += e.values(ordinal, item, values)
		} else {
			v, _ := e.known(item)
			all.add(v)
		}
	}
	return f + all.total()
}

// listWith estimates column IN (constants) among the rows that have values in other columns.
func (e *Estimator) listWith(equals equalities, in expr.In) float64 {
	c, ok := in.X.(expr.Column)
	if ok && !in.Not && len(equals) > 0 && e.table != nil {
		for _, x := range e.table.Indexes {
			n := 0
			for n < len(x.Columns) {
				if _, fixed := equals.of(x.Columns[n].Ordinal); !fixed {
					break
				}
				n++
			}
			if n == 0 || n == len(x.Columns) || x.Columns[n].Ordinal != c.Ordinal ||
				x.State != schema.Ready || x.Where != nil {
				continue
			}
			if f, ok := e.listAfter(x, n, equals, in); ok {
				return f
			}
		}
	}
	return e.list(in)
}

// listAfter estimates column i of a key IN (constants) among the entries with values of the
// columns before it, by counting some of the values.
func (e *Estimator) listAfter(x *schema.Index, i int, equals equalities, in expr.In) (f float64,
	ok bool) {
	if e.live == nil || i >= keyLen(e.table, x) {
		return 0, false
	}
	all, ok := e.countedPrefix(x, i, equals)
	if !ok {
		return 0, false
	}
	values, ok := e.valuesOf(in)
	if !ok {
		return 0, false
	}
	ordinal, sum, counted, found := keyColumn(e.table, x, i).Ordinal, 0.0, 0.0, 0.0
	step := 1 + (len(values)-1)/maxCountedItems
	for at := step / 2; at < len(values); at += step {
		key := slices.Clone(equals).with(ordinal, expr.Const{Value: values[at]})
		share, ok := e.countedPrefix(x, i+1, key)
		if !ok {
			return 0, false
		}
		sum, counted = sum+share, counted+1
		if share*e.Entries(x) >= 1 {
			found++
		}
	}
	f = min(1, sum*float64(len(values))/max(1, counted)/all)
	if step > 1 { // few that were found say little about the others
		f = (found*f + fewFound*e.list(in)) / (found + fewFound)
	}
	return f, true
}

// fewFound is how many of the values of a list that are counted among some entries have to be found
// there to be believed as much as what the list finds among all.
const fewFound = 4

// items adds up the values of a list. Of a long one some are looked at, and all others but the
// frequent ones are taken to be like those on average.
type items struct {
	e            *Estimator
	ordinal      int
	i, step      int                // one of step values is looked at
	index        *schema.Index      // that the frequent ones are of
	frequent     map[string]float64 // their shares
	f            float64            // of what is known
	sum, counted float64
	others       float64 // how many are like those that were looked at
}

// maxTried bounds the values of a list that are looked at if none is counted.
const maxTried = 256

func (e *Estimator) items(ordinal, length int) items {
	s := items{e: e, ordinal: ordinal}
	most := maxTried
	if e.live != nil {
		most = maxCountedItems
	}
	if s.step = 1 + (length-1)/most; s.step == 1 {
		return s
	}
	for x := range e.KeysWith(ordinal) {
		if k := e.stats.Key(x); k != nil {
			s.index, s.frequent = x, make(map[string]float64, len(k.Heavy))
			for _, h := range k.Heavy {
				s.frequent[string(h.Key)] = h.Fraction
			}
			break
		}
	}
	return s
}

// add adds a value.
func (s *items) add(v expr.Value) {
	if s.step > 1 {
		if len(s.frequent) > 0 {
			var room [shortBytes]byte
			if key, ok := s.e.encode(room[:0], s.index, 0, v); ok {
				if f, ok := s.frequent[string(key)]; ok {
					s.f += f
					return
				}
			}
		}
		if s.i++; s.i%s.step != s.step/2 { // the middle one: neighbours are often alike
			s.others++
			return
		}
	}
	f := s.e.equalTo(s.ordinal, v)
	s.f, s.sum, s.counted = s.f+f, s.sum+f, s.counted+1
}

// total returns the share of all.
func (s *items) total() float64 { return s.f + s.others*s.sum/max(1, s.counted) }

// values estimates an item that is a list itself, NULL if that is not known.
func (e *Estimator) values(ordinal int, item expr.Expr, list expr.Value) float64 {
	switch {
	case list.IsNull():
		return e.lengthOf(item) / max(1, e.Values(ordinal)) * e.listRisk(ordinal, item)
	case list.Kind() != expr.KindList:
		return e.equalTo(ordinal, list)
	}
	return e.remembered(ordinal, list, list.Len(), func() float64 {
		all := e.items(ordinal, list.Len())
		for v := range inOrder(list, all.step > 1) {
			all.add(v)
		}
		return all.total()
	})
}

// inOrder returns the values of a list; with sorted integers are in ascending order. Why: one of
// several neighbours is looked at, and these are often alike.
func inOrder(list expr.Value, sorted bool) iter.Seq[expr.Value] {
	if !sorted {
		return list.Elements()
	}
	all := make([]int64, 0, list.Len())
	for v := range list.Elements() {
		i, ok := v.AsInt()
		if !ok {
			return list.Elements()
		}
		all = append(all, i)
	}
	slices.Sort(all)
	return func(yield func(expr.Value) bool) {
		for _, i := range all {
			if !yield(expr.Int(i)) {
				return
			}
		}
	}
}

// lengthOf is the length of a list that is not known.
func (e *Estimator) lengthOf(item expr.Expr) float64 {
	if p, ok := spans.IsList(item); ok && e.stats != nil {
		if n, ok := e.lists[p.Index]; ok {
			return max(1, n)
		}
	}
	return defaultList
}

// listRisk is Risk for the values of a list that is not known.
func (e *Estimator) listRisk(ordinal int, item expr.Expr) float64 {
	for x := range e.KeysWith(ordinal) {
		return e.Risk(x, e.lengthOf(item)*e.Rows()/max(1, e.Values(ordinal)))
	}
	return 1
}

// without reports whether a list is known not to have a value.
func (e *Estimator) without(ordinal int, list []expr.Expr, value expr.Expr) bool {
	v, known := e.known(value)
	v = e.folded(ordinal, v)
	if !known {
		return false
	}
	for _, item := range list {
		all, many := e.listOf(item)
		if !many && !e.differ(ordinal, item, value) || many && all.Kind() != expr.KindList {
			return false
		}
		if !many {
			continue
		}
		for x := range all.Elements() {
			order, comparable := expr.Compare(e.folded(ordinal, x), v)
			if !comparable || order == 0 {
				return false
			}
		}
	}
	return true
}

// listOf returns the value of an item that may be a list, NULL if it is not known.
func (e *Estimator) listOf(item expr.Expr) (list expr.Value, many bool) {
	p, many := spans.IsList(item)
	if !many {
		if param, ok := item.(expr.Param); ok && param.Index < len(e.given) {
			list = e.given[param.Index]
			return list, list.Kind() == expr.KindList
		}
		return list, false
	}
	if p.Index < len(e.given) {
		list = e.given[p.Index]
	}
	return list, true
}

// Length estimates how many values a list has.
func (e *Estimator) Length(items []expr.Expr) (n float64) {
	for _, item := range items {
		switch list, many := e.listOf(item); {
		case !many, list.Kind() != expr.KindList && !list.IsNull():
			n++
		case list.IsNull():
			n += e.lengthOf(item)
		default:
			n += float64(list.Len())
		}
	}
	return n
}
