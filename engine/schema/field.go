package schema

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// typeWidth returns the number of bytes of a type of fixed width, in keys and in rows, 0
// for others.
func typeWidth(t keycodec.Type, unit keycodec.Unit) int {
	switch t {
	case keycodec.TypeBool, keycodec.TypeInt8, keycodec.TypeUint8:
		return 1
	case keycodec.TypeInt16, keycodec.TypeUint16:
		return 2
	case keycodec.TypeInt32, keycodec.TypeUint32, keycodec.TypeFloat32:
		return 4
	case keycodec.TypeInt64, keycodec.TypeUint64, keycodec.TypeFloat64, keycodec.TypeFixed:
		return 8
	case keycodec.TypeTime:
		if unit == keycodec.FullRange {
			return 12
		}
		return 8
	case keycodec.TypeUUID:
		return 16
	}
	return 0
}

// keyField is a field of a key and where its value comes from.
type keyField struct {
	keycodec.Field
	column  *Column
	ordinal int
	width   int // bytes of a value without marker, 0 if they vary
	each    bool
	plain   bool // neither nullable nor descending
	isInt   bool // plain, of 64 bits
	// readable says that the value of the column can be read back from the field: folded
	// texts and elements of lists do not give it.
	readable bool
}

func newKeyField(t *Table, k KeyColumn, each bool) keyField {
	f := t.Columns[k.Ordinal].keyField(k)
	f.ordinal, f.each = k.Ordinal, each
	f.readable = !each && f.Collation == keycodec.CollateBytes
	return f
}

func (c *Column) keyField(k KeyColumn) keyField {
	f := keyField{Field: c.Field(k), column: c, width: typeWidth(c.Type, c.Unit)}
	f.plain = !f.Nullable && !f.Desc
	f.isInt = f.plain && f.Type == keycodec.TypeInt64
	return f
}

// AppendField appends the ordered encoding of a value of the column, or of one element of
// it if it is a list, as part of a key: what keycodec.Field.Append writes. The value may
// be any that Convert takes. On error dst is returned as it was.
func (c *Column) AppendField(dst []byte, k KeyColumn, v expr.Value) ([]byte, error) {
	f := c.keyField(k)
	return f.append(dst, v)
}

// DecodeField reads the ordered encoding of a value of the column, or of one element of
// it, at the start of b and returns what follows it. A collated text comes folded.
//
// Ownership: v may share the bytes of b.
func (c *Column) DecodeField(b []byte, k KeyColumn) (v expr.Value, rest []byte, err error) {
	f := c.keyField(k)
	return f.decode(b)
}

func (f *keyField) append(dst []byte, v expr.Value) ([]byte, error) {
	if f.plain && !v.IsNull() { // there is nothing around the payload
		if out, ok := appendPayload(dst, &f.Field, v); ok {
			return out, nil
		}
	}
	if out, ok := AppendKeyField(dst, &f.Field, v); ok {
		return out, nil
	}
	if v.IsNull() {
		return dst, f.column.noNull()
	}
	v, err := f.column.convert(v)
	if err != nil {
		return dst, err
	}
	out, _ := AppendKeyField(dst, &f.Field, v)
	return out, nil
}

// AppendKeyField is Column.AppendField of values that need no other conversion than to the width of
// a number or the unit of a time. ok is false, and dst as it was, for others.
func AppendKeyField(dst []byte, f *keycodec.Field, v expr.Value) (out []byte, ok bool) {
	start := len(dst)
	switch {
	case v.IsNull():
		out, ok = keycodec.AppendNull(dst, f.NullsLast != f.Desc), f.Nullable
	case f.Nullable:
		out, ok = appendPayload(keycodec.AppendNotNull(dst), f, v)
	default:
		out, ok = appendPayload(dst, f, v)
	}
	if !ok {
		return dst, false
	}
	if f.Desc {
		keycodec.InvertFrom(out, start)
	}
	return out, true
}

