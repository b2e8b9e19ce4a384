package table_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

const peopleText = `{"name":"people","columns":[
 {"name":"id","type":"int64"},{"name":"email","type":"string","nullable":true},
 {"name":"city","type":"string","nullable":true},{"name":"age","type":"int32"}],
 "primary_key":["id"],
 "indexes":[{"name":"by_email","columns":["email"],"unique":true},
            {"name":"by_city","columns":["city",{"column":"age","desc":true}],"shard":"mix64:4"}]}`

func TestRowsAreWrittenWithTheirEntries(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for _, r := range [][]expr.Value{row(t, 1, "a@x", "Bern", 30), row(t, 2, "b@x", "Bern", 40),
		row(t, 3, nil, nil, 50), row(t, 4, nil, "Rom", 60)} {
		ok(t, people.Insert(ctx, r))
	}
	got, err := people.Get(ctx, row(t, 2)...)
	if err != nil || text(got) != "2, 'b@x', 'Bern', 40" {
		t.Fatal(text(got), err)
	}
	err = people.Insert(ctx, row(t, 2, "c@x", nil, 1))
	wantUnique(t, err, plan.PrimaryIndex, "2", "2")
	err = people.Insert(ctx, row(t, 9, "b@x", nil, 1))
	wantUnique(t, err, "by_email", "'b@x'", "2")
	err = people.Put(ctx, row(t, 1, "b@x", nil, 1))
	wantUnique(t, err, "by_email", "'b@x'", "2")
	ok(t, people.Put(ctx, row(t, 1, "a@x", "Rom", 31)))
	verify(t, people)
	sel := from(people, eq(col(people, "city"), "Rom"))
	if got := all(t, db, sel); len(got) != 2 {
		t.Fatal(got)
	}
	if got := all(t, db, from(people, eq(col(people, "email"), "a@x"))); !slices.Equal(got,
		[]string{"1, 'a@x', 'Rom', 31"}) {
		t.Fatal(got)
	}
	ok(t, people.Delete(ctx, row(t, 1)))
	wantIs(t, people.Delete(ctx, row(t, 1)), table.ErrNotFound)
	report := verify(t, people)
	want := map[string]int64{"by_email": 3, "by_city": 3}
	if report.Rows != 3 || !reflect.DeepEqual(report.Entries, want) {
		t.Fatalf("%+v", report)
	}
}

func wantUnique(t *testing.T, err error, index, values, key string) {
	t.Helper()
	var u *table.UniqueError
	if !errors.As(err, &u) || u.Index != index || text(u.Values) != values ||
		text(u.Key) != key || !errors.Is(err, table.ErrUnique) {
		t.Fatalf("%v, want a conflict in %s over (%s) with (%s)", err, index, values, key)
	}
}

func TestConditionsOfUpdates(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	ok(t, people.Insert(ctx, row(t, 1, nil, "Bern", 30)))
	_, version, err := people.GetVersion(ctx, expr.Int(1))
	ok(t, err)
	older := func(r []expr.Value) error {
		age, _ := r[3].AsInt()
		r[3] = expr.Int(age + 1)
		return nil
	}
	ok(t, people.Update(ctx, row(t, 1), older, table.IfVersion(version)))
	failed := func(err error, want string) {
		t.Helper()
		wantIs(t, err, table.ErrConditionFailed)
		if !strings.Contains(err.Error(), "people: row (1): ") ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want one of people (1): %s", err, want)
		}
	}
	for _, old := range []uint64{version, 0} {
		err = people.Update(ctx, row(t, 1), older, table.IfVersion(old))
		failed(err, fmt.Sprintf("the version is %d, not %d", version+1, old))
	}
	byName := expr.Column{Source: plan.Unresolved, Name: "age"}
	err = people.Delete(ctx, row(t, 1), table.If(eq(byName, 30)))
	failed(err, "age = 30 is FALSE")
	set := []table.Assignment{{Column: 3, Value: expr.Param{Index: 0}}}
	err = people.Set(ctx, row(t, 1), set, row(t, 77), table.If(eq(byName, 31)))
	ok(t, err)
	if got, _ := people.Get(ctx, expr.Int(1)); text(got) != "1, NULL, 'Bern', 77" {
		t.Fatal(text(got))
	}
}

func TestIndexesAreBuiltAndDropped(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for i := range 2000 {
		ok(t, people.Insert(ctx, row(t, i, nil, "c", i/2)))
	}
	age := []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 3}}}
	done := int64(0)
	err := db.CreateIndex(ctx, "people", schema.Index{Name: "by_age", Columns: age},
		func(p table.Progress) { done = p.Done })
	if err != nil || done != 2000 {
		t.Fatal(done, err)
	}
	if r := verify(t, people); r.Entries["by_age"] != 2000 {
		t.Fatalf("%+v", r)
	}
	sel := from(people, eq(col(people, "age"), 17))
	sel.Hints.Index = map[int]string{0: "by_age"}
	if got := all(t, db, sel); len(got) != 2 {
		t.Fatal(got)
	}
	err = db.CreateIndex(ctx, "people", schema.Index{Name: "u", Columns: age, Unique: true}, nil)
	var u *table.UniqueError
	if !errors.As(err, &u) || u.Index != "u" || people.Schema().Index("u") != nil {
		t.Fatal(err)
	}
	ok(t, db.DropIndex(ctx, "people", "by_age", nil))
	if people.Schema().Index("by_age") != nil || db.Unfinished() {
		t.Fatal("the index is still there")
	}
	if _, err := db.Query(ctx, sel); err == nil {
		t.Fatal("a query uses an index that was dropped")
	}
	verify(t, people)
	ok(t, db.DropTable(ctx, "people", nil))
	if n, err := local.Engine(db).CountScan(ctx, engineScan); err != nil || n != 1 {
		t.Fatal(n, err) // the head of the catalogue
	}
	wantIs(t, people.Insert(ctx, row(t, 1, nil, nil, 1)), table.ErrNoTable)
}

// What is written in one commit is bounded in bytes, those of elements of lists among them.
func TestInsertManyOfLongLists(t *testing.T) {
	tab := create(t, open(t, nil), `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"l","type":"string","list":true}],"primary_key":["id"]}`)
	list := slices.Repeat([]string{strings.Repeat("x", 1<<20)}, 8)
	rows := [][]expr.Value{row(t, 1, list), row(t, 2, list), row(t, 1, list)}
	n, err := tab.InsertMany(ctx, slices.Values(rows))
	if n != 2 || !errors.Is(err, table.ErrUnique) {
		t.Errorf("%d rows, %v", n, err)
	}
}
