package composite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/kstonedb/kstone/keycodec"
)

// Span is the range of keys [Start, End). A nil End means that there is no upper bound.
type Span struct {
	Start, End []byte
}

// Contains reports whether key lies in the span.
func (s Span) Contains(key []byte) bool {
	return bytes.Compare(s.Start, key) <= 0 && (s.End == nil || bytes.Compare(key, s.End) < 0)
}

// Bound is one end of a range of values. The zero Bound leaves the range open.
type Bound struct {
	value     any
	set       bool
	exclusive bool
}

// Including returns the bound at v, with v in the range.
func Including(v any) Bound { return Bound{value: v, set: true} }

// Excluding returns the bound at v, with v outside of the range.
func Excluding(v any) Bound { return Bound{value: v, set: true, exclusive: true} }

// Prefix returns the spans of the keys whose first fields equal these values:
// "U001" does not find "U0012". It is one span, except that without any value there is
// one for each shard. All values of the schema give the span of exactly one key.
func (s *Schema) Prefix(values ...any) ([]Span, error) {
	if len(values) == len(s.fields) {
		key, err := s.Append(nil, values...)
		if err != nil {
			return nil, err
		}
		return []Span{{key, keycodec.Successor(nil, key)}}, nil
	}
	return s.Range(values, Bound{}, Bound{})
}

// BeginsWith is Prefix, except that the last value, a string, is the beginning of what
// it finds.
func (s *Schema) BeginsWith(values ...any) ([]Span, error) {
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
	spans := make([]Span, len(bases))
	for i, base := range bases {
		base = append(base, text...)
		spans[i] = Span{base, end(base)}
	}
	return spans, nil
}

// Range returns the spans of the keys whose first fields have the values of equal, and
// whose next field lies between lo and hi. The spans are sorted and disjoint: one, or one
// for each shard if equal is empty, or none if no value lies between lo and hi.
func (s *Schema) Range(equal []any, lo, hi Bound) ([]Span, error) {
	field := len(equal)
	if field >= len(s.fields) {
		return nil, fmt.Errorf("composite: no field for a range after the %d values", field)
	}
	bases, err := s.bases(equal)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, base := range bases {
		span := Span{base, end(base)}
		if lo.set {
			if span.Start, err = s.above(base, field, lo.value, lo.exclusive); err != nil {
				return nil, err
			}
		}
		if hi.set {
			if span.End, err = s.above(base, field, hi.value, !hi.exclusive); err != nil {
				return nil, err
			}
		}
		if span.Start == nil || span.End != nil && bytes.Compare(span.Start, span.End) >= 0 {
			continue
		}
		spans = append(spans, span)
	}
	return spans, nil
}

// above returns the lowest key that begins with base and goes on with v or more; after v
// if that is not to be included. Nil means that there is none.
func (s *Schema) above(base []byte, field int, v any, past bool) ([]byte, error) {
	n := len(base)
	key, err := s.appendField(bytes.Clone(base), field, v)
	switch {
	case err != nil:
		return nil, err
	case past && field == len(s.fields)-1:
		return keycodec.Successor(nil, key), nil
	case past:
		return end(key), nil
	case field < len(s.fields)-1:
		key = key[:len(key)-len(s.delimiter)]
	}
	return key[:max(n, len(key))], nil
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

// end returns the exclusive end of the keys that begin with prefix, or nil.
func end(prefix []byte) []byte {
	e, ok := keycodec.PrefixEnd(nil, prefix)
	if !ok {
		return nil
	}
	return e
}
