package keycodec_test

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// Promise (keys): Tuples of every schema sort as their values do, no encoding begins another,
// and decoding is exact. Also `TestTuplesRoundTrip`, `TestDecodeIsCanonical`, `TestGoldenTuples`
// in `keycodec`.
func TestTuplesSort(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		a, b := tuple(t, s), tuple(t, s)
		// Make equal beginnings likely.
		copy(b, a[:rapid.IntRange(0, len(a)).Draw(t, "shared")])
		x, y := must(s.Append(nil, a...)), must(s.Append(nil, b...))
		want := compareTuples(s, a, b)
		if got := bytes.Compare(x, y); got != want {
			t.Fatalf("%v\n%v = %x\n%v = %x\ncompare %d, want %d", s, a, x, b, y, got, want)
		}
		if want != 0 && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Fatalf("of %x and %x one is a prefix of the other", x, y)
		}
	})
}

func TestTuplesRoundTrip(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		values := tuple(t, s)
		b := must(s.Append(nil, values...))
		got, err := s.Decode(b)
		if err != nil || compareTuples(s, got, values) != 0 {
			t.Fatalf("%v: %v decodes to %v, error %v", s, values, got, err)
		}
		n := rapid.IntRange(0, s.Len()).Draw(t, "n")
		prefix := must(s.AppendPrefix(nil, values[:n]...))
		if size, err := s.PrefixLen(b, n); err != nil || size != len(prefix) {
			t.Fatalf("PrefixLen(%x, %d) = %d, %v; want %d", b, n, size, err, len(prefix))
		}
		first, rest, err := s.DecodePrefix(b, n)
		if err != nil || len(first) != n || !bytes.Equal(rest, b[len(prefix):]) {
			t.Fatalf("DecodePrefix(%x, %d) = %v, %x, %v", b, n, first, rest, err)
		}
		if _, err := s.Decode(append(b, 0)); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("a byte after the tuple: error %v", err)
		}
		if _, err := s.Decode(b[:len(b)-1]); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("a tuple cut by a byte: error %v", err)
		}
	})
}

// TestDecodeIsCanonical damages encodings; what is still accepted must encode to itself.
func TestDecodeIsCanonical(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		b := must(s.Append(nil, tuple(t, s)...))
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		likely := rapid.SampledFrom([]byte{0, 1, 2, 0xfe, 0xff})
		b[i] = rapid.OneOf(likely, rapid.Byte()).Draw(t, "byte")
		values, err := s.Decode(b)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("error %v is not corruption", err)
			}
			return
		}
		if again := must(s.Append(nil, values...)); !bytes.Equal(again, b) {
			t.Fatalf("%v: %x decodes to %v, which is %x", s, b, values, again)
		}
	})
}

// TestPrefixRanges checks equality and begins-with prefixes and their ends against a
// comparison of values.
func TestPrefixRanges(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		n := rapid.IntRange(1, s.Len()).Draw(t, "n")
		want, have := tuple(t, s)[:n], tuple(t, s)
		copy(have, want[:rapid.IntRange(0, n).Draw(t, "shared")])
		first := must(keycodec.NewSchema(s.Fields()[:n]...))
		full := must(s.Append(nil, have...))

		start := must(s.AppendPrefix(nil, want...))
		check(t, full, start, compareFields(first, want, have[:n]) == 0)

		start, err := s.AppendBeginsWith(nil, want...)
		text, ok := want[n-1].(string)
		if b, isBytes := want[n-1].([]byte); isBytes {
			text, ok = string(b), true
		}
		if (err == nil) != ok {
			t.Fatalf("begins with %v: error %v", want, err)
		}
		if !ok {
			return
		}
		begins := false
		switch v := have[n-1].(type) {
		case string:
			f := s.Fields()[n-1]
			begins = strings.HasPrefix(fold(f, v), fold(f, text))
		case []byte:
			begins = bytes.HasPrefix(v, []byte(text))
		}
		before := must(keycodec.NewSchema(s.Fields()[:n-1]...))
		check(t, full, start, begins && compareFields(before, want[:n-1], have[:n-1]) == 0)
	})
}

func check(t *rapid.T, full, start []byte, want bool) {
	end, ok := keycodec.PrefixEnd(nil, start)
	in := bytes.Compare(start, full) <= 0 && (!ok || bytes.Compare(full, end) < 0)
	if in != want {
		t.Fatalf("%x in [%x, %x) is %v, want %v", full, start, end, in, want)
	}
}

