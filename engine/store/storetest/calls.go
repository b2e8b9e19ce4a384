package storetest

import (
	"context"

	"github.com/kstonedb/kstone/engine/store"
)

// Key returns a key.
func Key(pk, sk string) store.Key { return key(pk, sk) }

// Put returns a write set that puts one item.
func Put(pk, sk, value string) *store.WriteSet {
	w := new(store.WriteSet)
	w.Put(key(pk, sk), []byte(value))
	return w
}

// Count returns how many items a scan returns.
func Count(ctx context.Context, r store.Reader, rg store.Range) (n int, err error) {
	for _, err := range r.Scan(ctx, rg) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Call is a call of a store, for tests of servers that do not answer.
type Call struct {
	Name   string
	Writes bool // its outcome may be unknown
	// Do makes it, of the store or of a reader of it.
	Do func(ctx context.Context, s store.Store, r store.Reader) error
}

// Calls returns a call of each kind.
func Calls() []Call {
	return []Call{
		{"get", false, func(ctx context.Context, s store.Store, _ store.Reader) error {
			_, err := s.Get(ctx, nil, key("p", "k"))
			return err
		}},
		{"many", false, func(ctx context.Context, _ store.Store, r store.Reader) error {
			return r.MultiGet(ctx, []store.Key{key("p", "k"), key("q", "k")},
				func(int, store.Item) {})
		}},
		{"scan", false, func(ctx context.Context, _ store.Store, r store.Reader) (err error) {
			for _, err = range r.Scan(ctx, store.Interval(nil, nil)) {
			}
			return err
		}},
		{"snapshot", false, func(ctx context.Context, s store.Store, _ store.Reader) error {
			_, err := s.Snapshot(ctx)
			return err
		}},
		{"commit", true, func(ctx context.Context, s store.Store, _ store.Reader) error {
			var w store.WriteSet
			w.Put(key("p", "k"), []byte("2"))
			return s.Commit(ctx, &w)
		}},
		{"property", false, func(ctx context.Context, s store.Store, _ store.Reader) error {
			_, _, err := s.Property(ctx, "schema")
			return err
		}},
		{"set", true, func(ctx context.Context, s store.Store, _ store.Reader) error {
			return s.SetProperty(ctx, "schema", nil)
		}},
	}
}
