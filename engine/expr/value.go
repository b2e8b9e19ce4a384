package expr

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

// Kind is the kind of a Value.
type Kind uint8

// The kinds. Columns of all integer types hold KindInt or KindUint, those of both float
// types KindFloat, decimals of any and of fixed scale KindDecimal.
const (
	KindNull Kind = iota
	KindBool
	KindInt
	KindUint
	KindFloat
	KindString
	KindBytes
	KindTime
	KindUUID
	KindDecimal
	KindIP
	KindIPPrefix
	KindList
)

// On disk (JSON form, lists): the kinds' names and numbers.
var kindNames = [...]string{"null", "bool", "int", "uint", "float", "string", "bytes", "time",
	"uuid", "decimal", "ip", "ipprefix", "list"}

// String returns the name of the kind, for example "int".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// phrases are the kinds in messages.
var phrases = [...]string{KindNull: "NULL", KindBool: "a bool", KindInt: "a number",
	KindUint: "a number", KindFloat: "a number", KindString: "a text", KindBytes: "bytes",
	KindTime: "a time", KindUUID: "a UUID", KindDecimal: "a number", KindIP: "an address",
	KindIPPrefix: "an address prefix", KindList: "a list"}

// Phrase returns the kind in the words of messages, for example "a text".
func (k Kind) Phrase() string {
	if int(k) < len(phrases) {
		return phrases[k]
	}
	return k.String()
}

// Numeric reports whether values of the kind are numbers.
func (k Kind) Numeric() bool {
	return k == KindInt || k == KindUint || k == KindFloat || k == KindDecimal
}

// Value is a value of a query, NULL if it is the zero Value. Two values of one kind are
// equal under Compare if and only if they are equal with ==, so Value may be the key of
// a map; for numbers of several kinds, and lists of them, see Canonical.
//
// Ownership: the bytes of texts, large decimals and lists may be shared with the buffer a
// row was decoded from; Clone makes the value independent of it.
type Value struct {
	// s holds texts, byte strings, the ordered encoding of large decimals, and lists.
	s string
	// n and m hold numbers: bool, int, uint, float bits; seconds and nanoseconds of a
	// time; the 16 bytes of a UUID or address; the coefficient of a small decimal; the
	// number of elements of a list.
	n, m   uint64
	kind   Kind
	family uint8 // of an address or prefix: 4 or 6
	places uint8 // of a prefix: its length in bits; of a small decimal: its scale
}

// Null returns NULL, the zero Value.
func Null() Value { return Value{} }

// Bool returns the value of a bool.
func Bool(v bool) Value {
	if v {
		return Value{kind: KindBool, n: 1}
	}
	return Value{kind: KindBool}
}

// Int returns the value of a signed integer.
func Int(v int64) Value { return Value{kind: KindInt, n: uint64(v)} }

// SetInt makes v the value of an integer. Where v is one already, or NULL, it is faster than to
// assign Int(n).
func (v *Value) SetInt(n int64) {
	if v.kind == KindNull {
		v.kind = KindInt // NULL has nothing else
	}
	if v.kind == KindInt {
		v.n = uint64(n)
	} else {
		*v = Int(n)
	}
}

// Copy copies the values of a row over those of another one of its length. Of integers it is faster
// than copy.
func Copy(dst, row []Value) {
	dst = dst[:len(row)]
	for i := range row {
		if v := &row[i]; v.kind == KindInt {
			dst[i].SetInt(int64(v.n))
		} else {
			dst[i] = *v
		}
	}
}

// Integer returns the number of a value of KindInt; ok is false for other kinds.
func (v *Value) Integer() (n int64, ok bool) { return int64(v.n), v.kind == KindInt }

// Uint returns the value of an unsigned integer.
func Uint(v uint64) Value { return Value{kind: KindUint, n: v} }

// Float returns the value of a float. There is one NaN and one zero.
func Float(v float64) Value {
	switch {
	case v != v:
		v = math.NaN()
	case v == 0:
		v = 0
	}
	return Value{kind: KindFloat, n: math.Float64bits(v)}
}

