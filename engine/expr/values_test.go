package expr_test

import (
	"math"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestValuesRoundTrip reads rows of values back, integers of every length among others, with and
// without bytes after them.
func TestValuesRoundTrip(t *testing.T) {
	var all []expr.Value
	for shift := range 64 {
		for _, d := range []int64{-1, 0, 1} {
			n := int64(1)<<shift + d
			all = append(all, expr.Int(n), expr.Int(-n), expr.Uint(uint64(n)))
		}
	}
	all = append(all, expr.Int(math.MaxInt64), expr.Int(math.MinInt64), expr.Null(),
		expr.Bool(true), expr.Float(0.5), expr.String("text"), expr.String(""))
	rng := testutil.Rand(t)
	for range testutil.Effort(2000, 100_000) {
		row := make([]expr.Value, rng.IntN(5))
		for i := range row {
			row[i] = all[rng.IntN(len(all))]
		}
		encoded, after := string(expr.AppendValues(nil, row)), strings.Repeat("\xff", rng.IntN(9))
		one := ""
		for _, v := range row {
			one += string(expr.AppendValue(nil, v))
		}
		if one != encoded {
			t.Fatalf("%v is %x, value by value %x", row, encoded, one)
		}
		got := make([]expr.Value, len(row))
		rest, err := expr.ReadValues(got, encoded+after)
		if err != nil || rest != after {
			t.Fatalf("%v: %x is left, %v", row, rest, err)
		}
		for i := range row {
			if got[i] != row[i] {
				t.Fatalf("%v comes back as %v", row, got)
			}
		}
	}
}
