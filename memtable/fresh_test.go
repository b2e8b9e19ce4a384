package memtable_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/memtable"
)

// TestOrderIsMadeLate reads tables in order that were only written so far: below and
// beyond the number of keys that wait, with reads in between and without, active and
// frozen.
func TestOrderIsMadeLate(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, n := range []int{1, 15, 17, 1000, 8 << 10, 8<<10 + 1000} {
		for _, readAt := range []int{-1, 0, n / 2} {
			tab := memtable.New(memtable.Options{})
			for i := range n {
				key := fmt.Appendf(nil, "shared/prefix/%08d", i*7919%n)
				tab.Put(key, hashOf(key), base.SeqNum(i+1), base.KindPut, 0, nil, 0)
				if i == readAt {
					checkOrder(t, tab, i+1)
				}
			}
			if readAt >= 0 {
				checkOrder(t, tab, n)
			}
			tab.Freeze()
			checkOrder(t, tab, n)
			if got := tab.CommonPrefix(); n > 1 && len(got) < len("shared/prefix/") {
				t.Errorf("%d keys: common prefix %q", n, got)
			}
		}
	}
}

// checkOrder reads the whole table forwards and backwards.
func checkOrder(t *testing.T, tab *memtable.Table, want int) {
	t.Helper()
	for _, forward := range []bool{true, false} {
		c := tab.NewCursor(base.MaxSeqNum)
		first, next := c.First, c.Next
		if !forward {
			first, next = c.Last, c.Prev
		}
		n, last := 0, ""
		for ok := first(); ok; ok = next() {
			key := string(c.Entry().Key)
			if n > 0 && key > last != forward {
				t.Fatalf("%q after %q, forward %v", key, last, forward)
			}
			n, last = n+1, key
		}
		if n != want {
			t.Fatalf("%d keys, want %d, forward %v", n, want, forward)
		}
	}
}
