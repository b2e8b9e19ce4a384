package keycodec

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Span is a half-open range of encoded tuples: those from Start on and before End, in the
// order of the bytes. A span with a nil End has no end. The zero Span is everything.
type Span struct {
	Start []byte
	End   []byte
}

// Empty reports whether no byte string is in the span.
func (s Span) Empty() bool { return s.End != nil && bytes.Compare(s.Start, s.End) >= 0 }

// Contains reports whether key is in the span.
func (s Span) Contains(key []byte) bool {
	return bytes.Compare(s.Start, key) <= 0 && (s.End == nil || bytes.Compare(key, s.End) < 0)
}

// nothing is the span of conditions that no tuple meets.
var nothing = Span{End: []byte{}}

// PrefixSpan returns the span of the byte strings that start with prefix. It shares no
// memory with it.
func PrefixSpan(prefix []byte) Span {
	return Span{Start: append([]byte{}, prefix...), End: endOf(prefix)}
}

// endOf returns the end of a prefix, or nil.
func endOf(prefix []byte) []byte {
	end, _ := PrefixEnd(nil, prefix)
	return end
}

// BoundKind says what a bound does with its value.
type BoundKind uint8

// The kinds of bounds. The four that limit a range are Inclusive and Exclusive, each as
// the low and as the high bound.
const (
	Unbounded BoundKind = iota // no bound; the value is not looked at
	Inclusive                  // the value itself is in the range
	Exclusive                  // the value itself is not in the range
)

// Bound is one end of a range of values.
type Bound struct {
	Kind  BoundKind
	Value any
}

// Including returns the bound of x >= v or x <= v.
func Including(v any) Bound { return Bound{Inclusive, v} }

// Excluding returns the bound of x > v or x < v.
func Excluding(v any) Bound { return Bound{Exclusive, v} }

// EqualSpan returns the span of the tuples whose first fields are equal to values, nil
// being NULL. Without values it is every tuple. Errors are those of AppendPrefix.
func (s Schema) EqualSpan(values ...any) (Span, error) {
	prefix, err := s.AppendPrefix(nil, values...)
	if err != nil {
		return Span{}, err
	}
	return PrefixSpan(prefix), nil
}

// BeginsSpan returns the span of the tuples whose first fields are equal to values, but
// for the last one: there the field begins with the value. Errors are those of
// AppendBeginsWith.
func (s Schema) BeginsSpan(values ...any) (Span, error) {
	prefix, err := s.AppendBeginsWith(nil, values...)
	if err != nil {
		return Span{}, err
	}
	return PrefixSpan(prefix), nil
}

// RangeSpan returns the span of the tuples whose first fields are equal to the values of
// equal, nil being NULL, and whose next field lies between low and high. Low and high
// follow the order of the values, also where the field is descending. A range
// contains no NULLs, and a NULL bound makes it empty; without any bound the span is that of
// EqualSpan. If no value can be in the range, the span is empty. Bounds are not cut to the
// unit of a time: what is stored as 12:00:00 is less than 12:00:00.5.
//
// It fails if equal leaves no field for the bounds, or as Append does: also for bounds
// that the field cannot hold, such as 300 for an int8.
func (s Schema) RangeSpan(equal []any, low, high Bound) (Span, error) {
	if len(equal) >= len(s.fields) {
		return Span{}, fmt.Errorf("keycodec: %d values leave none of %d fields for a range",
			len(equal), len(s.fields))
	}
	prefix, err := s.AppendPrefix(nil, equal...)
	switch {
	case err != nil:
		return Span{}, err
	case low.Kind == Unbounded && high.Kind == Unbounded:
		return PrefixSpan(prefix), nil
	}
	f := &s.fields[len(equal)]
	lowEnd, err := f.edge(prefix, low, low.Kind == Exclusive)
	if err != nil {
		return Span{}, err
	}
	highEnd, err := f.edge(prefix, high, high.Kind == Inclusive)
	if err != nil {
		return Span{}, err
	}
	if lowEnd.null || highEnd.null {
		return nothing, nil
	}
	all := PrefixSpan(f.appendMarker(slices.Clip(prefix)))
	if f.Desc {
		lowEnd, highEnd = highEnd, lowEnd
	}
	return Span{Start: lowEnd.orElse(all.Start), End: highEnd.orElse(all.End)}.normal(), nil
}

// edge is where a bound cuts the encodings.
type edge struct {
	at            []byte // nil: after all of them
	unbound, null bool
}

