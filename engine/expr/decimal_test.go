package expr_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestFloatsAreExactDecimals: the decimal that a float is equal to has its last binary digit.
func TestFloatsAreExactDecimals(t *testing.T) {
	r := testutil.Rand(t)
	for i := range 2000 {
		f := math.Float64frombits(r.Uint64())
		switch i % 4 {
		case 0:
			f = float64(r.IntN(100_000)) / 100
		case 1:
			f = math.Float64frombits(r.Uint64N(1 << 54)) // next to 0
		}
		if f != f || math.IsInf(f, 0) {
			continue
		}
		want := new(big.Rat).SetFloat64(f)
		d, _ := expr.Float(f).Canonical().AsDecimal()
		text := d.String()
		if got, ok := new(big.Rat).SetString(text); !ok || got.Cmp(want) != 0 {
			t.Fatalf("%v is the decimal %s", f, text)
		}
	}
}
