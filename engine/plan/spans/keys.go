package spans

import (
	"bytes"

	"github.com/kstonedb/kstone/keycodec"
)

// MaxKeys is up to how many partition keys a range of integers is read key by key: a range is
// searched in every stripe.
const MaxKeys = 64

// Keys returns the values of a span that is a short range of the last column of a partition key,
// an integer, and that leaves no other column open; fields are those of the partition key. few is
// false of any other span.
func Keys(s *Span, fields []keycodec.Field) (keys KeyRange, few bool) {
	if s.Points != len(fields)-1 {
		return keys, false
	}
	x := Buckets{Fields: fields, Columns: len(fields)}
	values, ok := x.Values(*s)
	if !ok || values.Len > MaxKeys {
		return keys, false
	}
	whole := len(values.head) + values.width
	open := bytes.Equal(s.Hi, endOfPrefix(values.head))
	return KeyRange{values}, len(s.Lo) <= whole && (len(s.Hi) == whole || open)
}

// KeyRange are partition keys one after the other.
type KeyRange struct{ values consecutive }

// appendTo appends the keys, each with all its sort keys.
func (k *KeyRange) appendTo(dst []KeyPartition) []KeyPartition {
	for i := range k.values.Len {
		dst = append(dst, KeyPartition{PK: k.values.encoding(i), Ranges: []Range{{}}})
	}
	return dst
}
