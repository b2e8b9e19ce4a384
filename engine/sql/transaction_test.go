package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// openDB returns an empty database in memory.
func openDB(t *testing.T) *table.DB {
	_, db := openBlocks(t, engine.Options{})
	return db
}

// openBlocks is openDB with options, and the database below.
func openBlocks(t *testing.T, o engine.Options) (*engine.DB, *table.DB) {
	t.Helper()
	o.InMemory = true
	e, err := engine.Open(t.TempDir(), &o)
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	db, err := local.Open(context.Background(), e, nil)
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return e, db
}

// TestTransactionsConflict: the later COMMIT loses, with an error that says what to do; then
// there is no transaction.
//
// Promise (sql): What follows BEGIN is written by COMMIT as one, or not at all; statements in it
// read what it has written; one that fails is undone alone; the later of two that conflict gets
// a *ConflictError. Also `TestRun`, `TestRandomStatements`, `TestTransfers`,
// `TestDefinitionsChangeBesideTransactions` in `engine/sql`.
func TestTransactionsConflict(t *testing.T) {
	db := openDB(t)
	a, b := sql.Open(db), sql.Open(db)
	exec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, a, "INSERT INTO t VALUES (1, 1)")
	for _, s := range []*sql.Session{a, b} {
		exec(t, s, "BEGIN")
		exec(t, s, "UPDATE t SET n = n + 1")
	}
	if got := queried(t, sql.Open(db), "SELECT n FROM t"); got != "1" {
		t.Errorf("seen before COMMIT: %s", got)
	}
	exec(t, a, "COMMIT")
	_, err := b.Exec(context.Background(), "COMMIT")
	var conflict *sql.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, table.ErrConflict) ||
		!strings.Contains(err.Error(), "transaction conflicted, run it again") {
		t.Errorf("COMMIT: %v", err)
	}
	if b.InTransaction() || b.Rollback() {
		t.Error("the transaction is open after a conflict")
	}
	if got := queried(t, b, "SELECT n FROM t"); got != "2" {
		t.Errorf("n is %s", got)
	}
}

// TestDefinitionsChangeBesideTransactions: a table that is changed after BEGIN is a conflict,
// whether it was used before or not; an index that is new is not missed.
func TestDefinitionsChangeBesideTransactions(t *testing.T) {
	for name, change := range map[string]string{
		"column": "ALTER TABLE t ADD COLUMN m INT DEFAULT 1", "index": "CREATE INDEX i ON t (n)",
		"table": "DROP TABLE t",
	} {
		for _, used := range []bool{false, true} {
			db := openDB(t)
			s := sql.Open(db)
			exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
			exec(t, s, "BEGIN")
			if used {
				exec(t, s, "INSERT INTO t VALUES (1, 1)")
			}
			exec(t, sql.Open(db), change)
			var conflict *sql.ConflictError
			if name == "column" {
				_, err := s.Query(context.Background(), "SELECT m FROM t")
				if !errors.As(err, &conflict) {
					t.Errorf("SELECT of the column, used %v: %v", used, err)
				}
			}
			_, err := s.Exec(context.Background(), "INSERT INTO t (id, n) VALUES (2, 2)")
			gone := errors.Is(err, table.ErrNoTable)
			if !errors.As(err, &conflict) && !used && !gone {
				t.Errorf("%s: INSERT: %v", name, err)
			}
			_, err = s.Exec(context.Background(), "COMMIT")
			if used && !errors.As(err, &conflict) {
				t.Errorf("%s: COMMIT: %v", name, err)
			}
			if name == "table" {
				continue
			}
			if got := queried(t, s, "SELECT id FROM t"); got != "" {
				t.Errorf("%s: there is %s", name, got)
			}
		}
	}
}

// TestWritesBesideRows: what is being read does not change.
func TestWritesBesideRows(t *testing.T) {
	ctx := context.Background()
	s := sql.Open(openDB(t))
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, s, "INSERT INTO t VALUES (1), (2), (3)")
	exec(t, s, "BEGIN")
	exec(t, s, "SAVEPOINT a")
	rows, err := s.Query(ctx, "SELECT id FROM t ORDER BY id")
	ok(t, err)
	for _, err := range rows.All() {
		ok(t, err)
		for _, text := range []string{"DELETE FROM t", "ROLLBACK TO a"} {
			if _, err := s.Exec(ctx, text); err == nil {
				t.Errorf("%s while rows are read", text)
			}
		}
		if got := queried(t, s, "SELECT count(*) FROM t"); got != "3" {
			t.Errorf("%s rows", got)
		}
		break
	}
	exec(t, s, "DELETE FROM t WHERE id = 1")
	exec(t, s, "COMMIT")
	if got := queried(t, s, "SELECT count(*) FROM t"); got != "2" {
		t.Errorf("%s rows", got)
	}
	exec(t, s, "BEGIN")
	rows, err = s.Query(ctx, "SELECT id FROM t")
	ok(t, err)
	s.Rollback()
	for _, err = range rows.All() {
		if !errors.Is(err, table.ErrClosed) {
			t.Errorf("rows of a transaction that has ended: %v", err)
		}
	}
}

