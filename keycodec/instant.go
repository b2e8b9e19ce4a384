package keycodec

import (
	"fmt"
	"time"
)

// Unit is the resolution of a time. The unit belongs to the schema, not to the bytes;
// it is fixed for the life of the data.
type Unit uint8

// The units. Nanoseconds reach from 1677-09-21 to 2262-04-11 only, microseconds over
// 292 thousand years, the others further.
const (
	UnitNone Unit = iota // the unit of fields that are no times
	Second
	Millisecond
	Microsecond
	Nanosecond
)

// On disk (schema files): the unit's names.
var unitNames = [...]string{UnitNone: "", Second: "s", Millisecond: "ms",
	Microsecond: "us", Nanosecond: "ns"}

var ticksPerSecond = [...]int64{Second: 1, Millisecond: 1e3, Microsecond: 1e6, Nanosecond: 1e9}

// String returns "s", "ms", "us" or "ns".
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("unit %d", uint8(u))
}

func (u Unit) valid() bool { return u >= Second && u <= Nanosecond }

// Format: a time is the number of units since 1970-01-01 00:00:00 UTC, as an int64.
// The location is not stored.

// AppendTime appends the ordered encoding of t, 8 bytes. What is finer than the unit is
// cut off towards the past. It fails, with dst as it was, if the unit is not one of the
// four or if t cannot be counted in it.
func AppendTime(dst []byte, t time.Time, u Unit) ([]byte, error) {
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
	ticks, rest, err := DecodeInt64(b)
	if err != nil {
		return time.Time{}, nil, err
	}
	return timeOf(ticks, u), rest, nil
}

func ticksOf(t time.Time, u Unit) (int64, error) {
	if !u.valid() {
		return 0, fmt.Errorf("keycodec: %d is not a unit of time", uint8(u))
	}
	// Invariant: the fraction is never negative, so cutting it off goes to the past.
	sec, per := t.Unix(), ticksPerSecond[u]
	fraction := int64(t.Nanosecond()) / (1e9 / per)
	// The product of a negative second may lie below the range and its sum with the
	// fraction within it: count from the following second then.
	if sec < 0 && fraction > 0 {
		sec, fraction = sec+1, fraction-per
	}
	ticks := sec * per
	if sum := ticks + fraction; ticks/per == sec && (sum >= ticks) == (fraction >= 0) {
		return sum, nil
	}
	return 0, fmt.Errorf("keycodec: the year %d is out of the range of a time in %s", t.Year(), u)
}

func timeOf(ticks int64, u Unit) time.Time {
	per := ticksPerSecond[u]
	sec, fraction := ticks/per, ticks%per
	return time.Unix(sec, fraction*(1e9/per)).UTC()
}
