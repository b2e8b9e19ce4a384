package spans_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/keycodec"
)

// spanColumns are first columns of keys, with two of their values.
var spanColumns = map[string]struct {
	field     keycodec.Field
	low, high expr.Value
}{
	"int64": {keycodec.Field{Type: keycodec.TypeInt64}, expr.Int(5), expr.Int(7)},
	"int8 desc": {keycodec.Field{Type: keycodec.TypeInt8, Desc: true}, expr.Int(-128),
		expr.Int(127)},
	"uint16 first": {keycodec.Field{Type: keycodec.TypeUint16, Nullable: true}, expr.Uint(0),
		expr.Uint(255)},
	"int64 last": {keycodec.Field{Type: keycodec.TypeInt64, Nullable: true, NullsLast: true},
		expr.Int(5), expr.Float(7.5)},
	"string": {keycodec.Field{Type: keycodec.TypeString}, expr.String("a"), expr.String("b\xff")},
	"string first desc": {keycodec.Field{Type: keycodec.TypeString, Nullable: true, Desc: true},
		expr.String("a"), expr.String("ab")},
	"bytes last": {keycodec.Field{Type: keycodec.TypeBytes, Nullable: true, NullsLast: true},
		expr.Bytes([]byte("\x00")), expr.Bytes([]byte("\xff\xff"))},
	"bytes last desc": {keycodec.Field{Type: keycodec.TypeBytes, Nullable: true, NullsLast: true,
		Desc: true}, expr.Bytes([]byte("a")), expr.Bytes([]byte("\xff"))},
	"bool": {keycodec.Field{Type: keycodec.TypeBool}, expr.Bool(false), expr.Bool(true)},
	"uuid": {keycodec.Field{Type: keycodec.TypeUUID}, expr.UUID([16]byte{}),
		expr.UUID([16]byte(slices.Repeat([]byte{0xff}, 16)))},
}

// spanPredicates returns one predicate for each kind of range of column a, low and high being
// two of its values.
func spanPredicates(a expr.Column, low, high expr.Value) (out []expr.Expr) {
	l, h := expr.Const{Value: low}, expr.Const{Value: high}
	for _, op := range []expr.Op{expr.Eq, expr.Ne, expr.Lt, expr.Le, expr.Gt, expr.Ge} {
		out = append(out, expr.Cmp{Op: op, L: a, R: l}, expr.Cmp{Op: op, L: a, R: h})
	}
	in := expr.In{X: a, List: []expr.Expr{h, l}}
	isNull, notNull := expr.IsNull{X: a}, expr.IsNull{X: a, Not: true}
	notIn := in
	notIn.Not = true
	out = append(out, in, notIn, isNull, notNull, or(isNull, expr.Cmp{Op: expr.Eq, L: a, R: l}),
		or(isNull, expr.Cmp{Op: expr.Gt, L: a, R: l}),
		or(isNull, expr.Cmp{Op: expr.Lt, L: a, R: h}),
		and(expr.Cmp{Op: expr.Gt, L: a, R: l}, expr.Cmp{Op: expr.Le, L: a, R: h}),
		and(in, compare(1, expr.Gt, 3)), and(isNull, eq(1, 3)), or(and(in, eq(1, 3)), isNull),
		and(notNull, eq(1, 3)))
	if k := low.Kind(); k == expr.KindString || k == expr.KindBytes {
		begins, other := expr.BeginsWith{X: a, Prefix: l}, expr.BeginsWith{X: a, Prefix: h}
		out = append(out, begins, other, not(begins), not(other), or(isNull, other),
			and(begins, expr.Cmp{Op: expr.Gt, L: a, R: h}))
	}
	return out
}

// TestSpansExactly has the spans of every kind of condition over every kind of column, in
// words and in bytes.
func TestSpansExactly(t *testing.T) {
	datadriven.RunTest(t, "testdata/spans", func(t *testing.T, d *datadriven.TestData) string {
		c := spanColumns[d.Input]
		key := ints(2)
		c.field.Name = "a"
		key.Fields[0] = c.field
		var out strings.Builder
		for _, pred := range spanPredicates(col(0), c.low, c.high) {
			writeSpans(&out, key, pred)
		}
		return out.String()
	})
}

func writeSpans(out *strings.Builder, key spans.Key, pred expr.Expr) {
	s := new(spans.Builder).Build(spans.Compile(key, spans.Normalise(pred)), nil, 0)
	fmt.Fprintf(out, "%s\n", pred)
	for _, span := range s.Spans {
		end := "end"
		if span.Hi != nil {
			end = fmt.Sprintf("%x", span.Hi)
		}
		fmt.Fprintf(out, "  %s [%x %s) %d", key.Condition(span), span.Lo, end, span.Points)
		if span.Residual != nil {
			fmt.Fprintf(out, " filter %s", span.Residual)
		}
		out.WriteByte('\n')
	}
}

