package local_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// asked returns the rows of a query as text.
func asked(t *testing.T, s *sql.Session, text string) (all []string) {
	t.Helper()
	rows, err := s.Query(ctx, text)
	ok(t, err)
	return texts(t, rows)
}

// texts returns the rows as text.
func texts(t *testing.T, rows *sql.Rows) (all []string) {
	t.Helper()
	for row, err := range rows.All() {
		ok(t, err)
		all = append(all, fmt.Sprint(row))
	}
	return all
}

// Goal: a process that only reads, and a follower of what is shipped, follow the definitions of
// tables, too. Method: the writer changes indexes, columns and tables, and after each change the
// readers, which have planned the queries before, have the writer's answers at once.
//
// Promise (reads and writes): Tables that are read beside their writer, or in the database of a
// follower, follow its definitions: each query has those of its snapshot. No query is a commit.
func TestTablesBesideTheWriter(t *testing.T) {
	dir := t.TempDir() + "/db"
	open := func(o engine.Options) (*table.DB, *sql.Session) {
		db, err := local.OpenDir(ctx, dir, &local.Options{Engine: &o})
		ok(t, err)
		t.Cleanup(func() { ok(t, db.Close()) })
		return db, sql.Open(db)
	}
	written, writer := open(engine.Options{Durability: engine.Process, RetainBytes: 64 << 20})
	run := func(text string) {
		t.Helper()
		_, err := writer.Exec(ctx, text)
		ok(t, err)
	}
	run("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b TEXT)")
	insert := func(from int) {
		for i := range 200 {
			run(fmt.Sprintf("INSERT INTO t (id, a, b) VALUES (%d, %d, 'x%d')", from+i, i%50, i))
		}
	}
	insert(0)
	beside, reader := open(engine.Options{ReadOnly: true, Visible: true})
	dest := ship.Directory(dir + ".shipped")
	shipper, err := ship.Start(local.Engine(written), dest,
		&ship.Options{Interval: time.Millisecond})
	ok(t, err)
	defer func() { ok(t, shipper.Close(ctx)) }()
	shipped := func() uint64 {
		version := local.Engine(written).Metrics().LastVersion
		ok(t, shipper.WaitFor(ctx, version))
		return version
	}
	shipped()
	follower, err := ship.Follow(ctx, dest, dir+".followed",
		&ship.FollowOptions{Interval: time.Millisecond})
	ok(t, err)
	defer func() { ok(t, follower.Close()) }()
	followed, err := local.Open(ctx, follower.DB(), &table.Options{SampleRows: 100})
	ok(t, err)
	defer func() { ok(t, followed.Close()) }()
	byA, byID := "SELECT id FROM t WHERE a = 7 ORDER BY id", "SELECT * FROM t WHERE id = 7"
	for i, change := range []func(){
		func() {},
		func() { run("CREATE INDEX by_a ON t (a)") },
		func() { insert(1000) },
		func() { run("DROP INDEX by_a ON t"); insert(2000) },
		func() { run("CREATE INDEX by_a ON t (a) SHARD (4)") },
		func() { run("ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 5"); insert(3000) },
		func() { run("ALTER TABLE t DROP COLUMN b"); run("UPDATE t SET c = 6 WHERE id = 7") },
		func() { run("DROP TABLE t"); run("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)") },
		func() { run("INSERT INTO t VALUES (7, 7), (8, 7)") },
	} {
		change()
		ok(t, local.Engine(beside).Refresh())
		ok(t, follower.WaitFor(ctx, shipped()))
		for _, text := range []string{byA, byID} {
			want := fmt.Sprint(asked(t, writer, text))
			for j, s := range []*sql.Session{reader, sql.Open(followed)} {
				if got := fmt.Sprint(asked(t, s, text)); got != want {
					t.Errorf("change %d: %s: reader %d has %s, want %s", i, text, j, got, want)
				}
			}
		}
	}
	_, err = sql.Open(followed).Exec(ctx, "DELETE FROM t")
	testutil.WantIs(t, err, engine.ErrReadOnly)
	if errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
}

