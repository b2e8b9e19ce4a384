package expr_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// result is a call and what it returns.
type result struct {
	e    expr.Expr
	want any
}

func caller(t *testing.T) func(name string, args ...any) expr.Expr {
	return func(name string, args ...any) expr.Expr {
		f := expr.Func{Name: name}
		for _, a := range args {
			f.Args = append(f.Args, lit(t, a))
		}
		return f
	}
}

func checkResults(t *testing.T, results []result) {
	t.Helper()
	for _, c := range results {
		want := lit(t, c.want).Value
		if got, err := expr.Eval(c.e, nil, nil); err != nil || expr.Order(got, want) != 0 {
			t.Errorf("%s = %s, %v; want %s", c.e, got, err, want)
		}
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	ok(t, err)
	return v
}

// TestLongTexts: no function makes a text that cannot be stored, so calls in each other do not
// double one until memory is full.
func TestLongTexts(t *testing.T) {
	call, text := caller(t), strings.Repeat("x", 33<<20)
	for _, e := range []expr.Expr{call("concat", text, text), call("concat_ws", "", text, text),
		call("hex", text), call("replace", text, "x", "yy"), call("repeat", text, 2)} {
		if _, err := expr.Eval(e, nil, nil); !errors.Is(err, expr.ErrRange) {
			t.Errorf("%s of a long text: %v", e.(expr.Func).Name, err)
		}
	}
	whole, err := expr.Eval(call("concat", text, text[:31<<20]), nil, nil)
	if ok(t, err); whole.Len() != 64<<20 {
		t.Errorf("%d bytes are left of 64 MiB", whole.Len())
	}
}

func TestTextFunctions(t *testing.T) {
	call := caller(t)
	checkResults(t, []result{
		{call("concat", 1, true, 2.5), "1true2.5"},
		{call("reverse", "añb"), "bña"},
		{call("left", "añb", 2), "añ"},
		{call("left", "añb", -1), "añ"},
		{call("right", "añb", 2), "ñb"},
		{call("right", "añb", int64(math.MinInt64)), ""},
		{call("left", "a", int64(math.MaxInt64)), "a"},
		{call("lpad", "é", 3, "ab"), "abé"},
		{call("rpad", "é", 3, "ab"), "éab"},
		{call("lpad", "abc", 2), "ab"},
		{call("rpad", "abc", -2), ""},
		{call("lpad", "a", 3, ""), "a"},
		{call("replace", "aaa", "aa", "b"), "ba"},
		{call("repeat", "", int64(math.MaxInt64)), ""},
		{call("instr", "äbc", "c"), 3},
		{call("hex", []byte{0, 255}), "00FF"},
		{call("octet_length", "é"), 2},
		{call("trim", "xyaxy", "yx"), "a"},
		{call("ltrim", "xax", "x"), "ax"},
		{call("substr", "abc", 2, int64(math.MinInt64)), ""},
		// Bytes that are not UTF-8 stay as they are.
		{call("substr", "a\xffb", 1), "a\xffb"},
		{call("substr", "a\xffb", 2, 1), "\xff"},
		{call("left", "\xff\xfe", 1), "\xff"},
		{call("right", "\xff\xfe", 1), "\xfe"},
		{call("lpad", "\xff\xfe", 1), "\xff"},
		{call("rpad", "a", 4, "\xffb"), "a\xffb\xff"},
		{call("reverse", "a\xffé"), "é\xffa"},
		{call("upper", "é\xffa\xff"), "É\xffA\xff"},
	})
}

func TestNumberFunctions(t *testing.T) {
	call := caller(t)
	checkResults(t, []result{
		{call("round", 2.5), 3.0},
		{call("round", -2.5), -3.0},
		{call("round", 1.005, 2), 1.01},
		{call("round", 15, -1), 20},
		{call("round", -15, -1), -20},
		{call("round", 5, 300), 5},
		{call("round", 5, int64(math.MinInt64)), 0},
		{call("round", math.Inf(1)), math.Inf(1)},
		{call("round", keycodec.NewDecimal(-2345, 3), 2), keycodec.NewDecimal(-235, 2)},
		{call("floor", keycodec.NewDecimal(-5, 1)), -1},
		{call("ceil", keycodec.NewDecimal(-5, 1)), 0},
		{call("floor", keycodec.NewDecimal(5, 1)), 0},
		{call("ceil", keycodec.NewDecimal(5, 1)), 1},
		{call("ceil", keycodec.NewDecimal(20, 1)), 2},
		{call("floor", int64(math.MinInt64)), int64(math.MinInt64)},
		{call("sign", -0.5), -1},
		{call("sign", math.NaN()), nil},
		{call("sqrt", -1), nil},
		{call("ln", 0), nil},
		{call("power", 2, -1), 0.5},
		{call("greatest", 1, 2.5), 2.5},
		{call("least", "b", "a"), "a"},
		{call("least", 1, nil), nil},
	})
}

func TestTimeFunctions(t *testing.T) {
	call := caller(t)
	at := func(text string) time.Time { return instant(t, text) }
	checkResults(t, []result{
		{call("date_part", "week", at("2027-01-01T00:00:00Z")), 53},
		{call("date_part", "quarter", at("2026-12-01T00:00:00Z")), 4},
		{call("date_part", "isodow", at("2026-03-01T00:00:00Z")), 7},
		{call("date_trunc", "QUARTER", at("2026-12-31T23:59:59Z")), at("2026-10-01T00:00:00Z")},
		{call("date_trunc", "week", at("2026-03-01T12:00:00Z")), at("2026-02-23T00:00:00Z")},
		{call("date_trunc", "hour", at("0001-03-01T12:30:00Z")), at("0001-03-01T12:00:00Z")},
		{call("date_add", at("2024-01-31T05:00:00Z"), "1 month"), at("2024-02-29T05:00:00Z")},
		{call("date_add", at("2024-03-31T05:00:00Z"), "-1 months 1 day"),
			at("2024-03-01T05:00:00Z")},
		{call("date_add", at("2024-03-31T05:00:00Z"), "-13 months"), at("2023-02-28T05:00:00Z")},
	})
}

// TestFunctionsRefuse calls functions with what they do not take; results are bounded.
func TestFunctionsRefuse(t *testing.T) {
	call, at := caller(t), instant(t, "2026-01-01T00:00:00Z")
	for _, bad := range []expr.Expr{
		call("date_trunc", "moon", at),
		call("lpad", "x", int64(1<<40)),
		call("replace", strings.Repeat("a", 1<<20), "a", strings.Repeat("b", 1<<12)), // 4 GiB
		call("date_part", "dow", expr.UnixTime(1<<40, 0)),
		call("round", 1, 1.5),
		call("left", "x", "y"),
		call("date_add", at, "1"),
		call("date_add", at, "199 years 73000 days 73000 days"),
		call("greatest", 1, "a"),
	} {
		if v, err := expr.Eval(bad, nil, nil); err == nil {
			t.Errorf("%s = %s", bad, v)
		}
	}
}
