package typed_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
)

type account struct {
	ID      int64     `kstone:"id,pk"`
	Balance int64     `kstone:"balance"`
	Until   time.Time `kstone:"until,ms,null,ttl(1h)"`
}

func openAccounts(t *testing.T, o *typed.CacheOptions) (*table.DB, *typed.Table[account],
	typed.Column[account, int64], *typed.RowCache[account]) {
	t.Helper()
	accounts := typed.NewTable[account]("accounts")
	id := typed.Col(accounts, func(a *account) *int64 { return &a.ID })
	db := openTyped(t, accounts)
	cache, err := typed.NewRowCache(db, accounts, o)
	ok(t, err)
	t.Cleanup(cache.Close)
	for i := range int64(10) {
		ok(t, accounts.Insert(ctx, db, &account{ID: i, Balance: 100}))
	}
	return db, accounts, id, cache
}

// wantBalance reads a row from the cache, and checks what it has counted.
func wantBalance(t *testing.T, c *typed.RowCache[account], key typed.Predicate[account],
	want, hits int64) {
	t.Helper()
	got, err := c.Get(ctx, key)
	if err != nil || got.Balance != want {
		t.Errorf("balance %d, want %d: %v", got.Balance, want, err)
	}
	if n := c.Counts(); n.Hits != hits {
		t.Errorf("%d hits, want %d", n.Hits, hits)
	}
}

func TestRowCacheSeesWrites(t *testing.T) {
	db, accounts, id, cache := openAccounts(t, nil)
	key := id.Eq(3)
	wantBalance(t, cache, key, 100, 0)
	wantBalance(t, cache, key, 100, 1)
	ok(t, accounts.Put(ctx, db, &account{ID: 3, Balance: 5}))
	wantBalance(t, cache, key, 5, 1)
	// A write that knows nothing of the struct.
	handle, err := db.Table("accounts")
	ok(t, err)
	if _, err := handle.UpdateWhere(ctx, nil, []table.Assignment{{Column: 1,
		Value: expr.Const{Value: expr.Int(6)}}}); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, cache, key, 6, 1)
	wantBalance(t, cache, key, 6, 2)
	err = db.Update(ctx, func(tx *table.Tx) error {
		if err := accounts.Put(ctx, tx, &account{ID: 3, Balance: 7}); err != nil {
			return err
		}
		wantBalance(t, cache, key, 6, 2) // not committed, and not kept meanwhile
		wantBalance(t, cache, key, 6, 2)
		return nil
	})
	ok(t, err)
	wantBalance(t, cache, key, 7, 2)
	wantBalance(t, cache, key, 7, 3)
	ok(t, accounts.Delete(ctx, db, key))
	if _, err := cache.Get(ctx, key); !errors.Is(err, table.ErrNotFound) {
		t.Errorf("a deleted row: %v", err)
	}
}

func TestRowCacheForgets(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	db, accounts, id, cache := openAccounts(t, &typed.CacheOptions{Rows: 3, TTL: time.Minute,
		Clock: clock})
	for _, i := range []int64{0, 1, 2, 0, 3} { // 1 is the one that makes room
		ok(t, second(cache.Get(ctx, id.Eq(i))))
	}
	wantBalance(t, cache, id.Eq(0), 100, 2)
	wantBalance(t, cache, id.Eq(1), 100, 2)
	if n := cache.Counts().Rows; n != 3 {
		t.Errorf("%d rows are kept, want 3", n)
	}
	now = now.Add(time.Minute)
	wantBalance(t, cache, id.Eq(1), 100, 2)
	// A row that expires earlier by itself.
	soon := now.Add(30*time.Second - time.Hour)
	ok(t, accounts.Put(ctx, db, &account{ID: 1, Balance: 8, Until: soon}))
	wantBalance(t, cache, id.Eq(1), 8, 2)
	wantBalance(t, cache, id.Eq(1), 8, 3)
	now = now.Add(31 * time.Second)
	wantBalance(t, cache, id.Eq(1), 8, 3) // the engine's clock has not moved
	ok(t, db.AddColumn(ctx, "accounts", columnOf("extra")))
	wantBalance(t, cache, id.Eq(1), 8, 3)
	if _, err := cache.Get(ctx); !errors.Is(err, table.ErrInvalid) {
		t.Errorf("without a key: %v", err)
	}
}

// TestRowCacheIsNeverStale: a reader that has seen a value never sees an earlier one, and
// after a write has returned nobody sees what was before it.
func TestRowCacheIsNeverStale(t *testing.T) {
	db, accounts, id, cache := openAccounts(t, nil)
	rounds := int64(testutil.Effort(600, 3000))
	var written atomic.Int64
	written.Store(100)
	var failed atomic.Pointer[string]
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for last := int64(100); last < 100+rounds && failed.Load() == nil; {
				least := max(last, written.Load())
				got, err := cache.Get(ctx, id.Eq(1))
				if err != nil || got.Balance < least {
					text := fmt.Sprintf("balance %d after %d: %v", got.Balance, least, err)
					failed.Store(&text)
				}
				last = got.Balance
			}
		})
	}
	for i := range rounds {
		next := account{ID: 1, Balance: 101 + i}
		var err error
		if i%3 == 0 {
			err = db.Update(ctx, func(tx *table.Tx) error { return accounts.Put(ctx, tx, &next) })
		} else {
			err = accounts.Put(ctx, db, &next)
		}
		ok(t, err)
		written.Store(next.Balance)
	}
	group.Wait()
	if text := failed.Load(); text != nil {
		t.Error(*text)
	}
	t.Logf("%+v", cache.Counts())
}
