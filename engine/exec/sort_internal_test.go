package exec

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// Heads of keys put them in the order of the keys, of whatever kinds these are.
func TestHeads(t *testing.T) {
	rng := testutil.Rand(t)
	values := []func() expr.Value{
		func() expr.Value { return expr.Null() },
		func() expr.Value { return expr.Int(rng.Int64N(9)<<60 - 4<<60 + rng.Int64N(3)) },
		func() expr.Value { return expr.String(fmt.Sprint("a text"[:rng.IntN(6)], rng.IntN(30))) },
		func() expr.Value { return expr.Time(time.Unix(rng.Int64N(9)-4, rng.Int64N(3))) },
		func() expr.Value { return expr.Float(float64(rng.IntN(9)) / 2) },
	}
	for i := range 400 {
		kinds := []int{0, 1 + i%(len(values)-1)} // NULL, one kind and, of each tenth, another
		if i%10 == 0 {
			kinds = append(kinds, 1+rng.IntN(len(values)-1))
		}
		s := &sortRows{order: order{
			desc: []bool{rng.IntN(2) == 0}, nullsLast: []bool{rng.IntN(2) == 0},
			collations: []keycodec.Collation{keycodec.CollateBytes},
		}}
		for n := range 60 {
			key := []expr.Value{values[kinds[rng.IntN(len(kinds))]]()}
			s.rows = append(s.rows, sorted{key: key, seq: n, head: s.headOf(key)})
		}
		want := slices.Clone(s.rows)
		slices.SortStableFunc(want, func(a, b sorted) int { return s.order.compare(a.key, b.key) })
		for n, p := range s.inOrder() {
			if got := s.rows[p.at]; got.seq != want[n].seq {
				t.Fatalf("kinds %v, row %d is %v, want %v", kinds, n, got.key, want[n].key)
			}
		}
	}
}
