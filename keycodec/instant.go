package keycodec

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Unit is the resolution of a time. The unit belongs to the schema, not to the bytes;
// it is fixed for the life of the data.
type Unit uint8

// The units. Nanoseconds reach from 1677-09-21 to 2262-04-11 only (not to the zero
// time), microseconds over 292 thousand years, the others further.
const (
	UnitNone Unit = iota // the unit of fields that are not times
	Second
	Millisecond
	Microsecond
	Nanosecond
	FullRange // nanoseconds over 292 billion years, in 12 bytes instead of 8
	Day       // days of the years 0 to 9999: a date, whose time is midnight in UTC
)

// On disk (schema files): the unit's names.
var unitNames = [...]string{UnitNone: "", Second: "s", Millisecond: "ms",
	Microsecond: "us", Nanosecond: "ns", FullRange: "full", Day: "day"}

var ticksPerSecond = [...]int64{Second: 1, Millisecond: 1e3, Microsecond: 1e6, Nanosecond: 1e9}

// The days of the years 0 to 9999.
const (
	minDay    = -719528
	maxDay    = 2932896
	daySecond = 24 * 60 * 60
)

// String returns "s", "ms", "us", "ns", "full" or "day".
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("unit %d", uint8(u))
}

func (u Unit) valid() bool { return u >= Second && u <= Day }

// width is the length of an encoded time.
func (u Unit) width() int {
	if u == FullRange {
		return 12
	}
	return 8
}

// Format: a time is the number of units since 1970-01-01 00:00:00 UTC, as an int64. With
// the full range it is the number of seconds, as an int64, and the nanoseconds since then,
// as a uint32. The location is not stored.

// maxSecond is the last second that a time.Time can hold: it counts from the year 1.
const maxSecond = math.MaxInt64 - 62135596800

// AppendTime appends the ordered encoding of t, 8 bytes, or 12 for FullRange. It
// truncates to the unit, towards the past. It fails, with dst as it was, if the
// unit is not one of the six or if t cannot be counted in it.
func AppendTime(dst []byte, t time.Time, u Unit) ([]byte, error) {
	if u == FullRange {
		if err := checkSecond(t, u); err != nil {
			return dst, err
		}
		dst = AppendInt64(dst, t.Unix())
		return binary.BigEndian.AppendUint32(dst, uint32(t.Nanosecond())), nil
	}
	ticks, err := ticksOf(t, u)
	if err != nil {
		return dst, err
	}
	return AppendInt64(dst, ticks), nil
}

// DecodeTime reads the time at the start of b and returns what follows it. The time is
// in UTC.
func DecodeTime(b []byte, u Unit) (t time.Time, rest []byte, err error) {
	if !u.valid() {
		return time.Time{}, nil, fmt.Errorf("keycodec: %d is not a unit of time", uint8(u))
	}
	if len(b) < u.width() {
		return time.Time{}, nil, truncated("time", u.width(), len(b))
	}
	ticks := int64(binary.BigEndian.Uint64(b) ^ signBit)
	if (u == Second || u == FullRange) && ticks > maxSecond {
		return time.Time{}, nil, damaged("time", 0, "a second that a time can hold", ticks)
	}
	if u == Day && (ticks < minDay || ticks > maxDay) {
		return time.Time{}, nil, damaged("time", 0, "a day of the years 0 to 9999", ticks)
	}
	if u != FullRange {
		return timeOf(ticks, u), b[8:], nil
	}
	nanos := binary.BigEndian.Uint32(b[8:])
	if nanos > 999_999_999 {
		return time.Time{}, nil, damaged("time", 8, "less than 1e9 nanoseconds", nanos)
	}
	return time.Unix(ticks, int64(nanos)).UTC(), b[12:], nil
}

// checkSecond refuses times so early that their second does not fit in an int64.
func checkSecond(t time.Time, u Unit) error {
	if t.Before(time.Unix(math.MinInt64, 0)) {
		return fmt.Errorf("keycodec: the year %d is out of the range of a time in %s", t.Year(), u)
	}
	return nil
}

// ticksOf counts a time in a unit that is not FullRange.
func ticksOf(t time.Time, u Unit) (int64, error) {
	if !u.valid() {
		return 0, fmt.Errorf("keycodec: %d is not a unit of time", uint8(u))
	}
	if err := checkSecond(t, u); err != nil {
		return 0, err
	}
	if u == Day {
		return dayOf(t)
	}
	// Invariant: the fraction is never negative, so cutting it off goes to the past.
	sec, per := t.Unix(), ticksPerSecond[u]
	fraction := int64(t.Nanosecond()) / (1e9 / per)
	// The product of a negative second may lie below the range although its sum with the
	// fraction lies in it: then count from the following second.
	if sec < 0 && fraction > 0 {
		sec, fraction = sec+1, fraction-per
	}
	ticks := sec * per
	if sum := ticks + fraction; ticks/per == sec && (sum >= ticks) == (fraction >= 0) {
		return sum, nil
	}
	return 0, fmt.Errorf("keycodec: the year %d is out of the range of a time in %s", t.Year(), u)
}

// dayOf counts the days of a time, cut off towards the past.
func dayOf(t time.Time) (int64, error) {
	sec := t.Unix()
	day := sec / daySecond
	if sec%daySecond < 0 {
		day--
	}
	if day < minDay || day > maxDay {
		return 0, fmt.Errorf("keycodec: the year %d is out of the range of a date", t.Year())
	}
	return day, nil
}

func timeOf(ticks int64, u Unit) time.Time {
	if u == Day {
		return time.Unix(ticks*daySecond, 0).UTC()
	}
	per := ticksPerSecond[u]
	sec, fraction := ticks/per, ticks%per
	return time.Unix(sec, fraction*(1e9/per)).UTC()
}