// TestTransfers: sums stay as they are while many sessions move amounts, in every transaction
// that only reads.
func TestTransfers(t *testing.T) {
	const accounts, sum = 8, 800
	ctx := context.Background()
	db := openDB(t)
	first := sql.Open(db)
	exec(t, first, "CREATE TABLE t (id INT PRIMARY KEY, n INT, INDEX by_n (n))")
	for i := range accounts {
		exec(t, first, "INSERT INTO t VALUES (?, ?)", i, sum/accounts)
	}
	seed, each := testutil.Seed(t), testutil.Effort(30, 1000)
	var wg sync.WaitGroup
	var done atomic.Int64
	transfer := func(s *sql.Session, rng *rand.Rand) error {
		from, to, n := rng.IntN(accounts), rng.IntN(accounts), rng.IntN(10)
		for _, text := range []string{"BEGIN", "UPDATE t SET n = n - ?2 WHERE id = ?1 AND ?2 = ?2",
			"SAVEPOINT p", "DELETE FROM t", "ROLLBACK TO p", "", "COMMIT"} {
			var args []any
			switch {
			case text == "":
				text, args = "UPDATE t SET n = n + ?2 WHERE id = ?1", []any{to, n}
			case strings.Contains(text, "?"):
				args = []any{from, n}
			}
			if _, err := s.Exec(ctx, text, args...); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	}
	for w := range uint64(4) {
		wg.Go(func() {
			s, rng := sql.Open(db), rand.New(rand.NewPCG(seed, w))
			for range each {
				err := transfer(s, rng)
				if s.Rollback(); err == nil {
					done.Add(1)
				} else if !errors.Is(err, table.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		s := sql.Open(db)
		for range each {
			exec(t, s, "BEGIN READ ONLY")
			for _, hint := range []string{"NOT INDEXED", "INDEXED BY by_n"} {
				got := queried(t, s, "SELECT sum(n) FROM t "+hint)
				if got != fmt.Sprint(sum) {
					t.Errorf("the sum is %s", got)
				}
			}
			exec(t, s, "COMMIT")
		}
	})
	wg.Wait()
	got := queried(t, first, "SELECT sum(n) FROM t")
	if got != fmt.Sprint(sum) || done.Load() == 0 {
		t.Errorf("the sum is %s after %d transfers", got, done.Load())
	}
}

// TestOldTransaction: after its greatest age nothing of a transaction is kept, and nothing that
// follows is written as if there had been no BEGIN.
func TestOldTransaction(t *testing.T) { synctest.Test(t, testOldTransaction) }

func testOldTransaction(t *testing.T) {
	e, err := engine.Open("old", &engine.Options{InMemory: true})
	ok(t, err)
	db, err := local.Open(t.Context(), e, &table.Options{MaxTxAge: time.Minute})
	ok(t, err)
	defer func() { ok(t, errors.Join(db.Close(), e.Close())) }()
	s := sql.Open(db)
	ctx := t.Context()
	run := func(text string) error {
		_, err := s.Exec(ctx, text)
		return err
	}
	ok(t, errors.Join(run("CREATE TABLE t (id INT PRIMARY KEY)"), run("BEGIN"),
		run("INSERT INTO t VALUES (1)")))
	time.Sleep(time.Minute - 1)
	_, err = s.Query(ctx, "SELECT * FROM t")
	ok(t, err)
	time.Sleep(2 * time.Nanosecond)
	_, query := s.Query(ctx, "SELECT * FROM t")
	for i, err := range []error{query, run("INSERT INTO t VALUES (2)"), run("SAVEPOINT a"),
		run("COMMIT")} {
		if !errors.Is(err, table.ErrTxAge) || strings.Contains(err.Error(), "ROLLBACK") != (i < 3) {
			t.Errorf("statement %d after the age: %v", i, err)
		}
	}
	err = errors.Join(run("BEGIN"), run("INSERT INTO t VALUES (3)"), run("COMMIT"))
	ok(t, err)
	rows, err := s.Query(ctx, "SELECT count(*) FROM t")
	ok(t, err)
	for row, err := range rows.All() {
		if n, _ := row[0].AsInt(); n != 1 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
	}
}
