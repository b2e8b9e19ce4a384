package spans_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// This file is an evaluator of predicates that shares nothing with the packages under
// test but the types of expressions: no comparison, no encoding, no normal form.

type truth int

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// judge evaluates predicates over one row.
type judge struct {
	row    []expr.Value
	params []expr.Value
}

func (j judge) truth(e expr.Expr) truth {
	switch e := e.(type) {
	case expr.And:
		out := yes
		for _, term := range e.Terms {
			out = min(out, j.truth(term))
		}
		return out
	case expr.Or:
		out := no
		for _, term := range e.Terms {
			out = max(out, j.truth(term))
		}
		return out
	case expr.Not:
		return yes - j.truth(e.X)
	case expr.Cmp:
		return j.compareAny(e.Op, e.L, e.R)
	case expr.Between:
		t := min(j.compareAny(expr.Ge, e.X, e.Lo), j.compareAny(expr.Le, e.X, e.Hi))
		return turned(t, e.Not)
	case expr.In:
		out := no
		for _, item := range e.List {
			out = max(out, j.compareAny(expr.Eq, e.X, item))
		}
		return turned(out, e.Not)
	case expr.IsNull:
		return truthOf(j.value(e.X).IsNull() != e.Not)
	case expr.BeginsWith:
		return j.begins(e)
	case expr.Like:
		return turned(j.like(e), e.Not)
	case expr.Contains:
		return j.contains(e)
	}
	v := j.value(e)
	b, _ := v.AsBool()
	if v.IsNull() {
		return unknown
	}
	return truthOf(b)
}

func turned(t truth, not bool) truth {
	if not {
		return yes - t
	}
	return t
}

func (j judge) value(e expr.Expr) expr.Value {
	switch e := e.(type) {
	case expr.Const:
		return e.Value
	case expr.Param:
		return j.params[e.Index]
	case expr.Column:
		return j.row[e.Ordinal]
	case expr.Arith: // only the sum of integers is generated
		l, _ := j.value(e.L).AsInt()
		r, _ := j.value(e.R).AsInt()
		if j.value(e.L).IsNull() || j.value(e.R).IsNull() {
			return expr.Null()
		}
		return expr.Int(l + r)
	}
	panic("no value: " + e.String())
}

func (j judge) compareAny(op expr.Op, l, r expr.Expr) truth {
	left, ok := l.(expr.Row)
	if !ok {
		return compared(op, j.value(l), j.value(r), folds(l) || folds(r))
	}
	right := r.(expr.Row)
	out := truthOf(op == expr.Eq || op == expr.Le || op == expr.Ge)
	if op == expr.Eq || op == expr.Ne {
		out = yes
		for i := range left.Items {
			out = min(out, j.compareAny(expr.Eq, left.Items[i], right.Items[i]))
		}
		return turned(out, op == expr.Ne)
	}
	for i := range left.Items {
		switch j.compareAny(expr.Eq, left.Items[i], right.Items[i]) {
		case no:
			return j.compareAny(op, left.Items[i], right.Items[i])
		case unknown:
			return unknown
		}
	}
	return out
}

func folds(e expr.Expr) bool {
	c, ok := e.(expr.Column)
	return ok && c.Collation == keycodec.CollateASCII
}

func compared(op expr.Op, v, w expr.Value, fold bool) truth {
	if v.IsNull() || w.IsNull() {
		return unknown
	}
	c := ordered(v, w, fold)
	switch op {
	case expr.Eq:
		return truthOf(c == 0)
	case expr.Ne:
		return truthOf(c != 0)
	case expr.Lt:
		return truthOf(c < 0)
	case expr.Le:
		return truthOf(c <= 0)
	case expr.Gt:
		return truthOf(c > 0)
	}
	return truthOf(c >= 0)
}

// ordered compares two values of one class.
func ordered(v, w expr.Value, fold bool) int {
	switch x := v.Any().(type) {
	case string:
		y := w.Any().(string)
		if fold {
			x, y = strings.ToLower(x), strings.ToLower(y)
		}
		return strings.Compare(x, y)
	case []byte:
		return strings.Compare(string(x), string(w.Any().([]byte)))
	case bool:
		return int(truthOf(x) - truthOf(w.Any().(bool)))
	case time.Time:
		return x.Compare(w.Any().(time.Time))
	}
	if x, ok := v.Any().(int64); ok {
		if y, ok := w.Any().(int64); ok {
			return cmp.Compare(x, y)
		}
	}
	pair := [2]expr.Value{v, w}
	c, ok := known[pair]
	if !ok {
		a, aClass := rational(v)
		b, bClass := rational(w)
		if c = cmp.Compare(aClass, bClass); c == 0 && a != nil {
			c = a.Cmp(b)
		}
		known[pair] = c
	}
	return c
}

// known keeps comparisons of numbers: there are few different ones, and they are slow.
var known = make(map[[2]expr.Value]int)

// rational returns a number exactly, and the place of its kind: NaN, -Inf, finite, +Inf.
func rational(v expr.Value) (*big.Rat, int) {
	switch x := v.Any().(type) {
	case int64:
		return new(big.Rat).SetInt64(x), 2
	case uint64:
		return new(big.Rat).SetFrac(new(big.Int).SetUint64(x), big.NewInt(1)), 2
	case float64:
		switch {
		case x != x:
			return nil, 0
		case math.IsInf(x, -1):
			return nil, 1
		case math.IsInf(x, 1):
			return nil, 3
		}
		return new(big.Rat).SetFloat64(x), 2
	case keycodec.Decimal:
		r, ok := new(big.Rat).SetString(x.String())
		if ok {
			return r, 2
		}
	}
	panic("no number: " + v.String())
}

func (j judge) begins(e expr.BeginsWith) truth {
	v, w := j.value(e.X), j.value(e.Prefix)
	if v.IsNull() || w.IsNull() {
		return unknown
	}
	return truthOf(strings.HasPrefix(textOf(v, folds(e.X)), textOf(w, folds(e.X))))
}

func textOf(v expr.Value, fold bool) string {
	s, ok := v.AsString()
	if !ok {
		s, _ = v.AsBytes()
	}
	if fold {
		return strings.ToLower(s)
	}
	return s
}

// like knows patterns of literal bytes and % only.
func (j judge) like(e expr.Like) truth {
	v, w := j.value(e.X), j.value(e.Pattern)
	if v.IsNull() || w.IsNull() {
		return unknown
	}
	text := textOf(v, folds(e.X))
	parts := strings.Split(textOf(w, folds(e.X)), "%")
	if len(parts) == 1 {
		return truthOf(text == parts[0])
	}
	last := len(parts) - 1
	if !strings.HasPrefix(text, parts[0]) {
		return no
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return no
		}
		text = text[i+len(part):]
	}
	return truthOf(strings.HasSuffix(text, parts[last]))
}

func (j judge) contains(e expr.Contains) truth {
	v, w := j.value(e.X), j.value(e.Item)
	if v.IsNull() || w.IsNull() {
		return unknown
	}
	out := no
	for _, element := range slices.Collect(v.Elements()) {
		out = max(out, compared(expr.Eq, element, w, folds(e.X)))
	}
	return out
}
