package keycodec

import (
	"fmt"
	"net/netip"
	"time"
)

// Reader reads the fields of one encoded tuple in turn, into typed values and without
// allocating, but for Decimals and descending texts. The first error sticks: the methods
// return zero values from then on, and Close reports it. So a key is read like this:
//
//	r := schema.Reader(key)
//	user, at := r.String(), r.Time()
//	if err := r.Close(); err != nil { ... }
//
// A Reader is a value for one goroutine.
type Reader struct {
	schema  Schema
	key     []byte
	at      int // offset in key of the next field
	field   int // index of the next field
	size    int // bytes of the field that is being read, from at on
	scratch [maxFixedBytes]byte
	err     error
}

// Reader returns a reader of key. It keeps key, which must not change meanwhile.
func (s Schema) Reader(key []byte) Reader { return Reader{schema: s, key: key} }

// Skip passes over n fields without decoding them. n may be negative: the reader goes
// back to the start and forward from there.
func (r *Reader) Skip(n int) {
	to := r.field + n
	switch {
	case r.err != nil:
		return
	case to < 0 || to > len(r.schema.fields):
		r.err = fmt.Errorf("keycodec: field %d of %d asked for", to, len(r.schema.fields))
		return
	case n < 0:
		r.at, r.field = 0, 0
	}
	for ; r.field < to; r.field++ {
		n, err := r.schema.fields[r.field].encodedLen(r.key[r.at:])
		if err != nil {
			r.err = shifted(err, r.at)
			return
		}
		r.at += n
	}
}

// Null reports whether the next field is NULL, and passes over it if it is. The other
// methods report NULL as an error.
func (r *Reader) Null() bool {
	if r.err != nil || r.field >= len(r.schema.fields) {
		return false
	}
	f := &r.schema.fields[r.field]
	if !f.Nullable || r.at == len(r.key) || r.key[r.at]^f.mask() != nullMarker(f.markerLast()) {
		return false
	}
	r.at++
	r.field++
	return true
}

// Bytes reads a field of type string or bytes. A collated string comes folded.
//
// Ownership: the result is a view into the key, unless the field is descending or has
// zero bytes in it.
func (r *Reader) Bytes() []byte {
	value, f := r.next(TypeString, TypeBytes)
	if r.err != nil {
		return nil
	}
	if f.Desc {
		value = InvertFrom(append([]byte(nil), value...), 0)
	}
	v, _, err := DecodeBytes(value)
	if err == nil && f.Collation != CollateBytes && !f.Collation.folded(string(v)) {
		_, _, err = f.Collation.decode(value)
	}
	return passed(r, v, err)
}

// String reads what Bytes reads as a string, a copy.
func (r *Reader) String() string { return string(r.Bytes()) }

// Int reads a field of type int8, int16, int32 or int64.
func (r *Reader) Int() int64 {
	value, f := r.fixed(TypeInt64, TypeInt32, TypeInt16, TypeInt8)
	if r.err != nil {
		return 0
	}
	u, _, err := decodeUint(value, len(value), "")
	return passed(r, int64(u-1<<(8*f.Type.signedWidth()-1)), err)
}

// Uint reads a field of type uint8, uint16, uint32 or uint64.
func (r *Reader) Uint() uint64 {
	value, _ := r.fixed(TypeUint64, TypeUint32, TypeUint16, TypeUint8)
	if r.err != nil {
		return 0
	}
	u, _, err := decodeUint(value, len(value), "")
	return passed(r, u, err)
}

// Bool reads a field of type bool.
func (r *Reader) Bool() bool {
	value, _ := r.fixed(TypeBool)
	if r.err != nil {
		return false
	}
	v, _, err := DecodeBool(value)
	return passed(r, v, err)
}

// Float reads a field of type float32 or float64.
func (r *Reader) Float() float64 {
	value, f := r.fixed(TypeFloat64, TypeFloat32)
	if r.err != nil {
		return 0
	}
	if f.Type == TypeFloat32 {
		v, _, err := DecodeFloat32(value)
		return passed(r, float64(v), err)
	}
	v, _, err := DecodeFloat64(value)
	return passed(r, v, err)
}

