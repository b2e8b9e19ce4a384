package spans_test

import (
	"math"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func number(t *testing.T, text string) expr.Value {
	t.Helper()
	v, err := expr.ParseNumber(text)
	testutil.OK(t, err)
	return v
}

// TestPlaceAtTheLimits asks for the ends of the range of each type, and for the numbers next to
// them: the floor is the largest value that is not above the number.
func TestPlaceAtTheLimits(t *testing.T) {
	for typ, ends := range map[keycodec.Type][2]string{
		keycodec.TypeInt8: {"-128", "127"}, keycodec.TypeInt16: {"-32768", "32767"},
		keycodec.TypeInt32:  {"-2147483648", "2147483647"},
		keycodec.TypeInt64:  {"-9223372036854775808", "9223372036854775807"},
		keycodec.TypeUint8:  {"0", "255"},
		keycodec.TypeUint16: {"0", "65535"}, keycodec.TypeUint32: {"0", "4294967295"},
		keycodec.TypeUint64: {"0", "18446744073709551615"},
		keycodec.TypeFixed:  {"-92233720368547758.08", "92233720368547758.07"},
	} {
		f, step := keycodec.Field{Type: typ}, "1"
		if typ == keycodec.TypeFixed {
			f.Scale, step = 2, "0.01"
		}
		low, high := number(t, ends[0]), number(t, ends[1])
		for _, end := range ends {
			for _, s := range []string{"0", "1", "0.5", "-0.5", "-1", "0.01", "-0.01", "1e30",
				"-1e30"} {
				v, _ := expr.Calculate(expr.Add, number(t, end), number(t, s))
				floor, p := spans.Place(&f, v)
				below, _ := expr.Compare(v, low)
				above, _ := expr.Compare(v, high)
				if in := p == spans.Exact || p == spans.Between; in != (below >= 0 && above <= 0) {
					t.Errorf("%s: %s is placed as %d", typ, v, p)
				} else if in {
					next, _ := expr.Calculate(expr.Add, floor, number(t, step))
					under, _ := expr.Compare(floor, v)
					over, _ := expr.Compare(next, v)
					if under > 0 || over <= 0 || (p == spans.Exact) != (under == 0) {
						t.Errorf("%s: the floor of %s is %s, %d", typ, v, floor, p)
					}
				}
			}
		}
	}
}

// TestPlaceOfFloats: the next float below is the floor, of either width.
func TestPlaceOfFloats(t *testing.T) {
	wide, narrow := keycodec.TypeFloat64, keycodec.TypeFloat32
	for _, c := range []struct {
		typ  keycodec.Type
		v    string
		want float64
		p    spans.Placement
	}{
		{wide, "0.1", 0.09999999999999999, spans.Between}, {wide, "0.5", 0.5, spans.Exact},
		{wide, "9007199254740993", 9007199254740992, spans.Between},
		{wide, "9007199254740995", 9007199254740994, spans.Between},
		{narrow, "0.1", float64(math.Nextafter32(0.1, 0)), spans.Between},
		{narrow, "0.5", 0.5, spans.Exact},
		{narrow, "0.99999999999", float64(math.Nextafter32(1, 0)), spans.Between},
		{narrow, "1.00000000001", 1, spans.Between},
		{narrow, "1e39", math.MaxFloat32, spans.Between},
	} {
		f := keycodec.Field{Type: c.typ}
		got, p := spans.Place(&f, number(t, c.v))
		if got != expr.Float(c.want) || p != c.p {
			t.Errorf("%s: the floor of %s is %s, %d; want %v, %d", c.typ, c.v, got, p, c.want, c.p)
		}
	}
}

// TestPlaceExamples: numbers of all kinds among decimals and integers, texts for other types, and
// values of other kinds.
func TestPlaceExamples(t *testing.T) {
	int8s, at := keycodec.Field{Type: keycodec.TypeInt8}, keycodec.Field{Type: keycodec.TypeTime,
		Unit: keycodec.Second}
	decimals := keycodec.Field{Type: keycodec.TypeDecimal}
	fixed := keycodec.Field{Type: keycodec.TypeFixed, Scale: 1}
	for _, c := range []struct {
		f    *keycodec.Field
		v    expr.Value
		want expr.Value // NULL: outside, or none of the type
		p    spans.Placement
	}{
		{&int8s, number(t, "2.5"), expr.Int(2), spans.Between},
		{&int8s, number(t, "-2.5"), expr.Int(-3), spans.Between},
		{&int8s, number(t, "1e-3000"), expr.Int(0), spans.Exact},
		{&int8s, expr.Float(5), expr.Int(5), spans.Exact},
		{&decimals, expr.Float(0.75), number(t, "0.75"), spans.Exact},
		{&fixed, expr.Float(0.75), number(t, "0.7"), spans.Between},
		{&fixed, expr.Float(0.5), number(t, "0.5"), spans.Exact},
		{&fixed, expr.Float(-0.75), number(t, "-0.8"), spans.Between},
		{&at, expr.String("1970-01-01T00:01:00.5Z"), expr.UnixTime(60, 0), spans.Between},
		{&at, expr.UnixTime(60, 0), expr.UnixTime(60, 0), spans.Exact},
	} {
		if got, p := spans.Place(c.f, c.v); got != c.want || p != c.p {
			t.Errorf("%s: the floor of %s is %s, %d; want %s, %d", c.f.Type, c.v, got, p,
				c.want, c.p)
		}
	}
	for _, v := range []expr.Value{expr.Int(300), expr.Int(-300), expr.Float(math.NaN()),
		expr.String("1"), expr.Bool(true)} {
		if _, p := spans.Place(&int8s, v); p == spans.Exact || p == spans.Between {
			t.Errorf("%s is placed among the int8s: %d", v, p)
		}
	}
	for _, inf := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if _, p := spans.Place(&decimals, expr.Float(inf)); p == spans.Exact || p == spans.Between {
			t.Errorf("%v is placed among the decimals: %d", inf, p)
		}
	}
}
