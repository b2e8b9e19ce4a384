package composite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kstonedb/kstone/keycodec"
)

// Value is a value with the name of its field.
type Value struct {
	Field string
	Value any
}

// CreateCompositeKey returns the key of a record. The values must be those of all fields,
// in the order of the schema.
func (s *Schema) CreateCompositeKey(values ...Value) ([]byte, error) {
	plain := make([]any, len(values))
	for i, v := range values {
		if i >= len(s.fields) || v.Field != s.fields[i].Name {
			return nil, fmt.Errorf("composite: value %d is of field %q, the schema has %s",
				i+1, v.Field, s.fieldAt(i))
		}
		plain[i] = v.Value
	}
	return s.Append(make([]byte, 0, s.Size()), plain...)
}

// fieldAt names the field at a position, for messages.
func (s *Schema) fieldAt(i int) string {
	if i >= len(s.fields) {
		return fmt.Sprintf("%d fields only", len(s.fields))
	}
	return fmt.Sprintf("%q there", s.fields[i].Name)
}

// Append appends the key of a record to dst: one value for each field, in the order of
// the schema. Errors about values match ErrValue; dst is returned as it was then.
func (s *Schema) Append(dst []byte, values ...any) ([]byte, error) {
	if len(values) != len(s.fields) {
		return dst, fmt.Errorf("composite: %d values for %d fields", len(values), len(s.fields))
	}
	out, err := s.appendPrefix(dst, values)
	if err != nil {
		return dst, err
	}
	if n := len(out) - len(dst); n > keycodec.MaxKeyBytes {
		return dst, fmt.Errorf("composite: a key of %d bytes: %w", n, keycodec.ErrKeyTooLarge)
	}
	return out, nil
}

// appendPrefix appends the shard and the first fields, each with the delimiter that
// follows it; so the last field of the schema has none.
func (s *Schema) appendPrefix(dst []byte, values []any) ([]byte, error) {
	if len(values) > len(s.fields) {
		return dst, fmt.Errorf("composite: %d values for %d fields", len(values), len(s.fields))
	}
	if len(values) == 0 {
		return dst, nil
	}
	start := len(dst)
	if s.o.Shard != nil {
		dst = append(append(dst, 0, 0), s.delimiter...)
	}
	first := len(dst)
	for i, v := range values {
		var err error
		if dst, err = s.appendField(dst, i, v); err != nil {
			return dst, err
		}
	}
	if s.o.Shard == nil {
		return dst, nil
	}
	bucket, err := s.bucket(dst[first:])
	if err != nil {
		return dst, err
	}
	binary.BigEndian.PutUint16(dst[start:], bucket)
	return dst, nil
}

// bucket returns the shard of a key that begins with the given encoding of its first
// field.
func (s *Schema) bucket(encoded []byte) (uint16, error) {
	f, n := s.fields[0], s.fields[0].size()
	switch {
	case f.variable() && len(s.fields) == 1:
		n = len(encoded)
	case f.variable():
		n = strings.Index(string(encoded), s.delimiter)
	case f.Type == String: // hashed without padding
		for n > 0 && encoded[n-1] == 0 {
			n--
		}
	}
	b, err := s.o.Shard.Bytes(encoded[:n])
	return uint16(b), err
}

// appendField appends the encoding of a field and the delimiter after it.
func (s *Schema) appendField(dst []byte, i int, v any) ([]byte, error) {
	f := s.fields[i]
	var err error
	switch f.Type {
	case String:
		dst, err = s.appendString(dst, i, v)
	case Integer:
		var n int64
		if n, err = f.integer(v); err == nil {
			dst = keycodec.AppendInt64(dst, n)
		}
	case Timestamp:
		var ms int64
		if ms, err = f.millis(v); err == nil {
			dst = binary.BigEndian.AppendUint64(dst, uint64(ms))
		}
	case UUID:
		var u keycodec.UUID
		if u, err = f.uuid(v); err == nil {
			dst = append(dst, u[:]...)
		}
	case Decimal:
		var n int64
		if n, err = f.coefficient(v); err == nil {
			dst = keycodec.AppendInt64(dst, n)
		}
	}
	if err != nil || i == len(s.fields)-1 {
		return dst, err
	}
	return append(dst, s.delimiter...), nil
}

