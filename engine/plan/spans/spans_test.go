package spans_test

import (
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// conditions builds spans and returns them in words.
func conditions(key spans.Key, pred expr.Expr, max int) (out []string, s spans.Set) {
	s = new(spans.Builder).Build(spans.Compile(key, spans.Normalise(pred)), nil, max)
	for _, span := range s.Spans {
		text := key.Condition(span).String()
		if span.Residual != nil {
			text += " filter " + span.Residual.String()
		}
		out = append(out, text)
	}
	return out, s
}

// TestSpansOfPredicates has one case for each rule, over columns a and b.
func TestSpansOfPredicates(t *testing.T) {
	for _, c := range []struct {
		pred expr.Expr
		want []string
	}{
		{mixed(), []string{"a = 200 AND b = 300"}},
		{and(compare(0, expr.Gt, 4), compare(0, expr.Lt, 5)), nil},
		{and(eq(0, 5), compare(1, expr.Ge, 3), compare(1, expr.Lt, 9)),
			[]string{"a = 5 AND b >= 3 AND b < 9"}},
		{or(eq(0, 5), eq(0, 6)), []string{"a >= 5 AND a < 7"}},
		{compare(0, expr.Ne, 5), []string{"a < 5", "a >= 6"}},
		{and(compare(0, expr.Gt, 5), eq(1, 1)), []string{"a >= 6 filter b = 1"}},
		{and(eq(0, 5), eq(2, 1)), []string{"a = 5 filter c = 1"}},
		{eq(1, 1), []string{"TRUE filter b = 1"}},
		{and(), []string{"TRUE"}},
		{or(), nil},
		{expr.Cmp{Op: expr.Gt, L: row(col(0), col(1)), R: row(num(1), num(2))},
			[]string{"encoded(a) >= X'80000000000000018000000000000003'"}},
		{or(and(eq(0, 1), eq(1, 2)), and(eq(0, 3), or(eq(1, 4), eq(2, 5)))), []string{
			"a = 1 AND b = 2", "a = 3 AND b < 4 filter c = 5", "a = 3 AND b = 4",
			"a = 3 AND b >= 5 filter c = 5"}},
	} {
		if got, _ := conditions(ints(2), c.pred, 0); !slices.Equal(got, c.want) {
			t.Errorf("%s\ngot  %q\nwant %q", c.pred, got, c.want)
		}
	}
}

// TestSpansOfNulls: NULLs are where the order has them, and only where they are asked for.
func TestSpansOfNulls(t *testing.T) {
	for _, last := range []bool{false, true} {
		for _, desc := range []bool{false, true} {
			key := ints(1)
			key.Fields[0].Nullable, key.Fields[0].NullsLast, key.Fields[0].Desc = true, last, desc
			isNull := expr.IsNull{X: col(0)}
			got, _ := conditions(key, isNull, 0)
			if !slices.Equal(got, []string{"a IS NULL"}) {
				t.Errorf("last %v, desc %v: IS NULL gives %q", last, desc, got)
			}
			got, _ = conditions(key, compare(0, expr.Lt, 5), 0)
			if !slices.Equal(got, []string{"a < 5"}) && !slices.Equal(got, []string{"a <= 4"}) {
				t.Errorf("last %v, desc %v: a < 5 gives %q", last, desc, got)
			}
			got, s := conditions(key, or(isNull, not(isNull)), 0)
			if !slices.Equal(got, []string{"TRUE"}) || !s.Exact {
				t.Errorf("last %v, desc %v: everything is %q", last, desc, got)
			}
		}
	}
}

// TestSpanLimit: with fewer spans than points neighbours are taken together, evenly, and
// the residual makes up for it.
func TestSpanLimit(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	got, s := conditions(ints(2), in(0, 6), 3)
	residual := " filter a IN (0, 3, 6, 9, 12, 15)"
	want := []string{"a >= 0 AND a < 4" + residual, "a >= 6 AND a < 10" + residual,
		"a >= 12 AND a < 16" + residual}
	if !slices.Equal(got, want) || !s.Truncated || s.Exact {
		t.Errorf("got %q, truncated %v", got, s.Truncated)
	}
	_, s = conditions(ints(3), and(in(0, 300), in(1, 300), in(2, 300)), 0)
	if n := len(s.Spans); !s.Truncated || n > spans.DefaultMaxSpans || n < spans.DefaultMaxSpans/2 {
		t.Errorf("%d spans, truncated %v", n, s.Truncated)
	}
}

// TestSpansOfManyPairs: an OR of many pairs is not compared with each of them everywhere.
func TestSpansOfManyPairs(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const n = 9000
	_, s := conditions(ints(2), wide(n), 0)
	if len(s.Spans) != n || !s.Exact || s.Truncated {
		t.Errorf("%d spans, exact %v, truncated %v", len(s.Spans), s.Exact, s.Truncated)
	}
}

// TestSpanWork: a predicate that takes much work at each of many points, and leaves few spans,
// is a filter from some point on.
func TestSpanWork(t *testing.T) {
	var even, odd []expr.Expr
	for i := range 300 {
		even = append(even, and(eq(1, 2*i), eq(2, 5)))
		odd = append(odd, and(eq(1, 2*i+1), eq(2, 5)))
	}
	pred := func(points int) expr.Expr { return and(in(0, points), or(even...), or(odd...)) }
	if _, s := conditions(ints(3), pred(3), 0); len(s.Spans) > 0 || !s.Exact || s.Truncated {
		t.Errorf("3 points: %d spans, exact %v, truncated %v", len(s.Spans), s.Exact, s.Truncated)
	}
	const points = 300
	_, s := conditions(ints(3), pred(points), 0)
	if n := len(s.Spans); n == 0 || n > points || s.Exact || !s.Truncated {
		t.Errorf("%d spans, exact %v, truncated %v", n, s.Exact, s.Truncated)
	}
}

// TestSpansOfLists: what a list contains is a point; rows without any of the elements asked
// for cannot be found.
func TestSpansOfLists(t *testing.T) {
	key := ints(2)
	key.Each = []bool{true, false}
	has := func(n int) expr.Expr { return expr.Contains{X: col(0), Item: num(n)} }
	for _, c := range []struct {
		pred       expr.Expr
		want       []string
		repeats    bool
		incomplete bool
	}{
		{has(1), []string{"a = 1"}, false, false},
		{and(has(1), eq(1, 2)), []string{"a = 1 AND b = 2"}, false, false},
		{and(has(2), has(1)), []string{"a = 1 filter contains(a, 2)"}, false, false},
		{or(has(1), has(5)), []string{"a = 1", "a = 5"}, true, false},
		{or(has(1), eq(1, 2)), nil, false, true},
		{eq(1, 2), nil, false, true},
		{not(has(1)), nil, false, true},
	} {
		template := spans.Compile(key, spans.Normalise(c.pred))
		if template.Incomplete() != c.incomplete {
			t.Errorf("%s: incomplete is %v", c.pred, template.Incomplete())
		}
		if c.incomplete {
			continue
		}
		got, s := conditions(key, c.pred, 0)
		if !slices.Equal(got, c.want) || s.Repeats != c.repeats {
			t.Errorf("%s\ngot  %q, repeats %v\nwant %q", c.pred, got, s.Repeats, c.want)
		}
	}
}

// TestSpansKeepTheirBytes: a set that was cloned, or came from Build, does not change
// when the builder is used again.
func TestSpansKeepTheirBytes(t *testing.T) {
	key := ints(2)
	var builder spans.Builder
	first := builder.Build(spans.Compile(key, mixed()), nil, 0).Clone()
	owned := spans.Build(key.Fields, key.Ordinals, 0, mixed(), 0)
	for i := range 100 {
		builder.Build(spans.Compile(key, and(eq(0, i), eq(1, i))), nil, 0)
	}
	want := keycodec.AppendInt64(keycodec.AppendInt64(nil, 200), 300)
	for _, s := range []spans.Set{first, owned} {
		if len(s.Spans) != 1 || !slices.Equal(s.Spans[0].Lo, want) {
			t.Errorf("spans %v", s.Spans)
		}
	}
}

// TestSpansOfForeignValues: what cannot be compared is left to the evaluator to refuse.
func TestSpansOfForeignValues(t *testing.T) {
	pred := and(eq(1, 2), expr.Cmp{Op: expr.Eq, L: col(0), R: text("x")})
	got, _ := conditions(ints(2), pred, 0)
	if !slices.Equal(got, []string{"TRUE filter b = 2 AND a = 'x'"}) {
		t.Errorf("got %q", got)
	}
	template := spans.Compile(ints(1), expr.Cmp{Op: expr.Eq, L: col(0), R: expr.Param{}})
	if s := new(spans.Builder).Build(template, nil, 0); s.Exact || len(s.Spans) != 1 {
		t.Errorf("a parameter without a value gives %v", s)
	}
}
