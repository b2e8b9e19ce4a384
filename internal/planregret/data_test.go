package planregret_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

// The columns of orders, and what is difficult about each: id and created rise together, status
// and vip have one value that nearly all rows have, cust follows Zipf's law, region follows from
// cust, amount and code are even, code is unique, day is clustered by id.
var definitions = []string{
	`CREATE TABLE orders (id INT PRIMARY KEY, status TEXT, cust INT, region INT, created INT,
		amount INT, vip INT, day INT, code INT, note TEXT)`,
	`CREATE INDEX by_status ON orders (status)`,
	`CREATE INDEX by_cust ON orders (cust)`,
	`CREATE INDEX by_region ON orders (region, cust)`,
	`CREATE INDEX by_created ON orders (created)`,
	`CREATE INDEX by_amount ON orders (amount)`,
	`CREATE INDEX by_vip ON orders (vip)`,
	`CREATE INDEX by_day ON orders (day)`,
	`CREATE UNIQUE INDEX by_code ON orders (code) SHARD (256, tidb)`,
	`CREATE TABLE people (cust INT PRIMARY KEY, region INT, grade INT, name TEXT)`,
	`CREATE INDEX p_region ON people (region)`,
	`CREATE INDEX p_grade ON people (grade)`,
}

// indexes are what a hint may name, the rows first.
var indexes = []string{"", "by_status", "by_cust", "by_region", "by_created", "by_amount",
	"by_vip", "by_day", "by_code"}

// world is a database of rows orders, and a tenth as many people.
type world struct {
	t       *testing.T
	db      *table.DB
	session *sql.Session
	rows    int
	known   string          // of its rows
	files   string          // how its rows are in files
	best    map[string]best // by query with its values: of all plans
	seen    map[string]work // by query with its values, and plan
}

// newWorld makes an empty database; automatic has its statistics collected by themselves.
func newWorld(t *testing.T, rows int, automatic bool) *world {
	t.Helper()
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { ok(t, e.Close()) })
	o := &table.Options{SampleRows: -1}
	if automatic {
		o = nil
	}
	db, err := local.Open(context.Background(), e, o)
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	w := &world{t: t, db: db, session: sql.Open(db), rows: rows,
		best: map[string]best{}, seen: map[string]work{}}
	for _, d := range definitions {
		ok(t, second(w.session.Exec(t.Context(), d)))
	}
	return w
}

// load writes the rows in [from, to) to files; rows are equal for equal numbers.
// Why files: what is at rest is flushed, and a plan reads less of files that have zones than it has
// read of memtables. They are merged, since how many blocks zones leave depends on how far that is.
func (w *world) load(seed uint64, from, to int) {
	w.t.Helper()
	w.insert("orders", w.orders(seed, from, to))
	w.insert("people", w.people(from/10, to/10))
	e := local.Engine(w.db)
	ok(w.t, e.Flush(w.t.Context()))
	ok(w.t, e.Compact(w.t.Context()))
}

func (w *world) insert(name string, rows iter.Seq[[]expr.Value]) {
	w.t.Helper()
	t, err := w.db.Table(name)
	if err == nil {
		_, err = t.InsertMany(w.t.Context(), rows)
	}
	ok(w.t, err)
}

// codeStep makes codes of numbers: it has no divisor in common with the numbers of rows, so that
// codes are unique.
const codeStep = 7_368_787

func (w *world) orders(seed uint64, from, to int) iter.Seq[[]expr.Value] {
	return func(yield func([]expr.Value) bool) {
		for i := from; i < to; i++ {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			cust := w.customer(r.Float64())
			row := []expr.Value{expr.Int(int64(i)), expr.String(status(r.Float64())),
				expr.Int(int64(cust)), expr.Int(int64(cust % 40)),
				expr.Int(int64(i)*10 + r.Int64N(10)), expr.Int(r.Int64N(10_000)),
				expr.Int(int64(1 / (1 + r.IntN(100)))), expr.Int(int64(i / 500)),
				expr.Int(int64(i) * codeStep % int64(10*w.rows)),
				expr.String(fmt.Sprint("note ", i))}
			if !yield(row) {
				return
			}
		}
	}
}

// customer draws by Zipf's law: the most frequent one has a tenth of the rows.
func (w *world) customer(p float64) int {
	most := float64(w.rows / 10)
	return int(math.Pow(most, p)) - 1
}

func status(p float64) string {
	switch {
	case p < 0.001:
		return "err"
	case p < 0.03:
		return "open"
	}
	return "done"
}

func (w *world) people(from, to int) iter.Seq[[]expr.Value] {
	return func(yield func([]expr.Value) bool) {
		for i := from; i < to; i++ {
			row := []expr.Value{expr.Int(int64(i)), expr.Int(int64(i % 40)),
				expr.Int(int64(1 / (1 + i%200))), expr.String(fmt.Sprint("name ", i))}
			if !yield(row) {
				return
			}
		}
	}
}

func (w *world) analyze() {
	w.t.Helper()
	for _, name := range []string{"orders", "people"} {
		if _, err := w.db.Analyze(w.t.Context(), name, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}
