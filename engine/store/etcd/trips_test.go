package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
)

// A read or commit waits for the cluster as often as it must.
func TestRoundTrips(t *testing.T) {
	s := open(t, start(t, 1, nil), "trips")
	var pks [][]byte
	for i := range 16 {
		pks = append(pks, fmt.Appendf(nil, "bucket%02d", i))
		var w store.WriteSet
		for j := range 100 {
			w.Put(store.Key{PK: pks[i], SK: fmt.Appendf(nil, "%06d", j)}, []byte("value"))
		}
		ok(t, s.Commit(ctx, &w))
	}
	ok(t, s.Commit(ctx, put("rows", "old", "row")))
	keys := make([]store.Key, 400)
	for i := range keys {
		keys[i] = store.Key{PK: pks[i%16], SK: fmt.Appendf(nil, "%06d", i/16)}
	}
	page := func(r store.Range) func(ctx context.Context) error {
		r.Limit = 50
		return func(ctx context.Context) error {
			n, err := count(ctx, s, r)
			if err == nil && n != r.Limit {
				err = fmt.Errorf("%d items, want %d", n, r.Limit)
			}
			return err
		}
	}
	insert := func(ctx context.Context) error {
		var w store.WriteSet
		w.PutIf(key("rows", "new"), []byte("row"), store.Absent())
		w.Require(key("rows", "old"), store.Present())
		for i := range 3 {
			w.PutIf(key(fmt.Sprintf("index%d", i), "new"), nil, store.Absent())
		}
		return s.Commit(ctx, &w)
	}
	many := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.MultiGet(ctx, keys[:n], func(int, store.Item) {})
		}
	}
	last := store.Partition(pks[0])
	last.Reverse = true
	for _, c := range []struct {
		name            string
		waves, requests int
		f               func(context.Context) error
	}{
		{"point", 1, 1, many(1)},
		{"100 keys", 1, 1, many(100)},
		{"400 keys", 4, 4, many(400)}, // one, and three at the same time
		{"page", 1, 1, page(store.Partition(pks[0]))},
		{"last page", 1, 1, page(last)},
		{"page of 16 buckets", 1, 1, page(store.Partitions(pks))},
		{"insert with three indexes", 1, 1, insert},
		{"snapshot", 1, 1, func(ctx context.Context) error {
			_, err := s.Snapshot(ctx)
			return err
		}},
	} {
		counted, trips := store.CountTrips(ctx)
		begun := time.Now()
		ok(t, c.f(counted))
		t.Logf("%s: %v, %v", c.name, trips, time.Since(begun).Round(10*time.Microsecond))
		if trips.Waves() > c.waves || trips.Requests() != c.requests {
			t.Errorf("%s: %v, want %d and %d", c.name, trips, c.waves, c.requests)
		}
	}
}
