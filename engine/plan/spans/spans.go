package spans

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// DefaultMaxSpans is the default bound of the spans that a predicate becomes.
const DefaultMaxSpans = 10_000

// Span is a range of encoded tuples, from Lo on and before Hi, and what must also be true of
// the rows in it.
type Span struct {
	Lo []byte // never nil
	Hi []byte // nil: no end
	// Points is how many of the first columns have one value, the same in the whole span.
	Points int
	// Residual is over the columns of the predicate. Nil accepts every row of the span.
	Residual expr.Expr
}

// Set is a predicate as spans: disjoint, not empty and in the order of the bytes. A
// row satisfies the predicate if and only if its tuple is in a span whose residual it
// satisfies.
type Set struct {
	Spans []Span
	// Exact says that no span has a residual.
	Exact bool
	// Truncated says that there were more spans than allowed: some cover more than they
	// have to, and their residuals make up for it.
	Truncated bool
	// Repeats says that a row may be found more than once, because it has several
	// entries: rows have to be made unique by their keys.
	Repeats bool
}

// Empty reports whether no row can satisfy the predicate.
func (s Set) Empty() bool { return len(s.Spans) == 0 }

// Whole reports whether the only span is that of all tuples.
func (s Set) Whole() bool {
	return len(s.Spans) == 1 && len(s.Spans[0].Lo) == 0 && s.Spans[0].Hi == nil
}

// Clone returns a copy that shares no bytes with s.
func (s Set) Clone() Set {
	size := 0
	for _, span := range s.Spans {
		size += len(span.Lo) + len(span.Hi)
	}
	b := make([]byte, 0, size)
	take := func(from []byte) []byte {
		b = append(b, from...)
		return b[len(b)-len(from) : len(b) : len(b)]
	}
	spans := make([]Span, len(s.Spans))
	for i, span := range s.Spans {
		spans[i] = span
		spans[i].Lo = take(span.Lo)
		if span.Hi != nil {
			spans[i].Hi = take(span.Hi)
		}
	}
	s.Spans = spans
	return s
}

// Key describes tuples in the store: the columns of an index, or those of a primary key.
type Key struct {
	Fields   []keycodec.Field // at most keycodec.MaxFields
	Ordinals []int            // positions of the columns in their table
	Source   int              // position of the table in FROM
	// Each says which columns hold one element of a list, with one tuple for each
	// element. Nil: none.
	Each []bool
	// Keep is the number of leading columns that decide where a tuple is stored: those
	// that choose the bucket, or those of the partition key. Neighbouring spans become
	// one only if they agree on whether these columns are fixed, and to what.
	Keep int
}

// IsEach reports whether a column holds one element of a list.
func (k *Key) IsEach(i int) bool { return i < len(k.Each) && k.Each[i] }

// Build turns a normalised predicate without parameters into spans over encoded
// tuples. Fields and ordinals describe their columns; columns of the predicate with
// another source or ordinal become part of residuals. A max of 0 is DefaultMaxSpans.
// The spans own their memory.
//
// See [Template] for predicates with parameters and for repeated use.
func Build(fields []keycodec.Field, ordinals []int, source int, pred expr.Expr,
	max int) Set {
	t := Compile(Key{Fields: fields, Ordinals: ordinals, Source: source}, pred)
	return new(Builder).Build(t, nil, max)
}

// Range is a part of a partition, from Lo on and before Hi. A nil Hi is no end.
type Range struct {
	Lo, Hi []byte
}

// KeySpans is what the spans over the columns of a primary key mean for the store, where
// the first of these columns make up the partition key and the others the sort key.
type KeySpans struct {
	// Partitions are the spans in which the partition key is fixed, by partition key and
	// range.
	Partitions []KeyPartition
	// Intervals are the ranges of encoded partition keys of the other spans.
	Intervals []Range
}

// KeyPartition is a partition key and, in their order, ranges of sort keys in it. A range
// without bounds is the whole partition.
type KeyPartition struct {
	PK     []byte
	Ranges []Range
}

// SplitPrimary splits spans over the columns of a primary key: fields are those of the
// partition key. With split, short ranges of integers become partitions: see Keys. Requires: the
// spans were built with len(fields) as Key.Keep.
//
// Ownership: the result shares bytes with the spans.
func SplitPrimary(s Set, fields []keycodec.Field, split bool) KeySpans {
	var out KeySpans
	for _, span := range s.Spans {
		if keys, few := Keys(&span, fields); few && split {
			out.Partitions = keys.appendTo(out.Partitions)
			continue
		}
		if span.Points < len(fields) {
			out.Intervals = append(out.Intervals, Range{span.Lo, span.Hi})
			continue
		}
		pk, lo := SplitFields(span.Lo, fields)
		r := Range{Lo: lo}
		if bytes.HasPrefix(span.Hi, pk) {
			r.Hi = span.Hi[len(pk):]
		}
		if n := len(out.Partitions); n > 0 && bytes.Equal(out.Partitions[n-1].PK, pk) {
			p := &out.Partitions[n-1]
			p.Ranges = append(p.Ranges, r)
			continue
		}
		out.Partitions = append(out.Partitions, KeyPartition{PK: pk, Ranges: []Range{r}})
	}
	return out
}

// SplitFields cuts an encoded tuple after the given fields.
func SplitFields(b []byte, fields []keycodec.Field) (head, tail []byte) {
	tail = b
	for i := range fields {
		rest, err := fields[i].Skip(tail)
		if err != nil {
			return b, nil // not reached: the fields are fixed
		}
		tail = rest
	}
	return b[: len(b)-len(tail) : len(b)-len(tail)], tail
}
