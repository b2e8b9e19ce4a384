package keycodec

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"time"
	"unsafe"
)

// Codec encodes and decodes the keys of a struct type whose fields carry tags; see
// SchemaOf. What it writes is what Schema.Append writes for the values of the fields. It
// uses reflection only when it is made. It is immutable and may be used
// concurrently.
type Codec[T any] struct {
	structCodec
}

// structCodec is a Codec that does not know its type: it reads and writes memory. Why
// apart: code that is not generic is faster.
type structCodec struct {
	schema Schema
	slots  []slot
	fast   *fastPath // nil if the fields are not the kinds that it takes
}

// slot is one field of the key and where it is in the struct.
type slot struct {
	field  *Field
	offset uintptr
	kind   slotKind
	// plain fields need no mark of NULL, no complement and no folding.
	plain bool
	elem  reflect.Type // the type of the value, without the pointer of a nullable field
}

// slotKind says how the memory of a value is read: it is the Type of the field, unless it
// is one of those below.
type slotKind uint8

const (
	slotInt         = slotKind(TypeIPPrefix) + 1 + iota // an int
	slotUint                                            // a uint
	slotCoefficient                                     // an int64 for a TypeFixed
)

// NewCodec returns the codec of the struct type T. Errors are those of SchemaOf.
func NewCodec[T any]() (*Codec[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("keycodec: %s is not a struct", t)
	}
	c := &Codec[T]{}
	var fields []Field
	for sf := range t.Fields() {
		f, ok, err := fieldOfTag(sf)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		fields, c.slots = append(fields, f), append(c.slots, newSlot(f, sf))
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("keycodec: no field of %s has a tag %q", t, tagKey)
	}
	var err error
	if c.schema, err = NewSchema(fields...); err != nil {
		return nil, err
	}
	for i := range c.slots {
		c.slots[i].field = &c.schema.fields[i]
	}
	c.fast = newFastPath(c.slots)
	return c, nil
}

func newSlot(f Field, sf reflect.StructField) slot {
	s := slot{offset: sf.Offset, kind: slotKind(f.Type), elem: sf.Type}
	if f.Nullable {
		s.elem = sf.Type.Elem()
	}
	switch kind := s.elem.Kind(); {
	case kind == reflect.Int:
		s.kind = slotInt
	case kind == reflect.Uint:
		s.kind = slotUint
	case kind == reflect.Int64 && f.Type == TypeFixed:
		s.kind = slotCoefficient
	}
	s.plain = !f.Nullable && !f.Desc && f.Collation == CollateBytes
	return s
}

// maxFixedBytes is what a field of fixed width takes at most: a prefix of IPv6, marked.
const maxFixedBytes = 19

// Schema returns the schema of the keys.
func (c *Codec[T]) Schema() Schema { return c.schema }

// Append appends the key of v to dst. It allocates only when dst has no room. It fails,
// with dst as it was, if a field cannot hold its value; see Schema.Append.
func (c *Codec[T]) Append(dst []byte, v *T) ([]byte, error) {
	return c.append(dst, unsafe.Pointer(v))
}

func (c *structCodec) append(dst []byte, base unsafe.Pointer) (out []byte, err error) {
	if c.fast != nil {
		if out, ok := c.fast.append(dst, base); ok {
			return out, nil
		}
	}
	out = dst
	for i := range c.slots {
		if out, err = c.slots[i].append(out, unsafe.Add(base, c.slots[i].offset)); err != nil {
			return dst, err
		}
	}
	for _, i := range c.schema.kept {
		s := &c.slots[i]
		if text := (*string)(s.value(unsafe.Add(base, s.offset))); text != nil {
			out = s.field.Collation.appendCase(out, *text)
		}
	}
	return out, nil
}

// Decode reads a key into the fields of v that belong to it; the others keep their
// values. On error v holds anything. Errors are those of Schema.Decode.
//
// Ownership: v shares no memory with key.
func (c *Codec[T]) Decode(key []byte, v *T) error {
	return c.decode(key, unsafe.Pointer(v), false)
}

// DecodeView is Decode without copying texts: it allocates nothing, unless a field is
// descending text, has zero bytes in it, is a Decimal, a pointer, or collated.
//
// Ownership: the strings and byte slices of v may be views into key. They are valid, and
// do not change, as long as key does not.
func (c *Codec[T]) DecodeView(key []byte, v *T) error {
	return c.decode(key, unsafe.Pointer(v), true)
}

