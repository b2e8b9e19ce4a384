package sql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	operators "github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

var ok = testutil.OK

// second is the error of a call that returns a value as well.
func second[T any](_ T, err error) error { return err }

// spillRows is how many rows the tables of these tests have; little is a memory that none of
// spillStatements fits in.
const (
	spillRows = 300
	little    = 4000
)

// spillStatements have one operator each that keeps rows. Their order is total.
var spillStatements = []struct{ operator, text string }{
	{"sort", "SELECT * FROM t ORDER BY s, id DESC"},
	{"top 200", "SELECT id, s FROM t ORDER BY s, id LIMIT 200"},
	{"distinct hash", "SELECT DISTINCT s FROM t"},
	{"group hash", "SELECT s, count(*), sum(a) FROM t GROUP BY s"},
	{"group streaming", "SELECT count(DISTINCT s), sum(DISTINCT id) FROM t"},
	{"hash join", "SELECT x.id, y.id FROM t x JOIN u y ON x.a = y.a AND x.s < y.s"},
	{"left hash join", "SELECT x.id, y.s FROM t x LEFT JOIN u y ON x.s = y.s AND y.a < 150"},
	{"anti hash join", "SELECT id FROM t WHERE s NOT IN (SELECT s FROM u WHERE id < 250)"},
	{"loop join", "SELECT count(*) FROM t x JOIN u y ON x.a < y.a"},
	{"group hash", "SELECT s FROM t EXCEPT SELECT s FROM u WHERE id > 50"},
}

func openSpilling(t *testing.T, fsys vfs.FS, memory int64) (*sql.Session, func()) {
	t.Helper()
	opened, err := openfs.Open(fsys, "db", &engine.Options{})
	ok(t, err)
	e := opened.(*engine.DB)
	db := tablesOf(t, e, memory)
	return sql.Open(db), func() {
		if err := errors.Join(db.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

func tablesOf(t *testing.T, e *engine.DB, memory int64) *table.DB {
	t.Helper()
	db, err := local.Open(context.Background(), e, &table.Options{MemoryBytes: memory})
	ok(t, err)
	return db
}

func sessionOf(t *testing.T, e *engine.DB, memory int64) *sql.Session {
	t.Helper()
	db := tablesOf(t, e, memory)
	t.Cleanup(func() { db.Close() })
	return sql.Open(db)
}

func fillSpilling(t *testing.T, s *sql.Session) {
	t.Helper()
	for _, name := range []string{"t", "u"} {
		exec(t, s, "CREATE TABLE "+name+" (id INT, a INT, s TEXT, PRIMARY KEY (id))")
		var rows []string
		for i := range spillRows {
			rows = append(rows, fmt.Sprintf("(%d, %d, 'text %d %s')", i, i*7919%211,
				i*104729%401, strings.Repeat("x", 60)))
		}
		exec(t, s, "INSERT INTO "+name+" VALUES "+strings.Join(rows, ", "))
	}
}

// results returns the rows of all statements.
func results(t *testing.T, s *sql.Session) (out []string) {
	t.Helper()
	for _, q := range spillStatements {
		out = append(out, queried(t, s, q.text))
	}
	return out
}

func spillFiles(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("db")
	ok(t, err)
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "SPILL-")
	})
}

// Statements of all operators that keep rows have the same result with little memory as with
// much, and EXPLAIN ANALYZE shows what they have written.
func TestSpilledStatements(t *testing.T) {
	fsys := vfs.NewMem()
	s, end := openSpilling(t, fsys, 0)
	fillSpilling(t, s)
	want := results(t, s)
	end()
	s, end = openSpilling(t, fsys, little)
	defer end()
	for i, q := range spillStatements {
		if got := queried(t, s, q.text); got != want[i] {
			t.Errorf("%s\n got %s\nwant %s", q.text, got, want[i])
		}
		plan := queried(t, s, "EXPLAIN ANALYZE "+q.text)
		_, line, ok := strings.Cut(plan, q.operator+" | ")
		if line, _, _ = strings.Cut(line, "\n"); !ok || !strings.Contains(line, " spilled ") {
			t.Errorf("%s: no %s has spilled:\n%s", q.text, q.operator, plan)
		}
		if left := spillFiles(t, fsys); len(left) > 0 {
			t.Fatalf("%s: %q are left", q.text, left)
		}
	}
}

// Whatever operation on a temporary file fails, the statement has its result or an error that
// says what could not be written or read, with the cause; and nothing is left but a file that
// cannot be removed, which the next open removes.
//
// Promise (disks): A query whose temporary file fails has its result, or an error with the file,
// the cause and what helps; the database goes on, and nothing is left. Also
// `TestSpilledQueries` in `engine/exec`.
func TestSpillFaults(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	s, end := openSpilling(t, fsys, 0)
	fillSpilling(t, s)
	want := results(t, s)
	end()
	failures := 0
	factor := int64(4 / testutil.Effort(1, 2))
	for i, q := range spillStatements {
		for at := int64(1); ; at *= max(2, factor) {
			plan := vfstest.FailPlan{At: at, Err: engine.ErrDiskFull, Short: at%2 == 0,
				Match: func(op vfstest.Op) bool { return strings.Contains(op.Name, "SPILL-") }}
			s, end := openSpilling(t, vfstest.NewFault(fsys, plan.Hook), little)
			got, err := read(s.Query(context.Background(), q.text))
			op, failed := plan.Failed()
			var spill *operators.SpillError
			switch {
			case err == nil && strings.Join(got, "\n") != want[i]:
				t.Fatalf("%s, %s fails: wrong rows", q.text, op.Kind)
			case err != nil && (!errors.As(err, &spill) || !errors.Is(err, engine.ErrDiskFull)):
				t.Fatalf("%s, %s fails: %v", q.text, op.Kind, err)
			case err != nil:
				failures++
			case failed && op.Kind != vfstest.OpRemove && op.Kind != vfstest.OpClose:
				t.Fatalf("%s: a failure of %s goes unnoticed", q.text, op.Kind)
			}
			if left := spillFiles(t, fsys); len(left) > 0 && op.Kind != vfstest.OpRemove {
				t.Fatalf("%s, %s fails: %q are left", q.text, op.Kind, left)
			}
			end()
			if !failed {
				break
			}
		}
	}
	_, end = openSpilling(t, fsys, little)
	defer end()
	if left := spillFiles(t, fsys); len(left) > 0 {
		t.Errorf("after open: %q are left", left)
	}
	if failures < len(spillStatements) {
		t.Errorf("only %d failures", failures)
	}
}

