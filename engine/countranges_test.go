package engine_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// Promise (reads and writes): Counts of ranges that follow each other, and of those of a table that
// has grown, are of the range and the moment asked for.
func TestCountsOfChangingRanges(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for i := range 100 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%03d", i)), []byte("v")))
	}
	ok(t, db.Flush(ctx))
	count := func(from, to, want int) {
		t.Helper()
		n, err := db.CountScan(ctx, engine.Scan{From: pksk("p", fmt.Sprintf("%03d", from)),
			To: pksk("p", fmt.Sprintf("%03d", to))})
		if ok(t, err); n != int64(want) {
			t.Errorf("%d keys from %d to %d, want %d", n, from, to, want)
		}
	}
	for _, r := range [][2]int{{0, 50}, {0, 70}, {20, 70}, {20, 70}, {0, 300}} {
		count(r[0], r[1], min(r[1], 100)-r[0])
	}
	for i := range 50 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%03d", 100+i)), []byte("v")))
	}
	ok(t, db.Flush(ctx))
	count(0, 300, 150)
	ok(t, db.Compact(ctx))
	count(0, 300, 150)
}
