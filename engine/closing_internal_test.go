package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/vfs"
)

// closing is a context that closes the database when it is looked at.
type closing struct {
	context.Context
	db *DB
}

func (c closing) Err() error {
	_ = c.db.Close()
	return nil
}

func openToClose(t *testing.T) *DB {
	t.Helper()
	db, err := OpenFS(vfs.NewMem(), "db", nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A delete that looks for room while the database is closed is told so; the log, closed
// under it, is no failure of the database.
func TestCloseIsNoFailureOfADelete(t *testing.T) {
	db := openToClose(t)
	err := db.memory.roomForDelete(closing{context.Background(), db}, db, 10)
	if !errors.Is(err, ErrClosed) || errors.Is(err, ErrReadOnly) {
		t.Errorf("error %v, want ErrClosed", err)
	}
	if f := db.failure.Load(); f != nil {
		t.Errorf("the database has failed: %v", f)
	}
}

// A put that has waited in line while the database was closed does not open the reserve
// again, which may be another process's by then.
func TestReserveStaysClosed(t *testing.T) {
	db := openToClose(t)
	db.reserve.enter()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db.memory.used.Add(64 << 20)
	db.reserve.settle()
	err := db.memory.queue(context.Background(), db, 10, false)
	if err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
	if db.reserve.file != nil {
		t.Error("the reserve is open after Close")
	}
	if db.reserve.give(forFlush, 1) {
		t.Error("a closed reserve gives space")
	}
}

// A batch that writes nothing waits for no room: not in line behind writers, and not for
// what a full disk has none of.
func TestConditionsAloneNeedNoRoom(t *testing.T) {
	db := openToClose(t)
	defer db.Close()
	db.reserve.enter()
	db.memory.gate <- struct{}{} // somebody waits for space
	// Long enough for a busy machine; only a batch that waits lets it end.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b := NewBatch()
	if err := b.Require(Key{PK: []byte("k")}, IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if err := db.Apply(ctx, b); err != nil {
		t.Error(err)
	}
	<-db.memory.gate
}
