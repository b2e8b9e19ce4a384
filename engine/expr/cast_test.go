package expr_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// TestCast converts between kinds, at the edges.
//
// Promise (sql): CAST gives exactly what its table of pairs says, and fails for every other pair
// and for values that the type cannot hold.
func TestCast(t *testing.T) {
	day := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	for _, c := range []struct {
		in   any
		to   string
		want any // an error if it is bad
	}{
		{nil, "INT", nil}, {"12", "INT", 12}, {" +12 ", "INT", 12}, {"-1.9", "INT", -1},
		{"1e2", "INT", 100}, {"", "INT", bad}, {"x", "INT", bad}, {"1 2", "INT", bad},
		{true, "INT", 1}, {day, "INT", bad}, {1.9, "INT", 1}, {-1.9, "INT", -1},
		{math.NaN(), "INT", bad}, {math.Inf(1), "INT", bad}, {1e19, "INT", bad},
		{1e19, "UINT64", uint64(1e19)}, {-1, "UINT64", bad}, {256, "UINT8", bad},
		{255, "UINT8", 255}, {127, "INT8", 127}, {128, "INT8", bad}, {-128, "INT8", -128},
		{-129, "INT8", bad}, {"9223372036854775808", "INT", bad},
		{"-9223372036854775808", "INT", int64(math.MinInt64)},
		{keycodec.NewDecimal(-19, 1), "INT", -1}, {keycodec.NewDecimal(1, -30), "INT", bad},
		{"+-5", "INT", bad}, {".", "DECIMAL", bad}, {"-.", "INT", bad}, {"1_0", "FLOAT", bad},
		{"0x1p4", "FLOAT", bad}, {"0x1ep0", "INT", bad}, {".5", "FLOAT", 0.5}, {"-5.", "INT", -5},
		{"1e400", "FLOAT", bad}, {"-inf", "FLOAT", math.Inf(-1)}, {1e300, "FLOAT32", bad},
		{keycodec.NewDecimal(1, -400), "FLOAT", bad}, {math.Inf(1), "FLOAT32", math.Inf(1)},
		{"9007199254740993e0", "INT", 1<<53 + 1}, {"x1e2", "INT", bad},
		{"9007199254740993E-30", "DECIMAL", keycodec.NewDecimal(1<<53+1, 30)},
		{"1E+400", "DECIMAL", keycodec.NewDecimal(1, -400)}, {1e17, "DECIMAL(18, 2)", bad},
		{"nan", "FLOAT", math.NaN()}, {"0.1", "FLOAT", 0.1},
		{0.1, "FLOAT32", float64(float32(0.1))}, {"0x10", "INT", bad}, {false, "FLOAT", 0.0},
		{0.1, "DECIMAL", keycodec.NewDecimal(1, 1)},
		{1.005, "DECIMAL(18, 2)", keycodec.NewDecimal(101, 2)},
		{"-2.345", "DECIMAL(18, 2)", keycodec.NewDecimal(-235, 2)}, {5, "DECIMAL(18, 0)", 5},
		{0.5, "BOOL", true}, {0, "BOOL", false}, {"T", "BOOL", true}, {"0", "BOOL", false},
		{"yes", "BOOL", bad}, {day, "BOOL", bad}, {2, "TEXT", "2"}, {2.5, "TEXT", "2.5"},
		{true, "TEXT", "true"}, {[]byte("a"), "TEXT", "a"}, {[]byte{255}, "TEXT", bad},
		{day, "TEXT", "2026-01-02T03:04:05.678Z"}, {[]int{1}, "TEXT", bad},
		{"2026-01-02 03:04:05.678", "TIMESTAMP(ms)", day},
		{day, "TIMESTAMP(s)", day.Truncate(1e9)},
		{day, "DATE", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
		{time.Unix(-1, 5e8), "DATE", time.Unix(-86400, 0)}, {time.Unix(-86400, 0), "DATE",
			time.Unix(-86400, 0)}, {"2026-02-30", "DATE", bad},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "DATE", bad},
		{time.Unix(-1, 5e8), "TIMESTAMP(s)", time.Unix(-1, 0)}, {"x", "TIMESTAMP(us)", bad},
		{5, "TIMESTAMP(us)", bad}, {"::1", "IP", bad1}, {"a", "BYTES", []byte("a")},
		{5, "UUID", bad},
	} {
		to, err := expr.ParseCastType(c.to)
		if err != nil || to.String() != c.to {
			t.Fatal(c.to, to, err)
		}
		e := expr.Cast{X: lit(t, c.in), To: to, Pos: 7}
		got, err := expr.Eval(e, nil, nil)
		if c.want == bad {
			var call *expr.CallError
			if !errors.As(err, &call) || call.Pos != 7 {
				t.Errorf("%s = %s, %v", e, got, err)
			}
			continue
		}
		if c.want == bad1 {
			c.want = got
		}
		want := lit(t, c.want).Value
		if err != nil || expr.Order(got, want) != 0 || got.Kind() != to.Kind && !got.IsNull() {
			t.Errorf("%s = %s, %v; want %s", e, got, err, want)
		}
		if back, err := to.Convert(got); err != nil || back != got {
			t.Errorf("%s again is %s, %v", got, back, err)
		}
	}
	if _, err := expr.ParseCastType("DECIMAL(18, 19)"); err == nil {
		t.Error("DECIMAL(18, 19) is a type")
	}
}

// bad stands for an error, bad1 for any value.
var bad, bad1 = new(int), new(int)
