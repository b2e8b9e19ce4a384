package expr_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestEqualOfOneList: a list is not compared with itself. What is left of a long IN is compared
// for each of its ranges, so that the whole would be quadratic.
func TestEqualOfOneList(t *testing.T) {
	in := expr.In{X: expr.Column{Ordinal: 1}, List: []expr.Expr{
		expr.Const{Value: expr.Int(1)}, expr.Const{Value: expr.Int(2)}}}
	not, other := in, in
	not.Not, other.X = true, expr.Column{Ordinal: 2}
	var a, b expr.Expr = in, in
	if !expr.Equal(a, b) || expr.Equal(a, not) || expr.Equal(a, other) {
		t.Error("lists are one, expressions are not")
	}
	if n := testutil.AllocsPerRun(100, func() { expr.Equal(a, b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
