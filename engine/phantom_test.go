package engine_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// What a transaction has queried does not change until it commits, or it fails: neither
// may an item appear in the range, nor go, by whatever write. Writes beside the range do
// not disturb it. The writes come while the transaction runs, so nothing is left to chance.
func TestChangesOfAQueriedRangeConflict(t *testing.T) {
	batch := func(db *engine.DB) error {
		b := engine.NewBatch()
		if err := b.Put(pksk("p", "c"), nil); err != nil {
			return err
		}
		return db.Apply(ctx, b)
	}
	put := func(p, sk string) func(*engine.DB) error {
		return func(db *engine.DB) error { return db.Put(pksk(p, sk), nil) }
	}
	cases := map[string]struct {
		write    func(db *engine.DB) error
		conflict bool
	}{
		"put":          {put("p", "c"), true},
		"put again":    {put("p", "b"), true},
		"delete":       {func(db *engine.DB) error { return db.Delete(pksk("p", "b")) }, true},
		"delete range": {func(db *engine.DB) error { return deleteBelow(db, "d") }, true},
		"batch":        {batch, true},
		"put beyond":   {put("p", "x"), false},
		"put beside":   {put("q", "c"), false},
		"no write":     {func(*engine.DB) error { return nil }, false},
	}
	for name, c := range cases {
		for _, flush := range []bool{false, true} {
			db := openMemory(t, engine.Options{Durability: engine.Process})
			ok(t, db.Put(pksk("p", "b"), []byte("v")))
			err := db.Update(ctx, func(tx *engine.Tx) error {
				q := engine.Query{PK: []byte("p"), SK: engine.SKLess([]byte("m"))}
				for _, err := range tx.Query(ctx, q) {
					ok(t, err)
				}
				ok(t, c.write(db))
				if flush {
					ok(t, db.Flush(ctx))
				}
				return tx.Put(pk("result"), nil)
			})
			if c.conflict {
				wantIs(t, err, engine.ErrConflict)
				wantValue(t, db, pk("result"), nil)
			} else if err != nil {
				t.Errorf("%s, flush %v: %v", name, flush, err)
			}
		}
	}
}

func deleteBelow(db *engine.DB, sk string) error {
	return db.DeleteRange([]byte("p"), engine.SKLess([]byte(sk)))
}