func (c *structCodec) decode(key []byte, base unsafe.Pointer, view bool) error {
	if c.fast != nil && c.fast.decode(key, base) {
		if !view {
			c.fast.cloneTexts(base)
		}
		return nil
	}
	rest := key
	for i := range c.slots {
		s := &c.slots[i]
		p := unsafe.Add(base, s.offset)
		tail, err := s.decode(rest, p, view)
		if err != nil {
			return shifted(err, len(key)-len(rest))
		}
		rest = tail
	}
	for _, i := range c.schema.kept {
		s := &c.slots[i]
		text := (*string)(s.value(unsafe.Add(base, s.offset)))
		if text == nil {
			continue
		}
		cased, tail, err := s.field.Collation.decodeCase(rest, *text)
		if err != nil {
			return shifted(err, len(key)-len(rest))
		}
		*text, rest = cased, tail
	}
	if len(rest) > 0 {
		return damaged("typed key", len(key)-len(rest), "the end",
			fmt.Sprintf("%d more bytes", len(rest)))
	}
	return nil
}

// value returns where the value of a field is: p, or what the pointer at p points to.
func (s *slot) value(p unsafe.Pointer) unsafe.Pointer {
	if s.field.Nullable {
		return *(*unsafe.Pointer)(p)
	}
	return p
}

// append appends the field at p.
func (s *slot) append(dst []byte, p unsafe.Pointer) (out []byte, err error) {
	start := len(dst)
	if p = s.value(p); p == nil {
		dst = AppendNull(dst, s.field.markerLast())
	} else {
		if s.field.Nullable {
			dst = AppendNotNull(dst)
		}
		if dst, err = s.appendValue(dst, p); err != nil {
			return dst, s.field.named(err)
		}
	}
	if s.field.Desc {
		InvertFrom(dst, start)
	}
	return dst, nil
}

// appendValue appends the value at p, which is not NULL, ascending.
func (s *slot) appendValue(dst []byte, p unsafe.Pointer) ([]byte, error) {
	switch s.kind {
	case slotKind(TypeString):
		return s.field.Collation.append(dst, *(*string)(p)), nil
	case slotKind(TypeBytes):
		return AppendBytes(dst, *(*[]byte)(p)), nil
	case slotKind(TypeInt64), slotCoefficient:
		return AppendInt64(dst, *(*int64)(p)), nil
	case slotInt:
		return AppendInt64(dst, int64(*(*int)(p))), nil
	case slotUint:
		return AppendUint64(dst, uint64(*(*uint)(p))), nil
	case slotKind(TypeUint64):
		return AppendUint64(dst, *(*uint64)(p)), nil
	case slotKind(TypeInt8):
		return AppendInt8(dst, *(*int8)(p)), nil
	case slotKind(TypeInt16):
		return AppendInt16(dst, *(*int16)(p)), nil
	case slotKind(TypeInt32):
		return AppendInt32(dst, *(*int32)(p)), nil
	case slotKind(TypeUint8):
		return AppendUint8(dst, *(*uint8)(p)), nil
	case slotKind(TypeUint16):
		return AppendUint16(dst, *(*uint16)(p)), nil
	case slotKind(TypeUint32):
		return AppendUint32(dst, *(*uint32)(p)), nil
	case slotKind(TypeBool):
		return AppendBool(dst, *(*bool)(p)), nil
	case slotKind(TypeFloat64):
		return AppendFloat64(dst, *(*float64)(p)), nil
	case slotKind(TypeFloat32):
		return AppendFloat32(dst, *(*float32)(p)), nil
	case slotKind(TypeTime):
		return AppendTime(dst, *(*time.Time)(p), s.field.Unit)
	case slotKind(TypeUUID):
		return AppendUUID(dst, *(*UUID)(p)), nil
	case slotKind(TypeDecimal):
		return AppendDecimal(dst, *(*Decimal)(p)), nil
	case slotKind(TypeFixed):
		return AppendFixed(dst, *(*Decimal)(p), s.field.Scale)
	case slotKind(TypeIP):
		return AppendIP(dst, *(*netip.Addr)(p))
	default:
		return AppendIPPrefix(dst, *(*netip.Prefix)(p))
	}
}

