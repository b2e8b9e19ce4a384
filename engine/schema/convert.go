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
		low, high := c.intLimits()
		if i, ok := v.AsInt(); ok && i >= low && i <= high {
			return expr.Int(i), nil
		}
	case expr.KindUint:
		if u, ok := v.AsUint(); ok && u <= c.maxUint() {
			return expr.Uint(u), nil
		}
	case expr.KindFloat:
		f, ok := v.AsFloat()
		if ok && c.Type == keycodec.TypeFloat32 {
			f = float64(float32(f))
		}
		if ok && (!math.IsInf(f, 0) || v == expr.Float(f)) {
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

func (c *Column) intLimits() (low, high int64) {
	width := typeWidth(c.Type, c.Unit)
	return math.MinInt64 >> (64 - 8*width), math.MaxInt64 >> (64 - 8*width)
}

func (c *Column) maxUint() uint64 {
	return math.MaxUint64 >> (64 - 8*typeWidth(c.Type, c.Unit))
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
	if !ok || c.Unit == keycodec.Second && ticks > maxSecond ||
		c.Unit == keycodec.Day && (ticks < minDay || ticks > maxDay) {
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

// ticksOf counts a time in a unit that is not FullRange, rounded down.
func ticksOf(v expr.Value, unit keycodec.Unit) (ticks int64, ok bool) {
	seconds, nanos, _ := v.AsUnixTime()
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
		return ticks, true
	default:
		return seconds, true
	}
	const far = 1 << 33 // 1e9 times this does not overflow
	if seconds > -far && seconds < far {
		return seconds*per + fraction, true
	}
	if seconds < 0 && fraction > 0 { // the product alone may overflow
		seconds, fraction = seconds+1, fraction-per
	}
	product := seconds * per
	ticks = product + fraction
	return ticks, product/per == seconds && (ticks >= product) == (fraction >= 0)
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

// Bound is for comparing the column, or an element of it if it is a list, with any value.
// It returns a value of the column, and how that compares with v: 0 if they are equal; -1
// if it is the largest value of the column below v; +1 if all values of the column are
// above v and it is the smallest. So with -1
//
//	x > v and x >= v  are  x > bound      x < v and x <= v  are  x <= bound
//
// with +1 they are x >= bound and x < bound, and in both cases x = v is never true. Bound
// is NULL, with -1 or +1, if all values are below v, or above it, and there is no largest
// or smallest; and NULL with 0 if v is NULL. A collated text is returned in its folded
// form. It fails, with ErrType, for values that cannot be compared with the column.
func (c *Column) Bound(v expr.Value) (bound expr.Value, cmp int, err error) {
	if v.IsNull() {
		return v, 0, nil
	}
	kind := c.elementKind()
	if kind.Numeric() != v.Kind().Numeric() {
		return expr.Value{}, 0, c.wrongType(v)
	}
	switch kind {
	case expr.KindInt, expr.KindUint:
		bound, cmp = c.boundInteger(v)
		return bound, cmp, nil
	case expr.KindFloat:
		bound, cmp = c.boundFloat(v)
		return bound, cmp, nil
	case expr.KindDecimal:
		bound, cmp = c.boundDecimal(v)
		return bound, cmp, nil
	case expr.KindTime:
		return c.boundTime(v)
	}
	if bound, err = c.convert(v); err != nil {
		return expr.Value{}, 0, err
	}
	if s, ok := bound.AsString(); ok && c.Collation != keycodec.CollateBytes {
		bound = expr.String(c.Collation.Fold(s))
	}
	return bound, 0, nil
}

// boundInteger brackets v between two integers.
func (c *Column) boundInteger(v expr.Value) (expr.Value, int) {
	low, high := expr.Uint(0), expr.Uint(c.maxUint())
	if c.elementKind() == expr.KindInt {
		least, most := c.intLimits()
		low, high = expr.Int(least), expr.Int(most)
	}
	if d, _ := expr.Compare(low, v); d >= 0 {
		return low, d
	}
	if d, _ := expr.Compare(high, v); d <= 0 {
		return high, d
	}
	if c.elementKind() == expr.KindInt {
		if i, ok := v.AsInt(); ok {
			return expr.Int(i), 0
		}
	} else if u, ok := v.AsUint(); ok {
		return expr.Uint(u), 0
	}
	if f, ok := v.AsFloat(); ok && v.Kind() == expr.KindFloat {
		v, low = expr.Float(math.Floor(f)), v
		bound, _ := c.convert(v)
		d, _ := expr.Compare(bound, low)
		return bound, d
	}
	if c.elementKind() == expr.KindInt {
		return floorOf(v, func(i uint64) expr.Value { return expr.Int(int64(i ^ 1<<63)) })
	}
	return floorOf(v, expr.Uint)
}

// floorOf returns the largest of 2^64 ascending values up to v, and how it compares with v.
// Requires: the first of them is less than v and the last one greater.
func floorOf(v expr.Value, at func(i uint64) expr.Value) (floor expr.Value, cmp int) {
	low, high := uint64(0), uint64(math.MaxUint64)
	for high-low > 1 {
		middle := low + (high-low)/2
		if d, _ := expr.Compare(at(middle), v); d <= 0 {
			low = middle
		} else {
			high = middle
		}
	}
	floor = at(low)
	cmp, _ = expr.Compare(floor, v)
	return floor, cmp
}

func (c *Column) boundFloat(v expr.Value) (expr.Value, int) {
	f, _ := v.AsFloat()
	if c.Type == keycodec.TypeFloat32 {
		f = float64(float32(f))
	}
	bound := expr.Float(f)
	d, _ := expr.Compare(bound, v)
	if d > 0 { // rounded up
		if c.Type == keycodec.TypeFloat32 {
			f = float64(math.Nextafter32(float32(f), float32(math.Inf(-1))))
		} else {
			f = math.Nextafter(f, math.Inf(-1))
		}
		return expr.Float(f), -1
	}
	return bound, d
}

func (c *Column) boundDecimal(v expr.Value) (expr.Value, int) {
	if f, ok := v.AsFloat(); ok && v.Kind() == expr.KindFloat && (f != f || math.IsInf(f, 0)) {
		if f > 0 {
			return expr.Value{}, -1
		}
		return expr.Value{}, 1
	}
	if v.Kind() == expr.KindFloat {
		v = v.Canonical()
	}
	if c.Type != keycodec.TypeFixed {
		bound, _ := c.convertDecimal(v)
		return bound, 0
	}
	low, high := expr.Scaled(math.MinInt64, c.Scale), expr.Scaled(math.MaxInt64, c.Scale)
	if d, _ := expr.Compare(low, v); d >= 0 {
		return low, d
	}
	if d, _ := expr.Compare(high, v); d <= 0 {
		return high, d
	}
	return floorOf(v, func(i uint64) expr.Value { return expr.Scaled(int64(i^1<<63), c.Scale) })
}

func (c *Column) boundTime(v expr.Value) (expr.Value, int, error) {
	if v.Kind() == expr.KindString {
		parsed, err := c.parse(v)
		if err != nil {
			return expr.Value{}, 0, err
		}
		v = parsed
	}
	if v.Kind() != expr.KindTime {
		return expr.Value{}, 0, c.wrongType(v)
	}
	low, high := c.timeLimits()
	bound := high
	if d, _ := expr.Compare(v, low); d <= 0 {
		bound = low
	} else if d, _ := expr.Compare(v, high); d < 0 {
		var err error
		if bound, err = c.convertTime(v); err != nil {
			return expr.Value{}, 0, err
		}
	}
	d, _ := expr.Compare(bound, v)
	return bound, d, nil
}

// timeLimits returns the first and the last time that the column can hold.
func (c *Column) timeLimits() (low, high expr.Value) {
	switch c.Unit {
	case keycodec.FullRange:
		return expr.UnixTime(math.MinInt64, 0), expr.UnixTime(maxSecond, 999_999_999)
	case keycodec.Second:
		return expr.UnixTime(math.MinInt64, 0), expr.UnixTime(maxSecond, 0)
	case keycodec.Day:
		return timeOf(minDay, c.Unit), timeOf(maxDay, c.Unit)
	}
	return timeOf(math.MinInt64, c.Unit), timeOf(math.MaxInt64, c.Unit)
}
