package keycodec_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// spanCase is a schema, tuples that often agree with each other, and their encodings.
type spanCase struct {
	schema keycodec.Schema
	tuples [][]any
	keys   [][]byte
}

func drawSpanCase(t *rapid.T) spanCase {
	c := spanCase{schema: schemas().Draw(t, "schema")}
	fields := c.schema.Fields()
	pool := make([][]any, len(fields))
	for i, f := range fields {
		for range 3 {
			pool[i] = append(pool[i], draw(t, f))
		}
	}
	for range 12 {
		values := make([]any, len(fields))
		for i := range values {
			values[i] = rapid.SampledFrom(pool[i]).Draw(t, "value")
		}
		c.tuples = append(c.tuples, values)
		c.keys = append(c.keys, must(c.schema.Append(nil, values...)))
	}
	return c
}

// expect checks that the spans hold exactly the tuples that want says, and that they are
// in order and disjoint.
func (c spanCase) expect(t *rapid.T, what string, spans []keycodec.Span, want func([]any) bool) {
	for i, values := range c.tuples {
		holds := func(s keycodec.Span) bool { return s.Contains(c.keys[i]) }
		got := slices.ContainsFunc(spans, holds)
		if got != want(values) {
			t.Fatalf("%s: %v = %x is in %x: %v, want %v", what, values, c.keys[i], spans, got, !got)
		}
	}
	for i, s := range spans {
		if s.Empty() {
			t.Fatalf("%s: span %d of %x is empty", what, i, spans)
		}
		if i > 0 && (spans[i-1].End == nil || bytes.Compare(spans[i-1].End, s.Start) >= 0) {
			t.Fatalf("%s: the spans %x overlap or touch", what, spans)
		}
	}
}

func some1(s keycodec.Span) []keycodec.Span {
	if s.Empty() {
		return nil
	}
	return []keycodec.Span{s}
}

// within is what a range means, in the order of the values.
func within(f keycodec.Field, v any, low, high keycodec.Bound) bool {
	if low.Kind == keycodec.Unbounded && high.Kind == keycodec.Unbounded {
		return true
	}
	if v == nil {
		return false
	}
	for sign, b := range map[int]keycodec.Bound{1: low, -1: high} {
		if b.Kind == keycodec.Unbounded {
			continue
		}
		if b.Value == nil {
			return false
		}
		c := sign * compareValues(f, v, b.Value)
		if c < 0 || c == 0 && b.Kind == keycodec.Exclusive {
			return false
		}
	}
	return true
}

// Promise (keys): A span holds exactly the tuples that the condition names, with descending
// fields and nulls. Also `TestRowSpansCompareRows`, `TestPrefixSpansHoldThePrefix`,
// `TestSpansOfTheLargestValueHaveNoEnd` in `keycodec`.
func TestRangeSpanHoldsTheRange(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		c := drawSpanCase(t)
		fields := c.schema.Fields()
		n := rapid.IntRange(0, len(fields)-1).Draw(t, "equal")
		kind := rapid.IntRange(0, int(keycodec.Exclusive))
		from := rapid.SampledFrom(c.tuples).Draw(t, "low")
		to := rapid.SampledFrom(c.tuples).Draw(t, "high")
		low := keycodec.Bound{Kind: keycodec.BoundKind(kind.Draw(t, "low kind")),
			Value: finer(t, fields[n], from[n])}
		high := keycodec.Bound{Kind: keycodec.BoundKind(kind.Draw(t, "high kind")),
			Value: finer(t, fields[n], to[n])}
		equal := rapid.SampledFrom(c.tuples).Draw(t, "first")[:n]
		span := must(c.schema.RangeSpan(equal, low, high))
		first := must(keycodec.NewSchema(fields[:n]...))
		c.expect(t, "range", some1(span), func(v []any) bool {
			return compareFields(first, v, equal) == 0 && within(fields[n], v[n], low, high)
		})
	})
}

// finer returns a time that sometimes lies between two of its unit, and other values as they are.
func finer(t *rapid.T, f keycodec.Field, v any) any {
	at, ok := v.(time.Time)
	exact := f.Unit == keycodec.Nanosecond || f.Unit == keycodec.FullRange
	if !ok || exact || rapid.Bool().Draw(t, "exact") {
		return v
	}
	return at.Add(1)
}

// rowHolds is SQL's row comparison: -1 no or unknown, +1 yes.
func rowHolds(fields []keycodec.Field, v, row []any, op keycodec.Comparison) bool {
	for i := range row {
		if v[i] == nil || row[i] == nil {
			return false
		}
		c := compareValues(fields[i], v[i], row[i])
		if c != 0 {
			return (c > 0) == (op == keycodec.Greater || op == keycodec.GreaterOrEqual)
		}
	}
	return op == keycodec.LessOrEqual || op == keycodec.GreaterOrEqual
}

func TestRowSpansCompareRows(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		c := drawSpanCase(t)
		fields := c.schema.Fields()
		n := rapid.IntRange(0, len(fields)-1).Draw(t, "equal")
		m := rapid.IntRange(n+1, len(fields)).Draw(t, "until")
		equal := rapid.SampledFrom(c.tuples).Draw(t, "first")[:n]
		row := slices.Clone(rapid.SampledFrom(c.tuples).Draw(t, "row")[n:m])
		for i := range row {
			row[i] = finer(t, fields[n+i], row[i])
		}
		op := keycodec.Comparison(rapid.IntRange(0, 3).Draw(t, "op"))
		first := must(keycodec.NewSchema(fields[:n]...))
		spans := must(c.schema.RowSpans(equal, op, row...))
		c.expect(t, "row", spans, func(v []any) bool {
			return compareFields(first, v, equal) == 0 && rowHolds(fields[n:], v[n:], row, op)
		})
	})
}

