package exec

import (
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
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
