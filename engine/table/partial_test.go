package table_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

const partialText = `{"name":"t","columns":[{"name":"id","type":"int64"},
 {"name":"s","type":"string"},{"name":"tags","type":"string","list":true}],
 "primary_key":["id"]}`

func constant(v any) expr.Const {
	x, err := expr.From(v)
	if err != nil {
		panic(err)
	}
	return expr.Const{Value: x}
}

func call(name string, args ...expr.Expr) expr.Func { return expr.Func{Name: name, Args: args} }

// wrongConditions are conditions that fail for every row, or for most.
func wrongConditions(tab *schema.Table) []expr.Expr {
	id, s, tags := tab.Ref(0, 0), tab.Ref(0, 1), tab.Ref(0, 2)
	gt := func(l, r expr.Expr) expr.Expr { return expr.Cmp{Op: expr.Gt, L: l, R: r} }
	five := constant(5)
	return []expr.Expr{
		gt(s, five),
		gt(expr.Arith{Op: expr.Add, L: s, R: five}, five),
		expr.Like{X: s, Pattern: id},
		gt(call("length", id), five),
		gt(call("abs", s), five),
		gt(call("lower", id), constant("a")),
		gt(call("substr", s, constant("x")), constant("a")),
		gt(call("substr", s, constant(1.5)), constant("a")),
		gt(call("coalesce", s, five), constant("a")),
		gt(call("concat", s, tags), constant("a")),
		gt(call("shard", constant("none"), id), five),
		gt(call("tidb_shard", s), five),
		gt(call("length", call("coalesce", id, five)), five),
		expr.Contains{X: tags, Item: five},
		expr.And{Terms: []expr.Expr{gt(id, five), gt(call("length", id), five)}},
		call("length", s),
		call("coalesce", s, constant("a")),
	}
}

// TestConditionsOfIndexesAreChecked checks that an index is refused whose condition fails for
// every row, and that rows can still be written then.
func TestConditionsOfIndexesAreChecked(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, partialText)
	for _, where := range wrongConditions(tab.Schema()) {
		x := schema.Index{Name: "x", Where: where,
			Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 0}}}}
		if err := db.CreateIndex(ctx, "t", x, nil); !errors.Is(err, table.ErrInvalid) ||
			!errors.Is(err, expr.ErrType) {
			t.Errorf("CREATE INDEX with the condition %s: %v", where, err)
		}
		x.State = schema.Ready
		def, err := tab.Schema().AddIndex(x)
		ok(t, err)
		data, err := json.Marshal(def)
		ok(t, err)
		def = define(t, strings.Replace(string(data), `"name":"t"`, `"name":"u"`, 1))
		if _, err := db.CreateTable(ctx, def); !errors.Is(err, table.ErrInvalid) {
			t.Errorf("CREATE TABLE with the condition %s: %v", where, err)
		}
	}
	ok(t, tab.Insert(ctx, row(t, 1, "a", []string{"x"})))
	verify(t, tab)
}

// TestIndexesThatRefuseEveryRowCanBeDropped opens a database that has an index with a
// condition that fails for every row, as former programs created them.
func TestIndexesThatRefuseEveryRowCanBeDropped(t *testing.T) {
	for _, state := range []schema.State{schema.Ready, schema.Building} {
		e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
		ok(t, err)
		db := withBadIndex(t, e, state)
		tab, err := db.Table("t")
		ok(t, err)
		wantNamed := func(what string, err error) {
			t.Helper()
			var unfit *schema.EntryError
			if !errors.As(err, &unfit) || unfit.Table != "t" || unfit.Index != "bad" ||
				!strings.Contains(err.Error(), "dropped") {
				t.Errorf("%s beside an index that is %s: %v", what, state, err)
			}
		}
		wantNamed("inserting", tab.Insert(ctx, row(t, 2, "b", []string{})))
		wantNamed("replacing", tab.Put(ctx, row(t, 1, "b", []string{})))
		if state == schema.Ready { // a row from before one that is being built has no entry
			wantNamed("deleting", tab.Delete(ctx, row(t, 1)))
		}
		if got := all(t, db, from(tab, nil)); len(got) != 1 {
			t.Errorf("%q", got)
		}
		if state == schema.Building { // goes away by itself
			wantNamed("resuming", db.Resume(ctx, nil))
		} else if err := db.DropIndex(ctx, "t", "bad", nil); err != nil {
			t.Error(err)
		}
		if n := len(tab.Schema().Indexes); n != 0 {
			t.Errorf("%d indexes are left", n)
		}
		ok(t, errors.Join(tab.Insert(ctx, row(t, 2, "b", []string{})),
			tab.Delete(ctx, row(t, 1))))
		verify(t, tab)
		ok(t, errors.Join(db.Close(), e.Close()))
	}
}

// withBadIndex returns a database with a table that has a row and an index with the
// condition length(id) > 5.
func withBadIndex(t *testing.T, e *engine.DB, state schema.State) *table.DB {
	t.Helper()
	db, err := local.Open(ctx, e, nil)
	ok(t, err)
	tab := create(t, db, partialText)
	ok(t, tab.Insert(ctx, row(t, 1, "a", []string{})))
	next, err := tab.Schema().AddIndex(schema.Index{Name: "bad", State: state,
		Where:   expr.Cmp{Op: expr.Gt, L: call("length", tab.Schema().Ref(0, 0)), R: constant(5)},
		Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 0}}}})
	ok(t, err)
	ok(t, db.Close())
	data, err := json.Marshal(next)
	ok(t, err)
	key := engine.Key{PK: []byte("\x00kstone tables"), SK: []byte{1, 0, 0, 0, 1}}
	ok(t, e.Put(key, data))
	if db, err = local.Open(ctx, e, nil); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestRowsThatFitInNoEntryEndABuild checks that an index is removed again that a row cannot
// be in, so that the table is not left half writable.
func TestRowsThatFitInNoEntryEndABuild(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, partialText)
	long := strings.Repeat("x", 70_000)
	ok(t, tab.Insert(ctx, row(t, 1, long, []string{})))
	var unfit *schema.EntryError
	err := db.CreateIndex(ctx, "t", indexOn(t, tab, "by_s", "s"), nil)
	if !errors.As(err, &unfit) || unfit.Index != "by_s" {
		t.Errorf("an entry with a key that is too long: %v", err)
	}
	if n := len(tab.Schema().Indexes); n != 0 {
		t.Errorf("%d indexes are left", n)
	}
	ok(t, tab.Insert(ctx, row(t, 2, long, []string{})))
	verify(t, tab)
}
