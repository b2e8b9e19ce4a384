package sql_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A query that needs no more than the keys of rows reads none of the values that are kept apart:
// it works without their files.
func TestKeysOnlyReadsNoLargeValues(t *testing.T) {
	fsys := vfs.NewMem()
	open := func() (*engine.DB, *sql.Session, func()) {
		opened, err := openfs.Open(fsys, "db", &engine.Options{LargeValue: 1 << 10})
		ok(t, err)
		e := opened.(*engine.DB)
		db := tablesOf(t, e, 0)
		return e, sql.Open(db), func() {
			if err := errors.Join(db.Close(), e.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	e, s, end := open()
	exec(t, s, "CREATE TABLE t (p INT, id INT, s TEXT, PRIMARY KEY (p, id))")
	for i := range 40 {
		exec(t, s, "INSERT INTO t VALUES (?, ?, ?)", i%4, i, strings.Repeat("x", 1100+i))
	}
	ok(t, e.Flush(t.Context()))
	end()
	_, s, end = open()
	defer end()
	names, err := fsys.List("db")
	ok(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".val") {
			ok(t, fsys.Remove(filepath.Join("db", name)))
		}
	}
	for _, q := range []struct {
		text string
		rows int
	}{
		{"SELECT id FROM t", 40},
		{"SELECT id FROM t", 40},
		{"SELECT id FROM t", 40}, // a small table that is read again may be remembered
		{"SELECT id FROM t WHERE id % 2 = 1", 20},
		{"SELECT id FROM t ORDER BY id DESC", 40},
		{"SELECT id FROM t WHERE p = 2 AND id > 10", 7},
		{"SELECT p, max(id), count(*) FROM t GROUP BY p", 4},
		{"SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.p = 1", 10},
	} {
		if rows, err := read(s.Query(t.Context(), q.text)); len(rows) != q.rows || err != nil {
			t.Errorf("%s: %d rows, %v, want %d", q.text, len(rows), err, q.rows)
		}
	}
	if _, err := read(s.Query(t.Context(), "SELECT s FROM t")); err == nil {
		t.Error("values are read without their files")
	}
}

// Scans of a small table that are repeated show values that are kept apart as the first scan does.
func TestLargeValuesOfSmallTables(t *testing.T) {
	fsys := vfs.NewMem()
	for open := range 2 {
		opened, err := openfs.Open(fsys, "db", &engine.Options{LargeValue: 1 << 10})
		ok(t, err)
		e := opened.(*engine.DB)
		db := tablesOf(t, e, 0)
		s := sql.Open(db)
		if open == 0 {
			exec(t, s, "CREATE TABLE t (p INT, id INT, s TEXT, PRIMARY KEY (p, id))")
			for i := range 40 {
				exec(t, s, "INSERT INTO t VALUES (?, ?, ?)", i%4, i, strings.Repeat("x", 1100+i))
			}
		}
		ok(t, e.Flush(t.Context()))
		if e.Metrics().Total.ValueBytes == 0 {
			t.Error("no value is kept apart")
		}
		for range 6 {
			rows, err := read(s.Query(t.Context(), "SELECT id FROM t WHERE length(s) = 1100 + id"))
			if len(rows) != 40 || err != nil {
				t.Errorf("%d rows, %v, want 40", len(rows), err)
			}
		}
		ok(t, errors.Join(db.Close(), e.Close()))
	}
}
