package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var ok = testutil.OK

func open(t testing.TB) *engine.DB {
	t.Helper()
	db, err := engine.Open("store", &engine.Options{
		InMemory: true, Durability: engine.Process, FlushRecords: 50,
	})
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	return db
}

// The local store passes all checks.
//
// Promise (reads and writes): Every store behaves the same: conditions, whole commits, ranges,
// snapshots, limits. Also `TestLocalWithoutFastPaths`, `TestTx` in `engine/local`.
func TestLocal(t *testing.T) {
	for _, check := range storetest.Checks(testutil.Seed(t)) {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, local.New(open(t))) })
	}
}

// plain hides the optional interfaces of a store.
type plain struct{ store.Store }

// So does it without its optional interfaces.
func TestLocalWithoutFastPaths(t *testing.T) {
	for _, check := range storetest.Checks(testutil.Seed(t)) {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, plain{local.New(open(t))}) })
	}
}

// txStore is a store whose every call is a transaction of its own, through local.Tx.
type txStore struct{ *local.Store }

func (s txStore) Commit(ctx context.Context, w *store.WriteSet) error {
	return s.Update(ctx, func(tx store.Tx) error { return tx.Commit(ctx, w) })
}

// Write sets that are committed in transactions mean the same.
func TestTx(t *testing.T) {
	for _, check := range storetest.Checks(testutil.Seed(t)) {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, txStore{local.New(open(t))}) })
	}
}

// A transaction reads what its write sets have written, checks conditions against it, and
// depends on what they have required.
func TestTxReadsItsWrites(t *testing.T) {
	db := open(t)
	a, b := store.Key{PK: []byte("a"), SK: []byte("1")}, store.Key{PK: []byte("b"), SK: []byte("2")}
	err := db.Update(ctx, func(tx *engine.Tx) error {
		s := local.NewTx(tx)
		var w store.WriteSet
		w.PutIf(a, []byte("x"), store.Absent())
		w.Require(b, store.Absent())
		ok(t, s.Commit(ctx, &w))
		w.Reset()
		w.Put(b, []byte("y"))
		w.PutIf(a, nil, store.Absent())
		if err := s.Commit(ctx, &w); !errors.Is(err, store.ErrConditionFailed) {
			t.Errorf("condition: %v", err)
		}
		got := ""
		for it, err := range s.Scan(ctx, store.Partitions([][]byte{a.PK, b.PK})) {
			ok(t, err)
			got += fmt.Sprintf("%s=%s ", it.Key, it.Value)
		}
		if want := fmt.Sprintf("%s=x ", a); got != want {
			t.Errorf("the transaction sees %q, want %q", got, want)
		}
		return db.Put(b, []byte("z")) // somebody else writes what was required absent
	})
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("the requirement was broken: %v", err)
	}
	if _, err := local.New(db).Get(ctx, nil, a); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a conflict has written: %v", err)
	}
}

// Rows cost no allocation through the interface, and a Get none either.
func TestLocalDoesNotAllocate(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db, err := engine.Open("store", &engine.Options{InMemory: true, Durability: engine.Process})
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	var s store.Store = local.New(db)
	const n = 5000
	var pks [][]byte
	for i := range 16 {
		pks = append(pks, fmt.Appendf(nil, "p%02d", i))
	}
	var w store.WriteSet
	keys := make([]store.Key, n)
	for i := range keys {
		keys[i] = store.Key{PK: pks[i%16], SK: fmt.Appendf(nil, "%06d", i)}
		w.Put(keys[i], []byte("value"))
	}
	ok(t, s.Commit(ctx, &w))
	unordered := store.Interval(nil, nil)
	unordered.Unordered = true
	for name, r := range map[string]store.Range{
		"partitions": store.Partitions(pks), "interval": unordered,
	} {
		got := testutil.AllocsPerRun(5, func() {
			items := 0
			for _, err := range s.Scan(ctx, r) {
				ok(t, err)
				items++
			}
			if items != n {
				t.Fatalf("%d items", items)
			}
		})
		if got > 64 {
			t.Errorf("scan of %s allocates %.0f objects for %d items", name, got, n)
		}
	}
	buf, i := make([]byte, 0, 64), 0
	got := testutil.AllocsPerRun(1000, func() {
		i++
		if v, err := s.Get(ctx, buf, keys[i%n]); err != nil || len(v) != 5 {
			t.Fatal(v, err)
		}
	})
	if got > 0 {
		t.Errorf("Get allocates %.2f objects", got)
	}
	found := 0
	got = testutil.AllocsPerRun(20, func() {
		found = 0
		ok(t, s.MultiGet(ctx, keys[:1000], func(int, store.Item) { found++ }))
	})
	if got > 64 || found != 1000 {
		t.Errorf("MultiGet allocates %.0f objects for %d items", got, found)
	}
}

// A path and a file URL open the directory; Close closes it. Errors are those of the engine.
func TestOpenURL(t *testing.T) {
	dir := t.TempDir()
	for _, url := range []string{dir, "file://" + dir} {
		s, err := store.Open(ctx, url)
		ok(t, err)
		_, err = s.Get(ctx, nil, store.Key{PK: []byte("p")})
		if !errors.Is(err, engine.ErrNotFound) || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no item: %v", err)
		}
		ok(t, s.Close())
		if _, err = s.Get(ctx, nil, store.Key{PK: []byte("p")}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