// edge returns the cut before the value of the bound or, if above, after it, in the
// order of the values.
func (f *Field) edge(prefix []byte, b Bound, above bool) (edge, error) {
	switch {
	case b.Kind > Exclusive:
		return edge{}, fmt.Errorf("keycodec: %d is not a kind of bound", b.Kind)
	case b.Kind == Unbounded:
		return edge{unbound: true}, nil
	case b.Value == nil:
		return edge{null: true}, nil
	}
	at, err := f.append(slices.Clip(prefix), b.Value)
	if err != nil {
		return edge{}, err
	}
	if (above || f.cuts(b.Value)) != f.Desc {
		at = endOf(at)
	}
	return edge{at: at}, nil
}

// cuts reports whether a value is a time that is cut to the unit of the field: it lies above the
// one that is encoded.
func (f *Field) cuts(v any) bool {
	t, ok := v.(time.Time)
	if !ok {
		return false
	}
	var buf [12]byte
	b, err := AppendTime(buf[:0], t, f.Unit)
	if err != nil {
		return false
	}
	stored, _, err := DecodeTime(b, f.Unit)
	return err == nil && !stored.Equal(t)
}

func (e edge) orElse(at []byte) []byte {
	if e.unbound {
		return at
	}
	return e.at
}

// normal turns a span that starts after everything or not before its end into the empty
// one. Requires: the start is nil only where a cut fell after everything.
func (s Span) normal() Span {
	if s.Start == nil || s.Empty() {
		return nothing
	}
	return s
}

// appendMarker appends what the encodings of all values but NULL start with.
func (f *Field) appendMarker(dst []byte) []byte {
	if !f.Nullable {
		return dst
	}
	return append(dst, notNull^f.mask())
}

// AfterSpan returns the span of the tuples after all that begin with values, in the
// order of the keys: the next page after a tuple. (After one key of several that differ
// in kept case only, start at its Successor.) NULLs and descending fields keep
// their place in that order. Errors are those of AppendPrefix.
func (s Schema) AfterSpan(values ...any) (Span, error) {
	prefix, err := s.AppendPrefix(nil, values...)
	if err != nil {
		return Span{}, err
	}
	start := endOf(prefix)
	if start == nil {
		return nothing, nil
	}
	return Span{Start: start}, nil
}

// BeforeSpan returns the span of the tuples before all that begin with values, in the
// order of the keys: the page before. Errors are those of AppendPrefix.
func (s Schema) BeforeSpan(values ...any) (Span, error) {
	prefix, err := s.AppendPrefix(nil, values...)
	if err != nil {
		return Span{}, err
	}
	if prefix == nil {
		prefix = []byte{} // nothing lies before every tuple
	}
	return Span{Start: []byte{}, End: prefix}, nil
}

// Comparison is a comparison of rows.
type Comparison uint8

// The comparisons of rows.
const (
	Less Comparison = iota
	LessOrEqual
	Greater
	GreaterOrEqual
)

// RowSpans returns the spans of the tuples whose first fields are equal to the values of
// equal and whose next fields compare with row as one value would: (a, b) > (x, y) is
// a > x, or a = x and b > y. The order is that of the values, also where fields are
// descending; fields of one direction that are not nullable give one span, each change of
// direction and each nullable field after the first one or two more. NULLs are neither
// less nor greater: a tuple with a NULL is in a span only if the fields before it have
// decided, and nothing is equal to a row from its first NULL on.
//
// The spans are not empty, disjoint and in the order of the bytes. Errors are those of
// RangeSpan; a row without values is an error.
func (s Schema) RowSpans(equal []any, op Comparison, row ...any) ([]Span, error) {
	if len(row) == 0 || op > GreaterOrEqual {
		return nil, fmt.Errorf("keycodec: comparison %d with a row of %d values", op, len(row))
	}
	var spans []Span
	equal = slices.Clip(equal)
	for i, v := range row {
		bound := Excluding(v)
		if i == len(row)-1 && (op == LessOrEqual || op == GreaterOrEqual) {
			bound = Including(v)
		}
		low, high := bound, Bound{}
		if op == Less || op == LessOrEqual {
			low, high = high, low
		}
		span, err := s.RangeSpan(equal, low, high)
		if err != nil {
			return nil, err
		}
		if !span.Empty() {
			spans = append(spans, span)
		}
		if v == nil || s.fields[len(equal)].cuts(v) {
			break
		}
		equal = append(equal, v)
	}
	slices.SortFunc(spans, func(a, b Span) int { return bytes.Compare(a.Start, b.Start) })
	return joined(spans), nil
}

// joined merges spans that touch. Requires: they are disjoint and in order.
func joined(spans []Span) []Span {
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].End != nil && bytes.Equal(out[n-1].End, s.Start) {
			out[n-1].End = s.End
			continue
		}
		out = append(out, s)
	}
	return out
}
