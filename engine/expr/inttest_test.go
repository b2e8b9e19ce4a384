package expr_test

import (
	"math"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
)

// A condition on many integers at a time keeps the rows that it is true of one by one, NULL,
// results that do not fit and divisions by zero included.
//
// Promise (sql): A condition that is tested on blocks of integers keeps the same rows as one
// that is tested row by row.
func TestIntTest(t *testing.T) {
	rnd := testutil.Rand(t)
	numbers := []int64{0, 1, -1, 2, 7, -7, 50, 1 << 31, 1<<32 + 5, math.MaxInt64, math.MinInt64}
	number := func() int64 { return numbers[rnd.IntN(len(numbers))] }
	var operand func(depth int) expr.Expr
	operand = func(depth int) expr.Expr {
		switch n := rnd.IntN(6); {
		case n < 2 && depth > 0:
			return expr.Arith{Op: expr.ArithOp(rnd.IntN(5)), L: operand(depth - 1),
				R: operand(depth - 1)}
		case n == 2:
			return expr.Const{Value: expr.Int(number())}
		case n == 3:
			return expr.Param{Index: rnd.IntN(2)}
		}
		return expr.Slot{I: rnd.IntN(3)}
	}
	compiled, decided := 0, 0
	for range testutil.Effort(2_000, 200_000) {
		var e expr.And
		for range 1 + rnd.IntN(3) {
			if rnd.IntN(4) == 0 {
				e.Terms = append(e.Terms, expr.Between{X: operand(1), Lo: operand(1), Hi: operand(1)})
			} else {
				e.Terms = append(e.Terms, expr.Cmp{Op: expr.Op(rnd.IntN(6)), L: operand(2), R: operand(2)})
			}
		}
		ints := expr.CompileIntTest(e)
		if ints == nil {
			continue
		}
		compiled++
		program, err := expr.Compile(e)
		if err != nil {
			t.Fatal(err)
		}
		params := []expr.Value{expr.Int(number()), expr.Int(number())}
		if rnd.IntN(10) == 0 {
			params[0] = expr.String("text")
		}
		const rows = 9
		table := make([][]expr.Value, rows)
		keep := make([]bool, rows)
		columns := make([][]int64, len(ints.Places()))
		for i := range columns {
			columns[i] = make([]int64, rows)
		}
		for i := range table {
			keep[i] = true
			for range 3 {
				table[i] = append(table[i], expr.Int(number()))
			}
			for k, at := range ints.Places() {
				if rnd.IntN(20) == 0 {
					table[i][at], keep[i] = expr.Null(), false
				}
				n, _ := table[i][at].AsInt()
				columns[k][i] = n
			}
		}
		if !ints.Test(columns, keep, params) {
			continue
		}
		decided++
		for i, row := range table {
			truth, err := program.Test(row, params)
			if err != nil || (truth == expr.True) != keep[i] {
				t.Errorf("%s of %v, %v: %v, row by row %v, %v", e, row, params, keep[i], truth, err)
			}
		}
	}
	if decided == 0 || 4*decided < compiled {
		t.Errorf("%d of %d conditions were decided", decided, compiled)
	}
}
