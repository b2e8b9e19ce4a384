package expr_test

import (
	"math"
	"math/rand/v2"
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
	rnd := intDrawer{testutil.Rand(t)}
	compiled, decided := 0, 0
	for range testutil.Effort(2_000, 200_000) {
		e := rnd.condition()
		ints := expr.CompileIntTest(e)
		if ints == nil {
			continue
		}
		compiled++
		program, err := expr.Compile(e)
		ok(t, err)
		params := []expr.Value{expr.Int(rnd.number()), expr.Int(rnd.number())}
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
				table[i] = append(table[i], expr.Int(rnd.number()))
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
				t.Errorf("%s of %v, %v: %v, row by row %v, %v", e, row, params, keep[i], truth,
					err)
			}
		}
	}
	if decided == 0 || 4*decided < compiled {
		t.Errorf("%d of %d conditions were decided", decided, compiled)
	}
}

// intDrawer draws conditions on integers.
type intDrawer struct{ *rand.Rand }

func (d intDrawer) number() int64 {
	return []int64{0, 1, -1, 2, 7, -7, 50, 1 << 31, 1<<32 + 5, math.MaxInt64,
		math.MinInt64}[d.IntN(11)]
}

func (d intDrawer) operand(depth int) expr.Expr {
	switch n := d.IntN(6); {
	case n < 2 && depth > 0:
		return expr.Arith{Op: expr.ArithOp(d.IntN(5)), L: d.operand(depth - 1),
			R: d.operand(depth - 1)}
	case n == 2:
		return expr.Const{Value: expr.Int(d.number())}
	case n == 3:
		return expr.Param{Index: d.IntN(2)}
	}
	return expr.Slot{I: d.IntN(3)}
}

func (d intDrawer) condition() (e expr.And) {
	for range 1 + d.IntN(3) {
		if d.IntN(4) == 0 {
			e.Terms = append(e.Terms, expr.Between{X: d.operand(1), Lo: d.operand(1),
				Hi: d.operand(1)})
		} else {
			e.Terms = append(e.Terms, expr.Cmp{Op: expr.Op(d.IntN(6)), L: d.operand(2),
				R: d.operand(2)})
		}
	}
	return e
}