// appendPayload appends the ascending encoding of a value that is not NULL, if the field has it.
func appendPayload(dst []byte, f *keycodec.Field, v expr.Value) ([]byte, bool) {
	switch f.Type {
	case keycodec.TypeString:
		s, ok := v.AsString()
		if f.Collation != keycodec.CollateBytes {
			s = f.Collation.Fold(s)
		}
		return keycodec.AppendString(dst, s), ok
	case keycodec.TypeBytes:
		s, ok := v.AsBytes()
		return keycodec.AppendString(dst, s), ok
	case keycodec.TypeInt64:
		i, ok := v.AsInt()
		return keycodec.AppendInt64(dst, i), ok
	case keycodec.TypeInt8, keycodec.TypeInt16, keycodec.TypeInt32:
		i, ok := v.AsInt()
		low, high := intLimits(f.Type)
		width := typeWidth(f.Type, f.Unit)
		return appendBig(dst, uint64(i)+1<<(8*width-1), width), ok && i >= low && i <= high
	case keycodec.TypeUint8, keycodec.TypeUint16, keycodec.TypeUint32, keycodec.TypeUint64:
		u, ok := v.AsUint()
		return appendBig(dst, u, typeWidth(f.Type, f.Unit)), ok && u <= maxUint(f.Type)
	case keycodec.TypeFloat64:
		x, ok := floatIn(f.Type, v)
		return keycodec.AppendFloat64(dst, x), ok
	case keycodec.TypeFloat32:
		x, ok := floatIn(f.Type, v)
		return keycodec.AppendFloat32(dst, float32(x)), ok
	case keycodec.TypeTime:
		if f.Unit == keycodec.FullRange {
			seconds, nanos, ok := v.AsUnixTime()
			dst = keycodec.AppendInt64(dst, seconds)
			return binary.BigEndian.AppendUint32(dst, nanos), ok && seconds <= maxSecond
		}
		ticks, ok := ticksOf(v, f.Unit)
		return keycodec.AppendInt64(dst, ticks), ok
	case keycodec.TypeUUID:
		u, ok := v.AsUUID()
		return keycodec.AppendUUID(dst, u), ok
	case keycodec.TypeBool:
		b, ok := v.AsBool()
		return keycodec.AppendBool(dst, b), ok
	case keycodec.TypeDecimal:
		return v.AppendDecimal(dst)
	case keycodec.TypeFixed:
		coefficient, ok := v.AsScaled(f.Scale)
		return keycodec.AppendInt64(dst, coefficient), ok
	case keycodec.TypeIP:
		a, ok := v.AsIP()
		dst, err := keycodec.AppendIP(dst, a)
		return dst, ok && err == nil
	}
	p, ok := v.AsPrefix()
	dst, err := keycodec.AppendIPPrefix(dst, p)
	return dst, ok && err == nil
}

// appendBig appends the lowest bytes of u, big-endian.
func appendBig(dst []byte, u uint64, width int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], u<<(64-8*width))
	return append(dst, b[:width]...)
}

// skip returns what follows the field.
func (f *keyField) skip(b []byte) ([]byte, error) {
	if f.plain && f.width > 0 && len(b) >= f.width {
		return b[f.width:], nil
	}
	if f.plain && f.isText() {
		// Without zero bytes the first of them begins the terminator.
		if i := bytes.IndexByte(b, 0); i >= 0 && i+1 < len(b) && b[i+1] == 0 {
			return b[i+2:], nil
		}
	}
	return f.Skip(b)
}

func (f *keyField) isText() bool {
	return f.Type == keycodec.TypeString || f.Type == keycodec.TypeBytes
}

// decode reads the value of the field.
func (f *keyField) decode(b []byte) (v expr.Value, rest []byte, err error) {
	if f.plain {
		return f.decodeValue(b)
	}
	if rest, err = f.Skip(b); err != nil {
		return expr.Value{}, nil, err
	}
	field := b[:len(b)-len(rest)]
	if f.Nullable {
		if f.isNull(field[0]) {
			return expr.Value{}, rest, nil
		}
		field = field[1:]
	}
	if f.width > 0 {
		v, err = f.decodeWidth(field)
		return v, rest, err
	}
	if f.Desc {
		field = keycodec.InvertFrom(bytes.Clone(field), 0)
	}
	v, _, err = f.decodeValue(field) // Invariant: all of it, as Skip has found its end
	return v, rest, err
}

// decodeWidth reads a value of fixed width without marker, all of b. It is a function of its
// own because decode keeps the bytes of texts, and the scratch here must not be allocated.
// Requires: b has that width.
func (f *keyField) decodeWidth(b []byte) (expr.Value, error) {
	if !f.Desc {
		return f.decodeFixed(b)
	}
	var scratch [16]byte
	n := copy(scratch[:], b)
	return f.decodeFixed(keycodec.InvertFrom(scratch[:n], 0))
}