// A query whose snapshot has changed definitions, which another goroutine reads while it begins,
// has the definitions of its snapshot. Method: the clock, which is asked about each table of the
// query, has them read.
func TestDefinitionsReadWhileAQueryBegins(t *testing.T) {
	dir := t.TempDir() + "/db"
	synctest.Test(t, func(t *testing.T) { readWhileAQueryBegins(t, dir) })
}

func readWhileAQueryBegins(t *testing.T, dir string) {
	open := func(clock func() time.Time, e engine.Options) *table.DB {
		db, err := local.OpenDir(ctx, dir, &local.Options{Engine: &e,
			Options: table.Options{SampleRows: -1, Clock: clock}})
		ok(t, err)
		t.Cleanup(func() { ok(t, db.Close()) })
		return db
	}
	writer := sql.Open(open(nil, engine.Options{Durability: engine.Process}))
	run := func(text string) {
		t.Helper()
		_, err := writer.Exec(ctx, text)
		ok(t, err)
	}
	run("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
	run("CREATE TABLE u (id BIGINT PRIMARY KEY)")
	for i := range 200 {
		run(fmt.Sprintf("INSERT INTO t VALUES (%d, %d)", i, i%50))
	}
	run("INSERT INTO u VALUES (1)")
	var reader *table.DB
	var left atomic.Int64 // questions before the one
	clock := func() time.Time {
		if left.Add(-1) == 0 {
			go reader.Definitions()
			synctest.Wait() // until it has read, or waits for who asks
		}
		return time.Unix(0, 0)
	}
	reader = open(clock, engine.Options{ReadOnly: true, Visible: true})
	for at := int64(1); left.Load() <= 0; at++ {
		run("CREATE INDEX by_a ON t (a)")
		ok(t, local.Engine(reader).Refresh())
		rows, err := sql.Open(reader).Query(ctx,
			"SELECT count(*) FROM t, u WHERE t.a = 7 AND u.id = 1")
		ok(t, err)
		run("DROP INDEX by_a ON t")
		ok(t, local.Engine(reader).Refresh())
		left.Store(at)
		if got := texts(t, rows); fmt.Sprint(got) != "[[4]]" {
			t.Errorf("definitions read at question %d: %s", at, got)
		}
	}
}

// A prepared query of one row, which reads the present without a snapshot elsewhere, has the
// definition that the row was written by.
func TestRowBesideTheWriter(t *testing.T) {
	dir := t.TempDir() + "/db"
	w, err := local.OpenDir(ctx, dir, &local.Options{Engine: &engine.Options{
		Durability: engine.Process}})
	ok(t, err)
	defer func() { ok(t, w.Close()) }()
	writer := sql.Open(w)
	run := func(text string) {
		t.Helper()
		_, err := writer.Exec(ctx, text)
		ok(t, err)
	}
	run("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
	r, err := local.OpenDir(ctx, dir, &local.Options{Engine: &engine.Options{ReadOnly: true,
		Visible: true}})
	ok(t, err)
	defer func() { ok(t, r.Close()) }()
	handle, err := r.Table("t")
	ok(t, err)
	def := handle.Schema()
	point, err := r.Prepare(&plan.Select{From: []plan.Source{{Table: def}},
		Where:   expr.Cmp{Op: expr.Eq, L: def.Ref(0, def.Column("id")), R: expr.Param{Index: 0}},
		Columns: []plan.Output{{Expr: def.Ref(0, def.Column("a"))}}})
	ok(t, err)
	run("ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 5")
	run("INSERT INTO t (id, a) VALUES (1, 7)")
	ok(t, local.Engine(r).Refresh())
	rows, err := point.Query(ctx, r, expr.Int(1))
	ok(t, err)
	n := 0
	for row, err := range rows.All() {
		ok(t, err)
		if v, _ := row[0].AsInt(); v != 7 {
			t.Errorf("a is %v", row[0])
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d rows", n)
	}
}
