//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/postgres"
	"github.com/kstonedb/kstone/engine/store/storetest"
)

var ctx = context.Background()

// The store passes the checks of all stores.
func TestStore(t *testing.T) {
	for _, check := range storetest.Checks(uint64(time.Now().UnixNano())) {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, open(t, "")) })
	}
}

// txStore is a store whose every commit is a transaction of its own.
type txStore struct{ *postgres.Store }

func (s txStore) Commit(ctx context.Context, w *store.WriteSet) error {
	return s.Update(ctx, func(tx store.Tx) error { return tx.Commit(ctx, w) })
}

// Write sets that are committed in transactions mean the same.
func TestTxStore(t *testing.T) {
	for _, check := range storetest.Checks(uint64(time.Now().UnixNano())) {
		if check.Name == "Contexts" {
			continue // the error of an Update that has ended says more
		}
		t.Run(check.Name, func(t *testing.T) { check.Run(t, txStore{open(t, "")}) })
	}
}

var key = storetest.Key

func put(t testing.TB, s store.Writer, k store.Key, value string) {
	t.Helper()
	var w store.WriteSet
	w.Put(k, []byte(value))
	ok(t, s.Commit(ctx, &w))
}

// value returns that of a key, "-" if there is none.
func value(t testing.TB, r store.Reader, k store.Key) string {
	t.Helper()
	v, err := r.Get(ctx, nil, k)
	if errors.Is(err, store.ErrNotFound) {
		return "-"
	}
	ok(t, err)
	return string(v)
}

// A transaction reads what it has written, takes it back to savepoints, and loses against a commit
// that changes what it has read.
func TestTx(t *testing.T) {
	s := open(t, "")
	a, b := key("p", "a"), key("p", "b")
	put(t, s, a, "1")
	tx, err := s.Begin(ctx, nil)
	ok(t, err)
	defer tx.Rollback()
	first := tx.Savepoint()
	put(t, tx, a, "2")
	second := tx.Savepoint()
	put(t, tx, b, "3")
	if got := value(t, tx, a) + value(t, tx, b) + value(t, s, a); got != "231" {
		t.Fatalf("the transaction and the store have %s", got)
	}
	ok(t, tx.RollbackTo(second))
	if got := value(t, tx, a) + value(t, tx, b); got != "2-" {
		t.Fatalf("after the second savepoint: %s", got)
	}
	ok(t, tx.Release(first))
	if err := tx.RollbackTo(second); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a savepoint that is gone: %v", err)
	}
	n, err := store.Count(ctx, tx, store.Partition([]byte("p")))
	if ok(t, err); n != 1 {
		t.Errorf("%d items", n)
	}
	ok(t, tx.End(ctx))
	if got := value(t, s, a) + value(t, s, b); got != "2-" {
		t.Fatalf("stored: %s", got)
	}

	tx, err = s.Begin(ctx, nil)
	ok(t, err)
	defer tx.Rollback()
	value(t, tx, a)
	put(t, s, a, "4")
	var w store.WriteSet
	w.Put(a, []byte("5"))
	if err := errors.Join(tx.Commit(ctx, &w), tx.End(ctx)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("what it has read was changed: %v", err)
	}
	if got := value(t, s, a); got != "4" {
		t.Errorf("after the conflict: %s", got)
	}
}

// Commits and transactions that each require what the other changes do not both succeed.
func TestWriteSkew(t *testing.T) {
	s := open(t, "")
	a, b := key("p", "a"), key("q", "b")
	var first, second store.WriteSet
	first.Put(a, nil)
	first.Require(b, store.Absent())
	second.Put(b, nil)
	second.Require(a, store.Absent())
	tx, err := s.Begin(ctx, nil)
	ok(t, err)
	defer tx.Rollback()
	ok(t, tx.Commit(ctx, &first))
	committed := s.Commit(ctx, &second)
	ended := tx.End(ctx)
	if (committed == nil) == (ended == nil) {
		t.Errorf("%v and %v, want one success", committed, ended)
	}
}