// decodeValue reads a value that is ascending and without a marker.
func (f *keyField) decodeValue(b []byte) (v expr.Value, rest []byte, err error) {
	if f.width > 0 {
		if len(b) < f.width {
			return expr.Value{}, nil, damaged("key", 0, f.Type, "the end")
		}
		v, err = f.decodeFixed(b[:f.width])
		return v, b[f.width:], err
	}
	switch f.Type {
	case keycodec.TypeString, keycodec.TypeBytes:
		text, rest, err := keycodec.DecodeBytes(b)
		if err != nil {
			return expr.Value{}, nil, err
		}
		if f.Type == keycodec.TypeBytes {
			return expr.BytesOf(view(text)), rest, nil
		}
		return expr.String(view(text)), rest, nil
	case keycodec.TypeDecimal:
		rest, err := keycodec.Field{Name: f.Name, Type: f.Type}.Skip(b)
		if err != nil {
			return expr.Value{}, nil, err
		}
		encoded := view(b[:len(b)-len(rest)])
		if !expr.ValidDecimal(encoded) {
			return expr.Value{}, nil, damaged("key", 0, "a decimal", "other bytes")
		}
		return expr.DecimalOf(encoded), rest, nil
	case keycodec.TypeIP:
		var a netip.Addr
		a, rest, err = keycodec.DecodeIP(b)
		return expr.IP(a), rest, err
	case keycodec.TypeIPPrefix:
		var p netip.Prefix
		p, rest, err = keycodec.DecodeIPPrefix(b)
		return expr.Prefix(p), rest, err
	}
	return expr.Value{}, nil, damaged("key", 0, "a known type", f.Type)
}

// decodeFixed reads all of b, which has the width of the type.
func (f *keyField) decodeFixed(b []byte) (v expr.Value, err error) {
	switch f.Type {
	case keycodec.TypeInt64:
		return expr.Int(int64(binary.BigEndian.Uint64(b) ^ 1<<63)), nil
	case keycodec.TypeInt32:
		return expr.Int(int64(int32(binary.BigEndian.Uint32(b) ^ 1<<31))), nil
	case keycodec.TypeInt16:
		return expr.Int(int64(int16(binary.BigEndian.Uint16(b) ^ 1<<15))), nil
	case keycodec.TypeInt8:
		return expr.Int(int64(int8(b[0] ^ 1<<7))), nil
	case keycodec.TypeUint64:
		return expr.Uint(binary.BigEndian.Uint64(b)), nil
	case keycodec.TypeUint32:
		return expr.Uint(uint64(binary.BigEndian.Uint32(b))), nil
	case keycodec.TypeUint16:
		return expr.Uint(uint64(binary.BigEndian.Uint16(b))), nil
	case keycodec.TypeUint8:
		return expr.Uint(uint64(b[0])), nil
	case keycodec.TypeBool:
		x, _, err := keycodec.DecodeBool(b)
		return expr.Bool(x), err
	case keycodec.TypeFloat64:
		x, _, err := keycodec.DecodeFloat64(b)
		return expr.Float(x), err
	case keycodec.TypeFloat32:
		x, _, err := keycodec.DecodeFloat32(b)
		return expr.Float(float64(x)), err
	case keycodec.TypeFixed:
		return expr.Scaled(int64(binary.BigEndian.Uint64(b)^1<<63), f.Scale), nil
	case keycodec.TypeUUID:
		return expr.UUID([16]byte(b)), nil
	}
	seconds, nanos := int64(binary.BigEndian.Uint64(b)^1<<63), uint32(0)
	if f.Unit == keycodec.FullRange {
		nanos = binary.BigEndian.Uint32(b[8:])
	}
	return checkedTime(seconds, nanos, f.Unit)
}

// checkedTime returns a stored time. For FullRange ticks are seconds.
func checkedTime(ticks int64, nanos uint32, unit keycodec.Unit) (expr.Value, error) {
	coarse := unit == keycodec.Second || unit == keycodec.FullRange
	if coarse && ticks > maxSecond || nanos >= 1e9 ||
		unit == keycodec.Day && (ticks < minDay || ticks > maxDay) {
		return expr.Value{}, damaged("time", 0, "a time in "+unit.String(), "another")
	}
	if unit == keycodec.FullRange {
		return expr.UnixTime(ticks, nanos), nil
	}
	return timeOf(ticks, unit), nil
}

// view returns b as a string that shares its bytes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