// decode reads the field at the start of b to p and returns what follows it.
func (s *slot) decode(b []byte, p unsafe.Pointer, view bool) (rest []byte, err error) {
	switch text := s.field.Type.isText(); {
	case s.plain && text:
		return s.decodeText(b, p, view)
	case s.plain:
		return s.decodeFixed(b, p)
	}
	n, err := s.field.encodedLen(b)
	if err != nil {
		return nil, err
	}
	value, marker := b[:n], 0
	if s.field.Nullable {
		if value[0]^s.field.mask() != notNull {
			*(*unsafe.Pointer)(p) = nil
			return b[n:], nil
		}
		target := reflect.New(s.elem).UnsafePointer()
		*(*unsafe.Pointer)(p) = target
		value, p, marker = value[1:], target, 1
	}
	var buf [maxFixedBytes]byte
	switch {
	case !s.field.Type.isText() && s.field.Desc:
		_, err = s.decodeFixed(InvertFrom(append(buf[:0], value...), 0), p)
	case !s.field.Type.isText():
		_, err = s.decodeFixed(value, p)
	case s.field.Desc: // nothing else refers to the complement, so the value may be a view into it
		_, err = s.decodeText(InvertFrom(bytes.Clone(value), 0), p, true)
	default:
		_, err = s.decodeText(value, p, view)
	}
	if err != nil {
		return nil, shifted(err, marker)
	}
	return b[n:], nil
}

// decodeText reads the ascending text at the start of b to p.
func (s *slot) decodeText(b []byte, p unsafe.Pointer, view bool) (rest []byte, err error) {
	var text []byte
	switch {
	case s.field.Collation != CollateBytes:
		*(*string)(p), rest, err = s.field.Collation.decode(b)
		return rest, err
	case view:
		text, rest, err = DecodeBytes(b)
	default:
		text, rest, err = DecodeAppendBytes([]byte{}, b)
	}
	if err != nil {
		return nil, err
	}
	if s.kind == slotKind(TypeBytes) {
		*(*[]byte)(p) = text
	} else {
		*(*string)(p) = unsafe.String(unsafe.SliceData(text), len(text))
	}
	return rest, nil
}

// decodeFixed is decodeText for all other types. It keeps no view into b.
func (s *slot) decodeFixed(b []byte, p unsafe.Pointer) (rest []byte, err error) {
	switch s.kind {
	case slotKind(TypeInt64), slotCoefficient:
		*(*int64)(p), rest, err = DecodeInt64(b)
	case slotKind(TypeUint64):
		*(*uint64)(p), rest, err = DecodeUint64(b)
	case slotKind(TypeUUID):
		*(*UUID)(p), rest, err = DecodeUUID(b)
	case slotKind(TypeTime):
		*(*time.Time)(p), rest, err = DecodeTime(b, s.field.Unit)
	case slotKind(TypeBool):
		*(*bool)(p), rest, err = DecodeBool(b)
	case slotKind(TypeFloat64):
		*(*float64)(p), rest, err = DecodeFloat64(b)
	case slotKind(TypeFloat32):
		*(*float32)(p), rest, err = DecodeFloat32(b)
	case slotKind(TypeDecimal):
		*(*Decimal)(p), rest, err = DecodeDecimal(b)
	case slotKind(TypeFixed):
		*(*Decimal)(p), rest, err = DecodeFixed(b, s.field.Scale)
	case slotKind(TypeIP):
		*(*netip.Addr)(p), rest, err = DecodeIP(b)
	case slotKind(TypeIPPrefix):
		*(*netip.Prefix)(p), rest, err = DecodeIPPrefix(b)
	default:
		return s.decodeNarrow(b, p)
	}
	return rest, err
}

// decodeNarrow is decodeFixed for the integers that may have less than 64 bits.
func (s *slot) decodeNarrow(b []byte, p unsafe.Pointer) (rest []byte, err error) {
	switch s.kind {
	case slotKind(TypeInt8):
		*(*int8)(p), rest, err = DecodeInt8(b)
	case slotKind(TypeInt16):
		*(*int16)(p), rest, err = DecodeInt16(b)
	case slotKind(TypeInt32):
		*(*int32)(p), rest, err = DecodeInt32(b)
	case slotKind(TypeUint8):
		*(*uint8)(p), rest, err = DecodeUint8(b)
	case slotKind(TypeUint16):
		*(*uint16)(p), rest, err = DecodeUint16(b)
	case slotKind(TypeUint32):
		*(*uint32)(p), rest, err = DecodeUint32(b)
	case slotInt:
		var v int64
		v, rest, err = DecodeInt64(b)
		if *(*int)(p) = int(v); int64(int(v)) != v && err == nil {
			return nil, s.field.outOfRange(v) // where an int has 32 bits
		}
	default:
		var v uint64
		v, rest, err = DecodeUint64(b)
		if *(*uint)(p) = uint(v); uint64(uint(v)) != v && err == nil {
			return nil, s.field.outOfRange(v)
		}
	}
	return rest, err
}
