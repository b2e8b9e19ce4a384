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
	if err != nil {
		t.Fatal(err)
	}
	db, err := local.Open(ctx, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	use(db)
	if err := errors.Join(db.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDefinitionsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	reopen(t, dir, func(db *table.DB) {
		people := create(t, db, peopleText)
		if err := people.Insert(ctx, row(t, 1, "a@x", "Bern", 30)); err != nil {
			t.Fatal(err)
		}
		v := expr.String("none")
		note := schema.Column{Name: "note", Type: keycodec.TypeString, Default: &v}
		for _, err := range []error{
			db.AddColumn(ctx, "people", note),
			db.RenameColumn(ctx, "people", "city", "town"),
			db.RenameTable(ctx, "people", "persons"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := people.Insert(ctx, row(t, 2, "b@x", "Rom", 40, "new")); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Analyze(ctx, "persons", nil); err != nil {
			t.Fatal(err)
		}
	})
	reopen(t, dir, func(db *table.DB) {
		if _, err := db.Table("people"); !errors.Is(err, table.ErrNoTable) {
			t.Fatal(err)
		}
		persons, err := db.Table("persons")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"1, 'a@x', 'Bern', 30, 'none'", "2, 'b@x', 'Rom', 40, 'new'"}
		sel := from(persons, nil)
		sel.OrderBy = []plan.Order{{Expr: col(persons, "id")}}
		if got := all(t, db, sel); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatal(got)
		}
		if s := persons.Stats(); s == nil || s.Rows != 2 || s.Epoch != 1 {
			t.Fatalf("%+v", s)
		}
		if _, err := db.CreateTable(ctx, define(t, peopleText)); err != nil {
			t.Fatal(err)
		}
		if err := db.DropColumn(ctx, "persons", "age"); err == nil {
			t.Fatal("a column of an index was dropped")
		}
		if err := db.DropIndex(ctx, "persons", "by_city", nil); err != nil {
			t.Fatal(err)
		}
		if err := db.DropColumn(ctx, "persons", "age"); err != nil {
			t.Fatal(err)
		}
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
		if err := people.Insert(ctx, row(t, i, nil, fmt.Sprint("c", i%5), i)); err != nil {
			t.Fatal(err)
		}
	}
	where := expr.Cmp{Op: expr.Eq, L: col(people, "city"), R: expr.Param{Index: 0}}
	q, err := db.Prepare(from(people, where))
	if err != nil {
		t.Fatal(err)
	}
	run := func(r table.Reader) int {
		rows, err := q.Query(ctx, r, expr.String("c1"))
		if err != nil {
			t.Fatal(err)
		}
		return len(texts(t, rows))
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	rows, err := q.Query(ctx, db, expr.String("c1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.DropIndex(ctx, "people", "by_city", nil); err != nil {
		t.Fatal(err)
	}
	if n := len(texts(t, rows)); n != 10 { // planned with the index that is gone
		t.Fatal(n)
	}
	if err := people.Insert(ctx, row(t, 100, nil, "c1", 1)); err != nil {
		t.Fatal(err)
	}
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
}

func TestThereIsOneDBForAnEngine(t *testing.T) {
	db := open(t, nil)
	other, err := local.Open(ctx, local.Engine(db), nil)
	if err != nil || other != db {
		t.Fatal(other, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := e.Put(c.key, []byte(c.value)); err != nil {
				t.Fatal(err)
			}
			if _, err := local.Open(ctx, e, nil); !errors.Is(err, c.want) {
				t.Fatal(err)
			}
		})
	}
}
