package engine_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestShortPartitionsBackward gathers a few of many partitions with keys of two bytes, whose
// end is one above the head of their last item, the limits included at which partitions are
// not read at once.
func TestShortPartitionsBackward(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openMemory(t, engine.Options{})
	const partitions = 2000
	pk := func(i int) []byte { return []byte{byte('0' + i%50), byte('0' + i/50)} }
	sks := []string{"", "\xff", "a", "b", "b\x00", "c\xff\xff"}
	for i := range partitions {
		for _, sk := range sks[:1+i%len(sks)] {
			key := engine.Key{PK: pk(i), SK: []byte(sk)}
			if sk == "" {
				key.SK = nil
			}
			ok(t, db.Put(key, nil))
		}
	}
	ok(t, db.Compact(ctx))
	for first := range 100 {
		var g engine.Gather
		var all [][2]string // sort key, partition
		for i := range 6 {
			n := (first*131 + i*17) % partitions
			g.PKs = append(g.PKs, pk(n))
			for _, sk := range sks[:1+n%len(sks)] {
				all = append(all, [2]string{sk, string(pk(n))})
			}
		}
		slices.SortFunc(g.PKs, bytes.Compare)
		for limit := 1; limit <= 10; limit++ {
			for _, reverse := range []bool{false, true} {
				g.Limit, g.Reverse = limit, reverse
				want := slices.Clone(all)
				slices.SortFunc(want, func(a, b [2]string) int {
					return slices.Compare(a[:], b[:])
				})
				if reverse {
					slices.Reverse(want)
				}
				var got [][2]string
				for it, err := range db.Gather(ctx, g) {
					ok(t, err)
					got = append(got, [2]string{string(it.Key.SK), string(it.Key.PK)})
				}
				if want = want[:min(limit, len(want))]; !slices.Equal(got, want) {
					t.Fatalf("%q, limit %d, reverse %v: %q, want %q", g.PKs, limit, reverse, got,
						want)
				}
			}
		}
	}
}
