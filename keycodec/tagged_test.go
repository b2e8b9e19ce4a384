package keycodec_test

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// kindOfElement ranks the types of elements as the format page does.
func kindOfElement(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 2
		}
		return 1
	case int64, uint64:
		return 3
	case float64:
		return 4
	case keycodec.Decimal:
		return 5
	case time.Time:
		return 6
	case keycodec.UUID:
		return 7
	case netip.Addr:
		return 8
	case netip.Prefix:
		return 9
	case []byte:
		return 10
	}
	return 11
}

func bigOf(v any) *big.Int {
	if u, ok := v.(uint64); ok {
		return new(big.Int).SetUint64(u)
	}
	return big.NewInt(v.(int64))
}

// compareElements is the order of elements, ascending ones before descending ones.
func compareElements(a, b any) int {
	x, xDesc := a.(keycodec.Descending)
	y, yDesc := b.(keycodec.Descending)
	switch {
	case xDesc && yDesc:
		return -compareElements(x.Value, y.Value)
	case xDesc:
		return 1
	case yDesc:
		return -1
	}
	if c := cmp.Compare(kindOfElement(a), kindOfElement(b)); c != 0 {
		return c
	}
	switch kindOfElement(a) {
	case 0, 1, 2:
		return 0
	case 3:
		return bigOf(a).Cmp(bigOf(b))
	}
	return compareValues(keycodec.Field{}, a, b)
}

func drawElement(t *rapid.T) any {
	var v any
	f := fuzzKinds[rapid.IntRange(0, len(fuzzKinds)-1).Draw(t, "kind")]
	if f.Type != keycodec.TypeString {
		v = drawValue(t, f)
	} else {
		v = string(awkward(0).Draw(t, "text"))
	}
	if u, ok := v.(uint64); ok && u <= math.MaxInt64 {
		v = int64(u)
	}
	if n, ok := v.(int64); ok {
		v = n >> rapid.IntRange(0, 63).Draw(t, "shift")
	}
	if rapid.IntRange(0, 7).Draw(t, "null") == 0 {
		v = nil
	}
	if rapid.IntRange(0, 3).Draw(t, "desc") == 0 {
		return keycodec.Descending{Value: v}
	}
	return v
}

func TestTaggedTuplesSort(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOfN(rapid.Custom(drawElement), 0, 4).Draw(t, "a"),
			rapid.SliceOfN(rapid.Custom(drawElement), 0, 4).Draw(t, "b")
		copy(b, a[:rapid.IntRange(0, len(a)).Draw(t, "shared")])
		x, y := must(keycodec.AppendTagged(nil, a...)), must(keycodec.AppendTagged(nil, b...))
		want := cmp.Compare(len(a), len(b))
		for i := range min(len(a), len(b)) {
			if c := compareElements(a[i], b[i]); c != 0 {
				want = c
				break
			}
		}
		if got := bytes.Compare(x, y); got != want {
			t.Fatalf("%v = %x\n%v = %x\ncompare %d, want %d", a, x, b, y, got, want)
		}
		back, err := keycodec.DecodeTagged(x)
		if err != nil || len(back) != len(a) {
			t.Fatalf("%v reads back as %v, error %v", a, back, err)
		}
		for i := range a {
			if compareElements(back[i], a[i]) != 0 {
				t.Fatalf("%v reads back as %v", a, back)
			}
		}
		for rest := x; len(rest) > 0; {
			one, err := keycodec.SkipTagged(rest)
			if err != nil || len(one) >= len(rest) {
				t.Fatalf("SkipTagged(%x) = %x, %v", rest, one, err)
			}
			rest = one
		}
	})
}