// A row with a time between two of the unit has no equal: what follows the time does not decide.
func TestRowSpansOfATimeBetweenTwo(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "t", Type: keycodec.TypeTime, Unit: keycodec.Second},
		keycodec.Field{Name: "n", Type: keycodec.TypeInt8}))
	second := time.Unix(1000, 0)
	before := must(s.Append(nil, second, 2))
	for op, want := range map[keycodec.Comparison]bool{
		keycodec.Less: true, keycodec.LessOrEqual: true,
		keycodec.Greater: false, keycodec.GreaterOrEqual: false,
	} {
		spans := must(s.RowSpans(nil, op, second.Add(1), 1))
		if got := len(spans) == 1 && spans[0].Contains(before); got != want || len(spans) != 1 {
			t.Errorf("comparison %d: %x", op, spans)
		}
	}
}

func TestPrefixSpansHoldThePrefix(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		c := drawSpanCase(t)
		n := rapid.IntRange(0, c.schema.Len()).Draw(t, "n")
		values := rapid.SampledFrom(c.tuples).Draw(t, "values")[:n]
		first := must(keycodec.NewSchema(c.schema.Fields()[:n]...))
		for _, side := range []struct {
			name string
			span keycodec.Span
			sign int
		}{
			{"equal", must(c.schema.EqualSpan(values...)), 0},
			{"after", must(c.schema.AfterSpan(values...)), 1},
			{"before", must(c.schema.BeforeSpan(values...)), -1},
		} {
			c.expect(t, side.name, some1(side.span), func(v []any) bool {
				return compareFields(first, v, values) == side.sign
			})
		}
	})
}

func TestSpansOfTheLargestValueHaveNoEnd(t *testing.T) {
	s := must(keycodec.NewSchema(keycodec.Field{Name: "n", Type: keycodec.TypeUint8}))
	span := must(s.EqualSpan(uint8(255)))
	if span.End != nil || span.Empty() || !span.Contains([]byte{255}) {
		t.Errorf("n = 255 is %x, want no end", span)
	}
	span = must(s.RangeSpan(nil, keycodec.Excluding(uint(255)), keycodec.Bound{}))
	if !span.Empty() {
		t.Errorf("n > 255 is %x, want nothing", span)
	}
	if span := must(s.AfterSpan(uint8(255))); !span.Empty() {
		t.Errorf("after 255 is %x, want nothing", span)
	}
	all := must(s.EqualSpan())
	if all.End != nil || !all.Contains([]byte{0}) {
		t.Errorf("all tuples are %x", all)
	}
}

func TestSpansShareNoMemory(t *testing.T) {
	s := must(keycodec.NewSchema(keycodec.Field{Name: "s", Type: keycodec.TypeString},
		keycodec.Field{Name: "n", Type: keycodec.TypeInt8}))
	span := must(s.RangeSpan([]any{"ab"}, keycodec.Including(1), keycodec.Excluding(3)))
	start, end := must(s.Append(nil, "ab", 1)), must(s.Append(nil, "ab", 3))
	if !bytes.Equal(span.Start, start) || !bytes.Equal(span.End, end) {
		t.Errorf("the span is %x to %x, want %x to %x", span.Start, span.End, start, end)
	}
	clear(span.End)
	if !bytes.Equal(span.Start, start) {
		t.Error("changing the end of a span changes its start")
	}
}

func TestSpansRefuse(t *testing.T) {
	s := must(keycodec.NewSchema(keycodec.Field{Name: "n", Type: keycodec.TypeInt8}))
	for name, f := range map[string]func() error{
		"a range after the last field": func() error {
			_, err := s.RangeSpan([]any{1}, keycodec.Including(1), keycodec.Bound{})
			return err
		},
		"a low bound out of range": func() error {
			_, err := s.RangeSpan(nil, keycodec.Including(300), keycodec.Bound{})
			return err
		},
		"a high bound of another type": func() error {
			_, err := s.RangeSpan(nil, keycodec.Bound{}, keycodec.Including("a"))
			return err
		},
		"an unknown bound": func() error {
			_, err := s.RangeSpan(nil, keycodec.Bound{Kind: 3}, keycodec.Bound{})
			return err
		},
		"a wrong equal value": func() error {
			_, err := s.RangeSpan([]any{}, keycodec.Including(nil), keycodec.Including("a"))
			return err
		},
		"a row without values": func() error {
			_, err := s.RowSpans(nil, keycodec.Less)
			return err
		},
		"a row of too many values": func() error {
			_, err := s.RowSpans(nil, keycodec.Less, 1, 2)
			return err
		},
		"an unknown comparison": func() error { _, err := s.RowSpans(nil, 9, 1); return err },
		"equal to a string":     func() error { _, err := s.EqualSpan("a"); return err },
		"begins with a number":  func() error { _, err := s.BeginsSpan(1); return err },
		"after a string":        func() error { _, err := s.AfterSpan("a"); return err },
		"before a string":       func() error { _, err := s.BeforeSpan("a"); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
