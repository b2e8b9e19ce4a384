package typed_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

type noteV1 struct {
	ID    int64  `kstone:"id,pk"`
	Text  string `kstone:"text"`
	Color string `kstone:"color"`
}

type noteV2 struct {
	ID    int64     `kstone:"id,pk"`
	Body  string    `kstone:"body,was(text)"`
	Stars int32     `kstone:"stars,default(3)"`
	Seen  time.Time `kstone:"seen,ms,null"`
}

func TestMigrate(t *testing.T) {
	v1 := typed.NewTable[noteV1]("notes")
	color := typed.Col(v1, func(n *noteV1) *string { return &n.Color })
	text1 := typed.Col(v1, func(n *noteV1) *string { return &n.Text })
	v1.Index("by_color", color.Asc())
	v1.Index("by_text", text1.Asc())
	db := openTyped(t, v1)
	ok(t, typed.Migrate(ctx, db, v1))
	for i := range 5 {
		n := noteV1{int64(i), "text", "red"}
		ok(t, v1.Insert(ctx, db, &n))
	}
	v2 := typed.NewTable[noteV2]("notes")
	stars := typed.Col(v2, func(n *noteV2) *int32 { return &n.Stars })
	body := typed.Col(v2, func(n *noteV2) *string { return &n.Body })
	v2.Index("by_stars", stars.Desc()).Include(body)
	v2.Index("by_text", body.Asc(), stars.Asc())
	if err := typed.Attach(ctx, db, v2); err == nil {
		t.Error("a table that has not been changed is attached")
	}
	for range 2 { // the second time there is nothing to do
		ok(t, typed.Migrate(ctx, db, v2))
	}
	if err := typed.Attach(ctx, db, v1); err == nil || !strings.Contains(err.Error(), "text") {
		t.Errorf("the old struct is attached: %v", err)
	}
	ok(t, v2.Insert(ctx, db, &noteV2{ID: 9, Body: "new", Stars: 1, Seen: day(2)}))
	old, err := v2.Get(ctx, db, typed.Col(v2, func(n *noteV2) *int64 { return &n.ID }).Eq(4))
	if want := (noteV2{ID: 4, Body: "text", Stars: 3}); err != nil || old != want {
		t.Errorf("a row from before: %+v, want %+v, %v", old, want, err)
	}
	q := v2.Where(stars.Eq(3)).UseIndex("by_stars")
	if n, err := q.Count(ctx, db); n != 5 || err != nil {
		t.Errorf("%d rows by the new index: %v", n, err)
	}
	handle, err := db.Table("notes")
	ok(t, err)
	var names []string
	for _, x := range handle.Schema().Indexes {
		if x.State != schema.Dropping {
			names = append(names, x.Name)
		}
	}
	if len(names) != 2 || len(handle.Schema().Index("by_text").Columns) != 2 {
		t.Errorf("indexes %v", names)
	}
	if report, err := handle.Verify(ctx, nil); err != nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// A drop of an index that was interrupted is finished, before the index is built again.
func TestMigrateAfterAnInterruptedDrop(t *testing.T) {
	notes := typed.NewTable[noteV1]("notes")
	color := typed.Col(notes, func(n *noteV1) *string { return &n.Color })
	notes.Index("by_color", color.Asc()).Shard(1000) // more than one commit removes
	db := openTyped(t, notes)
	ok(t, notes.Insert(ctx, db, &noteV1{1, "text", "red"}))
	own, cancel := context.WithCancel(ctx)
	stop := func(table.Progress) { cancel() }
	wantIs(t, db.DropIndex(own, "notes", "by_color", stop), context.Canceled)
	ok(t, typed.Migrate(ctx, db, notes))
	n, err := notes.Where(color.Eq("red")).UseIndex("by_color").Count(ctx, db)
	if n != 1 || err != nil || db.Unfinished() {
		t.Errorf("%d rows by the index: %v", n, err)
	}
}

// TestMigrateZones changes which columns have zones, as the definition says.
func TestMigrateZones(t *testing.T) {
	db := openTyped(t)
	zones := func(choose func(*typed.Table[noteV1], typed.Column[noteV1, string])) []int {
		notes := typed.NewTable[noteV1]("notes")
		choose(notes, typed.Col(notes, func(n *noteV1) *string { return &n.Color }))
		ok(t, typed.Migrate(ctx, db, notes))
		handle, err := db.Table("notes")
		ok(t, err)
		return handle.Schema().Zones
	}
	type table = typed.Table[noteV1]
	type color = typed.Column[noteV1, string]
	for range 2 {
		if z := zones(func(n *table, c color) { n.Zones(c) }); !slices.Equal(z, []int{2}) {
			t.Errorf("zones of %v, want column 2", z)
		}
		if z := zones(func(*table, color) {}); z != nil {
			t.Errorf("zones of %v, want the default", z)
		}
		if z := zones(func(n *table, _ color) { n.Zones() }); z == nil || len(z) != 0 {
			t.Errorf("zones of %v, want none", z)
		}
	}
	notes := typed.NewTable[noteV1]("notes")
	id := typed.Col(notes, func(n *noteV1) *int64 { return &n.ID })
	wantPanic(t, func() { notes.Zones(id) }, "notes", "zones")
	notes = typed.NewTable[noteV1]("notes")
	ok(t, typed.Migrate(ctx, db, notes))
	wantPanic(t, func() { notes.Zones() }, "notes", "after the table was used")
}

func TestMigrateRefuses(t *testing.T) {
	type other struct {
		ID   string `kstone:"id,pk"`
		Text string `kstone:"text"`
	}
	v1 := typed.NewTable[noteV1]("notes")
	db := openTyped(t, v1)
	if err := typed.Migrate(ctx, db, typed.NewTable[other]("notes")); err == nil {
		t.Error("the type of the key was changed")
	}
	if err := v1.Insert(ctx, db, &noteV1{ID: 1}); err != nil {
		t.Errorf("after a refused change: %v", err)
	}
	none := typed.NewTable[noteV1]("none")
	wantIs(t, typed.Attach(ctx, db, none), table.ErrNoTable)
	wantIs(t, none.Insert(ctx, db, &noteV1{}), table.ErrNoTable)
}

// wantPanic runs f, which must panic with a text that has all the words.
func wantPanic(t *testing.T, f func(), words ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		text, _ := recover().(string)
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("panic %q without %q", text, w)
			}
		}
	}()
	f()
	t.Error("no panic")
}

