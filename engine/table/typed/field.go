package typed

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// fieldKind is the memory layout of a Go value. int and uint are those of 64 bits.
type fieldKind uint8

const (
	kindBool fieldKind = iota + 1
	kindInt8
	kindInt16
	kindInt32
	kindInt64
	kindUint8
	kindUint16
	kindUint32
	kindUint64
	kindFloat32
	kindFloat64
	kindString
	kindBytes
	kindTime
	kindUUID
	kindDecimal
	kindCoefficient // an int64 with the places of its column
	kindIP
	kindPrefix
)

// at returns where the field is in a struct.
func (f *field) at(row unsafe.Pointer) unsafe.Pointer { return unsafe.Add(row, f.offset) }

// get returns the value of the field of a struct. Texts share the bytes of the struct.
func (f *field) get(row unsafe.Pointer) expr.Value { return f.value(f.at(row)) }

// value returns the value of what p points to, which has the type of the field.
func (f *field) value(p unsafe.Pointer) expr.Value {
	switch {
	case f.pointer:
		if p = *(*unsafe.Pointer)(p); p == nil {
			return expr.Value{}
		}
	case f.column.List:
		return f.listValue(p)
	case f.zero && f.isZero(p):
		return expr.Value{}
	}
	return f.scalar(p)
}

// scalar returns the value that p points to: of the field, what its pointer points to, or an
// element of its slice.
func (f *field) scalar(p unsafe.Pointer) expr.Value {
	switch f.kind {
	case kindString:
		return expr.String(*(*string)(p))
	case kindInt64:
		return expr.Int(*(*int64)(p))
	case kindTime:
		return expr.Time(*(*time.Time)(p))
	case kindUUID:
		return expr.UUID(*(*[16]byte)(p))
	case kindFloat64:
		return expr.Float(*(*float64)(p))
	case kindCoefficient:
		return expr.Scaled(*(*int64)(p), f.column.Scale)
	case kindBool:
		return expr.Bool(*(*bool)(p))
	case kindInt8:
		return expr.Int(int64(*(*int8)(p)))
	case kindInt16:
		return expr.Int(int64(*(*int16)(p)))
	case kindInt32:
		return expr.Int(int64(*(*int32)(p)))
	case kindUint8:
		return expr.Uint(uint64(*(*uint8)(p)))
	case kindUint16:
		return expr.Uint(uint64(*(*uint16)(p)))
	case kindUint32:
		return expr.Uint(uint64(*(*uint32)(p)))
	case kindUint64:
		return expr.Uint(*(*uint64)(p))
	case kindFloat32:
		return expr.Float(float64(*(*float32)(p)))
	case kindBytes:
		b := *(*[]byte)(p) // not copied
		return expr.BytesOf(unsafe.String(unsafe.SliceData(b), len(b)))
	case kindDecimal:
		return expr.Decimal(*(*keycodec.Decimal)(p))
	}
	return f.network(p)
}

// network is scalar of an address or prefix. One that no column holds as it is becomes a text,
// which none takes.
func (f *field) network(p unsafe.Pointer) expr.Value {
	if f.kind == kindIP {
		a := *(*netip.Addr)(p)
		if a.Zone() != "" {
			return expr.String(a.String())
		}
		return expr.IP(a)
	}
	x := *(*netip.Prefix)(p)
	if x.IsValid() && x != x.Masked() {
		return expr.String(x.String())
	}
	return expr.Prefix(x)
}

// sliceHeader is the memory of a slice of any element type.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

func (f *field) listValue(p unsafe.Pointer) expr.Value {
	s := (*sliceHeader)(p)
	if f.zero && s.data == nil {
		return expr.Value{}
	}
	elements := make([]expr.Value, s.len)
	for i := range elements {
		elements[i] = f.scalar(unsafe.Add(s.data, uintptr(i)*f.elem.Size()))
	}
	return expr.List(elements)
}

// isZero reports whether the value is the zero value of its type.
func (f *field) isZero(p unsafe.Pointer) bool {
	switch f.kind {
	case kindString:
		return *(*string)(p) == ""
	case kindBytes:
		return *(*[]byte)(p) == nil
	case kindTime:
		return (*time.Time)(p).IsZero()
	case kindDecimal:
		return *(*keycodec.Decimal)(p) == keycodec.Decimal{}
	case kindIP:
		return *(*netip.Addr)(p) == netip.Addr{}
	case kindPrefix:
		return *(*netip.Prefix)(p) == netip.Prefix{}
	case kindFloat32:
		return *(*float32)(p) == 0
	case kindFloat64:
		return *(*float64)(p) == 0
	}
	for i := range f.size {
		if *(*byte)(unsafe.Add(p, i)) != 0 {
			return false
		}
	}
	return true
}

