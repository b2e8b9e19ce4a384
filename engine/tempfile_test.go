package engine_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// Temporary files are in the directory until they, or the database, are closed.
func TestTempFiles(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(dir, nil)
	ok(t, err)
	create := db.Temp()
	one, err := create()
	ok(t, err)
	two, err := create()
	ok(t, err)
	got := make([]byte, 3)
	ok(t, second(one.Write([]byte("abc"))))
	ok(t, second(one.Write([]byte("def"))))
	if _, err := one.ReadAt(got, 2); err != nil || string(got) != "cde" {
		t.Errorf("%q, %v", got, err)
	}
	exists := func(f *engine.TempFile) bool {
		_, err := os.Stat(f.Name())
		return !errors.Is(err, fs.ErrNotExist)
	}
	if !exists(one) || !exists(two) || filepath.Dir(one.Name()) != dir {
		t.Error("no files")
	}
	one.Close()
	one.Close()
	if exists(one) || !exists(two) {
		t.Error("Close removes another file")
	}
	ok(t, db.Close())
	if exists(two) {
		t.Error("the database leaves a file")
	}
	if _, err := two.ReadAt(got, 0); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := two.Write(got); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	two.Close()
	if _, err := create(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("create: %v", err)
	}
}

// Open removes the temporary files of a process that was killed; a database that must not write,
// or that is in memory, makes none.
func TestTempFilesOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(dir, nil)
	ok(t, err)
	ok(t, db.Close())
	for _, name := range []string{"SPILL-000001", "notes"} {
		ok(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	readOnly, err := engine.Open(dir, &engine.Options{ReadOnly: true})
	if err != nil || readOnly.Temp() != nil {
		t.Errorf("read-only: %v", err)
	}
	readOnly.Close()
	if db, err = engine.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := os.Stat(filepath.Join(dir, "SPILL-000001")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a killed process is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes")); err != nil {
		t.Errorf("a file that is not kstone's: %v", err)
	}
	memory, err := engine.Open("memory", &engine.Options{InMemory: true})
	if err != nil || memory.Temp() != nil {
		t.Errorf("in memory: %v", err)
	}
	memory.Close()
}