// taggedVectors are in ascending order.
var taggedVectors = []struct {
	value     any
	hex, text string
}{
	{nil, "05", "NULL"},
	{false, "10", "false"},
	{true, "11", "true"},
	{int64(math.MinInt64), "18 7fffffffffffffff", "-9223372036854775808"},
	{int64(-256), "1e feff", "-256"},
	{int64(-255), "1f 00", "-255"},
	{int64(-1), "1f fe", "-1"},
	{int64(0), "20", "0"},
	{int64(1), "21 01", "1"},
	{int64(255), "21 ff", "255"},
	{int64(256), "22 0100", "256"},
	{int64(math.MaxInt64), "28 7fffffffffffffff", "9223372036854775807"},
	{uint64(math.MaxUint64), "28 ffffffffffffffff", "18446744073709551615"},
	{1.0, "30 bff0000000000000", "1"},
	{keycodec.NewDecimal(15, 1), "38 a2 02 33 00", "1.5"},
	{time.Unix(1, 5).UTC(), "40 8000000000000001 00000005", "1970-01-01T00:00:01.000000005Z"},
	{keycodec.UUID{}, "48 00000000000000000000000000000000",
		"00000000-0000-0000-0000-000000000000"},
	{netip.MustParseAddr("10.0.0.1"), "50 04 0a000001", "10.0.0.1"},
	{netip.MustParsePrefix("10.0.0.0/8"), "58 04 0a000000 08", "10.0.0.0/8"},
	{[]byte{0}, "60 0001 0000", `x"00"`},
	{"a", "68 61 0000", `"a"`},
	{keycodec.Descending{Value: "b"}, "97 9d ffff", `"b" desc`},
	{keycodec.Descending{Value: "a"}, "97 9e ffff", `"a" desc`},
	{keycodec.Descending{Value: int64(1)}, "de fe", "1 desc"},
	{keycodec.Descending{Value: int64(0)}, "df", "0 desc"},
	{keycodec.Descending{Value: nil}, "fa", "NULL desc"},
}

func TestTaggedVectors(t *testing.T) {
	var before []byte
	for _, v := range taggedVectors {
		got := must(keycodec.AppendTagged(nil, v.value))
		if want := unhex(t, v.hex); !bytes.Equal(got, want) {
			t.Errorf("%v is %x, want %s", v.value, got, v.hex)
		}
		if bytes.Compare(before, got) >= 0 {
			t.Errorf("%v does not sort after %x", v.value, before)
		}
		before = got
		if text, err := keycodec.FormatTagged(got); err != nil || text != v.text {
			t.Errorf("%x shows as %s, error %v; want %s", got, text, err, v.text)
		}
	}
	text, err := keycodec.FormatTagged(unhex(t, "2101 6861 0000"))
	if text != `1 / "a"` || err != nil {
		t.Errorf("a tuple of two shows as %s, error %v", text, err)
	}
}

func TestTaggedTakesSmallerTypes(t *testing.T) {
	for _, v := range []any{5, int8(5), int16(5), int32(5), uint(5), uint8(5), uint16(5), uint32(5),
		uint64(5)} {
		if got := must(keycodec.AppendTagged(nil, v)); !bytes.Equal(got, []byte{0x21, 5}) {
			t.Errorf("%T(5) is %x", v, got)
		}
	}
	one := must(keycodec.AppendTagged(nil, float32(1), [16]byte{1}))
	if want := must(keycodec.AppendTagged(nil, 1.0, keycodec.UUID{1})); !bytes.Equal(one, want) {
		t.Errorf("float32 and [16]byte are %x, want %x", one, want)
	}
}

func TestTaggedRefuses(t *testing.T) {
	for name, v := range map[string]any{
		"a struct": struct{}{}, "no address": netip.Addr{}, "descending twice": keycodec.Descending{
			Value: keycodec.Descending{}}, "an early time": time.Unix(math.MinInt64, 0).Add(-1),
	} {
		got, err := keycodec.AppendTagged([]byte("dst"), 1, v)
		if err == nil || string(got) != "dst" {
			t.Errorf("%s: %q, error %v; want an error and dst", name, got, err)
		}
	}
	for hex, offset := range map[string]int64{
		"00": 0, "06": 0, "ff": 0, "2101 22 01": 4, "21": 1, "21 00": 1, "22 00ff": 1, "1f ff": 1,
		"1e ffff": 1, "18 7ffffffffffffffe": 1, "68 61": 2, "30 00": 2, "30 7fffffffffffffff": 1,
		"de": 1, "05 cf": 2,
	} {
		b := unhex(t, hex)
		_, err := keycodec.DecodeTagged(b)
		var e *corrupt.Error
		if !errors.As(err, &e) || e.Offset != offset {
			t.Errorf("%s: error %v, want a corruption at %d", hex, err, offset)
		}
		if _, err := keycodec.FormatTagged(b); err == nil {
			t.Errorf("%s was shown", hex)
		}
	}
	if _, err := keycodec.SkipTagged(nil); err == nil {
		t.Error("an element of nothing was skipped")
	}
}

// An integer is an int64 wherever that holds it.
func TestTaggedIntegersHaveTheSmallerType(t *testing.T) {
	for _, want := range []any{int64(math.MaxInt64), uint64(math.MaxInt64 + 1),
		uint64(math.MaxUint64)} {
		got := must(keycodec.DecodeTagged(must(keycodec.AppendTagged(nil, want))))
		if len(got) != 1 || got[0] != want {
			t.Errorf("%T(%v) reads back as %T(%v)", want, want, got[0], got[0])
		}
	}
}
