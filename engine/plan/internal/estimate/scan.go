package estimate

import (
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
)

// Scan is what reading a key costs.
type Scan struct {
	Fraction float64 // of the entries that are in the spans
	Ranges   float64 // spans, without buckets
	Buckets  float64 // partitions that each of them lies in
	Bounded  bool    // some column of the key is restricted
}

// Part is a part of the key of an index, or of rows.
type Part struct {
	spans.Key
	Index *schema.Index // nil: the rows
	// From is how many first columns the part is without.
	From int
}

// Scan estimates the spans that terms make of a key, from the shape of the terms alone. Its
// first bucketColumns columns decide in which of the buckets an entry lies.
func (e *Estimator) Scan(key Part, terms []expr.Expr, bucketColumns int, buckets float64) Scan {
	w := scanWalk{e: e, key: key}
	s := Scan{Ranges: 1, Buckets: 1}
	s.Fraction, s.Ranges = w.walk(0, terms, 0)
	s.Bounded = s.Fraction < 1 || w.fixed > 0
	for _, t := range terms { // a range of all values that there are is a range
		s.Bounded = s.Bounded || len(key.Ordinals) > 0 && w.restricts(key.Ordinals[0], t)
	}
	if w.fixed < bucketColumns {
		s.Buckets = buckets
	}
	if i := bucketColumns - 1; w.fixed == i && i < len(key.Ordinals) {
		n := e.Most(&key.Key, i, terms) / max(1, s.Ranges)
		if 2*n < buckets && (key.Index != nil || e.table.Sharded() || n <= spans.MaxKeys) {
			s.Buckets = max(1, n)
		}
	}
	return s
}

// Most returns how many values terms leave column i of a key at most, infinitely many if they do
// not say.
func (e *Estimator) Most(key *spans.Key, i int, terms []expr.Expr) float64 {
	if _, ok := conjunct.PointOn(key, i, terms); ok {
		return 1
	}
	most := math.Inf(1)
	if in, ok := conjunct.ListOn(key, i, terms); ok {
		most = e.Length(in.List)
	}
	var b bounds
	for _, t := range terms {
		if or, ok := t.(expr.Or); ok {
			sum := 0.0
			for _, branch := range or.Terms {
				sum += e.Most(key, i, expr.Terms(nil, branch))
			}
			most = min(most, sum)
		} else if c, ok := t.(expr.Cmp); ok && spans.IsConstant(c.R) {
			column, ok := c.L.(expr.Column)
			if v, known := e.known(c.R); ok && known && column.Ordinal == key.Ordinals[i] {
				b.add(c.Op, v, true)
			}
		}
	}
	n, _ := e.count(key.Ordinals[i], b)
	return min(most, n)
}

// scanWalk goes through the columns of a key.
type scanWalk struct {
	e      *Estimator
	key    Part
	equals equalities // columns with one value on the way here
	fixed  int        // first columns that are points everywhere
	each   int        // lists on the way here whose values are looked at one by one
}

// orDepth bounds how deep ORs are looked into.
const orDepth = 4

// walk returns the fraction of entries and the number of ranges from column i on.
func (w *scanWalk) walk(i int, terms []expr.Expr, depth int) (fraction, ranges float64) {
	if i == len(w.key.Fields) {
		return w.joint(), 1
	}
	ordinal := w.key.Ordinals[i]
	if x, ok := conjunct.PointOn(&w.key.Key, i, terms); ok {
		w.equals = w.equals.with(ordinal, x)
		w.note(i, depth)
		if w.e.contradicts(ordinal, x, terms) {
			return 0, 1
		}
		fraction, ranges = w.walk(i+1, terms, depth)
		w.equals = w.equals.without(ordinal)
		return fraction, ranges
	}
	if in, ok := w.listOn(i, terms); ok {
		w.note(i, depth)
		if f, r, ok := w.eachOf(i, in, terms, depth); ok {
			return f, r
		}
		f, r := w.walk(i+1, terms, depth)
		n := w.e.Length(in.List)
		if i >= w.key.Keep {
			n = w.e.runs(in, n)
		}
		if share, ok := w.after(i, in); ok {
			return f * share, r * n
		}
		return f * w.e.list(in), r * n
	}
	if or, rest, ok := w.orOn(ordinal, terms); ok && depth < orDepth {
		return w.branches(i, or, rest, depth)
	}
	var room [4]expr.Expr
	on := room[:0]
	for _, t := range terms {
		if c, ok := w.e.restricted(t); ok && c == ordinal {
			on = append(on, t)
		}
	}
	if f, ok := w.counted(i, on); ok {
		return f, 1
	}
	return w.joint() * w.e.Selectivity(on), 1
}

// listOn is conjunct.ListOn with what all lists of the column have in common, without what is
// outside of its bounds.
func (w *scanWalk) listOn(i int, terms []expr.Expr) (in expr.In, ok bool) {
	if in, ok = conjunct.ListOn(&w.key.Key, i, terms); !ok || w.e.live == nil {
		return in, ok
	}
	lists := []expr.In{in}
	var b bounds
	for _, t := range terms {
		if other, ok := conjunct.List(t, w.key.Source); ok {
			if other.X.(expr.Column).Ordinal == w.key.Ordinals[i] {
				lists = w.e.withList(lists, other)
			}
		} else if c, ok := t.(expr.Cmp); ok && spans.IsConstant(c.R) {
			column, ok := c.L.(expr.Column)
			if v, known := w.e.known(c.R); ok && known && column.Ordinal == w.key.Ordinals[i] {
				b.add(c.Op, v, true)
			}
		}
	}
	return w.e.listWithin(lists[0], b), true
}