func TestMistakesInStructs(t *testing.T) {
	wantPanic(t, func() { typed.NewTable[int]("t") }, "not a struct")
	wantPanic(t, func() { typed.NewTable[struct{ A int64 }]("t") }, "t as struct", "key")
	wantPanic(t, func() {
		typed.NewTable[struct {
			A int64     `kstone:",pk"`
			T time.Time `kstone:"t"`
			C chan int
			D int64  `kstone:"d,nothing"`
			E string `kstone:"e,decimal(2)"`
			F string `kstone:"f,ascii,keepcase"`
		}]("t")
	}, "field T", "unit", "field C", "chan int", `"nothing" is not an option`, "field E", "field F",
		`"keepcase" is not an option`)
	notes := typed.NewTable[noteV1]("t")
	elsewhere := "x"
	wantPanic(t, func() { typed.Col(notes, func(*noteV1) *string { return &elsewhere }) },
		"selector", "noteV1")
	wantPanic(t, func() { typed.Col(notes, func(*noteV1) *string { return nil }) }, "selector")
	trips := newTrips("trips")
	wantPanic(t, func() { typed.Col(trips.Table, func(o *trip) *int { return &o.Local }) },
		"selector")
	wantPanic(t, func() { typed.Col(trips.Table, func(o *trip) **string { return &o.Note }) },
		"Ptr")
	wantPanic(t, func() { trips.cents.EqArg(typed.Arg[int64]{Name: "x"}) }, "cents", "Arg")
	ok(t, second(trips.Schema()))
	wantPanic(t, func() { trips.Index("late", trips.user.Asc()) }, "late", "after")
}

