package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
)

// A moment is a version, a time or how long ago.
func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 11, 24, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]store.Moment{
		"0":                         {},
		"17":                        {Version: 17},
		"15m":                       {Time: now.Add(-15 * time.Minute)},
		"2026-11-24T19:00:00+02:00": {Time: now.Add(-time.Hour)},
		"2026-11-24 17:00:00":       {Time: now.Add(-time.Hour)},
		"2026-11-24":                {Time: now.Add(-18 * time.Hour)},
	} {
		got, err := store.ParseMoment(text, now)
		if err != nil || got.Version != want.Version || !got.Time.Equal(want.Time) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-15m", "yesterday", "2026-13-01"} {
		if m, err := store.ParseMoment(text, now); err == nil ||
			!strings.Contains(err.Error(), "15m") {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
}