// TestSpansOfResiduals: neighbours are one span if what is left of the predicate is the same,
// however it came about, and only then.
func TestSpansOfResiduals(t *testing.T) {
	either := func(n int) expr.Expr { return or(eq(2, n), eq(3, n)) }
	for _, c := range []struct {
		pred expr.Expr
		keep int
		want []string
	}{
		{and(or(eq(0, 1), eq(0, 2)), eq(2, 5), eq(3, 6)), 0,
			[]string{"a >= 1 AND a < 3 filter c = 5 AND d = 6"}},
		{and(or(eq(0, 1), eq(0, 2)), eq(2, 5), eq(3, 6)), 1,
			[]string{"a = 1 filter c = 5 AND d = 6", "a = 2 filter c = 5 AND d = 6"}},
		{or(and(eq(0, 1), either(5)), and(eq(0, 2), either(6))), 0,
			[]string{"a = 1 filter c = 5 OR d = 5", "a = 2 filter c = 6 OR d = 6"}},
		{and(eq(0, 5), or(eq(1, 1), eq(1, 2), eq(1, 3))), 1,
			[]string{"a = 5 AND b >= 1 AND b < 4"}},
		{and(eq(0, 5), or(eq(1, 1), eq(1, 2))), 2, []string{"a = 5 AND b = 1", "a = 5 AND b = 2"}},
		{and(or(eq(0, 1), eq(0, 2)), or(eq(0, 2), eq(1, 3), eq(1, 4)), in(1, 3)), 0, []string{
			"a = 1 AND b = 3", "a = 2 AND b = 0", "a = 2 AND b = 3", "a = 2 AND b = 6"}},
	} {
		key := ints(2)
		key.Keep = c.keep
		if got, _ := conditions(key, c.pred, 0); !slices.Equal(got, c.want) {
			t.Errorf("keep %d: %s\ngot  %q\nwant %q", c.keep, c.pred, got, c.want)
		}
	}
}

// TestSpansOfParameters: conditions that parameters decide are decided, those that fail are
// left to the evaluator, and NULL in a list is never equal.
func TestSpansOfParameters(t *testing.T) {
	param := func(i int) expr.Expr { return expr.Param{Index: i} }
	sum := func(x expr.Expr) expr.Expr { return expr.Arith{Op: expr.Add, L: x, R: num(1)} }
	notIn := expr.In{X: col(0), List: []expr.Expr{num(1), param(1)}, Not: true}
	is := func(x expr.Expr, n int) expr.Expr { return expr.Cmp{Op: expr.Eq, L: x, R: num(n)} }
	for _, c := range []struct {
		pred expr.Expr
		want []string
	}{
		{and(eq(0, 1), is(sum(param(0)), 6)), []string{"a = 1"}},
		{and(eq(0, 1), is(sum(param(0)), 7)), nil},
		{is(sum(param(0)), 6), []string{"TRUE"}}, {is(sum(param(0)), 7), nil},
		{or(eq(0, 1), is(sum(param(0)), 6)), []string{"TRUE"}},
		{or(eq(0, 1), is(sum(param(1)), 6)), []string{"a = 1"}},
		{and(eq(0, 1), is(sum(param(2)), 6)), []string{"a = 1 filter ?3 + 1 = 6"}},
		{notIn, nil}, {or(notIn, eq(0, 7)), []string{"a = 7"}},
		{expr.Cmp{Op: expr.Eq, L: col(0), R: sum(param(0))}, []string{"a = 6"}},
		{expr.Cmp{Op: expr.Ne, L: col(0), R: param(1)}, nil},
		{expr.Cmp{Op: expr.Lt, L: col(0), R: param(1)}, nil},
		{and(expr.Cmp{Op: expr.Ge, L: col(0), R: param(0)}, compare(0, expr.Lt, 7)),
			[]string{"a >= 5 AND a < 7"}},
		{and(expr.Cmp{Op: expr.Eq, L: col(0), R: param(3)}, eq(1, 2)),
			[]string{"TRUE filter a = ?4 AND b = 2"}},
	} {
		key, params := ints(2), []expr.Value{expr.Int(5), expr.Null(), expr.String("x")}
		template := spans.Compile(key, spans.Normalise(c.pred))
		var builder spans.Builder
		for range 2 { // with memory of before, too
			s := builder.Build(template, params, 0)
			var got []string
			for _, span := range s.Spans {
				text := key.Condition(span).String()
				if span.Residual != nil {
					text += " filter " + span.Residual.String()
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s\ngot  %q\nwant %q", c.pred, got, c.want)
			}
		}
	}
}

// TestWideOr: an OR of many terms has the spans of all of them, the first and the last
// included, whatever the width and whatever is beside it.
func TestWideOr(t *testing.T) {
	for n := 14; n < 20; n++ {
		var terms []expr.Expr
		var want []string
		for i := range n {
			terms = append(terms, and(eq(0, 2*i), compare(1, expr.Gt, i)))
			want = append(want, fmt.Sprintf("a = %d AND b >= %d", 2*i, i+1))
		}
		got, s := conditions(ints(2), or(terms...), 0)
		if !slices.Equal(got, want) || !s.Exact {
			t.Errorf("%d terms: %q", n, got)
		}
		got, _ = conditions(ints(3), and(compare(0, expr.Le, 2), or(terms...), eq(2, 7)), 0)
		want = []string{"a = 0 AND b >= 1 filter c = 7", "a = 2 AND b >= 2 filter c = 7"}
		if !slices.Equal(got, want) {
			t.Errorf("%d terms below 3: %q", n, got)
		}
	}
}

// TestSpanBudget: the number of spans keeps to the limit, and with enough of it nothing is
// taken together.
func TestSpanBudget(t *testing.T) {
	pred := and(in(0, 3), in(1, 3))
	for limit, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 8: 8, 9: 9, 10: 9} {
		got, s := conditions(ints(2), pred, limit)
		if len(got) > want || len(got) < (want+1)/2 || s.Truncated != (limit < 9) ||
			s.Exact != (limit >= 9) {
			t.Errorf("limit %d: %q, truncated %v, exact %v", limit, got, s.Truncated, s.Exact)
		}
	}
	quick := or(eq(0, 1), eq(0, 3), eq(0, 5))
	for limit, truncated := range map[int]bool{1: true, 2: true, 3: false} {
		if got, s := conditions(ints(1), quick, limit); len(got) > limit ||
			s.Truncated != truncated {
			t.Errorf("limit %d: %q, truncated %v", limit, got, s.Truncated)
		}
	}
}