func (s *Schema) appendString(dst []byte, i int, v any) ([]byte, error) {
	f := s.fields[i]
	text, ok := v.(string)
	if !ok {
		return dst, f.mismatch(v)
	}
	if err := s.checkString(i, text); err != nil {
		return dst, err
	}
	dst = append(dst, text...)
	if n := f.Width - len(text); n > 0 {
		end := len(dst)
		dst = slices.Grow(dst, n)[:end+n]
		clear(dst[end:])
	}
	return dst, nil
}

// checkString reports whether the field can hold the text, or a beginning of one.
func (s *Schema) checkString(i int, text string) error {
	f := s.fields[i]
	switch {
	case !utf8.ValidString(text):
		return f.refuse("%q is not valid UTF-8", text)
	case !f.variable() && len(text) > f.Width:
		return f.refuse("%d bytes do not fit in %d; cut off, two values would be one", len(text),
			f.Width)
	case !f.variable() && strings.IndexByte(text, 0) >= 0:
		return f.refuse("%q contains a zero byte, which cannot be distinguished from padding", text)
	case f.variable() && len(text) > keycodec.MaxKeyBytes:
		return f.refuse("%d bytes are more than a key can have", len(text))
	case f.variable() && i < len(s.fields)-1 && s.reserved(text) >= 0:
		return f.refuse("%q contains the byte %02x, which the delimiter %s can neither order nor"+
			" tell apart; give the field a width", text, text[s.reserved(text)], s.o.Delimiter)
	}
	return nil
}

// reserved returns the position of the first byte that a string of variable length cannot
// have if another field follows: one up to the first byte of the delimiter.
func (s *Schema) reserved(text string) int {
	for i := range len(text) {
		if text[i] <= s.delimiter[0] {
			return i
		}
	}
	return -1
}

func (f Field) integer(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	}
	return 0, f.mismatch(v)
}

func (f Field) millis(v any) (int64, error) {
	t, ok := v.(time.Time)
	if !ok {
		ms, err := f.integer(v)
		if err == nil && ms < 0 {
			err = f.refuse("%d ms is before 1970 and would sort last", ms)
		}
		return ms, err
	}
	switch {
	case t.Unix() < 0:
		return 0, f.refuse("%s is before 1970 and would sort last",
			t.UTC().Format(time.RFC3339Nano))
	case t.Nanosecond()%int(time.Millisecond) != 0:
		return 0, f.refuse("%s is not a whole millisecond; truncation would make two times equal",
			t.UTC().Format(time.RFC3339Nano))
	}
	ms := t.UnixMilli()
	if !time.UnixMilli(ms).Equal(t) {
		return 0, f.refuse("the year %d cannot be counted in milliseconds", t.Year())
	}
	return ms, nil
}

func (f Field) uuid(v any) (keycodec.UUID, error) {
	switch v := v.(type) {
	case keycodec.UUID:
		return v, nil
	case [16]byte:
		return v, nil
	case string:
		u, err := keycodec.ParseUUID(v)
		if err != nil {
			return u, f.refuse("%q is not a UUID", v)
		}
		return u, nil
	}
	return keycodec.UUID{}, f.mismatch(v)
}

// coefficient refuses what is no whole number of units or does not fit: rounding or wrapping would
// make two values equal.
func (f Field) coefficient(v any) (int64, error) {
	d, ok := v.(keycodec.Decimal)
	if !ok {
		return 0, f.mismatch(v)
	}
	n, err := d.Coefficient(int32(f.Scale))
	if err != nil {
		return 0, f.refuse("%s", strings.TrimPrefix(err.Error(), "keycodec: "))
	}
	return n, nil
}

func (f Field) mismatch(v any) error {
	if v == nil {
		return f.refuse("there is no NULL in keys of version 1")
	}
	return f.refuse("a value of type %T", v)
}
