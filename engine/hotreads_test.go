package engine_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// TestHotReads reads one partition more often than others, in each way there is.
func TestHotReads(t *testing.T) {
	db := openOn(t, vfs.NewMem(), engine.Options{})
	defer mustClose(t, db)
	for i := range 300 {
		ok(t, db.Put(engine.K(fmt.Sprint("user#", i), "a"), []byte("v")))
	}
	key := engine.K("user#7", "a")
	all := make([]engine.Key, 50)
	for i := range all {
		all[i] = key
	}
	var results engine.Results
	for name, read := range map[string]func(r engine.Reader) error{
		"Get": func(r engine.Reader) error {
			_, err := r.Get(key)
			return err
		},
		"MultiGet of few": func(r engine.Reader) error {
			return r.MultiGet(ctx, all[:8], &results)
		},
		"MultiGet": func(r engine.Reader) error { return r.MultiGet(ctx, all, &results) },
		"Count": func(r engine.Reader) error {
			_, err := r.Count(ctx, engine.Query{PK: key.PK})
			return err
		},
		"Query": func(r engine.Reader) error {
			for _, err := range r.Query(ctx, engine.Query{PK: key.PK}) {
				return err
			}
			return nil
		},
		"Gather": func(r engine.Reader) error {
			for _, err := range r.Gather(ctx, engine.Gather{
				PKs: [][]byte{key.PK, []byte("user#8")}}) {
				return err
			}
			return nil
		},
	} {
		before := uint64(0)
		if h := db.HotReads(); len(h.Partitions) > 0 {
			before = h.Partitions[0].Reads
		}
		snap := snapshotOf(t, db)
		for range 600 {
			ok(t, read(db))
			ok(t, read(snap))
		}
		ok(t, snap.Close())
		h := db.HotReads()
		if len(h.Partitions) == 0 || string(h.Partitions[0].PK) != "user#7" ||
			h.Partitions[0].Reads < before+1000 {
			t.Errorf("%s: %d reads, then %+v", name, before, h.Partitions)
		}
	}
}