// set stores a value in the field of a struct. Without keep, texts share the bytes of the
// value, and the memory of the field's pointer, slice or bytes is used again.
func (f *field) set(row unsafe.Pointer, v expr.Value, keep bool) error {
	p := f.at(row)
	null := v.IsNull()
	switch {
	case null && !f.column.Nullable:
		return fmt.Errorf("typed: column %q is NULL", f.column.Name)
	case f.pointer && null:
		*(*unsafe.Pointer)(p) = nil
		return nil
	case f.pointer:
		if to := *(*unsafe.Pointer)(p); to == nil || keep {
			*(*unsafe.Pointer)(p) = reflect.New(f.elem).UnsafePointer()
		}
		return f.setScalar(*(*unsafe.Pointer)(p), v, keep)
	case f.column.List:
		return f.setList(p, v, keep)
	case null:
		f.setZero(p)
		return nil
	}
	return f.setScalar(p, v, keep)
}

// setZero stores what stands for NULL.
func (f *field) setZero(p unsafe.Pointer) {
	switch f.kind {
	case kindString:
		*(*string)(p) = ""
	case kindBytes:
		*(*[]byte)(p) = nil
	case kindTime:
		*(*time.Time)(p) = time.Time{}
	case kindDecimal:
		*(*keycodec.Decimal)(p) = keycodec.Decimal{}
	case kindIP:
		*(*netip.Addr)(p) = netip.Addr{}
	case kindPrefix:
		*(*netip.Prefix)(p) = netip.Prefix{}
	default: // without pointers
		clear(unsafe.Slice((*byte)(p), f.size))
	}
}

func (f *field) setList(p unsafe.Pointer, v expr.Value, keep bool) error {
	if v.IsNull() {
		*(*sliceHeader)(p) = sliceHeader{}
		return nil
	}
	if v.Kind() != expr.KindList {
		return f.mismatch(v)
	}
	s, n := (*sliceHeader)(p), v.Len()
	if s.data == nil || s.cap < n || keep {
		s.data = reflect.MakeSlice(reflect.SliceOf(f.elem), n, n).UnsafePointer()
		s.cap = n
	}
	s.len = n
	i := uintptr(0)
	for e := range v.Elements() {
		if err := f.setScalar(unsafe.Add(s.data, i*f.elem.Size()), e, keep); err != nil {
			return err
		}
		i++
	}
	return nil
}

// setScalar stores a value that is not NULL where p points to.
func (f *field) setScalar(p unsafe.Pointer, v expr.Value, keep bool) (err error) {
	ok := false
	switch f.kind {
	case kindString:
		ok = setText((*string)(p), v, keep)
	case kindBytes:
		ok = setBytes((*[]byte)(p), v, keep)
	case kindTime:
		*(*time.Time)(p), ok = v.AsTime()
	case kindUUID:
		var u keycodec.UUID
		u, ok = v.AsUUID()
		*(*[16]byte)(p) = u
	case kindFloat64:
		*(*float64)(p), ok = v.AsFloat()
	case kindFloat32:
		var x float64
		x, ok = v.AsFloat()
		*(*float32)(p) = float32(x)
	case kindBool:
		*(*bool)(p), ok = v.AsBool()
	case kindCoefficient:
		*(*int64)(p), ok = v.AsScaled(f.column.Scale)
	case kindDecimal:
		*(*keycodec.Decimal)(p), ok = v.AsDecimal()
	case kindIP:
		*(*netip.Addr)(p), ok = v.AsIP()
	case kindPrefix:
		*(*netip.Prefix)(p), ok = v.AsPrefix()
	case kindUint8, kindUint16, kindUint32, kindUint64:
		var u uint64
		if u, ok = v.AsUint(); ok {
			putWord(p, f.kind, u)
		}
	default:
		var i int64
		if i, ok = v.AsInt(); ok {
			putWord(p, f.kind, uint64(i))
		}
	}
	if !ok {
		err = f.mismatch(v)
	}
	return err
}

// putWord stores an integer in the width of its kind.
func putWord(p unsafe.Pointer, kind fieldKind, u uint64) {
	switch kind {
	case kindInt8, kindUint8, kindBool:
		*(*uint8)(p) = uint8(u)
	case kindInt16, kindUint16:
		*(*uint16)(p) = uint16(u)
	case kindInt32, kindUint32, kindFloat32:
		*(*uint32)(p) = uint32(u)
	default:
		*(*uint64)(p) = u
	}
}

func setText(p *string, v expr.Value, keep bool) bool {
	s, ok := v.AsString()
	if ok {
		setString(p, s, keep)
	}
	return ok
}

// setString stores a text, a copy if it is to be kept. One that is there already stays.
func setString(p *string, s string, keep bool) {
	switch {
	case !keep:
		*p = s
	case *p != s:
		*p = string([]byte(s))
	}
}

func setBytes(p *[]byte, v expr.Value, keep bool) bool {
	s, ok := v.AsBytes()
	if keep {
		*p = make([]byte, len(s))
		copy(*p, s)
	} else {
		*p = append((*p)[:0], s...)
	}
	if *p == nil {
		*p = []byte{}
	}
	return ok
}

func (f *field) mismatch(v expr.Value) error {
	return fmt.Errorf("typed: a %s read into field %s, a %s", v.Kind(), f.goName, f.column.Type)
}
