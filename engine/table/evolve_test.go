package table_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// reopen closes and opens a database in a directory.
func reopen(t *testing.T, dir string, use func(*table.DB)) {
	t.Helper()
	e, err := engine.Open(dir, nil)
	ok(t, err)
	db, err := local.Open(ctx, e, nil)
	ok(t, err)
	use(db)
	ok(t, errors.Join(db.Close(), e.Close()))
}

func TestDefinitionsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	reopen(t, dir, func(db *table.DB) {
		people := create(t, db, peopleText)
		ok(t, people.Insert(ctx, row(t, 1, "a@x", "Bern", 30)))
		v := expr.String("none")
		note := schema.Column{Name: "note", Type: keycodec.TypeString, Default: &v}
		for _, err := range []error{
			db.AddColumn(ctx, "people", note),
			db.RenameColumn(ctx, "people", "city", "town"),
			db.RenameTable(ctx, "people", "persons"),
		} {
			ok(t, err)
		}
		ok(t, people.Insert(ctx, row(t, 2, "b@x", "Rom", 40, "new")))
		ok(t, second(db.Analyze(ctx, "persons", nil)))
	})
	reopen(t, dir, func(db *table.DB) {
		if _, err := db.Table("people"); !errors.Is(err, table.ErrNoTable) {
			t.Fatal(err)
		}
		persons, err := db.Table("persons")
		ok(t, err)
		want := []string{"1, 'a@x', 'Bern', 30, 'none'", "2, 'b@x', 'Rom', 40, 'new'"}
		sel := from(persons, nil)
		sel.OrderBy = []plan.Order{{Expr: col(persons, "id")}}
		if got := all(t, db, sel); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatal(got)
		}
		if s := persons.Stats(); s == nil || s.Rows != 2 || s.Epoch != 1 {
			t.Fatalf("%+v", s)
		}
		ok(t, second(db.CreateTable(ctx, define(t, peopleText))))
		if err := db.DropColumn(ctx, "persons", "age"); err == nil {
			t.Fatal("a column of an index was dropped")
		}
		ok(t, db.DropIndex(ctx, "persons", "by_city", nil))
		ok(t, db.DropColumn(ctx, "persons", "age"))
		if got := all(t, db, sel); got[0] != "1, 'a@x', 'Bern', 'none'" { // sel is older
			t.Fatal(got)
		}
		verify(t, persons)
	})
}

// A prepared query, a handle and a transaction follow the definition of their table.
//
// Promise (tables): Prepared queries, snapshots and transactions follow the definitions of their
// tables, which outlive the process. Also `TestDefinitionsOutliveTheProcess`.
func TestWhatIsPreparedFollowsTheTable(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for i := range 50 {
		ok(t, people.Insert(ctx, row(t, i, nil, fmt.Sprint("c", i%5), i)))
	}
	where := expr.Cmp{Op: expr.Eq, L: col(people, "city"), R: expr.Param{Index: 0}}
	q, err := db.Prepare(from(people, where))
	ok(t, err)
	run := func(r table.Reader) int {
		rows, err := q.Query(ctx, r, expr.String("c1"))
		ok(t, err)
		return len(texts(t, rows))
	}
	snap, err := db.Snapshot(ctx)
	ok(t, err)
	defer snap.Close()
	rows, err := q.Query(ctx, db, expr.String("c1"))
	ok(t, err)
	ok(t, db.DropIndex(ctx, "people", "by_city", nil))
	if n := len(texts(t, rows)); n != 10 { // planned with the index that is gone
		t.Fatal(n)
	}
	ok(t, people.Insert(ctx, row(t, 100, nil, "c1", 1)))
	if n := run(db); n != 11 {
		t.Fatal(n)
	}
	if n := run(snap); n != 10 {
		t.Fatal(n)
	}
	runs := 0
	err = db.Update(ctx, func(tx *table.Tx) error {
		if runs++; runs == 1 {
			if err := people.In(tx).Insert(ctx, row(t, 200, nil, "c1", 1)); err != nil {
				return err
			}
			by := []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 2}}}
			return db.CreateIndex(context.Background(), "people", schema.Index{Name: "by_city",
				Columns: by}, nil)
		}
		return people.In(tx).Insert(ctx, row(t, 201, nil, "c1", 1))
	})
	if err != nil || runs != 2 { // the first one did not know the index
		t.Fatal(runs, err)
	}
	verify(t, people)
	if n := run(db); n != 12 {
		t.Fatal(n)
	}
	ok(t, db.DropTable(ctx, "people", nil))
	if n := len(all(t, snap, from(people, nil))); n != 50 {
		t.Fatal(n)
	}
}

func TestThereIsOneDBForAnEngine(t *testing.T) {
	db := open(t, nil)
	other, err := local.Open(ctx, local.Engine(db), nil)
	if err != nil || other != db {
		t.Fatal(other, err)
	}
	ok(t, other.Close())
	if third, err := local.Open(ctx, local.Engine(db), nil); err != nil || third != db {
		t.Fatal(third, err)
	} else if err := third.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownCataloguesAreRefused(t *testing.T) {
	head := engine.Key{PK: []byte("\x00kstone tables"), SK: []byte{0}}
	for name, c := range map[string]struct {
		key   engine.Key
		value string
		want  error
	}{
		"format": {head, `{"format":2,"next_table":1}`, engine.ErrVersion},
		"head":   {head, `{`, engine.ErrCorrupt},
		"key":    {engine.Key{PK: head.PK, SK: []byte{9}}, `{}`, engine.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
			ok(t, err)
			defer e.Close()
			ok(t, e.Put(c.key, []byte(c.value)))
			if _, err := local.Open(ctx, e, nil); !errors.Is(err, c.want) {
				t.Fatal(err)
			}
		})
	}
}