// maxEach is up to how many values of a list are looked at one by one, of maxLists lists: what
// follows is walked through for each combination.
const (
	maxEach  = 4
	maxLists = 2
)

// eachOf adds up what is found of each value of a short list of column i, if terms restrict the
// next column, too: which values that has may depend on those of column i.
func (w *scanWalk) eachOf(i int, in expr.In, terms []expr.Expr, depth int) (f, ranges float64,
	ok bool) {
	values, known := w.e.valuesOf(in)
	if !known || len(values) > maxEach || w.each == maxLists || w.e.live == nil ||
		w.key.From > 0 || i+1 >= min(len(w.key.Fields), keyLen(w.e.table, w.key.Index)) {
		return 0, 0, false
	}
	next := func(t expr.Expr) bool { return w.restricts(w.key.Ordinals[i+1], t) }
	if !slices.ContainsFunc(terms, next) {
		return 0, 0, false
	}
	w.each++
	for _, v := range values {
		w.equals = w.equals.with(w.key.Ordinals[i], expr.Const{Value: v})
		g, n := w.walk(i+1, terms, depth)
		w.equals = w.equals.without(w.key.Ordinals[i])
		f, ranges = f+g, ranges+n
	}
	w.each--
	return min(1, f), ranges, true
}

// counted returns the share of the entries with the values on the way to column i and a range of
// it, if that is all that terms say about it.
func (w *scanWalk) counted(i int, terms []expr.Expr) (f float64, ok bool) {
	if i == 0 || w.key.From > 0 || w.e.live == nil || len(terms) == 0 {
		return 0, false
	}
	var b bounds
	for _, t := range terms {
		c, ok := t.(expr.Cmp)
		if !ok || !spans.IsConstant(c.R) {
			return 0, false
		}
		if _, list := spans.IsList(c.R); list {
			return 0, false
		}
		v, known := w.e.known(c.R)
		if !known || !b.add(c.Op, v, true) {
			return 0, false
		}
	}
	return w.e.countedRange(w.key.Index, i, w.equals, b)
}

// after is Estimator.listAfter for the values on the way to column i.
func (w *scanWalk) after(i int, in expr.In) (f float64, ok bool) {
	if i == 0 || w.key.From > 0 {
		return 0, false
	}
	return w.e.listAfter(w.key.Index, i, w.equals, in)
}

// contradicts reports whether a term says that a column has another value.
func (e *Estimator) contradicts(ordinal int, value expr.Expr, terms []expr.Expr) bool {
	return slices.ContainsFunc(terms, func(t expr.Expr) bool {
		switch t := t.(type) {
		case expr.Cmp:
			column, ok := t.L.(expr.Column)
			if !ok || column.Ordinal != ordinal || t.Op != expr.Eq {
				return false
			}
			if _, list := spans.IsList(t.R); list {
				return e.without(ordinal, []expr.Expr{t.R}, value)
			}
			return spans.IsConstant(t.R) && e.differ(ordinal, value, t.R)
		case expr.In:
			column, ok := t.X.(expr.Column)
			return ok && column.Ordinal == ordinal && !t.Not && e.without(ordinal, t.List, value)
		}
		return false
	})
}

// note records that column i is a point, outside of ORs.
func (w *scanWalk) note(i, depth int) {
	if depth == 0 && w.fixed == i {
		w.fixed = i + 1
	}
}

func (w *scanWalk) joint() float64 { return w.e.allEqual(w.equals) }

// branches adds up the terms of an OR.
func (w *scanWalk) branches(i int, or expr.Or, rest []expr.Expr, depth int) (f, r float64) {
	points := true
	for _, b := range or.Terms {
		terms := expr.Terms(rest[:len(rest):len(rest)], b)
		_, point := conjunct.PointOn(&w.key.Key, i, terms)
		_, list := conjunct.ListOn(&w.key.Key, i, terms)
		points = points && (point || list)
		g, s := w.walk(i, terms, depth+1)
		f, r = f+g, r+s
	}
	if points {
		w.note(i, depth)
	}
	return min(1, f), r
}

// orOn finds an OR that restricts a column in each of its terms, and returns it and the
// other terms.
func (w *scanWalk) orOn(ordinal int, terms []expr.Expr) (or expr.Or, rest []expr.Expr, ok bool) {
	for i, t := range terms {
		if x, ok := t.(expr.Or); ok && w.allRestrict(ordinal, x) {
			rest = append(append(rest, terms[:i]...), terms[i+1:]...)
			return x, rest, true
		}
	}
	return expr.Or{}, nil, false
}

func (w *scanWalk) restricts(ordinal int, e expr.Expr) bool {
	switch t := e.(type) {
	case expr.And:
		for _, x := range t.Terms {
			if w.restricts(ordinal, x) {
				return true
			}
		}
		return false
	case expr.Or:
		return w.allRestrict(ordinal, t)
	}
	c, ok := w.e.restricted(e)
	return ok && c == ordinal
}

// allRestrict reports whether each term of an OR restricts a column.
func (w *scanWalk) allRestrict(ordinal int, or expr.Or) bool {
	for _, x := range or.Terms {
		if !w.restricts(ordinal, x) {
			return false
		}
	}
	return true
}

// restricted is conjunct.Restricted without patterns whose texts may begin with anything.
func (e *Estimator) restricted(t expr.Expr) (ordinal int, ok bool) {
	if like, is := t.(expr.Like); is && e.prefixOf(like) == "" {
		return 0, false
	}
	return conjunct.Restricted(t)
}
