package local_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// openRetaining opens a database with tables that retains log and versions.
func openRetaining(t *testing.T, o engine.Options) (*engine.DB, *sql.Session) {
	t.Helper()
	o.InMemory, o.Durability, o.RetainBytes = true, engine.Process, 64<<20
	o.RetainAge = time.Hour
	e, err := engine.Open("store", &o)
	ok(t, err)
	db, err := local.Open(ctx, e, nil)
	ok(t, err)
	t.Cleanup(func() {
		ok(t, db.Close())
		ok(t, e.Close())
	})
	return e, sql.Open(db)
}

// rowText is a row without what is dropped.
func rowText(t *schema.Table, row []expr.Value) string {
	if row == nil {
		return "-"
	}
	var words []string
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Dropped {
			words = append(words, c.Name+"="+row[i].String())
		}
	}
	return strings.Join(words, " ")
}

func changeText(c *local.TableChange) string {
	if c.Kind == local.ItemChanged {
		return fmt.Sprintf("item %s %s", c.Item.Kind, c.Item.Key.PK)
	}
	text := fmt.Sprintf("%s %s", c.Kind, c.Table.Name)
	if c.Key != nil {
		text += fmt.Sprintf(" %s | %s", rowText(c.Table, c.Before), rowText(c.Table, c.After))
	}
	if c.Last {
		text += " last"
	}
	return text
}

func changesOf(t *testing.T, e *engine.DB, from engine.Position, o local.ChangesOptions) string {
	t.Helper()
	o.Stop = true
	var b strings.Builder
	for c, err := range local.Changes(ctx, e, from, &o) {
		ok(t, err)
		fmt.Fprintln(&b, changeText(&c))
	}
	return b.String()
}

// Changes of tables are rows, by the definitions of their time: index entries, statistics and items
// that belong to no table are none.
//
// Promise (history): Changes of tables are rows before and after, read by the definition that they
// were written by, and nothing else that is stored for tables.
func TestTableChanges(t *testing.T) {
	e, s := openRetaining(t, engine.Options{RetainVersions: time.Hour})
	var begins []engine.Position // of statements
	for _, text := range []string{
		"CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT NULL, b TEXT)",
		"CREATE INDEX by_a ON t (a)",
		"INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')",
		"CREATE TABLE u (name TEXT COLLATE NOCASE PRIMARY KEY)",
		"UPDATE t SET a = 11 WHERE id = 1",
		"ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 5",
		"ALTER TABLE t DROP COLUMN b",
		"INSERT INTO t (id, a) VALUES (3, 30)",
		"ALTER TABLE t RENAME TO v",
		"INSERT INTO u VALUES ('Ada')",
		"DELETE FROM v WHERE id = 2",
		"DELETE FROM u",
		"ANALYZE v",
		"DROP TABLE v",
		"CREATE TABLE t (x BIGINT PRIMARY KEY)",
	} {
		begins = append(begins, engine.Position{Version: e.Metrics().LastVersion + 1})
		_, err := s.Exec(ctx, text)
		ok(t, err)
		ok(t, e.Put(engine.Key{PK: []byte("t\x00\x00\x00\x63raw")}, nil)) // not a row
	}
	defined := func(text string) string { // CREATE INDEX has several steps
		var out []string
		for line := range strings.Lines(text) {
			if n := len(out); n == 0 || out[n-1] != line {
				out = append(out, line)
			}
		}
		return strings.Join(out, "")
	}
	const want = `define t last
put t - | id=1 a=10 b='x'
put t - | id=2 a=20 b='y' last
define u last
put t id=1 a=10 b='x' | id=1 a=11 b='x' last
define t last
put t - | id=3 a=30 c=5 last
define v last
put u - | name='Ada' last
delete v id=2 a=20 c=5 | - last
delete u name='Ada' | - last
drop v last
define t last
`
	got := defined(changesOf(t, e, engine.Position{}, local.ChangesOptions{Before: true}))
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	all := changesOf(t, e, engine.Position{}, local.ChangesOptions{Items: true})
	if n := strings.Count(all, "item "); n != strings.Count(all, "raw\n") || n != len(begins) {
		t.Errorf("with items: got\n%s", all)
	}
	const some = `delete v id=2 a=20 c=5 | - last
drop v last
`
	got = changesOf(t, e, begins[9], local.ChangesOptions{Before: true, Tables: []string{"v"}})
	if got != some {
		t.Errorf("of v, from the middle: got\n%swant\n%s", got, some)
	}
	const unknown = `delete v - | - last
`
	got = changesOf(t, e, begins[10], local.ChangesOptions{Tables: []string{"v"}})
	if !strings.HasPrefix(got, unknown) {
		t.Errorf("without what was before: got\n%s", got)
	}
}

