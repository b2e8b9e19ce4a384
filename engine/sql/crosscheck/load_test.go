package crosscheck

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	ksql "github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/testdata"
)

var ok = testutil.OK

// pair is the same data in both databases.
type pair struct {
	t      *testing.T
	e      *engine.DB
	db     *table.DB
	ours   *ksql.Session
	theirs *sql.DB
	tables []tableInfo

	postgres bool // theirs is PostgreSQL, not SQLite
}

// tableInfo is what the generator knows about a table.
type tableInfo struct {
	name    string
	columns []columnInfo
	indexes []string
	rows    int
}

type columnInfo struct {
	name   string
	text   bool
	null   bool
	float  bool
	time   bool     // a text in SQLite
	day    bool     // a time that is a date
	nocase bool     // a text under the collation NOCASE
	values []string // literals from the data
}

func open(t *testing.T) *pair {
	t.Helper()
	return openBeside(t, "sqlite", "file::memory:?_pragma=case_sensitive_like(1)")
}

// openBeside returns an empty kstone and a connection of another database.
func openBeside(t *testing.T, driver, source string) *pair {
	t.Helper()
	e, err := engine.Open(t.TempDir(), &engine.Options{Durability: engine.Process})
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	p := &pair{t: t, e: e}
	p.reopen(nil)
	theirs, err := sql.Open(driver, source)
	ok(t, err)
	theirs.SetMaxOpenConns(1)
	t.Cleanup(func() { theirs.Close(); p.db.Close() })
	p.theirs = theirs
	return p
}

// reopen opens the tables again: what the catalogue has is read.
func (p *pair) reopen(o *table.Options) {
	p.t.Helper()
	if p.db != nil {
		ok(p.t, p.db.Close())
	}
	var err error
	p.db, err = local.Open(context.Background(), p.e, o)
	ok(p.t, err)
	p.ours = ksql.Open(p.db)
}

// both runs statements that change something in both databases.
func (p *pair) both(ours, theirs string) {
	p.t.Helper()
	if _, err := p.ours.Exec(context.Background(), ours); err != nil {
		p.t.Fatalf("%.200s: %v", ours, err)
	}
	if p.postgres {
		theirs = postgresTypes.Replace(theirs)
	}
	if _, err := p.theirs.Exec(theirs); err != nil {
		p.t.Fatalf("beside kstone: %.200s: %v", theirs, err)
	}
}

var postgresTypes = strings.NewReplacer("INTEGER", "BIGINT", " REAL", " DOUBLE PRECISION",
	" at TEXT", " at TIMESTAMP", " day TEXT", " day TIMESTAMP", " COLLATE NOCASE", "")

// records reads a file of JSON lines, every one of step.
func records(t *testing.T, in io.Reader, step int) (all []map[string]any) {
	t.Helper()
	zr, err := gzip.NewReader(in)
	ok(t, err)
	lines := bufio.NewScanner(zr)
	for n := 0; lines.Scan(); n++ {
		if n%step != 0 {
			continue
		}
		var r map[string]any
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		ok(t, d.Decode(&r))
		all = append(all, r)
	}
	ok(t, lines.Err())
	return all
}

// load fills both databases with the cities and the earthquakes. NULLs are put in, so that
// three-valued logic has something to decide.
func load(t *testing.T, rng *rand.Rand, step int) *pair {
	t.Helper()
	p := open(t)
	p.loadInto(rng, step)
	return p
}

