package spans

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/keycodec"
)

// Partition is one bucket of an index and the ranges to read in it, in their order.
//
// Ownership: partitions may share their ranges, which must not be changed, and ranges
// share the bytes of the spans they were made from.
type Partition struct {
	Bucket int
	Ranges []Range
}

// Buckets says over how many partitions the tuples of a key are spread, and how.
type Buckets struct {
	Count  int
	Fields []keycodec.Field
	// Columns is the number of leading columns from which the bucket follows. 0: it does
	// not follow from the key, so that a tuple may be in any bucket.
	Columns int
	// Of returns the bucket of the tuples that begin with the encodings of these columns.
	// False means no value: the bytes encode none, so that there are no such tuples.
	Of func(prefix []byte) (bucket int, ok bool)
}

// maxEnumerated is how many values are hashed to find the buckets of ranges of a set of
// spans: then it is cheaper to read all buckets.
const maxEnumerated = 1 << 16

// maxShared is how many ranges partitions may have in sum that cannot share them.
const maxShared = 1 << 22

// Partitions returns the buckets that spans reach into, in ascending order. A span that
// fixes the columns from which the bucket follows is in one bucket; a short range of the
// last one of them, of integers, is in those of its values; every other span is in all.
func (x *Buckets) Partitions(s Set) []Partition {
	if len(s.Spans) == 0 {
		return nil
	}
	if len(s.Spans) == 1 && x.Columns > 0 && s.Spans[0].Points >= x.Columns {
		bucket, ok := x.Of(x.Prefix(s.Spans[0].Lo, x.Columns))
		if !ok {
			return nil
		}
		return []Partition{{bucket, rangesOf(s.Spans, nil)}}
	}
	if x.Columns == 0 || x.Count <= 1 {
		return x.all(rangesOf(s.Spans, nil))
	}
	own, common := x.assign(s.Spans)
	if len(common) == 0 {
		return group(s.Spans, own)
	}
	if len(own)*len(common) > maxShared {
		return x.all(rangesOf(s.Spans, nil))
	}
	shared := s.Spans
	if len(own) > 0 {
		shared = make([]Span, len(common))
		for i, at := range common {
			shared[i] = s.Spans[at]
		}
	}
	out := x.all(rangesOf(shared, nil))
	for len(own) > 0 {
		n := 1
		for n < len(own) && own[n].bucket == own[0].bucket {
			n++
		}
		at := slices.Clone(common)
		for _, a := range own[:n] {
			at = append(at, a.span)
		}
		slices.Sort(at)
		out[own[0].bucket].Ranges = rangesOf(s.Spans, at)
		own = own[n:]
	}
	return out
}

// all returns every bucket with the same ranges.
func (x *Buckets) all(ranges []Range) []Partition {
	out := make([]Partition, max(1, x.Count))
	for i := range out {
		out[i] = Partition{i, ranges}
	}
	return out
}

// assignment says that a span is in a bucket.
type assignment struct{ bucket, span int }

// assign returns the spans that are in some buckets, by bucket, and those that are in all.
func (x *Buckets) assign(spans []Span) (own []assignment, common []int) {
	left := maxEnumerated
	for i, s := range spans {
		if s.Points >= x.Columns {
			if bucket, ok := x.Of(x.Prefix(s.Lo, x.Columns)); ok {
				own = append(own, assignment{bucket, i})
			}
			continue
		}
		values, ok := x.Values(s)
		if !ok || 2*values.Len >= uint64(x.Count) || values.Len > uint64(left) {
			common = append(common, i)
			continue
		}
		left -= int(values.Len)
		for k := range values.Len {
			if bucket, ok := x.Of(values.encoding(k)); ok {
				own = append(own, assignment{bucket, i})
			}
		}
	}
	slices.SortFunc(own, func(a, b assignment) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.span, b.span))
	})
	return slices.Compact(own), common
}

