package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		s := &sortRows{width: 1, order: order{at: []int{0},
			desc: []bool{rng.IntN(2) == 0}, nullsLast: []bool{rng.IntN(2) == 0},
			collations: []keycodec.Collation{keycodec.CollateBytes},
		}}
		var want []sorted
		for n := range 60 {
			key := []expr.Value{values[kinds[rng.IntN(len(kinds))]]()}
			want = append(want, sorted{row: key, seq: int64(n)})
			s.place(s.headOf(key), int64(n), key)
		}
		slices.SortStableFunc(want, func(a, b sorted) int { return s.order.compare(a.row, b.row) })
		testutil.OK(t, s.arrange())
		got := []expr.Value{{}}
		for n, p := range s.places {
			if seq, err := s.store.read(p.at, got); err != nil || seq != want[n].seq {
				t.Fatalf("kinds %v, row %d is %v, want %v (%v)", kinds, n, got, want[n].row, err)
			}
		}
	}
}

// A sort whose context ends does not put the rest in order.
func TestSortEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := &sortRows{runner: &runner{ctx: ctx}, width: 1, order: order{at: []int{0},
		desc: make([]bool, 1), nullsLast: make([]bool, 1),
		collations: make([]keycodec.Collation, 1)}}
	rng := testutil.Rand(t)
	const n = 100_000
	for i := range int64(n) {
		key := []expr.Value{expr.String(fmt.Sprint("equal heads", rng.Uint64()))}
		s.place(s.headOf(key), i, key)
	}
	if err := s.arrange(); !errors.Is(err, context.Canceled) || s.tried > 5*n {
		t.Errorf("%d comparisons, %v", s.tried, err)
	}
}

// A row store returns the numbers of rows, and those of parts that are divided take few bytes.
func TestNumbersOfStoredRows(t *testing.T) {
	var s rowStore
	row := []expr.Value{expr.Int(1)}
	_, least := s.add(0, row)
	for _, part := range []int64{0, 1, 63, 255, 1<<22 - 1} {
		for _, n := range []int64{0, 1, 127, 300, 1<<partBits - 1} {
			at, size := s.add(part<<partBits|n, row)
			if seq, err := s.read(at, row); err != nil || seq != part<<partBits|n {
				t.Errorf("row %d of part %d has number %#x (%v)", n, part, seq, err)
			}
			if most := least + 2; part < 256 && n <= 300 && size > most {
				t.Errorf("row %d of part %d takes %d bytes, more than %d", n, part, size, most)
			}
		}
	}
}

// A row store that is cleared keeps one chunk, and none of a large row.
func TestRowStoreLetsGo(t *testing.T) {
	for _, last := range []int{1, 2 * maxChunkBytes} {
		var s rowStore
		for _, n := range []int{maxChunkBytes, maxChunkBytes, last} {
			s.add(0, []expr.Value{expr.String(strings.Repeat("x", n))})
		}
		s.clear()
		kept := 0
		for _, c := range s.chunks[:cap(s.chunks)] {
			kept += cap(c)
		}
		if kept > maxChunkBytes {
			t.Errorf("%d bytes are kept after a row of %d", kept, last)
		}
	}
}

// Goal: a sort takes memory for its rows once if they are as many as expected.
func TestSortMakesRoom(t *testing.T) {
	const n = 2500
	row := []expr.Value{expr.Int(7)}
	got := testutil.AllocsPerRun(10, func() {
		s := &sortRows{width: 1, room: roomFor(n)}
		for i := range int64(n) {
			s.place(uint64(i), i, row)
		}
	})
	if most := 20.0; got > most {
		t.Errorf("%v allocations, more than %v", got, most)
	}
}