// TestMigrateNamesThatMove gives a column the name that another one had, in one step.
func TestMigrateNamesThatMove(t *testing.T) {
	type before struct {
		ID int64  `kstone:"id,pk"`
		A  string `kstone:"a"`
		B  string `kstone:"b"`
		C  string `kstone:"c"`
	}
	type after struct {
		ID int64  `kstone:"id,pk"`
		B  string `kstone:"b,was(a),default()"`
		C  string `kstone:"c,was(b),default()"`
		D  string `kstone:"d,was(c),default()"`
	}
	type wrong struct {
		ID int64  `kstone:"id,pk"`
		E  string `kstone:"e,was(a)"`
		B  int64  `kstone:"b,default(1)"`
	}
	for range 8 { // the order of a map
		v1, v2 := typed.NewTable[before]("moving"), typed.NewTable[after]("moving")
		db := openTyped(t, v1)
		ok(t, v1.Insert(ctx, db, &before{1, "a", "b", "c"}))
		if err := typed.Migrate(ctx, db, typed.NewTable[wrong]("moving")); err == nil {
			t.Error("a column has another type")
		}
		if err := typed.Attach(ctx, db, v1); err != nil {
			t.Errorf("what could not be changed is changed: %v", err)
		}
		ok(t, typed.Migrate(ctx, db, v2))
		row := after{ID: 1}
		if err := v2.Load(ctx, db, &row); err != nil || row != (after{1, "a", "b", "c"}) {
			t.Errorf("%+v, %v", row, err)
		}
	}
}

// Promise (tables): Changes of a table are rows of its struct, also those from before a migration.
func TestRowsOfChanges(t *testing.T) {
	e, err := engine.Open("changes", &engine.Options{InMemory: true, RetainBytes: 64 << 20,
		RetainVersions: time.Hour})
	ok(t, err)
	defer e.Close()
	db, err := local.Open(ctx, e, nil)
	ok(t, err)
	defer db.Close()
	v1, v2 := typed.NewTable[noteV1]("notes"), typed.NewTable[noteV2]("notes")
	id := typed.Col(v2, func(n *noteV2) *int64 { return &n.ID })
	ok(t, typed.Migrate(ctx, db, v1))
	ok(t, v1.Insert(ctx, db, &noteV1{1, "old", "red"}))
	ok(t, typed.Migrate(ctx, db, v2))
	ok(t, v2.Put(ctx, db, &noteV2{1, "new", 5, day(2)}))
	ok(t, v2.Delete(ctx, db, id.Eq(1)))

	old, changed := noteV2{ID: 1, Body: "old", Stars: 3}, noteV2{1, "new", 5, day(2)}
	want := []struct{ before, after *noteV2 }{{nil, &old}, {&old, &changed}, {&changed, nil}}
	o := local.ChangesOptions{Tables: []string{"notes"}, Before: true, Stop: true}
	for c, err := range local.Changes(ctx, e, engine.Position{}, &o) {
		if ok(t, err); c.Kind == local.TableDefined {
			continue
		}
		if len(want) == 0 {
			t.Fatalf("a further change: %v", c.After)
		}
		check := func(values []expr.Value, want *noteV2) {
			t.Helper()
			got, err := v2.Row(c.Table, values)
			if want == nil {
				wantIs(t, err, table.ErrNotFound)
			} else if ok(t, err); got != *want {
				t.Errorf("got %+v, want %+v", got, *want)
			}
		}
		check(c.Before, want[0].before)
		check(c.After, want[0].after)
		if key, err := v2.Row(c.Table, c.Key); err != nil || key.ID != 1 || key.Body != "" {
			t.Errorf("a change of %+v, %v", key, err)
		}
		if o := c.Table.Column("stars"); o >= 0 { // as of a wider column
			wide := slices.Clone(c.Key)
			wide[o] = expr.Int(1 << 32)
			_, err := v2.Row(c.Table, wide)
			wantIs(t, err, schema.ErrRange)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("%d changes are missing", len(want))
	}
}
