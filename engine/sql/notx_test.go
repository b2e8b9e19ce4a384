package sql_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
)

// TestWithoutTransactions: over storage without transactions, statements that need one are
// refused before anything is written, and others work.
func TestWithoutTransactions(t *testing.T) {
	ctx := context.Background()
	db, err := table.OpenStore(ctx, struct{ store.Store }{remotetest.New(true, 1<<20)}, nil)
	ok(t, err)
	defer db.Close()
	s := sql.Open(db)
	for _, text := range []string{"CREATE TABLE t (id INT, n INT, PRIMARY KEY (id))",
		"INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET n = n + 10 WHERE n = 2",
		"INSERT OR REPLACE INTO t VALUES (1, 5)", "DELETE FROM t WHERE n = 99"} {
		if _, err := s.Exec(ctx, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"BEGIN", "INSERT OR IGNORE INTO t VALUES (3, 3)",
		"INSERT INTO t VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET n = 9",
		"UPDATE t SET n = 0 WHERE EXISTS (SELECT 1 FROM t y WHERE y.id = t.id)",
		"UPDATE t SET n = (SELECT max(y.n) FROM t y WHERE y.id <= t.id)"} {
		_, err := s.Exec(ctx, text)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", text, err)
		}
	}
	rows, err := s.Query(ctx, "SELECT sum(n), count(*) FROM t")
	ok(t, err)
	for row, err := range rows.All() {
		if err != nil || row[0].String() != "17" || row[1].String() != "2" {
			t.Errorf("%v, %v", row, err)
		}
	}
}