// group makes partitions of spans that are in some buckets only.
func group(spans []Span, own []assignment) []Partition {
	out := make([]Partition, 0, len(own))
	var at []int
	for i, a := range own {
		at = append(at, a.span)
		if i+1 == len(own) || own[i+1].bucket != a.bucket {
			out = append(out, Partition{a.bucket, rangesOf(spans, at)})
			at = at[:0]
		}
	}
	return out
}

// rangesOf returns the ranges of the spans at the given places, nil being all of them.
// Neighbours become one.
func rangesOf(spans []Span, at []int) []Range {
	n := len(at)
	if at == nil {
		n = len(spans)
	}
	out := make([]Range, 0, n)
	for i := range n {
		s := &spans[i]
		if at != nil {
			s = &spans[at[i]]
		}
		if k := len(out); k > 0 && bytes.Equal(out[k-1].Hi, s.Lo) {
			out[k-1].Hi = s.Hi
			continue
		}
		out = append(out, Range{s.Lo, s.Hi})
	}
	return out
}

// Prefix returns the encodings of the first n columns, which are whole in b.
func (x *Buckets) Prefix(b []byte, n int) []byte {
	head, _ := SplitFields(b, x.Fields[:n])
	return head
}

// consecutive is a range of values of a column whose encodings are consecutive numbers.
type consecutive struct {
	head  []byte // what comes before them: columns that are fixed, and the marker
	first uint64
	Len   uint64
	width int
}

// encoding returns value k after the columns before it.
func (c *consecutive) encoding(k uint64) []byte {
	out := append(make([]byte, 0, len(c.head)+8), c.head...)
	for i := c.width - 1; i >= 0; i-- {
		out = append(out, byte((c.first+k)>>(8*i)))
	}
	return out
}

// Values returns the values of the last column that decides about the bucket, if the
// columns before it are fixed and there are countably few of them.
func (x *Buckets) Values(s Span) (c consecutive, ok bool) {
	if s.Points != x.Columns-1 {
		return c, false
	}
	f := &x.Fields[s.Points]
	if c.width = countableWidth(f); c.width == 0 {
		return c, false
	}
	head := x.Prefix(s.Lo, s.Points)
	if f.Nullable {
		marker := keycodec.AppendNotNull(nil)
		if f.Desc {
			keycodec.InvertFrom(marker, 0)
		}
		if head = append(slices.Clip(head), marker...); !bytes.HasPrefix(s.Lo, head) {
			return c, false // NULL is in it
		}
	}
	c.head = head
	var partial bool
	c.first, _ = leadingNumber(s.Lo[len(head):], c.width)
	end := uint64(1) << (8 * c.width % 64)
	if c.width == 8 {
		end = 0 // 2^64
	}
	switch {
	case s.Hi != nil && bytes.HasPrefix(s.Hi, head):
		if end, partial = leadingNumber(s.Hi[len(head):], c.width); partial {
			end++
		}
	case f.Nullable && f.NullsLast && !bytes.Equal(s.Hi, endOfPrefix(head)):
		return c, false
	}
	c.Len = end - c.first
	return c, c.Len != 0
}

// endOfPrefix returns the end of the range of what starts with b, or nil.
func endOfPrefix(b []byte) []byte {
	end, ok := keycodec.PrefixEnd(nil, b)
	if !ok {
		return nil
	}
	return end
}

// leadingNumber reads the first bytes of b as a number; more reports that b goes on after them.
func leadingNumber(b []byte, width int) (u uint64, more bool) {
	for i := range width {
		u <<= 8
		if i < len(b) {
			u |= uint64(b[i])
		}
	}
	return u, len(b) > width
}

// countableWidth returns the bytes of types whose values one after the other are encoded
// as consecutive numbers, 0 for other types.
func countableWidth(f *keycodec.Field) int {
	switch f.Type {
	case keycodec.TypeBool:
		return 1
	case keycodec.TypeFixed:
		return 8
	case keycodec.TypeTime:
		if f.Unit != keycodec.FullRange {
			return 8
		}
	}
	return WidthOf(f.Type)
}
