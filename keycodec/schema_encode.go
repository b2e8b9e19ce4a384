package keycodec

import (
	"fmt"
	"net/netip"
	"time"
)

// Append appends the encoding of a whole tuple to dst: one value for each field, nil for
// NULL, of the Go types listed at Type. It fails, with dst as it was, if the number or
// the type of the values does not fit the schema, or if a field cannot hold a value
// exactly: a number out of its range, a decimal with more places, a time outside the range
// of its unit (finer times are truncated). Whether the result is short enough
// for a key is checked by Key.Validate.
func (s Schema) Append(dst []byte, values ...any) ([]byte, error) {
	if len(values) != len(s.fields) {
		return dst, fmt.Errorf("keycodec: %d values for %d fields", len(values), len(s.fields))
	}
	out, err := s.AppendPrefix(dst, values...)
	if err != nil {
		return dst, err
	}
	for _, i := range s.kept {
		if text, ok := values[i].(string); ok {
			out = s.fields[i].Collation.appendCase(out, text)
		}
	}
	return out, nil
}

// AppendPrefix appends the complete encodings of the first len(values) fields to dst. It
// is a prefix of the encodings of exactly those tuples that begin with these values,
// whatever the case of collated ones. Errors are those of Append.
func (s Schema) AppendPrefix(dst []byte, values ...any) ([]byte, error) {
	if len(values) > len(s.fields) {
		return dst, fmt.Errorf("keycodec: %d values for %d fields", len(values), len(s.fields))
	}
	out := dst
	for i, v := range values {
		var err error
		if out, err = s.fields[i].append(out, v); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// AppendBeginsWith is AppendPrefix, except that the last of the values is left open: it
// appends a prefix of the encodings of exactly those tuples that begin with the other
// values and go on with a string or byte string that begins with the last one. Its
// errors are those of Append, and one if the last field is of another type or the last
// value is NULL.
func (s Schema) AppendBeginsWith(dst []byte, values ...any) ([]byte, error) {
	last := len(values) - 1
	if last < 0 || last >= len(s.fields) {
		return dst, fmt.Errorf("keycodec: %d values for %d fields", len(values), len(s.fields))
	}
	out, err := s.AppendPrefix(dst, values[:last]...)
	if err != nil {
		return dst, err
	}
	start, f := len(out), &s.fields[last]
	if f.Nullable {
		out = AppendNotNull(out)
	}
	switch v := values[last].(type) {
	case string:
		if f.Type != TypeString {
			return dst, f.mismatch(v)
		}
		out = f.Collation.appendOpen(out, v)
	case []byte:
		if f.Type != TypeBytes {
			return dst, f.mismatch(v)
		}
		out = PrefixBytes(out, v)
	default:
		return dst, f.mismatch(v)
	}
	if f.Desc {
		InvertFrom(out, start)
	}
	return out, nil
}

// append appends the encoding of one value. On error the result is undefined.
func (f *Field) append(dst []byte, v any) ([]byte, error) {
	start := len(dst)
	switch {
	case v == nil && !f.Nullable:
		return dst, fmt.Errorf("keycodec: NULL for field %q, which is not nullable", f.Name)
	case v == nil:
		dst = AppendNull(dst, f.markerLast())
	default:
		if f.Nullable {
			dst = AppendNotNull(dst)
		}
		var err error
		if dst, err = f.appendValue(dst, v); err != nil {
			return dst, err
		}
	}
	if f.Desc {
		InvertFrom(dst, start)
	}
	return dst, nil
}

func (f *Field) appendValue(dst []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case string:
		if f.Type == TypeString {
			return f.Collation.append(dst, v), nil
		}
	case []byte:
		if f.Type == TypeBytes {
			return AppendBytes(dst, v), nil
		}
	case bool:
		if f.Type == TypeBool {
			return AppendBool(dst, v), nil
		}
	case float64:
		return f.appendFloat(dst, v)
	case float32:
		return f.appendFloat(dst, float64(v))
	case UUID:
		if f.Type == TypeUUID {
			return AppendUUID(dst, v), nil
		}
	case [16]byte:
		if f.Type == TypeUUID {
			return AppendUUID(dst, v), nil
		}
	case time.Time:
		if f.Type == TypeTime {
			dst, err = AppendTime(dst, v, f.Unit)
			return dst, f.named(err)
		}
	case Decimal:
		return f.appendDecimal(dst, v)
	case netip.Addr:
		if f.Type == TypeIP {
			dst, err = AppendIP(dst, v)
			return dst, f.named(err)
		}
	case netip.Prefix:
		if f.Type == TypeIPPrefix {
			dst, err = AppendIPPrefix(dst, v)
			return dst, f.named(err)
		}
	default:
		return f.appendInteger(dst, v)
	}
	return dst, f.mismatch(v)
}

func (f *Field) appendFloat(dst []byte, v float64) ([]byte, error) {
	switch narrow := float32(v); {
	case f.Type == TypeFloat64:
		return AppendFloat64(dst, v), nil
	case f.Type != TypeFloat32:
		return dst, f.mismatch(v)
	case v == v && float64(narrow) != v:
		return dst, f.outOfRange(v)
	default:
		return AppendFloat32(dst, narrow), nil
	}
}

func (f *Field) appendDecimal(dst []byte, v Decimal) ([]byte, error) {
	switch f.Type {
	case TypeDecimal:
		return AppendDecimal(dst, v), nil
	case TypeFixed:
		dst, err := AppendFixed(dst, v, f.Scale)
		return dst, f.named(err)
	}
	return dst, f.mismatch(v)
}

func (f *Field) appendInteger(dst []byte, v any) ([]byte, error) {
	if width := f.Type.signedWidth(); width > 0 {
		if n, ok := asInt64(v); ok {
			return f.appendSigned(dst, n, width)
		}
	}
	if width := f.Type.unsignedWidth(); width > 0 {
		if n, ok := asUint64(v); ok {
			return f.appendUnsigned(dst, n, width)
		}
	}
	return dst, f.mismatch(v)
}

func (f *Field) appendSigned(dst []byte, n int64, width int) ([]byte, error) {
	if width == 8 {
		return AppendInt64(dst, n), nil
	}
	bias := int64(1) << (8*width - 1)
	if n < -bias || n >= bias {
		return dst, f.outOfRange(n)
	}
	return appendUint(dst, uint64(n+bias), width), nil
}

func (f *Field) appendUnsigned(dst []byte, n uint64, width int) ([]byte, error) {
	if width == 8 {
		return AppendUint64(dst, n), nil
	}
	if n>>(8*width) != 0 {
		return dst, f.outOfRange(n)
	}
	return appendUint(dst, n, width), nil
}

// signedWidth returns the number of bytes of a signed integer, 0 for other types.
func (t Type) signedWidth() int {
	switch t {
	case TypeInt8, TypeInt16, TypeInt32, TypeInt64:
		return typeTable[t].width
	}
	return 0
}

// unsignedWidth returns the number of bytes of an unsigned integer, 0 for other types.
func (t Type) unsignedWidth() int {
	switch t {
	case TypeUint8, TypeUint16, TypeUint32, TypeUint64:
		return typeTable[t].width
	}
	return 0
}

func (f *Field) mismatch(v any) error {
	return fmt.Errorf("keycodec: a value of type %T for field %q of type %s", v, f.Name, f.Type)
}

func (f *Field) outOfRange(v any) error {
	return fmt.Errorf("keycodec: field %q of type %s cannot hold %v", f.Name, f.Type, v)
}

// named adds the name of the field to an error.
func (f *Field) named(err error) error {
	if err == nil || f.Name == "" {
		return err
	}
	return fmt.Errorf("field %q: %w", f.Name, err)
}

func asInt64(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case int16:
		return int64(v), true
	case int8:
		return int64(v), true
	}
	return 0, false
}

func asUint64(v any) (uint64, bool) {
	switch v := v.(type) {
	case uint64:
		return v, true
	case uint:
		return uint64(v), true
	case uint32:
		return uint64(v), true
	case uint16:
		return uint64(v), true
	case uint8:
		return uint64(v), true
	}
	return 0, false
}
