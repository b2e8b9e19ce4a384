package keycodec_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

func i64(v int64) []byte   { return keycodec.AppendInt64(nil, v) }
func f64(v float64) []byte { return keycodec.AppendFloat64(nil, v) }
func str(s string) []byte  { return keycodec.AppendString(nil, s) }
func dec(v string) []byte  { return keycodec.AppendDecimal(nil, decimal(v)) }
func uuid(v string) []byte { return keycodec.AppendUUID(nil, must(keycodec.ParseUUID(v))) }
func desc(v []byte) []byte { return keycodec.InvertFrom(bytes.Clone(v), 0) }
func fixed(s string, scale int32) []byte {
	return must(keycodec.AppendFixed(nil, decimal(s), scale))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func decimal(s string) keycodec.Decimal { return must(keycodec.ParseDecimal(s)) }

func stamp(s string, u keycodec.Unit) []byte {
	return must(keycodec.AppendTime(nil, must(time.Parse(time.RFC3339Nano, s)), u))
}

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

func TestDecodersRefuse(t *testing.T) {
	text := func(b []byte) error { _, _, err := keycodec.DecodeBytes(b); return err }
	boolean := func(b []byte) error { _, _, err := keycodec.DecodeBool(b); return err }
	float := func(b []byte) error { _, _, err := keycodec.DecodeFloat64(b); return err }
	number := func(b []byte) error { _, _, err := keycodec.DecodeInt64(b); return err }
	unsigned := func(b []byte) error { _, _, err := keycodec.DecodeUint64(b); return err }
	instant := func(b []byte) error {
		_, _, err := keycodec.DecodeTime(b, keycodec.Second)
		return err
	}
	id := func(b []byte) error { _, _, err := keycodec.DecodeUUID(b); return err }
	dec := func(b []byte) error { _, _, err := keycodec.DecodeDecimal(b); return err }
	first := func(b []byte) error { _, _, err := keycodec.DecodeNull(b, false); return err }
	last := func(b []byte) error { _, _, err := keycodec.DecodeNull(b, true); return err }
	refuses(t, []refusal{
		{"empty string", "", text, 0},
		{"string without end", "61 62", text, 2},
		{"half a terminator", "61 00", text, 2},
		{"unknown escape", "61 00 02 00 00", text, 2},
		{"no bool", "", boolean, 0},
		{"bool of 2", "02", boolean, 0},
		{"short int64", "80 00 00 00 00 00 00", number, 7},
		{"short uint64", "00", unsigned, 1},
		{"short time", "", instant, 0},
		{"short UUID", "00 01 02", id, 3},
		{"short float64", "80", float, 1},
		{"-0", "7fffffffffffffff", float, 0},
		{"another NaN", "fff8000000000000", float, 0},
		{"negative NaN", "0007ffffffffffff", float, 0},
		{"no marker", "", first, 0},
		{"NULL at the wrong end", "02", first, 0},
		{"NULL at the other wrong end", "00", last, 0},
		{"unknown marker", "03", last, 0},
		{"no decimal", "", dec, 0},
		{"decimal below the first byte", "3d", dec, 0},
		{"decimal above the first byte", "c2", dec, 0},
		{"-zero", "7f ff", dec, 0},
		{"no digits", "a2 00", dec, 1},
		{"no terminator", "a2 02", dec, 2},
		{"leading zero digit", "a2 01 02 00", dec, 1},
		{"trailing zero digit", "a2 02 01 00", dec, 1},
		{"digit of 100", "a2 65 00", dec, 1},
		{"exponent cut", "c1 80 00", dec, 3},
		{"long form of a short exponent", "c1 8000001f 02 00", dec, 1},
		{"tiny form of a huge exponent", "81 80000020 02 00", dec, 1},
		{"huge form of a tiny exponent", "c1 7fffffde 02 00", dec, 1},
		{"exponent over the limit", "c1 ffffffff 02 00", dec, 1},
		{"exponent under the limit", "81 00000000 02 00", dec, 1},
	})
}

func TestDecodersOfOtherTypesRefuse(t *testing.T) {
	full := func(b []byte) error {
		_, _, err := keycodec.DecodeTime(b, keycodec.FullRange)
		return err
	}
	single := func(b []byte) error { _, _, err := keycodec.DecodeFloat32(b); return err }
	short := func(b []byte) error { _, _, err := keycodec.DecodeInt32(b); return err }
	tiny := func(b []byte) error { _, _, err := keycodec.DecodeUint8(b); return err }
	scaled := func(b []byte) error { _, _, err := keycodec.DecodeFixed(b, 2); return err }
	address := func(b []byte) error { _, _, err := keycodec.DecodeIP(b); return err }
	network := func(b []byte) error { _, _, err := keycodec.DecodeIPPrefix(b); return err }
	refuses(t, []refusal{
		{"short full time", "8000000000000000 000000", full, 11},
		{"a second too many", "ffffffffffffffff 00000000", full, 0},
		{"nanoseconds of a second", "8000000000000000 3b9aca00", full, 8},
		{"short float32", "80 00", single, 2},
		{"-0 of 32 bits", "7fffffff", single, 0},
		{"another NaN of 32 bits", "ffc00000", single, 0},
		{"short int32", "80 00 00", short, 3},
		{"no uint8", "", tiny, 0},
		{"short fixed", "80", scaled, 1},
		{"no address", "", address, 0},
		{"address of family 5", "05 0a000001", address, 0},
		{"short IPv4", "04 0a0000", address, 4},
		{"short IPv6", "06 0a000000", address, 5},
		{"no prefix", "", network, 0},
		{"prefix without a length", "04 0a000000", network, 5},
		{"prefix of 33 bits", "04 0a000000 21", network, 5},
		{"bits after the prefix", "04 0a000001 08", network, 1},
	})
}

// refusal is an input that a decoder has to report as damaged at an offset.
type refusal struct {
	name, bytes string
	decode      func([]byte) error
	offset      int64
}

func refuses(t *testing.T, list []refusal) {
	t.Helper()
	for _, c := range list {
		err := c.decode(unhex(t, c.bytes))
		var e *corrupt.Error
		if !errors.As(err, &e) || e.Offset != c.offset {
			t.Errorf("%s: error %v, want a corruption at %d", c.name, err, c.offset)
		}
	}
}