// A query that is given up, or whose context ends, leaves no file.
func TestSpilledQueriesEndEarly(t *testing.T) {
	fsys := vfs.NewMem()
	s, end := openSpilling(t, fsys, little)
	defer end()
	fillSpilling(t, s)
	for _, q := range spillStatements {
		ctx, cancel := context.WithCancel(context.Background())
		rows, err := s.Query(ctx, q.text)
		ok(t, err)
		for _, err := range rows.All() {
			ok(t, err)
			break
		}
		if left := spillFiles(t, fsys); len(left) > 0 {
			t.Errorf("%s, broken off: %q are left", q.text, left)
		}
		var last error
		for _, err := range rows.All() {
			cancel()
			last = err
		}
		if left := spillFiles(t, fsys); len(left) > 0 {
			t.Errorf("%s, cancelled: %q are left", q.text, left)
		}
		if last != nil && !errors.Is(last, context.Canceled) {
			t.Errorf("%s: %v", q.text, last)
		}
		cancel()
	}
}

// A database in memory has nowhere to spill to, and one that is read-only must not: the error
// says what helps.
func TestNowhereToSpillTo(t *testing.T) {
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	defer e.Close()
	s := sessionOf(t, e, little)
	fillSpilling(t, s)
	dir := t.TempDir()
	disk, err := engine.Open(dir, nil)
	ok(t, err)
	db := tablesOf(t, disk, 0)
	fillSpilling(t, sql.Open(db))
	ok(t, errors.Join(db.Close(), disk.Close()))
	if disk, err = engine.Open(dir, &engine.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for _, s := range []*sql.Session{s, sessionOf(t, disk, little)} {
		for _, q := range spillStatements {
			if _, err := read(s.Query(t.Context(), q.text)); !errors.Is(err, operators.ErrMemory) {
				t.Errorf("%s: %v", q.text, err)
			}
		}
	}
}

// scratch is a store.TempFile in memory.
type scratch struct {
	bytes.Buffer
	open *atomic.Int64
}

func (s *scratch) Name() string { return "scratch" }
func (s *scratch) Close()       { s.open.Add(-1) }
func (s *scratch) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(s.Bytes()).ReadAt(b, off)
}

// A database that is only read spills to the files that Options.Temp makes, and closes them all.
func TestReadersSpillToTemp(t *testing.T) {
	dir := t.TempDir()
	var made, open atomic.Int64
	want := []string(nil)
	for _, o := range []struct {
		engine engine.Options
		table  table.Options
	}{
		{},
		{engine.Options{ReadOnly: true}, table.Options{MemoryBytes: little,
			Temp: func() (store.TempFile, error) {
				made.Add(1)
				open.Add(1)
				return &scratch{open: &open}, nil
			}}},
	} {
		e, err := engine.Open(dir, &o.engine)
		ok(t, err)
		db, err := local.Open(t.Context(), e, &o.table)
		ok(t, err)
		s := sql.Open(db)
		if want == nil {
			fillSpilling(t, s)
			want = results(t, s)
		} else if got := results(t, s); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		ok(t, errors.Join(db.Close(), e.Close()))
	}
	if made.Load() < int64(len(spillStatements)) || open.Load() != 0 {
		t.Errorf("%d files were made, %d are open", made.Load(), open.Load())
	}
}

func TestConcatBoundsMemory(t *testing.T) {
	s, end := openSpilling(t, vfs.NewMem(), little)
	defer end()
	fillSpilling(t, s)
	for _, text := range []string{"SELECT group_concat(s) FROM t",
		"SELECT id % 2, group_concat(s) FROM t GROUP BY id % 2"} {
		if _, err := read(s.Query(t.Context(), text)); !errors.Is(err, operators.ErrMemory) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An intersection of indexes without room for the keys of one reads the rows of the other.
func TestIntersectionWithoutRoom(t *testing.T) {
	s, end := openSpilling(t, vfs.NewMem(), 5*little)
	defer end()
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, INDEX ia (a), INDEX ib (b))")
	var list []string
	for i := range 4000 {
		list = append(list, fmt.Sprintf("(%d, %d, %d)", i, i%13, i/13%13))
	}
	for rows := range slices.Chunk(list, 500) {
		exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	}
	exec(t, s, "ANALYZE t")
	const where = " FROM t WHERE a = 3 AND b = 4"
	if plan := queried(t, s, "EXPLAIN SELECT *"+where); !strings.Contains(plan, "intersection") {
		t.Error(plan)
	}
	if got := queried(t, s, "SELECT count(*), min(a), max(b)"+where); got != "24 3 4" {
		t.Error(got)
	}
}
