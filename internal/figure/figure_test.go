package figure_test

import (
	"math"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/figure"
)

func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		figure.Count(0):                          "0",
		figure.Count(999):                        "999",
		figure.Count(1000):                       "1,000",
		figure.Count(-1234567):                   "-1,234,567",
		figure.Bytes(1023):                       "1023 B",
		figure.Bytes(1024):                       "1.0 KiB",
		figure.Bytes(999 << 20):                  "999 MiB",
		figure.Bytes(1000 << 20):                 "1.0 GiB",
		figure.Plural(1, "item"):                 "1 item",
		figure.Plural(2000, "item"):              "2,000 items",
		figure.Plural(2, "full copy"):            "2 full copies",
		figure.Plural(2, "key"):                  "2 keys",
		figure.Duration(1234 * time.Microsecond): "1.2ms",
		figure.Duration(90 * time.Second):        "1m30s",
		figure.PerSecond(10, 2*time.Second):      "5/s",
		figure.PerSecond(10, 0):                  "–",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "1k": 1 << 10, "64KiB": 64 << 10, "50MB": 50e6,
		"2 GiB": 2 << 30, "8388607T": 8388607 << 40, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := figure.ParseBytes(text); got != want || err != nil {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "B", "MiB", "-1", "1.5M", "1 X", "1i", "1kk", "8388608T", "9223372036854775808",
	} {
		if got, err := figure.ParseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
