package typed_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

func TestBufferWritesByCount(t *testing.T) {
	db, accounts, _, _ := openAccounts(t, nil)
	buffer, err := typed.NewBuffer(db, accounts, &typed.BufferOptions{Rows: 100})
	ok(t, err)
	for i := range int64(250) {
		for _, balance := range []int64{1, i} { // the second one counts
			ok(t, buffer.Put(ctx, &account{ID: 1000 + i, Balance: balance}))
		}
	}
	// The row 99 fills the buffer with its first value and waits with its second one, so the
	// next batch is 99 to 198.
	if n, err := accounts.Where().Count(ctx, db); n != 209 || err != nil {
		t.Errorf("%d rows before Flush, want 209: %v", n, err)
	}
	if err := buffer.Flush(ctx); err != nil || buffer.Len() != 0 {
		t.Error(buffer.Len(), err)
	}
	sum := int64(0)
	for a, err := range accounts.Where().Each(ctx, db) {
		ok(t, err)
		sum += a.Balance
	}
	if want := int64(10*100 + 249*250/2); sum != want {
		t.Errorf("balances are %d, want %d", sum, want)
	}
}

func TestBufferWritesByTime(t *testing.T) {
	db, accounts, id, _ := openAccounts(t, nil)
	buffer, err := typed.NewBuffer(db, accounts, &typed.BufferOptions{Delay: time.Millisecond})
	ok(t, err)
	for i := range int64(3) {
		ok(t, buffer.Put(ctx, &account{ID: 100 + i}))
		for buffer.Len() > 0 {
			runtime.Gosched()
		}
		if _, err := accounts.Get(ctx, db, id.Eq(100+i)); err != nil {
			t.Error(err)
		}
	}
	if _, err := typed.NewBuffer(db, accounts, &typed.BufferOptions{Rows: -1}); !errors.Is(err,
		table.ErrInvalid) {
		t.Error(err)
	}
}

func TestBufferConcurrent(t *testing.T) {
	db, accounts, _, _ := openAccounts(t, nil)
	buffer, err := typed.NewBuffer(db, accounts, &typed.BufferOptions{Rows: 7,
		Delay: 100 * time.Microsecond})
	ok(t, err)
	var group sync.WaitGroup
	for g := range int64(4) {
		group.Go(func() {
			for i := range int64(100) {
				if err := buffer.Put(ctx, &account{ID: 1000 + 100*g + i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	ok(t, buffer.Flush(ctx))
	if n, err := accounts.Where().Count(ctx, db); n != 410 || err != nil {
		t.Errorf("%d rows, want 410: %v", n, err)
	}
}

// A row whose Put fails is not in the buffer. Rows before it stay, and are written when what
// refuses them is gone, by the next Put, without a Flush.
func TestBufferAfterErrors(t *testing.T) {
	accounts := typed.NewTable[account]("accounts")
	id := typed.Col(accounts, func(a *account) *int64 { return &a.ID })
	balance := typed.Col(accounts, func(a *account) *int64 { return &a.Balance })
	accounts.Unique("by_balance", balance.Asc())
	for _, o := range []typed.BufferOptions{{Rows: 2}, {Delay: time.Microsecond}} {
		db := openTyped(t, accounts)
		ok(t, accounts.Put(ctx, db, &account{ID: 1, Balance: 7}))
		buffer, err := typed.NewBuffer(db, accounts, &o)
		ok(t, err)
		ok(t, buffer.Put(ctx, &account{ID: 2, Balance: 7}))
		for err == nil { // until the write in the background has failed
			runtime.Gosched()
			err = buffer.Put(ctx, &account{ID: 3, Balance: 8})
			if err == nil && o.Rows > 0 {
				t.Fatal("the balance is not unique")
			}
		}
		waiting := buffer.Len()
		wantIs(t, err, table.ErrUnique)
		wantIs(t, buffer.Put(ctx, &account{ID: 4, Balance: 9}), table.ErrUnique)
		if buffer.Len() != waiting {
			t.Errorf("%d rows, then %d", waiting, buffer.Len())
		}
		ok(t, accounts.Delete(ctx, db, id.Eq(1)))
		ok(t, buffer.Put(ctx, &account{ID: 3, Balance: 8})) // again
		ok(t, buffer.Put(ctx, &account{ID: 5, Balance: 10}))
		ok(t, buffer.Flush(ctx))
		if n, err := accounts.Where(id.In(2, 3, 5)).Count(ctx, db); n != 3 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		if _, err := accounts.Get(ctx, db, id.Eq(4)); !errors.Is(err, table.ErrNotFound) {
			t.Error(err)
		}
	}
}

// TestBufferMakesKeys puts rows whose keys are made when they are written.
func TestBufferMakesKeys(t *testing.T) {
	notes := typed.NewTable[note]("notes")
	db := openTyped(t, notes)
	buffer, err := typed.NewBuffer(db, notes, nil)
	ok(t, err)
	for _, n := range []note{{Text: "a"}, {Text: "b"}, {ID: 70}, {ID: 70, Text: "c"}, {Text: "d"}} {
		ok(t, buffer.Put(ctx, &n))
	}
	ok(t, buffer.Flush(ctx))
	text := typed.Col(notes, func(n *note) *string { return &n.Text })
	texts := ""
	for n, err := range notes.Where().OrderBy(text.Asc()).Each(ctx, db) {
		ok(t, err)
		texts += n.Text
	}
	if texts != "abcd" {
		t.Errorf("the rows are %q, want abcd", texts)
	}
}
