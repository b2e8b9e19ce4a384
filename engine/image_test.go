package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// shownOf returns what a scan shows, in the order of the keys.
func shownOf(t *testing.T, s engine.Scan, r engine.Reader) (items []string) {
	t.Helper()
	for it, err := range r.Scan(ctx, s) {
		ok(t, err)
		items = append(items, fmt.Sprintf("%q %s %d", id(it.Key), it.Value, it.Version))
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