// The key of a row that is deleted is known without the row before, with folded texts.
func TestTableChangesOfFoldedKeys(t *testing.T) {
	e, s := openRetaining(t, engine.Options{})
	for _, text := range []string{"CREATE TABLE u (name TEXT COLLATE NOCASE PRIMARY KEY)",
		"INSERT INTO u VALUES ('Ada')", "DELETE FROM u"} {
		_, err := s.Exec(ctx, text)
		ok(t, err)
	}
	var keys []string
	o := &local.ChangesOptions{Stop: true}
	for c, err := range local.Changes(ctx, e, engine.Position{}, o) {
		ok(t, err)
		keys = append(keys, fmt.Sprint(c.Key))
	}
	if got := fmt.Sprint(keys); got != "[[] ['Ada'] ['ada']]" {
		t.Error(got)
	}
}

// model is the rows of all tables by name and key.
type model map[string]string

func (m model) apply(t *testing.T, c *local.TableChange) {
	t.Helper()
	id := c.Table.Name
	for _, i := range c.Table.KeyOrdinals() {
		if c.Key != nil {
			id += fmt.Sprintf(" %s=%s", c.Table.Columns[i].Name, c.Key[i])
		}
	}
	before, there := m[id]
	switch c.Kind {
	case local.RowPut, local.RowDeleted:
		if c.Known && there != (c.Before != nil) || c.Before != nil &&
			rowText(c.Table, c.Before) != before {
			t.Fatalf("%s: want %q before", changeText(c), before)
		}
		if delete(m, id); c.After != nil {
			m[id] = rowText(c.Table, c.After)
		}
	case local.TableDropped:
		maps.DeleteFunc(m, func(id, _ string) bool {
			return strings.HasPrefix(id, c.Table.Name+" ")
		})
	case local.TableDefined, local.RowsDeleted:
	}
}

// A copy of tables that is made of their changes has the rows of the tables, at any version and
// from any version on.
func TestTableChangesAreTheTables(t *testing.T) {
	rnd := testutil.Rand(t)
	e, s := openRetaining(t, engine.Options{RetainVersions: time.Hour, FlushRecords: 200})
	for _, text := range []string{
		"CREATE TABLE t (k BIGINT, i BIGINT, a BIGINT, PRIMARY KEY (k, i))",
		"CREATE INDEX by_a ON t (a) SHARD (4)", "CREATE TABLE u (i TEXT PRIMARY KEY, a BIGINT)",
	} {
		_, err := s.Exec(ctx, text)
		ok(t, err)
	}
	for range testutil.Effort(300, 10_000) {
		_, err := s.Exec(ctx, randomChange(rnd))
		ok(t, err)
	}
	m, mid := model{}, model{}
	at := 1 + rnd.Uint64N(e.Metrics().LastVersion)
	for c, err := range local.Changes(ctx, e, engine.Position{}, &local.ChangesOptions{Before: true,
		Stop: true}) {
		ok(t, err)
		m.apply(t, &c)
		if c.Item.Version < at {
			mid.apply(t, &c)
		}
	}
	for c, err := range local.Changes(ctx, e, engine.Position{Version: at},
		&local.ChangesOptions{Before: true, Stop: true}) {
		ok(t, err)
		mid.apply(t, &c)
	}
	want := model{}
	for _, q := range []string{"t k=%d i=%d|k=%[1]d i=%[2]d a=%d|SELECT k, i, a FROM t",
		"u i='%s'|i='%[1]s' a=%d|SELECT i, a FROM u"} {
		f := strings.Split(q, "|")
		rows, err := s.Query(ctx, f[2])
		ok(t, err)
		for row, err := range rows.All() {
			ok(t, err)
			var args []any
			for _, v := range row {
				if n, is := v.AsInt(); is {
					args = append(args, n)
				} else {
					args = append(args, strings.Trim(v.String(), "'"))
				}
			}
			id := fmt.Sprintf(f[0], args[:len(args)-1]...)
			want[id] = fmt.Sprintf(f[1], args...)
		}
	}
	if !maps.Equal(m, want) || !maps.Equal(mid, want) || len(want) < 10 {
		t.Errorf("%d and %d rows, want %d", len(m), len(mid), len(want))
	}
}

