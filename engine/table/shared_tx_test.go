package table_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
)

// A transaction that has written a row is in conflict with a change of the definition between that
// and its commit, by another process.
//
// Promise (tables): In storage that several processes share, a transaction commits only if the
// definitions of its tables are those that its rows were written by.
func TestDefinitionsChangeBesideTransactions(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		for change, alter := range definitionChanges {
			t.Run(change, func(t *testing.T) {
				a, b := openShared(t, next(), quick), openShared(t, next(), behind)
				if !transacts(b) {
					t.Skip("the store has no transactions")
				}
				tab := create(t, a, sharedText)
				defer a.DropTable(ctx, "shared", nil)
				ok(t, tab.Insert(ctx, row(t, 1, 10, 1)))
				tx, err := b.Begin(ctx, nil)
				ok(t, err)
				defer tx.Rollback()
				in, err := tx.Table("shared")
				ok(t, err)
				ok(t, errors.Join(in.Insert(ctx, row(t, 9, 90, 90)), alter(a)))
				if err := tx.Commit(ctx); !errors.Is(err, table.ErrConflict) {
					t.Errorf("the error is %v, want a conflict", err)
				}
				if r := verify(t, tab); r.Rows != 1 {
					t.Errorf("there are %d rows", r.Rows)
				}
				if _, err := tab.Get(ctx, expr.Int(9)); err == nil {
					t.Errorf("the row was written")
				}
			})
		}
	})
}

// silent is a store that does not answer from some time on.
type silent struct {
	*remotetest.Store
	committed bool // it is silent after the next commit
	asked     chan struct{}
	once      *sync.Once
}

func (s *silent) fall() {
	s.SetFault(func(ctx context.Context) error {
		s.once.Do(func() { close(s.asked) })
		select {
		case <-ctx.Done():
		case <-time.After(4 * time.Second): // the store's own timeout
		}
		return context.DeadlineExceeded
	})
}

func (s *silent) Commit(ctx context.Context, w *store.WriteSet) error {
	err := s.Store.Commit(ctx, w)
	if s.committed {
		s.fall()
	}
	return err
}

// What is done over a store that does not answer ends with its context, while others wait for the
// store as well.
func TestStoreDoesNotAnswer(t *testing.T) {
	for name, do := range map[string]func(context.Context, *table.Table) error{
		"get": func(ctx context.Context, tab *table.Table) error {
			_, err := tab.Get(ctx, expr.Int(1))
			return err
		},
		"query": func(ctx context.Context, tab *table.Table) error {
			_, err := tab.DB().Query(ctx, from(tab, nil))
			return err
		},
		"create": func(ctx context.Context, tab *table.Table) error {
			_, err := tab.DB().CreateTable(ctx, define(t, sharedText))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &silent{Store: remotetest.New(true, 64), asked: make(chan struct{}),
					once: new(sync.Once)}
				tab := create(t, openShared(t, s, quick), sharedText)
				s.fall()
				<-s.asked // by what polls for changes
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				begun := time.Now()
				wantIs(t, do(short, tab), context.DeadlineExceeded)
				if d := time.Since(begun); d > 100*time.Millisecond {
					t.Errorf("after %v", d)
				}
			})
		})
	}
}

// TestOthersWaitForAnAnswer: what waits for another one that the store does not answer ends with
// its own context.
func TestOthersWaitForAnAnswer(t *testing.T) {
	type request = func(context.Context) error
	for name, begin := range map[string]func(*table.Table) request{
		"numbers": func(tab *table.Table) request {
			return func(ctx context.Context) error {
				_, err := tab.NextValue(ctx, 0)
				return err
			}
		},
		"transaction": func(tab *table.Table) request {
			tx, err := tab.DB().Begin(ctx, nil)
			ok(t, err)
			return func(ctx context.Context) error {
				_, err := tab.In(tx).Get(ctx, expr.Int(1))
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := remotetest.New(true, 64)
			do := begin(create(t, openShared(t, s, behind), numberedText))
			asked, stuck := make(chan struct{}), make(chan error, 1)
			ask := sync.OnceFunc(func() { close(asked) })
			long, end := context.WithCancel(ctx)
			defer end()
			s.SetFault(func(ctx context.Context) error {
				ask()
				<-long.Done()
				return long.Err()
			})
			go func() { stuck <- do(long) }()
			<-asked
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			time.AfterFunc(5*time.Second, end)
			wantIs(t, do(short), context.DeadlineExceeded)
			if long.Err() != nil {
				t.Error("it has waited for the other one")
			}
			end()
			wantIs(t, <-stuck, context.Canceled)
		})
	}
}

// A change of a definition that was written, but could not be read then, has an unknown outcome,
// and is known later.
func TestDefinitionIsWrittenAndNotRead(t *testing.T) {
	synctest.Test(t, definitionIsWrittenAndNotRead)
}

func definitionIsWrittenAndNotRead(t *testing.T) {
	s := &silent{Store: remotetest.New(true, 64), asked: make(chan struct{}), once: new(sync.Once)}
	db := openShared(t, s, behind)
	s.committed = true
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := db.CreateTable(short, define(t, sharedText))
	if wantIs(t, err, store.ErrUnknown); time.Since(begun) > 100*time.Millisecond {
		t.Errorf("after %v", time.Since(begun))
	}
	s.SetFault(func(context.Context) error { return nil })
	s.committed = false
	tab, err := db.Table("shared")
	ok(t, err)
	ok(t, tab.Insert(ctx, row(t, 1, 10, 1)))
}

// TestOpenWhileAnotherOpens opens and closes tables while another store does not answer.
func TestOpenWhileAnotherOpens(t *testing.T) {
	s := &silent{Store: remotetest.New(true, 64), asked: make(chan struct{}), once: new(sync.Once)}
	s.fall()
	stuck, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := table.Open(stuck, s, nil)
		done <- err
	}()
	<-s.asked
	short, stop := context.WithCancelCause(ctx)
	stop(errors.ErrUnsupported)
	_, err := table.Open(short, s, nil) // which waits for the first one
	wantIs(t, err, errors.ErrUnsupported)
	db, err := table.Open(ctx, remotetest.New(true, 64), nil)
	ok(t, err)
	ok(t, db.Close())
	select {
	case err := <-done:
		t.Errorf("the other one was waited for: %v", err)
	default:
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a store that does not answer is open")
	}
	s.SetFault(func(context.Context) error { return nil })
	db, err = table.Open(ctx, s, nil)
	ok(t, err)
	ok(t, db.Close())
}