func TestAppendRefuses(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "name", Type: keycodec.TypeString},
		keycodec.Field{Name: "n", Type: keycodec.TypeInt64, Nullable: true},
		keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Nanosecond, Desc: true},
	))
	now := time.Unix(0, 0)
	for _, c := range []struct {
		name   string
		values []any
	}{
		{"too few", []any{"a", 1}},
		{"too many", []any{"a", 1, now, 1}},
		{"NULL for a field that is not nullable", []any{nil, 1, now}},
		{"bytes for a string", []any{[]byte("a"), 1, now}},
		{"uint64 for an int64", []any{"a", uint64(1), now}},
		{"string for a time", []any{"a", 1, "now"}},
		{"time out of range", []any{"a", 1, time.Time{}}},
	} {
		dst := []byte("dst")
		got, err := s.Append(dst, c.values...)
		if err == nil || string(got) != "dst" {
			t.Errorf("%s: %q, error %v; want an error and dst", c.name, got, err)
		}
	}
	for _, values := range [][]any{{}, {1}, {nil}, {"a", 1}, {"a", 1, now, "b"}} {
		got, err := s.AppendBeginsWith([]byte("dst"), values...)
		if err == nil || string(got) != "dst" {
			t.Errorf("begins with %v: %q, error %v; want an error and dst", values, got, err)
		}
	}
	two := must(keycodec.NewSchema(keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "b", Type: keycodec.TypeString}))
	for _, first := range []any{1, nil, []byte("a")} {
		got, err := two.AppendBeginsWith([]byte("dst"), first, "b")
		if err == nil || string(got) != "dst" {
			t.Errorf("begins with %v and b: %q, error %v; want an error and dst", first, got, err)
		}
	}
	if _, _, err := s.DecodePrefix(nil, 4); err == nil {
		t.Error("DecodePrefix of more fields than there are")
	}
	if _, err := s.PrefixLen(nil, -1); err == nil {
		t.Error("PrefixLen of -1 fields")
	}
}

// TestNarrowFieldsRefuse gives fields the numbers at the ends of their range, and those
// next to them.
func TestNarrowFieldsRefuse(t *testing.T) {
	for typ, v := range map[keycodec.Type]struct{ fits, not []any }{
		keycodec.TypeInt8:   {[]any{-128, 127}, []any{-129, 128, uint8(1)}},
		keycodec.TypeInt16:  {[]any{-32768, 32767}, []any{-32769, 32768}},
		keycodec.TypeInt32:  {[]any{math.MinInt32, math.MaxInt32}, []any{int64(1) << 31}},
		keycodec.TypeUint8:  {[]any{uint(255)}, []any{uint(256), int8(1)}},
		keycodec.TypeUint16: {[]any{uint(65535)}, []any{uint(65536)}},
		keycodec.TypeUint32: {[]any{uint64(math.MaxUint32)}, []any{uint64(1) << 32}},
		keycodec.TypeFloat32: {[]any{0.5, math.MaxFloat32, math.Inf(-1), math.NaN(), float32(0.1)},
			[]any{0.1, math.MaxFloat64, 1e-60, 1}},
		keycodec.TypeFloat64:  {[]any{0.1}, []any{1, keycodec.Decimal{}}},
		keycodec.TypeFixed:    {[]any{keycodec.NewDecimal(5, 0)}, []any{5, 5.0}},
		keycodec.TypeIP:       {[]any{netip.IPv6Loopback()}, []any{netip.Prefix{}, "::1"}},
		keycodec.TypeIPPrefix: {[]any{netip.MustParsePrefix("::/0")}, []any{netip.IPv6Loopback()}},
	} {
		f := keycodec.Field{Name: "v", Type: typ}
		for _, fits := range v.fits {
			if _, err := f.Append(nil, fits); err != nil {
				t.Errorf("%v for %s: %v", fits, typ, err)
			}
		}
		for _, not := range v.not {
			if b, err := f.Append([]byte("dst"), not); err == nil || string(b) != "dst" {
				t.Errorf("%T %v for %s is %x, error %v; want an error", not, not, typ, b, err)
			}
		}
	}
}