// TestClonesOfSpans compares a clone with the set after the builder has built others.
func TestClonesOfSpans(t *testing.T) {
	pred := or(compare(0, expr.Lt, 1), and(eq(0, 3), eq(1, 4)), compare(0, expr.Gt, 5))
	var builder spans.Builder
	clone := builder.Build(spans.Compile(ints(2), pred), nil, 0).Clone()
	for i := range 100 {
		builder.Build(spans.Compile(ints(2), and(eq(0, i), eq(1, i))), nil, 0)
	}
	key := ints(2)
	var got []string
	for _, s := range clone.Spans {
		got = append(got, key.Condition(s).String())
	}
	if want := []string{"a < 1", "a = 3 AND b = 4", "a >= 6"}; !slices.Equal(got, want) {
		t.Errorf("the clone is %q", got)
	}
	if clone.Spans[2].Hi != nil || clone.Spans[0].Lo == nil || clone.Empty() || clone.Whole() {
		t.Errorf("the clone has the ends %v, %v", clone.Spans[0].Lo, clone.Spans[2].Hi)
	}
}

// TestSplitPrimary lists the ranges of partitions, in their order, and the intervals.
func TestSplitPrimary(t *testing.T) {
	key := ints(2)
	key.Keep = 1
	pred := or(and(eq(0, 1), or(eq(1, 2), eq(1, 4), compare(1, expr.Gt, 6))), eq(0, 3),
		and(compare(0, expr.Gt, 5), compare(0, expr.Lt, 8)))
	s := new(spans.Builder).Build(spans.Compile(key, spans.Normalise(pred)), nil, 0)
	split := spans.SplitPrimary(s, key.Fields[:1], false)
	i64 := func(n int64) string { return fmt.Sprintf("%x", keycodec.AppendInt64(nil, n)) }
	var got []string
	for _, p := range split.Partitions {
		line := fmt.Sprintf("%x:", p.PK)
		for _, r := range p.Ranges {
			line += fmt.Sprintf(" [%x %x)", r.Lo, r.Hi)
		}
		got = append(got, line)
	}
	for _, r := range split.Intervals {
		got = append(got, fmt.Sprintf("[%x %x)", r.Lo, r.Hi))
	}
	want := []string{i64(1) + ": [" + i64(2) + " " + i64(3) + ") [" + i64(4) + " " + i64(5) +
		") [" + i64(7) + " )", i64(3) + ": [ )", "[" + i64(6) + " " + i64(8) + ")"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPrefixParameters: a parameter that is a prefix and % leaves nothing to be tested, where the
// column is gone into.
func TestPrefixParameters(t *testing.T) {
	key := ints(2)
	key.Fields[1].Type = keycodec.TypeString
	like := expr.Like{X: col(1), Pattern: expr.Param{Index: 0}}
	for _, c := range []struct {
		pred          expr.Expr
		pattern, left string
	}{
		{and(eq(0, 1), like), "ab%", ""},
		{and(eq(0, 1), like), "%", ""},
		{and(eq(0, 1), or(like, expr.Cmp{L: col(1), R: text("x")})), "ab%", ""},
		{and(eq(0, 1), like), "a%b", "b LIKE ?1"},
		{and(compare(0, expr.Gt, 1), like), "ab%", "b LIKE ?1"},
		{and(compare(0, expr.Gt, 1), or(eq(0, 7), like)), "ab%", "b LIKE ?1"},
	} {
		s := new(spans.Builder).Build(spans.Compile(key, spans.Normalise(c.pred)),
			[]expr.Value{expr.String(c.pattern)}, 0)
		left := ""
		for _, span := range s.Spans {
			if span.Residual != nil {
				left = span.Residual.String()
			}
		}
		if left != c.left {
			t.Errorf("%s with %s: %q is left, want %q", c.pred, c.pattern, left, c.left)
		}
	}
}
