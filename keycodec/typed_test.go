package keycodec_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

func i64(v int64) []byte   { return keycodec.AppendInt64(nil, v) }
func f64(v float64) []byte { return keycodec.AppendFloat64(nil, v) }
func str(s string) []byte  { return keycodec.AppendString(nil, s) }
func dec(v string) []byte  { return keycodec.AppendDecimal(nil, decimal(v)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func decimal(s string) keycodec.Decimal { return must(keycodec.ParseDecimal(s)) }

// TestDecimalEncodings: the bytes of decimals, in their order, whose exponents are on both sides of
// those that fit into the head. The bytes of all other types are in TestGoldenTuples.
func TestDecimalEncodings(t *testing.T) {
	last := []byte{}
	for _, e := range [][2]string{
		{"-1e70", "3e 7fffffdb fd ff"}, {"-100", "5c fd ff"}, {"-99.5", "5d 9b cc ff"},
		{"-99", "5d 9b ff"}, {"-1", "5d fd ff"}, {"-0.001", "5f f4 ff"},
		{"-1e-70", "7e 80000021 fd ff"}, {"0", "80"}, {"1e-70", "81 7fffffde 02 00"},
		{"0.001", "a0 0b 00"}, {"0.01", "a1 02 00"}, {"0.5", "a1 33 00"}, {"1", "a2 02 00"},
		{"1.01", "a2 02 02 00"}, {"99", "a2 64 00"}, {"100", "a3 02 00"},
		{"12345.67", "a4 02 18 2e 44 00"}, {"1e62", "c1 80000020 02 00"},
		{"1e70", "c1 80000024 02 00"},
	} {
		got := dec(e[0])
		if !bytes.Equal(got, unhex(t, e[1])) || bytes.Compare(last, got) >= 0 {
			t.Errorf("%s is %x, want %s, after %x", e[0], got, e[1], last)
		}
		last = got
	}
}

func TestDecodeBytesCopiesOnlyEscapes(t *testing.T) {
	b := append(str("plain"), str("next")...)
	v, _, err := keycodec.DecodeBytes(b)
	if err != nil || &v[0] != &b[0] || cap(v) != len(v) {
		t.Errorf("no view of its own length into b: capacity %d, error %v", cap(v), err)
	}
	out, rest, err := keycodec.DecodeAppendBytes([]byte("dst"), append(str("a\x00b"), 7))
	if err != nil || string(out) != "dsta\x00b" || !bytes.Equal(rest, []byte{7}) {
		t.Errorf("DecodeAppendBytes = %q, %x, %v", out, rest, err)
	}
	out, _, err = keycodec.DecodeAppendBytes([]byte("dst"), []byte("ab"))
	if err == nil || string(out) != "dst" {
		t.Errorf("DecodeAppendBytes of damage = %q, %v; want dst and an error", out, err)
	}
}

func TestFloatsHaveOneZeroAndOneNaN(t *testing.T) {
	if !bytes.Equal(f64(math.Copysign(0, -1)), f64(0)) {
		t.Error("-0 and +0 differ")
	}
	odd := math.Float64frombits(0xfff8000000000123)
	if !bytes.Equal(f64(odd), f64(math.NaN())) {
		t.Error("two NaNs differ")
	}
	v, _, err := keycodec.DecodeFloat64(f64(math.NaN()))
	if err != nil || !math.IsNaN(v) {
		t.Errorf("NaN decodes to %v, %v", v, err)
	}
}

func TestTimeUnits(t *testing.T) {
	when := time.Date(1969, 7, 20, 20, 17, 40, 123456789, time.FixedZone("", 3600))
	for u, want := range map[keycodec.Unit]string{
		keycodec.Second:      "1969-07-20T19:17:40Z",
		keycodec.Millisecond: "1969-07-20T19:17:40.123Z",
		keycodec.Microsecond: "1969-07-20T19:17:40.123456Z",
		keycodec.Nanosecond:  "1969-07-20T19:17:40.123456789Z",
	} {
		b := must(keycodec.AppendTime(nil, when, u))
		got, rest, err := keycodec.DecodeTime(append(b, 7), u)
		if err != nil || got.Format(time.RFC3339Nano) != want || !bytes.Equal(rest, []byte{7}) {
			t.Errorf("unit %s: %v, rest %x, error %v; want %s", u, got, rest, err, want)
		}
		if got.Location() != time.UTC {
			t.Errorf("unit %s: the time is in %v, want UTC", u, got.Location())
		}
	}
}

func TestTimeRange(t *testing.T) {
	for _, u := range []keycodec.Unit{
		keycodec.Second, keycodec.Millisecond, keycodec.Microsecond, keycodec.Nanosecond,
	} {
		// A time.Time counts seconds from the year 1, which takes some from the last ones.
		largest := int64(math.MaxInt64)
		if u == keycodec.Second {
			largest -= 62135596800
			if _, _, err := keycodec.DecodeTime(i64(largest+1), u); err == nil {
				t.Error("a second that no time.Time holds was decoded")
			}
		}
		for _, ticks := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 1, largest} {
			at, _, err := keycodec.DecodeTime(i64(ticks), u)
			ok(t, err)
			b, err := keycodec.AppendTime(nil, at, u)
			if err != nil || !bytes.Equal(b, i64(ticks)) {
				t.Errorf("%d %s: back as %x, error %v", ticks, u, b, err)
			}
		}
		if u == keycodec.Second {
			continue
		}
		first, _, _ := keycodec.DecodeTime(i64(math.MinInt64), u)
		last, _, _ := keycodec.DecodeTime(i64(math.MaxInt64), u)
		for _, out := range []time.Time{first.Add(-1), last.Add(time.Second)} {
			dst := []byte("dst")
			got, err := keycodec.AppendTime(dst, out, u)
			if err == nil || string(got) != "dst" {
				t.Errorf("%v in %s: %x, error %v; want an error", out, u, got, err)
			}
		}
	}
	if _, err := keycodec.AppendTime(nil, time.Time{}, keycodec.Nanosecond); err == nil {
		t.Error("the zero time fits in nanoseconds")
	}
	if _, err := keycodec.AppendTime(nil, time.Now(), keycodec.UnitNone); err == nil {
		t.Error("a time without a unit was encoded")
	}
	if _, _, err := keycodec.DecodeTime(i64(0), keycodec.Day+1); err == nil {
		t.Error("a time of an unknown unit was decoded")
	}
	for year, want := range map[int]bool{-1: false, 0: true, 9999: true, 10000: false} {
		at := time.Date(year, 12, 31, 23, 59, 59, 1, time.UTC)
		b, err := keycodec.AppendTime(nil, at, keycodec.Day)
		if err == nil != want {
			t.Errorf("a day of the year %d: %v", year, err)
		}
		if got, _, err := keycodec.DecodeTime(b, keycodec.Day); want && (err != nil ||
			!got.Equal(time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC))) {
			t.Errorf("a day of the year %d is decoded as %v, %v", year, got, err)
		}
	}
	for _, day := range []int64{-719529, 2932897} {
		if _, _, err := keycodec.DecodeTime(i64(day), keycodec.Day); err == nil {
			t.Errorf("day %d was decoded", day)
		}
	}
}

func TestUUIDText(t *testing.T) {
	const text = "0194733f-7a00-7b34-8f2a-1b2c3d4e5f60"
	if got := must(keycodec.ParseUUID(strings.ToUpper(text))).String(); got != text {
		t.Errorf("UUID reads back as %s, want %s", got, text)
	}
	for _, bad := range []string{
		"", text[1:], text + "0", strings.ReplaceAll(text, "-", "_"),
		strings.Replace(text, "f", "g", 1), strings.ReplaceAll(text, "-", ""),
		text[:8] + "_" + text[9:], text[:13] + "_" + text[14:], text[:18] + "_" + text[19:],
		text[:23] + "_" + text[24:],
		"0194733f7-a00-7b34-8f2a-1b2c3d4e5f60",
	} {
		if u, err := keycodec.ParseUUID(bad); err == nil {
			t.Errorf("ParseUUID(%q) = %v, want an error", bad, u)
		}
	}
}
