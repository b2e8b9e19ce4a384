package schema

import (
	"fmt"
	"math"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Convert returns the value that the column stores for v, NULL if v is. Numbers of every
// kind are taken by every column of numbers: ErrRange says that one cannot be held
// exactly, except for columns of floats, which hold the nearest float. Times are
// truncated to the unit, towards the past. Times, UUIDs, addresses and prefixes are
// also taken as texts: RFC 3339, with a space for the T and without a zone (UTC) or time
// of day as well. Errors match ErrType, ErrRange or ErrNull.
//
// Ownership: the result may share the bytes of v.
func (c *Column) Convert(v expr.Value) (expr.Value, error) {
	switch {
	case v.IsNull() && !c.Nullable:
		return expr.Value{}, c.noNull()
	case v.IsNull():
		return v, nil
	case c.List:
		return c.convertList(v)
	}
	return c.convert(v)
}

func (c *Column) convertList(v expr.Value) (expr.Value, error) {
	if v.Kind() != expr.KindList {
		return expr.Value{}, c.wrongType(v)
	}
	elements := make([]expr.Value, 0, v.Len())
	for e := range v.Elements() {
		if e.IsNull() {
			return expr.Value{}, fmt.Errorf("%w: element of the list %q", ErrNull, c.Name)
		}
		e, err := c.convert(e)
		if err != nil {
			return expr.Value{}, err
		}
		elements = append(elements, e)
	}
	return expr.List(elements), nil
}

// convert converts one value that is not NULL, an element if the column is a list.
func (c *Column) convert(v expr.Value) (expr.Value, error) {
	switch kind := c.elementKind(); kind {
	case expr.KindInt:
		low, high := intLimits(c.Type)
		if i, ok := v.AsInt(); ok && i >= low && i <= high {
			return expr.Int(i), nil
		}
	case expr.KindUint:
		if u, ok := v.AsUint(); ok && u <= maxUint(c.Type) {
			return expr.Uint(u), nil
		}
	case expr.KindFloat:
		if f, ok := floatIn(c.Type, v); ok {
			return expr.Float(f), nil
		}
	case expr.KindDecimal:
		if d, ok := c.convertDecimal(v); ok {
			return d, nil
		}
	case expr.KindTime:
		return c.convertTime(v)
	default:
		if v.Kind() == expr.KindString && kind != expr.KindString {
			return c.parse(v)
		}
		if v.Kind() == kind {
			return v, nil
		}
	}
	if v.Kind().Numeric() && c.elementKind().Numeric() {
		return expr.Value{}, c.outOfRange(v)
	}
	return expr.Value{}, c.wrongType(v)
}

func intLimits(t keycodec.Type) (low, high int64) {
	width := typeWidth(t, keycodec.UnitNone)
	return math.MinInt64 >> (64 - 8*width), math.MaxInt64 >> (64 - 8*width)
}

func maxUint(t keycodec.Type) uint64 {
	return math.MaxUint64 >> (64 - 8*typeWidth(t, keycodec.UnitNone))
}

// floatIn returns the nearest float of a type to a number; ok is false if it has none.
func floatIn(t keycodec.Type, v expr.Value) (f float64, ok bool) {
	f, ok = v.AsFloat()
	if t == keycodec.TypeFloat32 {
		f = float64(float32(f))
	}
	return f, ok && (!math.IsInf(f, 0) || v == expr.Float(f))
}

func (c *Column) convertDecimal(v expr.Value) (expr.Value, bool) {
	if v.Kind() == expr.KindFloat {
		f, _ := v.AsFloat()
		exact := v.Canonical() // an int, a uint or a decimal
		if f != f || math.IsInf(f, 0) {
			return expr.Value{}, false
		}
		v = exact
	}
	if c.Type == keycodec.TypeFixed {
		coefficient, ok := v.AsScaled(c.Scale)
		return expr.Scaled(coefficient, c.Scale), ok
	}
	if v.Kind() == expr.KindDecimal {
		return v, true
	}
	d, ok := v.AsDecimal()
	return expr.Decimal(d), ok
}

func (c *Column) convertTime(v expr.Value) (expr.Value, error) {
	if v.Kind() == expr.KindString {
		parsed, err := c.parse(v)
		if err != nil {
			return expr.Value{}, err
		}
		v = parsed
	}
	if v.Kind() != expr.KindTime {
		return expr.Value{}, c.wrongType(v)
	}
	if c.Unit == keycodec.FullRange {
		if s, _, _ := v.AsUnixTime(); s > maxSecond {
			return expr.Value{}, c.outOfRange(v)
		}
		return v, nil
	}
	ticks, ok := ticksOf(v, c.Unit)
	if !ok {
		return expr.Value{}, c.outOfRange(v)
	}
	return timeOf(ticks, c.Unit), nil
}

// parse reads the text of a time, UUID, address or prefix.
func (c *Column) parse(v expr.Value) (expr.Value, error) {
	switch kind := c.elementKind(); kind {
	case expr.KindTime, expr.KindUUID, expr.KindIP, expr.KindIPPrefix:
		if out, err := (expr.CastType{Kind: kind, Places: 9}).Convert(v); err == nil {
			return out, nil
		}
	}
	return expr.Value{}, c.wrongType(v)
}

// maxSecond is the last second that a time.Time can hold.
const maxSecond = math.MaxInt64 - 62135596800

// The days of the years 0 to 9999, which a DATE holds.
const (
	minDay    = -719528
	maxDay    = 2932896
	daySecond = 24 * 60 * 60
)

// ticksOf counts a time in a unit that is not FullRange, rounded down; ok is false if it is no
// time that columns of the unit hold.
func ticksOf(v expr.Value, unit keycodec.Unit) (ticks int64, ok bool) {
	seconds, nanos, ok := v.AsUnixTime()
	// Constants, since division by a constant compiles to a multiplication.
	var fraction, per int64
	switch unit {
	case keycodec.Millisecond:
		fraction, per = int64(nanos/1e6), 1e3
	case keycodec.Microsecond:
		fraction, per = int64(nanos/1e3), 1e6
	case keycodec.Nanosecond:
		fraction, per = int64(nanos), 1e9
	case keycodec.Day:
		if ticks = seconds / daySecond; seconds%daySecond < 0 {
			ticks--
		}
		return ticks, ok && ticks >= minDay && ticks <= maxDay
	default:
		return seconds, ok && seconds <= maxSecond
	}
	const far = 1 << 33 // 1e9 times this does not overflow
	if seconds > -far && seconds < far {
		return seconds*per + fraction, ok
	}
	if seconds < 0 && fraction > 0 { // the product alone may overflow
		seconds, fraction = seconds+1, fraction-per
	}
	product := seconds * per
	ticks = product + fraction
	return ticks, ok && product/per == seconds && (ticks >= product) == (fraction >= 0)
}

func timeOf(ticks int64, unit keycodec.Unit) expr.Value {
	var seconds, fraction, per, nanos int64
	switch unit {
	case keycodec.Millisecond:
		seconds, per, nanos = ticks/1e3, 1e3, 1e6
	case keycodec.Microsecond:
		seconds, per, nanos = ticks/1e6, 1e6, 1e3
	case keycodec.Nanosecond:
		seconds, per, nanos = ticks/1e9, 1e9, 1
	case keycodec.Day:
		return expr.UnixTime(ticks*daySecond, 0)
	default:
		return expr.UnixTime(ticks, 0)
	}
	if fraction = ticks - seconds*per; fraction < 0 {
		seconds, fraction = seconds-1, fraction+per
	}
	return expr.UnixTime(seconds, uint32(fraction*nanos))
}
