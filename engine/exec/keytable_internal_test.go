package exec

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestKeyTableOfIntegers numbers so many integers that some have the same hash, among other values.
func TestKeyTableOfIntegers(t *testing.T) {
	table := newKeyTable(1)
	key := make([]expr.Value, 1)
	const n = 300_000
	values := func(i int) expr.Value {
		switch i % 1000 {
		case 1:
			return expr.String("text").Clone()
		case 2:
			return expr.Null()
		}
		return expr.Int(int64(i-n/2) * 7919)
	}
	var want []int
	seen := map[expr.Value]int{}
	for i := range n {
		key[0] = values(i)
		number, known := seen[key[0]]
		if !known {
			number = len(seen)
			seen[key[0]] = number
		}
		want = append(want, number)
		if at, added := table.add(key); at != number || added == known {
			t.Fatalf("%v has number %d, added %v; want %d", key[0], at, added, number)
		}
	}
	for i := range n {
		if key[0] = values(i); table.find(key) != want[i] {
			t.Fatalf("%v has number %d, want %d", key[0], table.find(key), want[i])
		}
	}
	for _, v := range []expr.Value{expr.Int(1), expr.Float(0.5), expr.String("other")} {
		if key[0] = v; table.find(key) >= 0 {
			t.Errorf("%v, which was not added, has number %d", v, table.find(key))
		}
	}
}

// TestKeyTableComplete finds integers that are near each other, at both ends of their range and far
// from each other, and in a table that has other keys.
func TestKeyTableComplete(t *testing.T) {
	const least, most = math.MinInt64, math.MaxInt64
	for name, keys := range map[string][]expr.Value{
		"none":    nil,
		"near":    {expr.Int(7), expr.Int(3), expr.Int(9), expr.Int(4)},
		"lowest":  {expr.Int(least + 2), expr.Int(least)},
		"highest": {expr.Int(most), expr.Int(most - 3)},
		"far":     {expr.Int(least), expr.Int(most), expr.Int(0)},
		"mixed":   {expr.Int(4), expr.String("a"), expr.Int(5)},
	} {
		table := newKeyTable(1)
		want := map[int64]int{}
		for i, k := range keys {
			table.add([]expr.Value{k})
			if n, ok := k.Integer(); ok {
				want[n] = i
			}
		}
		table.complete()
		if near := name != "none" && name != "far" && name != "mixed"; near != (table.near != nil) {
			t.Errorf("%s: found by places: %v", name, !near)
		}
		all := []int64{least, least + 1, least + 2, 0, 2, 3, 4, 5, 7, 8, 9, 10, most - 3, most}
		numbers, wanted := make([]int, len(all)), make([]bool, len(all))
		for i := range all {
			numbers[i], wanted[i] = -2, all[i] != 5
		}
		table.findInts(numbers, all, wanted)
		for i, n := range all {
			at, ok := want[n]
			switch {
			case !wanted[i]:
				at = -2
			case !ok:
				at = -1
			}
			if numbers[i] != at {
				t.Errorf("%s: %d has number %d, want %d", name, n, numbers[i], at)
			}
		}
	}
}

// Goal: a table takes memory once if the keys are as many as expected.
func TestKeyTableMakesRoom(t *testing.T) {
	key := make([]expr.Value, 1)
	for _, n := range []int{1, 12, 700, 3000, mostExpected} {
		got := testutil.AllocsPerRun(10, func() {
			table := newKeyTableFor(1, float64(n))
			for i := range n {
				key[0] = expr.Int(int64(i))
				table.add(key)
			}
		})
		if most := 3.0; got > most { // itself, the keys, and the slots
			t.Errorf("%d keys: %v allocations, more than %v", n, got, most)
		}
	}
}

// A table of rows that is cleared keeps one chunk.
func TestClearedRowsAreNotHeld(t *testing.T) {
	var rows rowTable
	for range 3 * chunkRows {
		rows.add([]expr.Value{expr.Int(1)})
	}
	rows.clear()
	for i, chunk := range rows.chunks[:cap(rows.chunks)] {
		if i > 0 && chunk != nil {
			t.Errorf("chunk %d is kept", i)
		}
	}
}

// A small batch keeps its memory for the next query, one of wide rows or many places does not.
func TestLargeBatchesAreNotKept(t *testing.T) {
	fill := func(text string, columns, places int) (b probed) {
		b.rows.add(slices.Repeat([]expr.Value{expr.String(text)}, columns))
		b.prober.places = slices.Grow(b.prober.places, places)
		b.rows.clear()
		b.prober.reset()
		return b
	}
	for _, c := range []struct {
		text            string
		columns, places int
		want            bool
	}{
		{"short", 1, 8, true},
		{strings.Repeat("x", maxKeptBytes+1), 1, 8, false},
		{"short", 2000, 8, false},
		{"short", 1, 4 * maxProbes, false},
	} {
		if b := fill(c.text, c.columns, c.places); b.small() != c.want {
			t.Errorf("%d texts of %d bytes, %d places: kept is %t",
				c.columns, len(c.text), c.places, !c.want)
		}
	}
}