// Time reads a field of type time.
func (r *Reader) Time() time.Time {
	value, f := r.fixed(TypeTime)
	if r.err != nil {
		return time.Time{}
	}
	v, _, err := DecodeTime(value, f.Unit)
	return passed(r, v, err)
}

// UUID reads a field of type uuid.
func (r *Reader) UUID() UUID {
	value, _ := r.fixed(TypeUUID)
	if r.err != nil {
		return UUID{}
	}
	v, _, err := DecodeUUID(value)
	return passed(r, v, err)
}

// Decimal reads a field of type decimal or fixed.
func (r *Reader) Decimal() Decimal {
	value, f := r.fixed(TypeDecimal, TypeFixed)
	if r.err != nil {
		return Decimal{}
	}
	if f.Type == TypeFixed {
		v, _, err := DecodeFixed(value, f.Scale)
		return passed(r, v, err)
	}
	v, _, err := DecodeDecimal(value)
	return passed(r, v, err)
}

// Coefficient reads a field of type fixed as the integer that it is stored as.
func (r *Reader) Coefficient() int64 {
	value, _ := r.fixed(TypeFixed)
	if r.err != nil {
		return 0
	}
	v, _, err := DecodeInt64(value)
	return passed(r, v, err)
}

// IP reads a field of type ip.
func (r *Reader) IP() netip.Addr {
	value, _ := r.fixed(TypeIP)
	if r.err != nil {
		return netip.Addr{}
	}
	v, _, err := DecodeIP(value)
	return passed(r, v, err)
}

// IPPrefix reads a field of type ipprefix.
func (r *Reader) IPPrefix() netip.Prefix {
	value, _ := r.fixed(TypeIPPrefix)
	if r.err != nil {
		return netip.Prefix{}
	}
	v, _, err := DecodeIPPrefix(value)
	return passed(r, v, err)
}

// Err returns the first error so far. Errors about the key are those of Schema.Decode.
func (r *Reader) Err() error { return r.err }

// Close returns the first error, or one if fields or bytes are left. Kept case counts as
// read.
func (r *Reader) Close() error {
	if r.err != nil {
		return r.err
	}
	if n := len(r.schema.fields); r.field < n {
		return fmt.Errorf("keycodec: %d of %d fields were read", r.field, n)
	}
	if len(r.schema.kept) > 0 {
		_, err := r.schema.Decode(r.key)
		return err
	}
	if r.at < len(r.key) {
		return damaged("typed key", r.at, "the end", fmt.Sprintf("%d more bytes", len(r.key)-r.at))
	}
	return nil
}

// next returns the next field and its bytes without a marker, still complemented if the
// field is descending. It does not pass over them.
func (r *Reader) next(types ...Type) ([]byte, *Field) {
	switch {
	case r.err != nil:
		return nil, nil
	case r.field >= len(r.schema.fields):
		r.err = fmt.Errorf("keycodec: field %d of %d asked for", r.field, len(r.schema.fields))
		return nil, nil
	}
	f := &r.schema.fields[r.field]
	wanted := false
	for _, t := range types {
		wanted = wanted || t == f.Type
	}
	if !wanted {
		r.err = fmt.Errorf("keycodec: field %q of type %s read as a %s", f.Name, f.Type, types[0])
		return nil, nil
	}
	n, err := f.encodedLen(r.key[r.at:])
	switch {
	case err != nil:
		r.err = shifted(err, r.at)
		return nil, nil
	case !f.Nullable:
		r.size = n
		return r.key[r.at : r.at+n], f
	case r.key[r.at]^f.mask() != notNull:
		r.err = fmt.Errorf("keycodec: field %q is NULL", f.Name)
		return nil, nil
	}
	r.at++
	r.size = n - 1
	return r.key[r.at : r.at+r.size], f
}

// fixed is next with the bytes ascending, in the scratch of the reader if they have to be
// complemented.
func (r *Reader) fixed(types ...Type) ([]byte, *Field) {
	value, f := r.next(types...)
	if r.err == nil && f.Desc {
		return InvertFrom(append(r.scratch[:0], value...), 0), f
	}
	return value, f
}

// passed ends the reading of a field: it passes over it, or keeps the error.
func passed[T any](r *Reader, v T, err error) T {
	if err != nil {
		r.err = shifted(err, r.at)
		return v
	}
	r.at += r.size
	r.field++
	return v
}
