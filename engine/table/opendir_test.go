package table_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

// Promise (tables): OpenDir opens engine and tables, and Close of the last use closes both.
func TestOpenDirClosesTheEngine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := local.OpenDir(ctx, dir, &local.Options{Engine: &engine.Options{BlockBytes: 8 << 10}})
	ok(t, err)
	people := create(t, db, peopleText)
	ok(t, people.Insert(ctx, row(t, 1, "a@x", "Bern", 30)))
	again, err := local.Open(ctx, local.Engine(db), nil)
	if err != nil || again != db {
		t.Fatalf("the engine has another DB: %v", err)
	}
	ok(t, again.Close())
	if _, err := people.Get(ctx, expr.Int(1)); err != nil {
		t.Fatalf("one of two uses is left: %v", err)
	}
	if _, err := local.OpenDir(ctx, dir, nil); !errors.Is(err, engine.ErrLocked) {
		t.Fatalf("opened twice: %v", err)
	}
	for range 2 {
		ok(t, db.Close())
	}
	if _, err := people.Get(ctx, expr.Int(1)); !errors.Is(err, table.ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
	db, err = local.OpenDir(ctx, dir, nil)
	ok(t, err)
	defer db.Close()
	people, err = db.Table("people")
	ok(t, err)
	ok(t, second(people.Get(ctx, expr.Int(1))))
}

// TestOpenDirFailsBeforeItCreates: wrong options leave no directory.
func TestOpenDirFailsBeforeItCreates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if _, err := local.OpenDir(ctx, dir, &local.Options{
		Options: table.Options{Workers: -1}}); err == nil {
		t.Error("-1 workers")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}
