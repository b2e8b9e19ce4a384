package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// imageKey returns key i of the keys of a small table, or of a neighbour.
func imageKey(rng *rand.Rand) engine.Key {
	return engine.K(fmt.Sprintf("%c%03d", 'a'+rng.IntN(3), rng.IntN(200)), fmt.Sprint(rng.IntN(2)))
}

// writeForImage changes the database in one of the ways that there are.
func writeForImage(t *testing.T, rng *rand.Rand, db *engine.DB) {
	t.Helper()
	key, value := imageKey(rng), fmt.Append(nil, rng.IntN(1000))
	switch rng.IntN(12) {
	case 0:
		ok(t, db.Delete(key))
	case 1:
		ok(t, db.DeleteRange(key.PK, engine.SKCondition{}))
	case 2:
		ok(t, db.DeleteScan(key, engine.Key{PK: append(key.PK, 'z')}))
	case 3:
		b := engine.NewBatch()
		for range 10 {
			ok(t, b.Put(imageKey(rng), value))
		}
		ok(t, b.Delete(key))
		ok(t, db.Apply(ctx, b))
	case 4:
		ok(t, db.Update(ctx, func(tx *engine.Tx) error {
			return tx.Put(key, value)
		}))
	case 5:
		ok(t, db.Flush(ctx))
	case 6:
		ok(t, db.Compact(ctx))
	default:
		ok(t, db.Put(key, value))
	}
}

// shownOf returns what readings of a span show together, in the order of the keys.
func shownOf(t *testing.T, s engine.Scan, readers ...blockReader) (items []string) {
	t.Helper()
	add := func(it engine.Item, err error) {
		ok(t, err)
		items = append(items, fmt.Sprintf("%q %s %d", id(it.Key), it.Value, it.Version))
	}
	for i, r := range readers {
		if i%2 == 0 {
			for it, err := range r.Scan(ctx, s) {
				add(it, err)
			}
			continue
		}
		ok(t, r.ScanBlocks(ctx, s, func(b *engine.Block) bool {
			for i := range b.Len() {
				add(b.Item(i))
			}
			return true
		}))
	}
	slices.Sort(items)
	return items
}

// shownByKey is shownOf for lookups of keys, which read no image.
func shownByKey(t *testing.T, r engine.Reader, keys []engine.Key) (items []string) {
	t.Helper()
	for _, key := range keys {
		it, err := r.GetItem(key)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		ok(t, err)
		items = append(items, fmt.Sprintf("%q %s %d", id(it.Key), it.Value, it.Version))
	}
	slices.Sort(items)
	return items
}

// A small table that is scanned again and again shows each change of it, whichever way it was
// written, also to scans that share its stripes and in snapshots.
func TestImagesOfSmallTables(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	rng := testutil.Rand(t)
	s := engine.Scan{From: engine.K("b"), To: engine.K("c")}
	var keys []engine.Key
	for i := range 400 {
		keys = append(keys, engine.K(fmt.Sprintf("b%03d", i/2), fmt.Sprint(i%2)))
	}
	snap, err := db.Snapshot()
	ok(t, err)
	for range testutil.Effort(200, 10_000) {
		for range 1 + rng.IntN(2) {
			writeForImage(t, rng, db)
		}
		if rng.IntN(4) == 0 {
			snap.Close()
			snap = snapshotOf(t, db)
		}
		now, then := shownByKey(t, db, keys), shownByKey(t, snap, keys)
		for range rng.IntN(8) {
			walk := s
			walk.Unordered = true
			for _, s := range []engine.Scan{s, walk} {
				if got := shownOf(t, s, db); !slices.Equal(got, now) {
					t.Fatalf("now: got %q, want %q", got, now)
				}
				if got := shownOf(t, s, snap); !slices.Equal(got, then) {
					t.Fatalf("snapshot: got %q, want %q", got, then)
				}
			}
			walk.Share = new(engine.Share)
			if got := shownOf(t, walk, snap, snap, snap); !slices.Equal(got, then) {
				t.Fatalf("shared: got %q, want %q", got, then)
			}
		}
	}
	snap.Close()
}

// Each way to write ends the image of what it changes.
func TestImagesEndWithEachWrite(t *testing.T) {
	k := func(i int) engine.Key { return engine.K(fmt.Sprintf("b%d", i)) }
	for name, write := range map[string]func(db *engine.DB) error{
		"Put":    func(db *engine.DB) error { return db.Put(k(1), []byte("again")) },
		"Delete": func(db *engine.DB) error { return db.Delete(k(1)) },
		"DeleteRange": func(db *engine.DB) error {
			return db.DeleteRange(k(1).PK, engine.SKCondition{})
		},
		"DeleteScan": func(db *engine.DB) error { return db.DeleteScan(k(1), k(3)) },
	} {
		db := openMemory(t, engine.Options{Durability: engine.Process})
		var keys []engine.Key
		for i := range 5 {
			keys = append(keys, k(i))
			ok(t, db.Put(k(i), nil))
		}
		s := engine.Scan{From: engine.K("b"), To: engine.K("c")}
		walk := s
		walk.Unordered = true
		for range 6 {
			shownOf(t, walk, db)
		}
		ok(t, write(db))
		want := shownByKey(t, db, keys)
		for _, s := range []engine.Scan{s, walk} {
			if got := shownOf(t, s, db); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}
