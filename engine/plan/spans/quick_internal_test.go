package spans

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// quickKey is a key of numbers and texts, one of them nullable and one descending.
func quickKey() Key {
	return Key{Ordinals: []int{0, 1, 2, 3}, Keep: 1, Fields: []keycodec.Field{
		{Name: "a", Type: keycodec.TypeInt64}, {Name: "s", Type: keycodec.TypeString},
		{Name: "b", Type: keycodec.TypeInt64},
		{Name: "n", Type: keycodec.TypeInt64, Nullable: true},
	}}
}

// quickPredicate draws a tree of comparisons.
func quickPredicate(r *rand.Rand, depth int) expr.Expr {
	if depth > 0 && r.IntN(3) > 0 {
		var terms []expr.Expr
		for range 2 + r.IntN(2) {
			terms = append(terms, quickPredicate(r, depth-1))
		}
		if r.IntN(2) == 0 {
			return expr.And{Terms: terms}
		}
		return expr.Or{Terms: terms}
	}
	column := []int{0, 0, 0, 0, 0, 1, 2, 3}[r.IntN(8)]
	op := []expr.Op{expr.Eq, expr.Eq, expr.Eq, expr.Lt, expr.Le, expr.Gt, expr.Ge}[r.IntN(7)]
	param := 2 * r.IntN(3)
	if column == 1 {
		param++
	}
	return expr.Cmp{Op: op, L: expr.Column{Ordinal: column}, R: expr.Param{Index: param}}
}

// quickParams draws numbers for even and texts for odd parameters.
func quickParams(r *rand.Rand) (params []expr.Value) {
	numbers := []int64{0, 1, 2, 3, 255, 256, -1, math.MaxInt64, math.MinInt64}
	texts := []string{"", "a", "b", "a\x00", "\xff\xff"}
	for i := range 6 {
		switch {
		case r.IntN(12) == 0:
			params = append(params, expr.Value{})
		case r.IntN(20) == 0:
			params = append(params, expr.Float(1.5))
		case i%2 == 0 && r.IntN(2) == 0:
			params = append(params, expr.Int(r.Int64N(1000)))
		case i%2 == 0:
			params = append(params, expr.Int(numbers[r.IntN(len(numbers))]))
		default:
			params = append(params, expr.String(texts[r.IntN(len(texts))]))
		}
	}
	return params
}

// TestQuickSpansAreThoseOfCuts builds spans in both ways.
//
// Promise (plans): The quick way to spans gives those of the cuts; values choose the plan of a
// query built again, and are bound exactly. Also `TestLikelyValuesChoosePlans`.
func TestQuickSpansAreThoseOfCuts(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	r := rand.New(rand.NewPCG(3, 3))
	runs := testutil.Effort(6000, 30_000)
	quick, several := 0, 0
	var b, c Builder
	for range runs {
		pred := Normalise(quickPredicate(r, 2))
		template, cuts := Compile(quickKey(), pred), Compile(quickKey(), pred)
		cuts.once.Do(func() {})
		for range 4 {
			params := quickParams(r)
			got, want := b.Build(template, params, 0), c.Build(cuts, params, 0)
			same := got.Exact == want.Exact && got.Truncated == want.Truncated &&
				got.Repeats == want.Repeats && sameRanges(got.Spans, want.Spans)
			if !same {
				t.Fatalf("%s with %v:\n%+v\nwant\n%+v", pred, params, got, want)
			}
			if terms := template.quickTerms(); terms != nil {
				if d := new(Builder); d.asQuick(template, params) {
					quick++
					if len(got.Spans) > 1 {
						several++
					}
				}
			}
		}
	}
	t.Logf("%d of %d without cuts, %d of them have several spans", quick, 4*runs, several)
	if quick < runs/4 || several < runs/200 {
		t.Error("too few to tell")
	}
}

// sameRanges reports whether spans without residuals are about the same tuples. Cuts may make
// more of them: an OR cuts also where a term of it cannot be true any more.
func sameRanges(a, b []Span) bool {
	merged := func(spans []Span) (out []Span) {
		for _, s := range spans {
			if k := len(out); k > 0 && s.Residual == nil && bytes.Equal(out[k-1].Hi, s.Lo) {
				out[k-1].Hi = s.Hi
				continue
			}
			out = append(out, s)
		}
		return out
	}
	least := func(b []byte) []byte { return bytes.TrimRight(b, "\x00") } // no value is below zeros
	same := func(x, y Span) bool {
		return bytes.Equal(least(x.Lo), least(y.Lo)) && bytes.Equal(x.Hi, y.Hi) && x.Lo != nil &&
			(x.Hi == nil) == (y.Hi == nil) && (x.Residual == nil) == (y.Residual == nil)
	}
	points := func(x, y Span) bool { return same(x, y) && x.Points == y.Points }
	return len(a) <= len(b) && slices.EqualFunc(merged(a), merged(b), same) &&
		(len(a) != len(b) || slices.EqualFunc(a, b, points))
}

func (b *Builder) asQuick(t *Template, params []expr.Value) bool {
	b.t, b.params = t, params
	return b.buildQuick(t.quick, DefaultMaxSpans)
}