func randomChange(rnd *rand.Rand) string {
	k, i, a := rnd.IntN(4), rnd.IntN(20), rnd.IntN(1000)
	switch rnd.IntN(8) {
	case 0:
		return fmt.Sprintf("DELETE FROM t WHERE k = %d AND i < %d", k, i)
	case 1:
		return fmt.Sprintf("UPDATE t SET a = a + 1 WHERE k = %d", k)
	case 2:
		return fmt.Sprintf("DELETE FROM u WHERE a < %d", a/4)
	case 3:
		return fmt.Sprintf("INSERT OR REPLACE INTO u VALUES ('%d', %d)", i, a)
	}
	return fmt.Sprintf("INSERT OR REPLACE INTO t VALUES (%d, %d, %d), (%d, %d, %d)", k, i, a, k+1,
		i, a)
}

// Whoever goes on after a definition, or before it, has the rows that follow by the right one.
func TestTableChangesGoOnAfterDefinitions(t *testing.T) {
	e, s := openRetaining(t, engine.Options{RetainVersions: time.Hour})
	for _, text := range []string{"CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)",
		"INSERT INTO t VALUES (1, 2), (2, 3)", "ALTER TABLE t DROP COLUMN a",
		"INSERT INTO t VALUES (3)", "ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (4)",
		"DROP TABLE u"} {
		_, err := s.Exec(ctx, text)
		ok(t, err)
	}
	rest := changesOf(t, e, engine.Position{}, local.ChangesOptions{})
	o := &local.ChangesOptions{Stop: true}
	for c, err := range local.Changes(ctx, e, engine.Position{}, o) {
		ok(t, err)
		_, rest, _ = strings.Cut(rest, "\n")
		if got := changesOf(t, e, c.Next(), local.ChangesOptions{}); got != rest {
			t.Fatalf("after %s: got\n%swant\n%s", changeText(&c), got, rest)
		}
	}
}

// A consumer of a table that nobody writes goes on past what is written elsewhere.
func TestTableConsumer(t *testing.T) {
	e, s := openRetaining(t, engine.Options{})
	for _, text := range []string{"CREATE TABLE t (id BIGINT PRIMARY KEY)",
		"INSERT INTO t VALUES (1)"} {
		_, err := s.Exec(ctx, text)
		ok(t, err)
	}
	c, err := e.Consumer("c", engine.Position{})
	ok(t, err)
	for range 600 {
		ok(t, e.Put(engine.Key{PK: []byte("raw")}, nil))
	}
	n := 0
	for ch, err := range local.Changes(ctx, e, engine.Position{}, &local.ChangesOptions{Consumer: c,
		Stop: true, Tables: []string{"t"}}) {
		ok(t, err)
		n++
		ok(t, c.Ack(ch.Next()))
	}
	p, err := c.Position()
	ok(t, err)
	if n != 2 || p.Version < 500 {
		t.Errorf("%d changes, position %s of %d", n, p, e.Metrics().LastVersion)
	}
}

// Whoever goes on after any change misses none, also of a range delete of several tables. Rows of a
// table that was dropped are not taken for items.
func TestTableChangesGoOn(t *testing.T) {
	e, s := openRetaining(t, engine.Options{})
	for _, text := range []string{"CREATE TABLE t (id BIGINT PRIMARY KEY)",
		"CREATE TABLE u (id BIGINT PRIMARY KEY)", "CREATE TABLE v (id BIGINT PRIMARY KEY)"} {
		_, err := s.Exec(ctx, text)
		ok(t, err)
	}
	from := engine.Position{Version: e.Metrics().LastVersion + 1}
	for i := range 300 { // more than there are stripes
		for _, name := range []string{"t", "u", "v"} {
			_, err := s.Exec(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", name, i))
			ok(t, err)
		}
	}
	_, err := s.Exec(ctx, "DROP TABLE v")
	ok(t, err)
	ok(t, e.DeleteScan(engine.K("t"), engine.K("u")))
	read := func(from engine.Position) (all []string, next []engine.Position) {
		for c, err := range local.Changes(ctx, e, from, &local.ChangesOptions{Items: true,
			Stop: true}) {
			ok(t, err)
			if c.Kind == local.ItemChanged {
				t.Fatalf("%q", changeText(&c))
			}
			all = append(all, fmt.Sprintf("%d.%d %s", c.Item.Version, c.Item.Index, c.Table.Name))
			next = append(next, c.Next())
		}
		return all, next
	}
	all, next := read(from)
	again := 0
	for i := 600; i < len(all); i++ {
		rest, _ := read(next[i])
		for _, c := range all[i+1:] {
			if !slices.Contains(rest, c) {
				t.Fatalf("after %s: no %s", all[i], c)
			}
		}
		again += len(rest) - len(all[i+1:])
	}
	if again == 0 || len(all) < 700 {
		t.Errorf("%d changes, %d of them again", len(all), again)
	}
}
