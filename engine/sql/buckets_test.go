package sql_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// bucketSession returns a session with a table of 2,000 rows and two sharded indexes.
func bucketSession(t *testing.T) *sql.Session {
	t.Helper()
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, n INT NULL, m INT)")
	exec(t, s, "CREATE INDEX by_n ON t (n) SHARD (256, tidb)")
	exec(t, s, "CREATE INDEX by_m ON t (m) SHARD (16, mix64)")
	for i := range 2000 {
		n := any(i * 7)
		if i%50 == 0 {
			n = nil
		}
		exec(t, s, "INSERT INTO t VALUES (?, ?, ?)", i, n, i*3)
	}
	return s
}

// TestBucketsThatAreWrittenOut reads by conditions on the bucket of a column, with an index that is
// sharded like that, with one that is sharded in another way, and without.
//
// Promise (plans): A condition on the bucket that is written out, as tidb_shard(n) = 8, reads
// that bucket of an index sharded by it, and never loses a row.
func TestBucketsThatAreWrittenOut(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	s := bucketSession(t)
	run := func(text string, args ...any) string { return queried(t, s, text, args...) }
	for _, c := range []struct {
		where string
		args  []any
		reads string // of the index
	}{
		{"tidb_shard(n) = 8", nil, "buckets: 1/256"},
		{"8 = tidb_shard(n)", nil, "buckets: 1/256"},
		{"tidb_shard(n) = 8.0", nil, "buckets: 1/256"},
		{"tidb_shard(n) = ?", []any{8}, "buckets: 1/256"},
		{"tidb_shard(n) IN (8, 9, 300)", nil, "buckets: 2/256"},
		{"tidb_shard(n) = 8 AND tidb_shard(n) = 9", nil, "buckets: 0/256"},
		{"tidb_shard(n) = 8 AND n > 700", nil, "buckets: 1/256"},
		{"tidb_shard(n) = 8 AND n IN (7, 14, 21, 28, 35, 42)", nil, ""},
		{"shard('tidb:256', n) = 8", nil, "buckets: 1/256"},
		{"shard('mix64:16', n) = 8", nil, "buckets: 256/256"},
		{"shard('mix64:16', m) = 8", nil, "buckets: 1/16"},
		{"tidb_shard(n) > 250", nil, "buckets: 256/256"},
		{"tidb_shard(n) = 300", nil, "buckets: 0/256"},
		{"tidb_shard(n) = NULL", nil, ""},
		{"tidb_shard(n) = (SELECT 8)", nil, ""},
	} {
		index := "by_n"
		if strings.Contains(c.where, "m)") {
			index = "by_m"
		}
		for _, more := range []string{"", " ORDER BY n, id", " ORDER BY m DESC, id DESC LIMIT 3"} {
			hinted := "SELECT id, n FROM t INDEXED BY " + index + " WHERE " + c.where
			order := more
			if more == "" {
				order = " ORDER BY id"
			}
			got := run(hinted+order, c.args...)
			want := run("SELECT id, n FROM t NOT INDEXED WHERE "+c.where+order, c.args...)
			if got != want {
				t.Errorf("%s%s: %s\nnot %s", c.where, order, got, want)
			}
			if plan := run("EXPLAIN "+hinted+more, c.args...); !strings.Contains(plan, c.reads) {
				t.Errorf("%s%s: not %q\n%s", c.where, more, c.reads, plan)
			}
		}
	}
	if plan := run("EXPLAIN SELECT n FROM t WHERE tidb_shard(n) = 8"); !strings.Contains(plan,
		"buckets: 1/256") {
		t.Errorf("without a hint:\n%s", plan)
	}
	left := run("SELECT count(*) FROM t WHERE tidb_shard(n) <> 8 OR n IS NULL")
	ok(t, second(s.Exec(t.Context(), "DELETE FROM t WHERE tidb_shard(n) = 8")))
	if got := run("SELECT count(*) FROM t"); got != left {
		t.Errorf("%s rows after the deletion, want %s", got, left)
	}
}