func TestAppendTakesSmallerTypes(t *testing.T) {
	for typ, values := range map[keycodec.Type][]any{
		keycodec.TypeInt64:   {int64(5), 5, int32(5), int16(5), int8(5)},
		keycodec.TypeUint64:  {uint64(5), uint(5), uint32(5), uint16(5), uint8(5)},
		keycodec.TypeFloat64: {5.0, float32(5)},
		keycodec.TypeUUID:    {keycodec.UUID{5}, [16]byte{5}},
	} {
		s := must(keycodec.NewSchema(keycodec.Field{Name: "v", Type: typ}))
		want := must(s.Append(nil, values[0]))
		for _, v := range values {
			if got, err := s.Append(nil, v); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%T for %s: %x, %v; want %x", v, typ, got, err, want)
			}
		}
	}
}

func TestDecodeNamesTheOffset(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "b", Type: keycodec.TypeBool, Nullable: true},
		keycodec.Field{Name: "c", Type: keycodec.TypeBool, Desc: true},
	))
	for hex, offset := range map[string]int64{
		"61 0000 01 02 ff": 4, "61 0000 05": 3, "61 0000 00 07": 4, "61 0000 00 ff 00": 5,
	} {
		_, err := s.Decode(unhex(t, hex))
		var e *corrupt.Error
		if !errors.As(err, &e) || e.Offset != offset {
			t.Errorf("%s: error %v, want a corruption at %d", hex, err, offset)
		}
	}
	for hex, offset := range map[string]int64{"61 0000 05": 3, "61 0000 01": 4, "61 00 07": 2} {
		_, err := s.PrefixLen(unhex(t, hex), 3)
		var e *corrupt.Error
		if !errors.As(err, &e) || e.Offset != offset {
			t.Errorf("PrefixLen(%s): error %v, want a corruption at %d", hex, err, offset)
		}
	}
}

func TestPrefixLenAllocatesNothing(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString, Desc: true},
		keycodec.Field{Name: "b", Type: keycodec.TypeDecimal, Nullable: true},
	))
	b := must(s.Append(nil, "a\x00b", decimal("-1.25")))
	if n := testing.AllocsPerRun(100, func() { _, _ = s.PrefixLen(b, 2) }); n != 0 {
		t.Errorf("PrefixLen allocates %v times, want 0", n)
	}
}

func TestNewSchemaRefuses(t *testing.T) {
	ok := keycodec.Field{Name: "a", Type: keycodec.TypeString}
	for name, fields := range map[string][]keycodec.Field{
		"no name":          {{Type: keycodec.TypeString}},
		"no type":          {{Name: "a"}},
		"unknown type":     {{Name: "a", Type: keycodec.TypeIPPrefix + 1}},
		"long name":        {{Name: strings.Repeat("a", 256), Type: keycodec.TypeString}},
		"name not UTF-8":   {{Name: "\xff", Type: keycodec.TypeString}},
		"same name twice":  {ok, ok},
		"time, no unit":    {{Name: "a", Type: keycodec.TypeTime}},
		"unknown unit":     {{Name: "a", Type: keycodec.TypeTime, Unit: keycodec.Day + 1}},
		"unit, no time":    {{Name: "a", Type: keycodec.TypeInt64, Unit: keycodec.Second}},
		"order of no NULL": {{Name: "a", Type: keycodec.TypeInt64, NullsLast: true}},
		"too many":         make([]keycodec.Field, keycodec.MaxFields+1),
	} {
		if s, err := keycodec.NewSchema(fields...); err == nil {
			t.Errorf("%s: NewSchema = %v, want an error", name, s)
		}
	}
}

func TestSchemaIsImmutable(t *testing.T) {
	fields := []keycodec.Field{{Name: "a", Type: keycodec.TypeString}}
	s := must(keycodec.NewSchema(fields...))
	fields[0].Name = "b"
	s.Fields()[0].Name = "c"
	if got := s.String(); got != "a string" {
		t.Errorf("the schema became %q", got)
	}
}

// A schema that is not right ends the program where it stands; a right one is NewSchema's.
func TestMustSchema(t *testing.T) {
	fields := []keycodec.Field{{Name: "at", Type: keycodec.TypeInt64}}
	if got, want := keycodec.MustSchema(fields...), must(keycodec.NewSchema(fields...)); got.
		String() != want.String() {
		t.Errorf("%v, want %v", got, want)
	}
	defer func() {
		if failed := recover(); failed == nil {
			t.Error("two fields of one name")
		}
	}()
	keycodec.MustSchema(append(fields, fields...)...)
}
