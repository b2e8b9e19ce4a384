package table_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok, wantIs = testutil.OK, testutil.WantIs

// second is the error of a call that returns a value as well.
func second[T any](_ T, err error) error { return err }

var ctx = context.Background()

// open opens an empty database in memory.
func open(t testing.TB, o *table.Options) *table.DB {
	t.Helper()
	return openOn(t, engine.Options{}, o)
}

// otherStorage is what the tests run over instead of the engine of this process, nil for that:
// storage that is empty. Each call of the result returns a store of another process.
// tools/test-stores.sh sets it.
var otherStorage func(t testing.TB, clock func() time.Time) (next func() store.Store)

// openOn is open of an engine with options.
func openOn(t testing.TB, engineOptions engine.Options, o *table.Options) *table.DB {
	t.Helper()
	if otherStorage != nil {
		return openOther(t, engineOptions.Clock, o)
	}
	engineOptions.InMemory = true
	e, err := engine.Open(t.TempDir(), &engineOptions)
	ok(t, err)
	db, err := local.Open(ctx, e, o)
	ok(t, err)
	t.Cleanup(func() {
		ok(t, db.Close())
		ok(t, e.Close())
	})
	return db
}

// transacts reports whether the store has transactions that read and then write.
func transacts(db *table.DB) bool {
	tx, err := db.Begin(ctx, nil)
	if err == nil {
		tx.Rollback()
	}
	return !errors.Is(err, errors.ErrUnsupported)
}

// updating runs fn in a transaction if the store has them: in returns a table as it is there.
func updating(db *table.DB, fn func(in func(*table.Table) *table.Table) error) error {
	if !transacts(db) {
		return fn(func(t *table.Table) *table.Table { return t })
	}
	return db.Update(ctx, func(tx *table.Tx) error {
		return fn(func(t *table.Table) *table.Table { return t.In(tx) })
	})
}

// openOther opens an empty database of the other storage.
func openOther(t testing.TB, clock func() time.Time, o *table.Options) *table.DB {
	t.Helper()
	if clock == nil {
		clock = time.Now
	}
	own := table.Options{Lease: quick}
	if o != nil {
		own = *o
		own.Lease = quick
	}
	s := otherStorage(t, clock)()
	db, err := table.OpenStore(ctx, s, &own)
	ok(t, err)
	t.Cleanup(func() { ok(t, errors.Join(db.Close(), s.Close())) })
	return db
}

// create makes a table of its JSON form.
func create(t testing.TB, db *table.DB, text string) *table.Table {
	t.Helper()
	tab, err := db.CreateTable(ctx, define(t, text))
	ok(t, err)
	return tab
}

func define(t testing.TB, text string) *schema.Table {
	t.Helper()
	def, err := schema.Parse([]byte(text))
	ok(t, err)
	return def
}

// row makes values of Go values.
func row(t testing.TB, values ...any) []expr.Value {
	t.Helper()
	out := make([]expr.Value, len(values))
	for i, v := range values {
		var err error
		if out[i], err = expr.From(v); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func text(row []expr.Value) string {
	out := ""
	for i, v := range row {
		if i > 0 {
			out += ", "
		}
		out += v.Canonical().String()
	}
	return out
}

// verify fails the test if the indexes of a table are not what its rows say.
func verify(t testing.TB, tab *table.Table) *table.Report {
	t.Helper()
	report, err := tab.Verify(ctx, nil)
	if err != nil {
		t.Fatalf("%v\n%+v", err, report)
	}
	return report
}

// all returns the rows of a query as texts.
func all(t testing.TB, r table.Reader, sel *plan.Select, params ...any) []string {
	t.Helper()
	rows, err := r.Query(ctx, sel, params...)
	ok(t, err)
	return texts(t, rows)
}

func texts(t testing.TB, rows *table.Rows) []string {
	t.Helper()
	var out []string
	for row, err := range rows.All() {
		ok(t, err)
		out = append(out, text(exec.Clone(row)))
	}
	return out
}

// from is SELECT * FROM tab WHERE where.
func from(tab *table.Table, where expr.Expr) *plan.Select {
	return &plan.Select{From: []plan.Source{{Table: tab.Schema()}}, Where: where}
}

func col(tab *table.Table, name string) expr.Column {
	return tab.Schema().Ref(0, tab.Schema().Column(name))
}

func eq(l expr.Expr, v any) expr.Expr {
	x, err := expr.From(v)
	if err != nil {
		panic(err)
	}
	return expr.Cmp{Op: expr.Eq, L: l, R: expr.Const{Value: x}}
}

var engineScan engine.Scan