// A savepoint that is taken back last is not stored, though nothing is sent after it.
func TestRollbackToBeforeEnd(t *testing.T) {
	s := open(t, "")
	tx, err := s.Begin(ctx, nil)
	ok(t, err)
	put(t, tx, key("p", "a"), "1")
	mark := tx.Savepoint()
	put(t, tx, key("p", "b"), "2")
	ok(t, tx.RollbackTo(mark))
	ok(t, tx.End(ctx))
	if got := value(t, s, key("p", "a")) + value(t, s, key("p", "b")); got != "1-" {
		t.Errorf("stored: %s", got)
	}
}

// Transactions end by themselves, may be read-only, and count what nobody else does meanwhile.
func TestTxOptions(t *testing.T) {
	s := open(t, "")
	tx, err := s.Begin(ctx, &store.TxOptions{MaxAge: time.Millisecond})
	ok(t, err)
	for !tx.Expired() {
		<-time.After(time.Millisecond)
	}
	if err := tx.End(ctx); !errors.Is(err, store.ErrTxAge) {
		t.Errorf("after its age: %v", err)
	}
	tx, err = s.Begin(ctx, &store.TxOptions{ReadOnly: true})
	ok(t, err)
	defer tx.Rollback()
	var w store.WriteSet
	w.Require(key("p", "a"), store.Absent())
	ok(t, tx.Commit(ctx, &w))
	w.Put(key("p", "a"), nil)
	if err := tx.Commit(ctx, &w); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a write: %v", err)
	}
	counter := key("p", "counter")
	put(t, s, counter, "")
	race := make(chan error)
	for range 8 {
		go func() {
			race <- s.Update(ctx, func(tx store.Tx) error {
				v, err := tx.Get(ctx, nil, counter)
				if err != nil {
					return err
				}
				var w store.WriteSet
				w.Put(counter, append(v, 'x'))
				return tx.Commit(ctx, &w)
			})
		}()
	}
	for range 8 {
		ok(t, <-race)
	}
	if got := value(t, s, counter); got != "xxxxxxxx" {
		t.Errorf("counted %q", got)
	}
}

// Keys of the greatest length that cannot be compressed fit the index; longer ones are refused.
func TestLongKeys(t *testing.T) {
	s := open(t, "")
	random := make([]byte, 2600)
	rand.Read(random)
	for i := range random {
		random[i] |= 1 // no zero bytes
	}
	k := store.Key{PK: random[:630], SK: random[:2<<10]}
	put(t, s, k, "long")
	if got := value(t, s, k); got != "long" {
		t.Errorf("it has %q", got)
	}
	var w store.WriteSet
	w.Put(store.Key{PK: random[:700], SK: random[:2<<10]}, nil)
	if err := s.Commit(ctx, &w); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a longer key: %v", err)
	}
	w.Reset()
	w.Put(store.Key{PK: bytes.Repeat([]byte{0}, 1400)}, nil)
	if err := s.Commit(ctx, &w); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("zero bytes: %v", err)
	}
}

// Whole partitions are removed in one step, and no others.
func TestDeletePartitions(t *testing.T) {
	s := open(t, "")
	for _, pk := range []string{"a", "a\x00", "b", "c"} {
		put(t, s, store.Key{PK: []byte(pk)}, "1")
		put(t, s, key(pk, "\xff"), "2")
	}
	counted, trips := store.CountTrips(ctx)
	ok(t, s.DeletePartitions(counted, [][]byte{[]byte("a"), []byte("c")}))
	var left []string
	for it, err := range s.Scan(ctx, store.Interval(nil, nil)) {
		ok(t, err)
		left = append(left, it.Key.String())
	}
	if len(left) != 4 || slices.ContainsFunc(left, func(k string) bool {
		return strings.HasPrefix(k, "c")
	}) || trips.Waves() != 1 {
		t.Errorf("left: %q after %v", left, trips)
	}
}

