package keycodec_test

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// decimalTexts generates numbers with up to 60 places and exponents around the border
// between the short and the long form.
func decimalTexts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`-?[0-9]{1,60}`),
		rapid.StringMatching(`-?[0-9]{0,4}\.[0-9]{1,4}`),
		rapid.StringMatching(`[+-]?[0-9]{1,3}(\.[0-9]{0,3})?[eE][+-]?[0-9]{1,2}`),
		rapid.StringMatching(`-?[1-9]0{0,3}(\.0{0,3})?e-?(5|6|7)[0-9]`),
	)
}

func rational(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("big.Rat does not read %q", s)
	}
	return r
}

func TestDecimalSortsLikeRationals(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		a, b := decimalTexts().Draw(t, "a"), decimalTexts().Draw(t, "b")
		x, y := decimal(a), decimal(b)
		want := rational(t, a).Cmp(rational(t, b))
		if got := bytes.Compare(dec(a), dec(b)); got != want {
			t.Fatalf("%x and %x compare %d, want %d", dec(a), dec(b), got, want)
		}
		if got := x.Compare(y); got != want {
			t.Fatalf("Compare = %d, want %d", got, want)
		}
		if (x == y) != (want == 0) {
			t.Fatalf("%v == %v is %v", x, y, x == y)
		}
		if want != 0 && bytes.HasPrefix(dec(a), dec(b)) {
			t.Fatalf("%x is a prefix of %x", dec(b), dec(a))
		}
	})
}

func TestDecimalRoundTrip(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		text, tail := decimalTexts().Draw(t, "text"), awkward(0).Draw(t, "tail")
		want := decimal(text)
		got, rest, err := keycodec.DecodeDecimal(append(dec(text), tail...))
		if err != nil || got != want || !bytes.Equal(rest, tail) {
			t.Fatalf("decodes to %v, rest %x, error %v", got, rest, err)
		}
		if again := decimal(got.String()); again != want {
			t.Fatalf("%q reads as %v, want %v", got.String(), again, want)
		}
		if rational(t, got.String()).Cmp(rational(t, text)) != 0 {
			t.Fatalf("String() = %s", got)
		}
		if got.Sign() != rational(t, text).Sign() {
			t.Fatalf("Sign() = %d", got.Sign())
		}
	})
}

func TestScaledIsTheDecimal(t *testing.T) {
	check := func(t *rapid.T, coefficient int64, scale int32) {
		d := keycodec.NewDecimal(coefficient, scale)
		want := keycodec.AppendDecimal(nil, d)
		if got := keycodec.AppendScaled(nil, coefficient, scale); !bytes.Equal(got, want) {
			t.Fatalf("AppendScaled = %x, want %x", got, want)
		}
		if got, _, err := keycodec.DecodeDecimal(want); err != nil || got != d {
			t.Fatalf("%d × 10^-%d decodes to %v, %v", coefficient, scale, got, err)
		}
		if got := decimal(d.String()); got != d {
			t.Fatalf("%s reads as %s", d, got)
		}
		if scale > -200 && scale < 200 {
			r := new(big.Rat).SetInt64(coefficient)
			ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
			if scale < 0 {
				r.Mul(r, new(big.Rat).SetInt(ten))
			} else {
				r.Quo(r, new(big.Rat).SetInt(ten))
			}
			if r.Cmp(rational(t, d.String())) != 0 {
				t.Fatalf("%d × 10^-%d is %s", coefficient, scale, d)
			}
		}
	}
	testutil.Check(t, func(t *rapid.T) {
		coefficient := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-200, 200),
			rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1e18, -1e17})).Draw(t, "c")
		scale := rapid.OneOf(rapid.Int32Range(-80, 80), rapid.Int32(),
			rapid.SampledFrom([]int32{math.MinInt32, math.MaxInt32})).Draw(t, "scale")
		check(t, coefficient, scale)
	})
}

func TestDecimalText(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "0e999999999999999999999": "0", "+1": "1",
		"1.0": "1", "1.00": "1", "100": "100", "1e2": "100", "0012.3400": "12.34",
		".5": "0.5", "5.": "5", "-12345.67": "-12345.67", "0.001": "0.001", "12E-1": "1.2",
		"1e20": "100000000000000000000", "1e21": "1E+21", "1e-22": "1E-22",
		"1e-21": "0.000000000000000000001", "-15e99": "-1.5E+100",
		"123456789012345678901234567890.5": "123456789012345678901234567890.5",
	} {
		d, err := keycodec.ParseDecimal(in)
		if err != nil || d.String() != want {
			t.Errorf("ParseDecimal(%q) = %s, %v; want %s", in, d, err, want)
		}
	}
	for _, bad := range []string{
		"", "-", "+-1", ".", "e5", "1e", "1e+", "1.2.3", "0x10", "1_000", "NaN", "Inf", " 1", "1 ",
		"1e1.5", "--1", "1e99999999999999999999", "1e-99999999999", strings.Repeat("9", 9) + "e5e5",
	} {
		if d, err := keycodec.ParseDecimal(bad); err == nil {
			t.Errorf("ParseDecimal(%q) = %s, want an error", bad, d)
		}
	}
	if (keycodec.Decimal{}) != keycodec.NewDecimal(0, 3) {
		t.Error("the zero value is not 0")
	}
}
