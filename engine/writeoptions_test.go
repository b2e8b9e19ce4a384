package engine_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Every way to put an item takes the same options for its expiry: the last counts, and nil
// says nothing.
func TestItemOptions(t *testing.T) {
	var clock hand
	clock.ms.Store(10_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	cases := map[string]struct {
		opts []engine.ItemOption
		want int64
	}{
		"none":          {nil, 0},
		"nil":           {[]engine.ItemOption{nil}, 0},
		"TTL":           {[]engine.ItemOption{engine.TTL(time.Second)}, 11_000},
		"TTL 0":         {[]engine.ItemOption{engine.TTL(0)}, 0},
		"expiry":        {[]engine.ItemOption{engine.Expiry(12_345)}, 12_345},
		"moment":        {[]engine.ItemOption{engine.ExpiresAt(time.UnixMilli(20_001))}, 20_001},
		"no moment":     {[]engine.ItemOption{engine.ExpiresAt(time.Time{})}, 0},
		"last is TTL":   {[]engine.ItemOption{engine.Expiry(1), engine.TTL(time.Minute)}, 70_000},
		"last is never": {[]engine.ItemOption{engine.TTL(time.Hour), engine.Expiry(0), nil}, 0},
	}
	for name, c := range cases {
		var all []engine.WriteOption
		for _, o := range c.opts {
			all = append(all, o)
		}
		for way, put := range putsOfEachKind(db, c.opts, all) {
			ok(t, put(pk(name)))
			it, err := db.GetItem(pk(name))
			if err != nil || it.Expiry != c.want {
				t.Errorf("%s of %s: expiry %d (%v), want %d", way, name, it.Expiry, err, c.want)
			}
			ok(t, db.Delete(pk(name)))
		}
	}
	for at, want := range map[time.Time]engine.Expiry{
		time.UnixMilli(-5): 1, time.UnixMilli(5): 5, time.Unix(math.MinInt64/1001, 0): 1,
		time.Unix(1<<63-62135596801, 999999999): math.MaxInt64, // the last time
		time.UnixMilli(math.MaxInt64):           math.MaxInt64,
	} {
		if got := engine.ExpiresAt(at); got != want {
			t.Errorf("%v is expiry %d, want %d", at, got, want)
		}
	}
	for _, bad := range []engine.ItemOption{engine.TTL(-1), engine.Expiry(-1)} {
		one, all := []engine.ItemOption{bad}, []engine.WriteOption{bad}
		for way, put := range putsOfEachKind(db, one, all) {
			if err := put(pk("bad")); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s with %T %d: %v", way, bad, bad, err)
			}
		}
	}
}

// putsOfEachKind are the calls that put an item, by name.
func putsOfEachKind(
	db *engine.DB, opts []engine.ItemOption, all []engine.WriteOption,
) map[string]func(engine.Key) error {
	apply := func(b *engine.Batch, err error) error { return errors.Join(err, db.Apply(ctx, b)) }
	update := func(f func(tx *engine.Tx) error) error { return db.Update(ctx, f) }
	absent := engine.IfAbsent()
	return map[string]func(k engine.Key) error{
		"DB.Put":   func(k engine.Key) error { return db.Put(k, nil, all...) },
		"DB.PutIf": func(k engine.Key) error { return db.PutIf(k, nil, absent, all...) },
		"DB.InsertNew": func(k engine.Key) error {
			_, _, err := db.InsertNew(ctx, []engine.Item{{Key: k}}, nil, all...)
			return err
		},
		"Batch.Put": func(k engine.Key) error {
			b := engine.NewBatch()
			return apply(b, b.Put(k, nil, opts...))
		},
		"Batch.PutIf": func(k engine.Key) error {
			b := engine.NewBatch()
			return apply(b, b.PutIf(k, nil, absent, opts...))
		},
		"Tx.Put": func(k engine.Key) error {
			return update(func(tx *engine.Tx) error { return tx.Put(k, nil, opts...) })
		},
		"Tx.PutIf": func(k engine.Key) error {
			return update(func(tx *engine.Tx) error { return tx.PutIf(k, nil, absent, opts...) })
		},
	}
}

// Options allocate nothing beside the write itself.
func TestOptionsDoNotAllocate(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db := openMemory(t, engine.Options{Durability: engine.Process})
	key, value, ttl := pk("k"), make([]byte, 100), time.Duration(1)
	plain := testutil.AllocsPerRun(5000, func() { ok(t, db.Put(key, value)) })
	with := testutil.AllocsPerRun(5000, func() {
		ttl += time.Hour
		ok(t, db.Put(key, value, engine.TTL(ttl), engine.Process, engine.MaxWait(ttl)))
	})
	if with > plain+0.1 {
		t.Errorf("a put with options allocates %.2f objects, one without %.2f", with, plain)
	}
	b := engine.NewBatch()
	batch := testutil.AllocsPerRun(5000, func() {
		b.Reset()
		ttl += time.Hour
		ok(t, b.Put(key, value, engine.TTL(ttl)))
	})
	if batch > 0.1 {
		t.Errorf("Batch.Put with a TTL allocates %.2f objects", batch)
	}
}

// A transaction commits at the durability that Update is given.
func TestUpdateOptions(t *testing.T) {
	disk := vfstest.NewCrash()
	db := openOn(t, disk, engine.Options{Durability: engine.Process})
	defer func() { _ = db.Close() }()
	put := func(tx *engine.Tx) error { return tx.Put(pk("k"), []byte("v")) }
	ok(t, db.Update(ctx, put, engine.Sync))
	after := openOn(t, disk.PowerCut(rand.New(rand.NewPCG(1, 2)), 0), engine.Options{})
	wantValue(t, after, pk("k"), []byte("v"))
	mustClose(t, after)
	wantIs(t, db.Update(ctx, put, engine.MaxWait(-1)), engine.ErrInvalid)
	wantIs(t, db.UpdateRetry(ctx, put, engine.Durability(9)), engine.ErrInvalid)
}
