package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Moment is a moment of the past: that after the commit with a version or, with a Time, that of
// the newest commit that was there at the time.
type Moment struct {
	Version uint64
	Time    time.Time
}

// Past is a Store whose past can be read.
type Past interface {
	// AsOf returns the store as it was at a moment, for reads alone, and the moment by its version.
	// Its Close lets go of what is kept for it. Close it before this store.
	AsOf(ctx context.Context, m Moment) (Store, Moment, error)
}

// momentLayouts are the forms of times in ParseMoment: RFC 3339, and those of SQL, in UTC.
var momentLayouts = []string{time.RFC3339, time.DateTime, time.DateOnly}

// ParseMoment reads a moment: a version, a time such as 2026-11-24T18:00:00Z or, in UTC,
// 2026-11-24 18:00:00, or how long before now, such as 15m.
func ParseMoment(text string, now time.Time) (Moment, error) {
	if version, err := strconv.ParseUint(text, 10, 64); err == nil {
		return Moment{Version: version}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return Moment{Time: now.Add(-ago)}, nil
	}
	for _, layout := range momentLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return Moment{Time: t}, nil
		}
	}
	return Moment{}, fmt.Errorf("%q is not a moment: want a version, a time such as "+
		"2026-11-24T18:00:00Z, or how long ago, such as 15m", text)
}
