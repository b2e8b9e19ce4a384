package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A write at Sync that changes nothing makes what was acknowledged before it durable, as one
// that makes a commit does.
//
// Promise (durability): A write at `Sync` that changes nothing (an empty batch or range, a
// failed condition, a transaction without writes) makes durable what came before it. Also
// `TestProgramsUnderAllOptions`.
func TestSyncWritesThatChangeNothing(t *testing.T) {
	const atSync = engine.Sync
	emptyRange := engine.SKBetween([]byte("z"), []byte("a"))
	writes := map[string]func(*engine.DB) error{
		"empty batch": func(db *engine.DB) error {
			return db.Apply(ctx, engine.NewBatch(), atSync)
		},
		"empty range": func(db *engine.DB) error {
			return db.DeleteRange([]byte("before"), emptyRange, atSync)
		},
		"batch with a condition only": func(db *engine.DB) error {
			b := engine.NewBatch()
			ok(t, b.Require(pk("before"), engine.IfPresent()))
			return db.Apply(ctx, b, atSync)
		},
		"failed batch": func(db *engine.DB) error {
			b := engine.NewBatch()
			ok(t, b.PutIf(pk("before"), nil, engine.IfAbsent()))
			return conditionFailed(t, db.Apply(ctx, b, atSync))
		},
		"PutIfAbsent": func(db *engine.DB) error {
			return conditionFailed(t, db.PutIf(pk("before"), nil, engine.IfAbsent(), atSync))
		},
		"PutIf": func(db *engine.DB) error {
			return conditionFailed(t, db.PutIf(pk("before"), nil, engine.IfVersion(1<<40), atSync))
		},
		"DeleteIf": func(db *engine.DB) error {
			return conditionFailed(t, db.DeleteIf(pk("other"), engine.IfPresent(), atSync))
		},
		"InsertNew": func(db *engine.DB) error {
			_, _, err := db.InsertNew(ctx, []engine.Item{{Key: pk("before")}}, nil, atSync)
			return err
		},
		"InsertNew of no items": func(db *engine.DB) error {
			_, _, err := db.InsertNew(ctx, nil, nil, atSync)
			return err
		},
		"transaction": func(db *engine.DB) error {
			return db.Update(ctx, func(tx *engine.Tx) error { return second(tx.Get(pk("before"))) })
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			disk := vfstest.NewCrash()
			db := openOn(t, disk, engine.Options{})
			defer func() { _ = db.Close() }()
			ok(t, db.Put(pk("before"), []byte("v"), engine.Process))
			ok(t, write(db))
			after := disk.PowerCut(rand.New(rand.NewPCG(1, 2)), 0)
			again := openOn(t, after, engine.Options{})
			wantValue(t, again, pk("before"), []byte("v"))
			mustClose(t, again)
		})
	}
}

// conditionFailed returns nil for a failed condition, and an error for anything else.
func conditionFailed(t *testing.T, err error) error {
	t.Helper()
	wantIs(t, err, engine.ErrConditionFailed)
	return nil
}
