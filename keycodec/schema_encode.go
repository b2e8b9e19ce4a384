package keycodec

import (
	"fmt"
	"time"
)

// Append appends the encoding of a whole tuple to dst: one value for each field, nil for
// NULL, of the Go types listed at Type. It fails, with dst as it was, if the number or
// the type of the values does not fit the schema, or if a time cannot be counted in its
// unit. Whether the result is short enough for a key is checked by Key.Validate.
func (s Schema) Append(dst []byte, values ...any) ([]byte, error) {
	if len(values) != len(s.fields) {
		return dst, fmt.Errorf("keycodec: %d values for %d fields", len(values), len(s.fields))
	}
	return s.AppendPrefix(dst, values...)
}

// AppendPrefix appends the complete encodings of the first len(values) fields to dst. It
// is a prefix of the encodings of exactly those tuples that begin with these values.
// Errors are those of Append.
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
	start, f := len(out), s.fields[last]
	if f.Nullable {
		out = AppendNotNull(out)
	}
	switch v := values[last].(type) {
	case string:
		if f.Type != TypeString {
			return dst, f.mismatch(v)
		}
		out = PrefixString(out, v)
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

// append appends the encoding of one value. On error the result is of no use.
func (f Field) append(dst []byte, v any) ([]byte, error) {
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

func (f Field) appendValue(dst []byte, v any) ([]byte, error) {
	switch f.Type {
	case TypeString:
		if v, ok := v.(string); ok {
			return AppendString(dst, v), nil
		}
	case TypeBytes:
		if v, ok := v.([]byte); ok {
			return AppendBytes(dst, v), nil
		}
	case TypeInt64:
		if v, ok := asInt64(v); ok {
			return AppendInt64(dst, v), nil
		}
	case TypeUint64:
		if v, ok := asUint64(v); ok {
			return AppendUint64(dst, v), nil
		}
	case TypeBool:
		if v, ok := v.(bool); ok {
			return AppendBool(dst, v), nil
		}
	case TypeFloat64:
		switch v := v.(type) {
		case float64:
			return AppendFloat64(dst, v), nil
		case float32:
			return AppendFloat64(dst, float64(v)), nil
		}
	case TypeTime:
		if v, ok := v.(time.Time); ok {
			out, err := AppendTime(dst, v, f.Unit)
			if err != nil {
				err = fmt.Errorf("field %q: %w", f.Name, err)
			}
			return out, err
		}
	case TypeUUID:
		switch v := v.(type) {
		case UUID:
			return AppendUUID(dst, v), nil
		case [16]byte:
			return AppendUUID(dst, v), nil
		}
	case TypeDecimal:
		if v, ok := v.(Decimal); ok {
			return AppendDecimal(dst, v), nil
		}
	}
	return dst, f.mismatch(v)
}

func (f Field) mismatch(v any) error {
	return fmt.Errorf("keycodec: a value of type %T for field %q of type %s", v, f.Name, f.Type)
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
