package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// keysIn returns the keys of a database in order.
func keysIn(t testing.TB, r engine.Reader) (keys []engine.Key) {
	t.Helper()
	for it, err := range r.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		keys = append(keys, it.Clone().Key)
	}
	return keys
}

func wantKeysIn(t testing.TB, what string, r engine.Reader, want []engine.Key) {
	t.Helper()
	if got := keysIn(t, r); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

// In a commit a DeleteScan deletes what was written before it, and spares what comes after;
// a batch with one can be applied again.
//
// Promise (reads and writes): `DeleteScan` is one commit over all stripes, in batches and
// transactions, after replays and power cuts. Also `TestDeleteScanConflicts`,
// `TestDeleteScanSurvivesAPowerCut`, `TestEngineBehavesLikeASortedMap` in `engine/internal/suite`.
func TestDeleteScanWithinACommit(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	a, b, c, z := engine.K("a"), engine.K("b"), engine.K("c"), engine.K("z")
	batch := engine.NewBatch()
	ok(t, errors.Join(batch.Put(a, nil), batch.Put(b, nil), batch.DeleteScan(b, engine.Key{}),
		batch.Put(c, nil)))
	if batch.Len() != 4 {
		t.Errorf("%d operations, want 4", batch.Len())
	}
	for range 2 {
		ok(t, db.Put(z, nil))
		before := db.Metrics().LastVersion
		ok(t, db.Apply(ctx, batch))
		wantKeysIn(t, "batch", db, []engine.Key{a, c})
		if after := db.Metrics().LastVersion; after != before+1 {
			t.Errorf("%d commits, want 1", after-before)
		}
	}
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		ok(t, errors.Join(tx.Put(b, nil), tx.DeleteScan(engine.Key{}, c), tx.Put(z, nil)))
		wantKeysIn(t, "in the transaction", tx, []engine.Key{c, z})
		return nil
	}))
	wantKeysIn(t, "transaction", db, []engine.Key{c, z})
	ok(t, db.DeleteScan(engine.Key{}, engine.Key{}))
	wantKeysIn(t, "all", db, nil)
	before := db.Metrics().LastVersion
	ok(t, db.DeleteScan(engine.Key{}, engine.Key{}))
	ok(t, db.DeleteScan(z, a))
	if after := db.Metrics().LastVersion; after != before {
		t.Errorf("%d commits that delete nothing", after-before)
	}
	wantIs(t, db.DeleteScan(engine.Key{SK: []byte("s")}, z), engine.ErrEmptyPK)
	wantIs(t, batch.DeleteScan(a, engine.Key{PK: []byte("p"), SK: []byte{}}), engine.ErrEmptySK)
	wantIs(t, db.View(ctx, func(tx *engine.Tx) error { return tx.DeleteScan(a, z) }),
		engine.ErrReadOnly)
}

// A transaction that has read something a DeleteScan deletes meanwhile conflicts; one that
// deletes a range itself depends on nothing in it.
func TestDeleteScanConflicts(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for i := range 100 {
		ok(t, db.Put(engine.K(fmt.Sprint(i)), nil))
	}
	reads := func(tx *engine.Tx) error {
		ok(t, second(tx.Get(engine.K("50"))))
		ok(t, db.DeleteScan(engine.K("4"), engine.K("6")))
		return tx.Put(engine.K("result"), nil)
	}
	wantIs(t, db.Update(ctx, reads), engine.ErrConflict)
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		ok(t, tx.DeleteScan(engine.K("7"), engine.K("8")))
		return db.Put(engine.K("77"), []byte("meanwhile"))
	}))
	if there, err := db.Has(engine.K("77")); there || err != nil {
		t.Errorf("an item written before the commit is there: %v, %v", there, err)
	}
}

// After a power cut a synced DeleteScan is there in all stripes.
func TestDeleteScanSurvivesAPowerCut(t *testing.T) {
	disk := vfstest.NewCrash()
	db := openOn(t, disk, engine.Options{})
	defer func() { _ = db.Close() }()
	b := engine.NewBatch()
	for i := range 300 {
		ok(t, b.Put(engine.K(fmt.Sprintf("%03d", i)), nil))
	}
	ok(t, db.Apply(ctx, b))
	ok(t, db.DeleteScan(engine.K("010"), engine.K("290")))
	after := openOn(t, disk.PowerCut(rand.New(rand.NewPCG(1, 2)), 0), engine.Options{})
	if n := len(keysIn(t, after)); n != 20 {
		t.Errorf("%d items after a power cut, want 20", n)
	}
	mustClose(t, after)
}

// Checkpoints and repaired databases have what a DeleteScan has left, whether it is still in
// the log or in files.
func TestDeleteScanIsCopiedAndRepaired(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		fsys := vfs.NewMem()
		db := openOn(t, fsys, engine.Options{})
		for i := range 300 {
			ok(t, db.Put(engine.K(fmt.Sprintf("%03d", i)), nil))
		}
		ok(t, db.Flush(ctx))
		ok(t, db.DeleteScan(engine.K("010"), engine.Key{}))
		ok(t, db.Put(engine.K("999"), nil))
		if flushed {
			ok(t, db.Flush(ctx))
		}
		want := keysIn(t, db)
		if len(want) != 11 {
			t.Fatalf("%d items, want 11", len(want))
		}
		ok(t, db.Checkpoint(ctx, "copy", nil))
		mustClose(t, db)
		if rep, err := engine.RepairFS(ctx, fsys, "db", "repaired", nil); err != nil ||
			len(rep.Lost) > 0 {
			t.Fatalf("%v, %+v", err, rep)
		}
		for _, dir := range []string{"copy", "repaired"} {
			db, err := engine.OpenFS(fsys, dir, nil)
			ok(t, err)
			wantKeysIn(t, dir, db, want)
			mustClose(t, db)
		}
	}
}