// String returns the value of a text. It shares the bytes of v.
func String(v string) Value { return Value{kind: KindString, s: v} }

// Bytes returns the value of a byte string, a copy of v; nil gives the empty one.
func Bytes(v []byte) Value { return Value{kind: KindBytes, s: string(v)} }

// BytesOf is Bytes of bytes that are held in a string, without a copy.
func BytesOf(v string) Value { return Value{kind: KindBytes, s: v} }

// Time returns the value of an instant; the location and the monotonic clock are dropped.
func Time(v time.Time) Value { return UnixTime(v.Unix(), uint32(v.Nanosecond())) }

// UnixTime returns the instant that many seconds and nanoseconds after 1970-01-01 UTC.
// Requires: nanoseconds < 1e9.
func UnixTime(seconds int64, nanoseconds uint32) Value {
	return Value{kind: KindTime, n: uint64(seconds), m: uint64(nanoseconds)}
}

// UUID returns the value of a UUID.
func UUID(v [16]byte) Value {
	return Value{kind: KindUUID,
		n: binary.BigEndian.Uint64(v[:8]), m: binary.BigEndian.Uint64(v[8:])}
}

// IP returns the value of an address: NULL for the zero Addr. A zone is dropped.
func IP(v netip.Addr) Value {
	switch {
	case !v.IsValid():
		return Value{}
	case v.Is4():
		b := v.As4()
		return Value{kind: KindIP, family: 4, m: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := v.As16()
	return Value{kind: KindIP, family: 6,
		n: binary.BigEndian.Uint64(b[:8]), m: binary.BigEndian.Uint64(b[8:])}
}

// Prefix returns the value of an IP prefix, masked: NULL for one that is not valid.
func Prefix(v netip.Prefix) Value {
	if !v.IsValid() {
		return Value{}
	}
	out := IP(v.Masked().Addr())
	out.kind, out.places = KindIPPrefix, uint8(v.Bits())
	return out
}

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is NULL.
func (v Value) IsNull() bool { return v.kind == KindNull }

// AsBool returns the bool; ok is false for other kinds.
func (v Value) AsBool() (b, ok bool) { return v.n != 0, v.kind == KindBool }

// AsInt returns a number as an int64; ok is false for other kinds, or if it does not fit exactly.
func (v Value) AsInt() (i int64, ok bool) {
	switch v.kind {
	case KindInt:
		return int64(v.n), true
	case KindUint:
		return int64(v.n), v.n <= math.MaxInt64
	case KindFloat:
		f := math.Float64frombits(v.n)
		if f >= -1<<63 && f < 1<<63 && f == math.Trunc(f) {
			return int64(f), true
		}
	case KindDecimal:
		return int64(v.n), v.s == "" && v.places == 0
	}
	return 0, false
}

// AsUint returns a number as a uint64; ok is false for other kinds, or if it does not fit exactly.
func (v Value) AsUint() (u uint64, ok bool) {
	switch v.kind {
	case KindUint:
		return v.n, true
	case KindFloat:
		f := math.Float64frombits(v.n)
		if f >= 0 && f < 1<<64 && f == math.Trunc(f) {
			return uint64(f), true
		}
		return 0, false
	case KindDecimal:
		if v.s != "" {
			c, err := v.decimal().Coefficient(0)
			if err == nil && c >= 0 {
				return uint64(c), true
			}
			return uintOfDecimal(v)
		}
	}
	i, ok := v.AsInt()
	return uint64(i), ok && i >= 0
}

// AsFloat returns the number as the nearest float64; ok is false if it is not a number.
func (v Value) AsFloat() (f float64, ok bool) {
	switch v.kind {
	case KindFloat:
		return math.Float64frombits(v.n), true
	case KindInt:
		return float64(int64(v.n)), true
	case KindUint:
		return float64(v.n), true
	case KindDecimal:
		return v.decimalFloat(), true
	}
	return 0, false
}

// AsString returns the text; ok is false for other kinds.
func (v Value) AsString() (s string, ok bool) { return v.s, v.kind == KindString }

// AsBytes returns the byte string as a string, without a copy; ok is false for other kinds.
func (v Value) AsBytes() (s string, ok bool) { return v.s, v.kind == KindBytes }

// AsTime returns the instant, in UTC; ok is false for other kinds.
func (v Value) AsTime() (t time.Time, ok bool) {
	if v.kind != KindTime {
		return time.Time{}, false
	}
	return time.Unix(int64(v.n), int64(v.m)).UTC(), true
}

// AsUnixTime returns the seconds and nanoseconds of an instant; see UnixTime.
func (v Value) AsUnixTime() (seconds int64, nanoseconds uint32, ok bool) {
	return int64(v.n), uint32(v.m), v.kind == KindTime
}

// AsUUID returns the UUID; ok is false for other kinds.
func (v Value) AsUUID() (u keycodec.UUID, ok bool) {
	binary.BigEndian.PutUint64(u[:8], v.n)
	binary.BigEndian.PutUint64(u[8:], v.m)
	return u, v.kind == KindUUID
}

// AsIP returns the address; ok is false for other kinds.
func (v Value) AsIP() (a netip.Addr, ok bool) {
	if v.kind != KindIP {
		return netip.Addr{}, false
	}
	return v.addr(), true
}

// AsPrefix returns the IP prefix; ok is false for other kinds.
func (v Value) AsPrefix() (p netip.Prefix, ok bool) {
	if v.kind != KindIPPrefix {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(v.addr(), int(v.places)), true
}

func (v Value) addr() netip.Addr {
	var b [16]byte
	if v.family == 4 {
		binary.BigEndian.PutUint32(b[:], uint32(v.m))
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	binary.BigEndian.PutUint64(b[:8], v.n)
	binary.BigEndian.PutUint64(b[8:], v.m)
	return netip.AddrFrom16(b)
}

// Clone returns the value with its own copy of the bytes.
func (v Value) Clone() Value {
	v.s = strings.Clone(v.s)
	return v
}

// CloneInto is Clone with the bytes appended to buf, or, if it has no room for them, to a larger
// buffer of its own. It returns the buffer for the next value.
func (v Value) CloneInto(buf []byte) (Value, []byte) {
	if v.s == "" {
		return v, buf
	}
	start := len(buf)
	if cap(buf)-start < len(v.s) {
		size := max(len(v.s), minCloneBytes, min(2*cap(buf), maxCloneBytes))
		buf, start = make([]byte, 0, size), 0
	}
	buf = append(buf, v.s...)
	v.s = view(buf[start:])
	return v, buf
}

// Bounds of the buffers of CloneInto.
const (
	minCloneBytes = 256
	maxCloneBytes = 64 << 10
)

// Any returns the value as a Go value: nil, bool, int64, uint64, float64, string, []byte,
// time.Time, keycodec.UUID, keycodec.Decimal, netip.Addr, netip.Prefix, or []any with
// the elements of a list. It is the caller's: nothing of it is a view of the row that the
// value was read from.
func (v Value) Any() any {
	switch v.kind {
	case KindBool:
		return v.n != 0
	case KindInt:
		return int64(v.n)
	case KindUint:
		return v.n
	case KindFloat:
		return math.Float64frombits(v.n)
	case KindString:
		return strings.Clone(v.s)
	case KindBytes:
		return []byte(v.s)
	case KindTime:
		t, _ := v.AsTime()
		return t
	case KindUUID:
		u, _ := v.AsUUID()
		return u
	case KindDecimal:
		return v.decimal()
	case KindIP:
		return v.addr()
	case KindIPPrefix:
		p, _ := v.AsPrefix()
		return p
	case KindList:
		out := make([]any, 0, v.n)
		for e := range v.Elements() {
			out = append(out, e.Any())
		}
		return out
	}
	return nil
}

func floatOf(v Value) float64 { return math.Float64frombits(v.n) }
