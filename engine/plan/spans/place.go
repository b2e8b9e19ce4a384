package spans

import (
	"math"
	"strconv"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Placement says where a constant stands among the values that a column can hold.
type Placement uint8

const (
	Exact   Placement = iota // it is one of them
	Between                  // right after one of them, which is its floor, and not equal
	below                    // below all of them
	above                    // above all of them
	foreign                  // it cannot be compared with them
)

// Place finds v among the values of a column and returns its floor: the largest value of
// the column that is not above v, for exact and between. A comparison with v is then one
// with the floor, of the column's own kind:
//
//	x < 1.5 is x <= 1 and x = 1.5 is false, for an integer column
//
// A text stands for the time, UUID, address or prefix that it is the text of.
//
// Requires: v is not NULL.
func Place(f *keycodec.Field, v expr.Value) (floor expr.Value, p Placement) {
	if v.Kind() == expr.KindString {
		v = fromText(f.Type, v)
	}
	switch f.Type {
	case keycodec.TypeInt8, keycodec.TypeInt16, keycodec.TypeInt32, keycodec.TypeInt64:
		return placeInt(v, math.MaxInt64>>(64-8*WidthOf(f.Type)))
	case keycodec.TypeUint8, keycodec.TypeUint16, keycodec.TypeUint32, keycodec.TypeUint64:
		return placeUint(v, math.MaxUint64>>(64-8*WidthOf(f.Type)))
	case keycodec.TypeFloat64:
		return placeFloat(v, math.Nextafter, func(x float64) float64 { return x })
	case keycodec.TypeFloat32:
		return placeFloat(v, nextafter32, func(x float64) float64 { return float64(float32(x)) })
	case keycodec.TypeDecimal:
		return placeDecimal(v)
	case keycodec.TypeFixed:
		return placeFixed(v, f.Scale)
	case keycodec.TypeTime:
		return placeTime(v, f.Unit)
	case keycodec.TypeString:
		return v, exactIf(v.Kind() == expr.KindString)
	case keycodec.TypeBytes:
		return v, exactIf(v.Kind() == expr.KindBytes)
	case keycodec.TypeBool:
		return v, exactIf(v.Kind() == expr.KindBool)
	case keycodec.TypeUUID:
		return v, exactIf(v.Kind() == expr.KindUUID)
	case keycodec.TypeIP:
		return v, exactIf(v.Kind() == expr.KindIP)
	case keycodec.TypeIPPrefix:
		return v, exactIf(v.Kind() == expr.KindIPPrefix)
	}
	return v, foreign
}

// fromText returns what a text means to columns whose values have no literals of their own,
// and the text itself if it means nothing.
func fromText(t keycodec.Type, v expr.Value) expr.Value {
	c := schema.Column{Type: t}
	switch t {
	case keycodec.TypeTime:
		c.Unit = keycodec.FullRange // so that nothing is cut off
	case keycodec.TypeUUID, keycodec.TypeIP, keycodec.TypeIPPrefix:
	default:
		return v
	}
	if out, err := c.Convert(v); err == nil {
		return out
	}
	return v
}

func exactIf(ok bool) Placement {
	if ok {
		return Exact
	}
	return foreign
}

// WidthOf returns the bytes of an integer type, 0 of all other types.
func WidthOf(t keycodec.Type) int {
	switch t {
	case keycodec.TypeInt8, keycodec.TypeUint8:
		return 1
	case keycodec.TypeInt16, keycodec.TypeUint16:
		return 2
	case keycodec.TypeInt32, keycodec.TypeUint32:
		return 4
	case keycodec.TypeInt64, keycodec.TypeUint64:
		return 8
	}
	return 0
}

func placeInt(v expr.Value, largest int64) (expr.Value, Placement) {
	if i, ok := v.AsInt(); ok {
		switch {
		case i < -largest-1:
			return v, below
		case i > largest:
			return v, above
		}
		return expr.Int(i), Exact
	}
	at := func(u uint64) expr.Value { return expr.Int(int64(u) - largest - 1) }
	return searchFloor(v, uint64(largest)*2+1, at)
}

func placeUint(v expr.Value, largest uint64) (expr.Value, Placement) {
	if u, ok := v.AsUint(); ok {
		if u > largest {
			return v, above
		}
		return expr.Uint(u), Exact
	}
	return searchFloor(v, largest, expr.Uint)
}

func placeFixed(v expr.Value, scale int32) (expr.Value, Placement) {
	if c, ok := v.AsScaled(scale); ok {
		return expr.Scaled(c, scale), Exact
	}
	at := func(u uint64) expr.Value { return expr.Scaled(int64(u^1<<63), scale) }
	return searchFloor(v, math.MaxUint64, at)
}

// searchFloor finds the floor of a number among at(0) to at(last), which ascend.
func searchFloor(v expr.Value, last uint64, at func(uint64) expr.Value) (expr.Value, Placement) {
	if !v.Kind().Numeric() {
		return v, foreign
	}
	switch c, _ := expr.Compare(at(0), v); {
	case c > 0:
		return v, below
	case c == 0:
		return at(0), Exact
	}
	if c, _ := expr.Compare(at(last), v); c < 0 {
		return v, above
	}
	lo, hi := uint64(0), last // Invariant: at(lo) <= v <= at(hi)
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if c, _ := expr.Compare(at(mid), v); c <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	if c, _ := expr.Compare(at(hi), v); c == 0 {
		return at(hi), Exact
	}
	floor := at(lo)
	if c, _ := expr.Compare(floor, v); c == 0 {
		return floor, Exact
	}
	return floor, Between
}

// placeFloat places a number among floats that round gives and next steps through.
func placeFloat(v expr.Value, next func(x, to float64) float64,
	round func(float64) float64) (expr.Value, Placement) {
	x, ok := v.AsFloat()
	if !ok {
		return v, foreign
	}
	near := expr.Float(round(x))
	switch c, _ := expr.Compare(near, v); {
	case c == 0:
		return near, Exact
	case c < 0:
		return near, Between
	}
	// Rounding went up, so the next lower one is below v.
	return expr.Float(next(round(x), math.Inf(-1))), Between
}

func nextafter32(x, to float64) float64 {
	return float64(math.Nextafter32(float32(x), float32(to)))
}

// placeDecimal places a number among all decimals.
func placeDecimal(v expr.Value) (expr.Value, Placement) {
	switch v.Kind() {
	case expr.KindInt, expr.KindUint, expr.KindDecimal:
		return v, Exact
	case expr.KindFloat:
		x, _ := v.AsFloat()
		switch {
		case x != x || math.IsInf(x, -1):
			return v, below
		case math.IsInf(x, 1):
			return v, above
		}
		// 767 significant digits are the most that a float64 has.
		d, err := keycodec.ParseDecimal(strconv.FormatFloat(x, 'e', 766, 64))
		return expr.Decimal(d), exactIf(err == nil)
	}
	return v, foreign
}

func placeTime(v expr.Value, u keycodec.Unit) (expr.Value, Placement) {
	t, ok := v.AsTime()
	if !ok {
		return v, foreign
	}
	var buf [12]byte
	encoded, err := keycodec.AppendTime(buf[:0], t, u)
	if err != nil {
		if t.Unix() < 0 {
			return v, below
		}
		return v, above
	}
	cut, _, err := keycodec.DecodeTime(encoded, u)
	if err != nil {
		return v, above
	}
	if cut.Equal(t) {
		return v, Exact
	}
	return expr.Time(cut), Between
}

// AppendUsual is schema.AppendKeyField, without Place, for the values that columns are mostly
// compared with: ok is false for all others.
func AppendUsual(dst []byte, f *keycodec.Field, v *expr.Value) (out []byte, ok bool) {
	start := len(dst)
	if f.Nullable {
		dst = keycodec.AppendNotNull(dst)
	}
	switch {
	case f.Type == keycodec.TypeInt64 && v.Kind() == expr.KindInt:
		i, _ := v.AsInt()
		dst = keycodec.AppendInt64(dst, i)
	case f.Type == keycodec.TypeString && v.Kind() == expr.KindString &&
		f.Collation == keycodec.CollateBytes:
		s, _ := v.AsString()
		dst = keycodec.AppendString(dst, s)
	case f.Type == keycodec.TypeTime:
		ticks, ok := UsualTicks(f, v)
		if !ok {
			return dst[:start], false
		}
		dst = keycodec.AppendInt64(dst, ticks)
	default:
		return dst[:start], false
	}
	if f.Desc {
		keycodec.InvertFrom(dst, start)
	}
	return dst, true
}

// UsualTicks counts a time in the unit of its column; ok is false if it is no whole number, or
// for a time or a unit that is not usual.
func UsualTicks(f *keycodec.Field, v *expr.Value) (ticks int64, ok bool) {
	seconds, nanoseconds, ok := v.AsUnixTime()
	if !ok || f.Unit == keycodec.UnitNone || int(f.Unit) >= len(tick) ||
		seconds < -commonSeconds || seconds > commonSeconds {
		return 0, false
	}
	length := tick[f.Unit]
	return seconds*int64(1e9/length) + int64(nanoseconds/length), nanoseconds%length == 0
}

// commonSeconds bounds the times, around 1970, that columns of all units can hold.
const commonSeconds = 1 << 33

// tick is the length of each unit in nanoseconds.
var tick = [...]uint32{keycodec.Second: 1e9, keycodec.Millisecond: 1e6,
	keycodec.Microsecond: 1e3, keycodec.Nanosecond: 1}

// AppendOpen appends what the encodings of exactly those texts start with that begin with
// the text v. ok is false, and dst as it was, if the column holds no such texts.
func AppendOpen(dst []byte, f *keycodec.Field, v expr.Value) (out []byte, ok bool) {
	text, ok := v.AsString()
	if f.Type == keycodec.TypeBytes {
		text, ok = v.AsBytes()
	} else if f.Type != keycodec.TypeString {
		return dst, false
	}
	if !ok {
		return dst, false
	}
	start := len(dst)
	out = dst
	if f.Nullable {
		out = keycodec.AppendNotNull(out)
	}
	out = keycodec.PrefixString(out, f.Collation.Fold(text))
	if f.Desc {
		keycodec.InvertFrom(out, start)
	}
	return out, true
}

// isExtreme reports whether an encoding sorts first, or last, among those of the values of
// the column, so that no others are before or after it. It says no where that is not known.
func isExtreme(f *keycodec.Field, encoded []byte, last bool) bool {
	if f.Nullable {
		encoded = encoded[1:]
	}
	if c := encoded[0]; c != 0 && c != 0xff && f.Type != keycodec.TypeBool {
		return false
	}
	mask := byte(0)
	if f.Desc {
		mask = 0xff
	}
	highest := last != f.Desc
	switch f.Type {
	case keycodec.TypeString, keycodec.TypeBytes:
		return !highest && len(encoded) == 2 // the empty text is a terminator
	case keycodec.TypeDecimal, keycodec.TypeTime, keycodec.TypeIP, keycodec.TypeIPPrefix:
		return false
	}
	if !highest {
		return allBytes(encoded, mask)
	}
	switch f.Type {
	case keycodec.TypeBool:
		return encoded[0]^mask == 1
	case keycodec.TypeFloat64:
		return encoded[0]^mask == 0xff && encoded[1]^mask == 0xf0 && allBytes(encoded[2:], mask)
	case keycodec.TypeFloat32:
		return encoded[0]^mask == 0xff && encoded[1]^mask == 0x80 && allBytes(encoded[2:], mask)
	}
	return allBytes(encoded, ^mask)
}

func allBytes(b []byte, value byte) bool {
	for _, c := range b {
		if c != value {
			return false
		}
	}
	return true
}
