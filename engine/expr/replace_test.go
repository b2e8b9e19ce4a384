package expr_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
)

// Replace takes the outermost parts, and shares what stays.
func TestReplace(t *testing.T) {
	a, b := expr.Column{Ordinal: 1, Name: "a"}, expr.Column{Ordinal: 2, Name: "b"}
	sum := expr.Arith{Op: expr.Add, L: a, R: b}
	kept := expr.Expr(expr.IsNull{X: b})
	e := expr.And{Terms: []expr.Expr{
		expr.Cmp{Op: expr.Eq, L: sum, R: expr.In{X: a, List: []expr.Expr{sum, b}}}, kept,
	}}
	var seen []string
	got := expr.Replace(e, func(x expr.Expr) (expr.Expr, bool) {
		seen = append(seen, x.String())
		switch {
		case expr.Equal(x, sum):
			return expr.Slot{I: 0, Name: "sum"}, true
		case expr.Equal(x, a):
			return expr.Slot{I: 1, Name: "slot"}, true
		}
		return nil, false
	})
	if want := "sum = (slot IN (sum, b)) AND b IS NULL"; got.String() != want {
		t.Errorf("got %s, want %s; f was given %q", got, want, seen)
	}
	if !expr.Shared(got.(expr.And).Terms[1], kept) {
		t.Error("what has no part that is replaced is another expression")
	}
	if len(seen) != 9 {
		t.Errorf("f was given %q", seen)
	}
}
