package composite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/keycodec"
)

// Prefix returns the spans of the keys whose first fields equal these values:
// "U001" does not find "U0012". It is one span, except that without any value there is
// one for each shard. All values of the schema give the span of exactly one key.
func (s *Schema) Prefix(values ...any) ([]keycodec.Span, error) {
	if len(values) == len(s.fields) {
		key, err := s.Append(nil, values...)
		if err != nil {
			return nil, err
		}
		return []keycodec.Span{{Start: key, End: keycodec.Successor(nil, key)}}, nil
	}
	return s.Range(values, keycodec.Bound{}, keycodec.Bound{})
}

// BeginsWith is Prefix, except that the last value, a string, is the beginning of what
// it finds.
func (s *Schema) BeginsWith(values ...any) ([]keycodec.Span, error) {
	last := len(values) - 1
	if last < 0 || last >= len(s.fields) {
		return nil, fmt.Errorf("composite: %d values for %d fields", len(values), len(s.fields))
	}
	text, ok := values[last].(string)
	if f := s.fields[last]; !ok || f.Type != String {
		return nil, f.refuse("%v is not the beginning of a string", values[last])
	}
	if err := s.checkString(last, text); err != nil {
		return nil, err
	}
	bases, err := s.bases(values[:last])
	if err != nil {
		return nil, err
	}
	spans := make([]keycodec.Span, len(bases))
	for i, base := range bases {
		spans[i] = keycodec.PrefixSpan(append(base, text...))
	}
	return spans, nil
}

// Range returns the spans of the keys whose first fields have the values of equal, and
// whose next field lies between lo and hi. The spans are sorted and disjoint: one, or one
// for each shard if equal is empty, or none if no value lies between lo and hi.
func (s *Schema) Range(equal []any, lo, hi keycodec.Bound) ([]keycodec.Span, error) {
	field := len(equal)
	if field >= len(s.fields) {
		return nil, fmt.Errorf("composite: no field for a range after the %d values", field)
	}
	bases, err := s.bases(equal)
	if err != nil {
		return nil, err
	}
	var spans []keycodec.Span
	for _, base := range bases {
		span := keycodec.PrefixSpan(base)
		if lo.Kind != keycodec.Unbounded {
			span.Start, err = s.above(base, field, lo, keycodec.Exclusive)
		}
		if hi.Kind != keycodec.Unbounded && err == nil {
			span.End, err = s.above(base, field, hi, keycodec.Inclusive)
		}
		if err != nil {
			return nil, err
		}
		if span.Start != nil && !span.Empty() {
			spans = append(spans, span)
		}
	}
	return spans, nil
}

// above returns the lowest key that begins with base and goes on with the value of a bound or
// more; after the value if the bound is of kind past. It is nil without such a key.
func (s *Schema) above(base []byte, field int, b keycodec.Bound, past keycodec.BoundKind,
) ([]byte, error) {
	if b.Kind > keycodec.Exclusive {
		return nil, fmt.Errorf("composite: %d is not a kind of bound", b.Kind)
	}
	key, err := s.appendField(bytes.Clone(base), field, b.Value)
	switch {
	case err != nil:
		return nil, err
	case b.Kind == past && field == len(s.fields)-1:
		return keycodec.Successor(nil, key), nil
	case b.Kind == past:
		return keycodec.PrefixSpan(key).End, nil
	case field < len(s.fields)-1:
		key = key[:len(key)-len(s.delimiter)]
	}
	return key, nil
}

// bases returns what the keys begin with whose first fields have these values: one start,
// or one for each shard.
func (s *Schema) bases(values []any) ([][]byte, error) {
	base, err := s.appendPrefix([]byte{}, values)
	if err != nil || s.o.Shard == nil || len(values) > 0 {
		return [][]byte{base}, err
	}
	bases := make([][]byte, s.o.Shard.Count)
	for i := range bases {
		bases[i] = append(binary.BigEndian.AppendUint16(nil, uint16(i)), s.delimiter...)
	}
	return bases, nil
}