func (p *pair) loadInto(rng *rand.Rand, step int) {
	t := p.t
	t.Helper()
	p.both(`CREATE TABLE cities (id INT, country TEXT, region TEXT NULL, county TEXT NULL,
		city TEXT, lat FLOAT NULL, lng FLOAT, grade INT NULL, PRIMARY KEY (id),
		INDEX by_country (country, region), INDEX by_grade (grade DESC, country) SHARD (16),
		INDEX by_lat (lat) INCLUDE (city), UNIQUE INDEX by_city (city, id) SHARD (4),
		INDEX local_region (region, grade) LOCAL)`,
		`CREATE TABLE cities (id INTEGER PRIMARY KEY, country TEXT, region TEXT, county TEXT,
		city TEXT, lat REAL, lng REAL, grade INTEGER)`)
	cities := []columnInfo{{name: "id"}, {name: "country", text: true},
		{name: "region", text: true, null: true}, {name: "county", text: true, null: true},
		{name: "city", text: true}, {name: "lat", float: true, null: true},
		{name: "lng", float: true}, {name: "grade", null: true}}
	p.fill(rng, "cities", cities, records(t, bytes.NewReader(testdata.Cities), step))
	p.both(`CREATE TABLE quakes (id INT, net TEXT, time INT, mag FLOAT NULL, depth FLOAT NULL,
		lat FLOAT, type TEXT, grade INT NULL, day DATE NULL, kind TEXT NULL COLLATE NOCASE,
		at TIMESTAMP(s) NULL, PARTITION KEY (net),
		SORT KEY (time DESC, id), INDEX by_at (at) INCLUDE (grade), INDEX by_day (day, grade),
		INDEX by_mag (mag DESC), INDEX by_grade (grade, type), INDEX by_type (type, grade),
		INDEX by_kind (kind, grade) INCLUDE (type), UNIQUE INDEX one_kind (kind, id) SHARD (4),
		INDEX deep (depth) WHERE depth > 50)`,
		`CREATE TABLE quakes (id INTEGER UNIQUE, net TEXT, time INTEGER, mag REAL, depth REAL,
		lat REAL, type TEXT, grade INTEGER, day TEXT, kind TEXT COLLATE NOCASE, at TEXT)`)
	quakes := []columnInfo{{name: "id"}, {name: "net", text: true}, {name: "time"},
		{name: "mag", float: true, null: true}, {name: "depth", float: true, null: true},
		{name: "lat", float: true}, {name: "type", text: true}, {name: "grade", null: true},
		{name: "day", time: true, day: true, null: true},
		{name: "kind", text: true, nocase: true, null: true},
		{name: "at", time: true, null: true}}
	file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "earthquakes.jsonl.gz"))
	ok(t, err)
	defer file.Close()
	p.fill(rng, "quakes", quakes, records(t, file, max(1, step/60)))
	p.tables[0].indexes = []string{"by_country", "by_grade", "by_lat", "by_city", "local_region"}
	p.tables[1].indexes = []string{"by_mag", "by_grade", "by_at", "by_day", "by_type", "by_kind",
		"one_kind"}
	if p.postgres { // it has no such collation
		p.tables[1].columns = slices.DeleteFunc(p.tables[1].columns,
			func(c columnInfo) bool { return c.nocase })
	}
	if _, err := p.ours.Exec(context.Background(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
}

// fill inserts the records.
func (p *pair) fill(rng *rand.Rand, name string, columns []columnInfo, all []map[string]any) {
	info := tableInfo{name: name, columns: columns, rows: len(all)}
	var rows []string
	for n, r := range all {
		r["id"], r["grade"] = n, rng.IntN(12)
		if kind, ok := r["type"].(string); ok {
			r["type"], r["kind"] = anyCase(rng, kind), anyCase(rng, kind)
		}
		var cells []string
		for i := range info.columns {
			c := &info.columns[i]
			cell := literal(r[c.name], c.float)
			switch {
			case c.day:
				cell = "DATE " + instant(r["time"], time.DateOnly)
			case c.time:
				cell = instant(r["time"], isoSeconds)
			}
			if c.null && rng.IntN(8) == 0 {
				cell = "NULL"
			} else if rng.IntN(1+len(all)/40) == 0 || len(c.values) == 0 {
				c.values = append(c.values, cell)
			}
			cells = append(cells, cell)
		}
		rows = append(rows, "("+strings.Join(cells, ",")+")")
		if len(rows) == 500 || n == len(all)-1 {
			text := fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", name, names(info.columns),
				strings.Join(rows, ","))
			p.both(text, translated(text))
			rows = nil
		}
	}
	p.tables = append(p.tables, info)
}

// anyCase returns a text in some case.
func anyCase(rng *rand.Rand, text string) string {
	switch rng.IntN(4) {
	case 0:
		return strings.ToUpper(text)
	case 1:
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}

// instant returns a time in milliseconds as SQL, in a form that both databases compare.
func instant(v any, layout string) string {
	n, ok := v.(json.Number)
	ms, err := n.Int64()
	if !ok || err != nil {
		return "NULL"
	}
	return "'" + time.UnixMilli(ms).UTC().Format(layout) + "'"
}

// isoSeconds is a time as SQLite has it.
const isoSeconds = "2006-01-02T15:04:05Z"

func names(columns []columnInfo) string {
	var list []string
	for _, c := range columns {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}

// literal returns a value of a record as SQL. Floats have an exponent, which makes them
// floats in both databases.
func literal(v any, float bool) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case json.Number:
		if float && !strings.ContainsAny(v.String(), "eE") {
			return v.String() + "e0"
		}
		return v.String()
	}
	return fmt.Sprint(v)
}
