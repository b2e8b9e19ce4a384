package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Whatever writers and changes of indexes run meanwhile, each statement sees one moment: what it
// counts, sums and finds at the ends is that of the rows, which writers keep in balance.
func TestStatementsAgreeBesideWriters(t *testing.T) {
	rnd := testutil.Rand(t)
	for range testutil.Effort(3, 1000) {
		e, db := openBlocks(t, engine.Options{
			Durability: engine.Process, FlushRecords: 1 + rnd.IntN(6), MaxRuns: 2,
			BlockBytes: 1 << 10, CacheBytes: 1 << (12 + rnd.IntN(10)),
		})
		agreeBesideWriters(t, db, rnd)
		ok(t, errors.Join(db.Close(), e.Close()))
		if t.Failed() {
			return
		}
	}
}

// agreeBesideWriters runs them on one database.
func agreeBesideWriters(t *testing.T, db *table.DB, rnd *rand.Rand) {
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, n INT, g INT)")
	var writing atomic.Int64
	var all sync.WaitGroup
	start := func(f func(s *sql.Session, rnd *rand.Rand)) {
		r := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		all.Go(func() { f(sql.Open(db), r) })
	}
	const writers = 2
	writing.Store(writers)
	for own := range writers {
		start(func(s *sql.Session, rnd *rand.Rand) {
			defer writing.Add(-1)
			for range 40 {
				if err := inBalance(s, own, rnd); err != nil {
					t.Error(err)
				}
			}
		})
	}
	start(func(s *sql.Session, rnd *rand.Rand) {
		for writing.Load() > 0 {
			exec(t, s, []string{
				"CREATE INDEX IF NOT EXISTS by_n ON t (n)", "DROP INDEX IF EXISTS by_n",
				"CREATE INDEX IF NOT EXISTS by_g ON t (g, n)", "DROP INDEX IF EXISTS by_g",
				"ANALYZE t",
			}[rnd.IntN(5)])
		}
	})
	for range 2 {
		start(func(s *sql.Session, rnd *rand.Rand) {
			for writing.Load() > 0 && !t.Failed() {
				text := balanced[rnd.IntN(len(balanced))]
				if got := queried(t, s, text); got != "0" {
					t.Errorf("%s: %s, want 0", text, got)
				}
			}
		})
	}
	all.Wait()
}

// inBalance writes two rows of a writer, whose sum is 0, or deletes them.
func inBalance(s *sql.Session, own int, rnd *rand.Rand) error {
	i, n := 2*(2*rnd.IntN(12)+own), 1+rnd.IntN(1000)
	text := fmt.Sprintf("INSERT OR REPLACE INTO t VALUES (%d, %d, 1), (%d, %d, 1)", i, n, i+1, -n)
	if rnd.IntN(3) == 0 {
		text = fmt.Sprintf("DELETE FROM t WHERE id >= %d AND id < %d", i, i+2)
	}
	for {
		_, err := s.Exec(context.Background(), text)
		if !errors.Is(err, table.ErrConflict) {
			return err
		}
	}
}

// balanced are statements that return 0 at each moment.
var balanced = []string{
	"SELECT coalesce(sum(n), 0) FROM t",
	"SELECT coalesce(sum(n), 0) FROM t WHERE g = 1",
	"SELECT coalesce(min(n) + max(n), 0) FROM t",
	"SELECT count(*) % 2 FROM t",
	"SELECT (SELECT count(*) FROM t WHERE n > 0) - (SELECT count(*) FROM t WHERE n < 0)",
	"SELECT (SELECT count(*) FROM t) - (SELECT count(*) FROM t WHERE n BETWEEN -9999 AND 9999)",
	"SELECT (SELECT count(*) FROM t) - (SELECT count(*) FROM t WHERE g = 1)",
	"SELECT (SELECT count(*) FROM t) - (SELECT count(n) FROM t WHERE id >= 0)",
	"SELECT coalesce((SELECT n FROM t ORDER BY n LIMIT 1) - (SELECT min(n) FROM t), 0)",
	"SELECT coalesce((SELECT id FROM t ORDER BY id LIMIT 1) - (SELECT min(id) FROM t), 0)",
	"SELECT count(*) FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.n = -a.n)",
}

// A view that another process has just made is found, as a table is.
func TestViewOfAnotherProcess(t *testing.T) {
	storage := remotetest.New(true, 64)
	var sessions []*sql.Session
	for range 2 {
		db, err := table.OpenStore(t.Context(), storage, &table.Options{Lease: time.Hour})
		ok(t, err)
		t.Cleanup(func() { ok(t, db.Close()) })
		sessions = append(sessions, sql.Open(db))
	}
	exec(t, sessions[0], "CREATE VIEW v AS SELECT 1 AS a")
	if got := queried(t, sessions[1], "SELECT a FROM v"); got != "1" {
		t.Errorf("the view has %s", got)
	}
}

// A result whose column is dropped, by this process or another one, before its rows are read ends
// with a conflict.
func TestColumnDroppedBeforeRows(t *testing.T) {
	storage := remotetest.New(true, 64)
	one := openDB(t)
	for _, open := range []func() *table.DB{func() *table.DB { return one }, func() *table.DB {
		db, err := table.OpenStore(t.Context(), storage, &table.Options{Lease: time.Hour})
		ok(t, err)
		t.Cleanup(func() { ok(t, db.Close()) })
		return db
	}} {
		s := sql.Open(open())
		exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, n INT NULL)")
		other := sql.Open(open())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		rows, err := s.Query(ctx, "SELECT * FROM t")
		ok(t, err)
		exec(t, other, "ALTER TABLE t DROP COLUMN n")
		exec(t, s, "INSERT INTO t (id) VALUES (1)") // which finds out
		var conflict *sql.ConflictError
		if _, err := read(rows, err); !errors.As(err, &conflict) {
			t.Errorf("rows with the column that is dropped: %v", err)
		}
		cancel()
	}
}

// A statement whose column is dropped after it was bound is bound again. Method: the clock, which
// is asked then for now(), drops the column.
func TestColumnDroppedAfterBinding(t *testing.T) {
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	defer e.Close()
	drop := func() {}
	db, err := local.Open(t.Context(), e, &table.Options{SampleRows: -1, Clock: func() time.Time {
		now := drop
		drop = func() {}
		now()
		return time.Now()
	}})
	ok(t, err)
	defer db.Close()
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY)")
	for _, text := range []string{"SELECT * FROM t WHERE now() IS NOT NULL",
		"DELETE FROM t WHERE now() IS NULL",
		"UPDATE t SET id = 1 WHERE now() IS NULL RETURNING *"} {
		exec(t, s, "ALTER TABLE t ADD COLUMN n INT NULL")
		drop = func() { exec(t, sql.Open(db), "ALTER TABLE t DROP COLUMN n") }
		stmt, err := s.Prepare(text)
		ok(t, err)
		if stmt.Returns() {
			ok(t, second(read(stmt.Query(t.Context()))))
		} else {
			ok(t, second(stmt.Exec(t.Context())))
		}
	}
}