// Load replaces what is there; of items with one key the last wins.
func TestLoad(t *testing.T) {
	s := open(t, "")
	put(t, s, key("p", "000007"), "old")
	const n = 60_000
	loaded, err := s.Load(ctx, func(yield func(store.Item, error) bool) {
		for i := range n {
			it := store.Item{Key: key("p", fmt.Sprintf("%06d", i)), Value: []byte("new")}
			if !yield(it, nil) {
				return
			}
		}
		yield(store.Item{Key: key("p", "000008"), Value: []byte("twice")}, nil)
	})
	if ok(t, err); loaded != n+1 {
		t.Errorf("%d items are loaded", loaded)
	}
	got, err := s.Count(ctx, store.Partition([]byte("p")))
	if ok(t, err); got != n {
		t.Errorf("%d items are there", got)
	}
	if v := value(t, s, key("p", "000007")) + value(t, s, key("p", "000008")); v != "newtwice" {
		t.Errorf("they are %s", v)
	}
	loaded, err = s.Load(ctx, func(yield func(store.Item, error) bool) {
		yield(store.Item{Key: key("q", "new"), Expiry: 1 << 45}, nil)
	})
	it, found := store.GetItem(ctx, s, key("q", "new"))
	if ok(t, errors.Join(err, found)); loaded != 1 || it.Expiry != 1<<45 || it.Version == 0 {
		t.Errorf("%d items are loaded, %+v", loaded, it)
	}
	bad := errors.New("bad")
	loaded, err = s.Load(ctx, func(yield func(store.Item, error) bool) { yield(store.Item{}, bad) })
	if loaded != 0 || !errors.Is(err, bad) {
		t.Errorf("%d, %v", loaded, err)
	}
}

// TestRoundTrips: what each call waits for.
func TestRoundTrips(t *testing.T) {
	s := open(t, "")
	var keys []store.Key
	var pks [][]byte
	var w store.WriteSet
	for i := range 16 {
		pks = append(pks, fmt.Appendf(nil, "p%02d", i))
		for j := range 100 {
			keys = append(keys, store.Key{PK: pks[i], SK: fmt.Appendf(nil, "%04d", j)})
			w.Put(keys[len(keys)-1], []byte("value"))
		}
	}
	ok(t, s.Commit(ctx, &w))
	scan := func(r store.Range, limit int) func(context.Context) error {
		return func(ctx context.Context) error {
			r.Limit = limit
			for _, err := range s.Scan(ctx, r) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	var insert store.WriteSet
	insert.PutIf(key("row", "new"), []byte("row"), store.Absent())
	for i := range 3 {
		insert.PutIf(key(fmt.Sprintf("index%d", i), "new"), nil, store.Absent())
	}
	for _, c := range []struct {
		name string
		want int
		call func(context.Context) error
	}{
		{"get", 1, func(ctx context.Context) error {
			_, err := s.Get(ctx, nil, keys[3])
			return err
		}},
		{"1600 keys", 1, func(ctx context.Context) error {
			return s.MultiGet(ctx, keys, func(int, store.Item) {})
		}},
		{"insert with three entries", 1, func(ctx context.Context) error {
			return s.Commit(ctx, &insert)
		}},
		{"page", 1, scan(store.Partition(pks[0]), 50)},
		{"first of 16 partitions", 1, scan(store.Partitions(pks), 10)},
		{"count of 16 partitions", 1, func(ctx context.Context) error {
			_, err := s.Count(ctx, store.Partitions(pks))
			return err
		}},
	} {
		counted, trips := store.CountTrips(ctx)
		ok(t, c.call(counted))
		if trips.Waves() != c.want || trips.Requests() != c.want {
			t.Errorf("%s: %v, want %d", c.name, trips, c.want)
		}
	}
}
