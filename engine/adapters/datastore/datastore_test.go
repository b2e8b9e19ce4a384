package datastore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dstest "github.com/ipfs/go-datastore/test"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/adapters/datastore"
)

func open(t *testing.T, o *engine.Options) *datastore.Datastore {
	db, err := engine.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	return datastore.New(db)
}

// Promise (manners): engine/adapters/datastore passes the test kit of go-datastore.
func TestSuiteOfGoDatastore(t *testing.T) {
	d := open(t, nil)
	dstest.SubtestAll(t, d)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Results show what was there when the query began; what expires does so by the clock of the
// database; what is closed says so.
func TestExpirySnapshotsAndClosing(t *testing.T) {
	ctx, now := context.Background(), time.UnixMilli(1_700_000_000_000)
	var later atomic.Int64 // how much later it is
	d := open(t, &engine.Options{
		Clock: func() time.Time { return now.Add(time.Duration(later.Load())) }})
	a, b := ds.NewKey("/x/a"), ds.NewKey("/x/b")
	err := errors.Join(d.PutWithTTL(ctx, a, []byte("1"), time.Minute), d.Put(ctx, b, []byte("2")),
		d.Put(ctx, ds.NewKey("/xy"), nil), d.SetTTL(ctx, b, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := d.GetExpiration(ctx, b); err != nil || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("b expires at %v, %v", at, err)
	}
	if err := d.SetTTL(ctx, ds.NewKey("/none"), time.Hour); !errors.Is(err, ds.ErrNotFound) {
		t.Errorf("a key that is not there: %v", err)
	}
	results, err := d.Query(ctx, query.Query{Prefix: "/x", ReturnExpirations: true,
		Orders: []query.Order{query.OrderByKeyDescending{}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(ctx, b); err != nil {
		t.Fatal(err)
	}
	list, err := results.Rest()
	if err != nil || len(list) != 2 || list[0].Key != "/x/b" || string(list[1].Value) != "1" ||
		list[1].Expiration.IsZero() {
		t.Errorf("%v, %v", list, err)
	}
	later.Store(int64(time.Minute))
	if _, err := d.Get(ctx, a); !errors.Is(err, ds.ErrNotFound) {
		t.Errorf("an expired key: %v", err)
	}
	if n, err := d.DiskUsage(ctx); n == 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	err = errors.Join(d.Check(ctx), d.CollectGarbage(ctx), d.Sync(ctx, a), d.Close(), d.Close())
	if err != nil {
		t.Error(err)
	}
	if _, err := d.Query(ctx, query.Query{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a query after Close: %v", err)
	}
}

// Has, GetSize and queries of keys need no value that is kept apart. Method: its file is gone.
func TestKeysAndSizesReadNoLargeValues(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	db, err := engine.Open(dir, &engine.Options{LargeValue: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := datastore.New(db)
	defer d.Close()
	key := ds.NewKey("/a")
	if err := errors.Join(d.Put(ctx, key, []byte("a value")), db.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.val"))
	if err != nil || len(names) != 1 {
		t.Fatalf("value files: %q, %v", names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if has, err := d.Has(ctx, key); !has || err != nil {
		t.Errorf("Has: %v, %v", has, err)
	}
	if n, err := d.GetSize(ctx, key); n != 7 || err != nil {
		t.Errorf("GetSize: %d, %v", n, err)
	}
	results, err := d.Query(ctx, query.Query{KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	list, err := results.Rest()
	if err != nil || len(list) != 1 || list[0].Key != "/a" || list[0].Size != -1 {
		t.Errorf("a query of keys: %v, %v", list, err)
	}
}
