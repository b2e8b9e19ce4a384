package table_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// TestViews: views are kept beside tables, share their names, and are the same after a reopening.
//
// Promise (tables): A view is kept or not at all, under a name that no table has; one that is
// replaced is another one for whoever has prepared something.
func TestViews(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := local.OpenDir(ctx, dir, nil)
	ok(t, err)
	def := func(name string) *schema.Table {
		return &schema.Table{Name: name, Columns: []schema.Column{{Name: "id",
			Type: keycodec.TypeInt64}}, PK: []schema.KeyColumn{{}}}
	}
	first := table.View{Name: "v", Columns: []string{"a", "b"}, Query: "SELECT 1, 2"}
	ok(t, second(db.CreateTable(ctx, def("t"))))
	ok(t, errors.Join(db.CreateView(ctx, first, false),
		db.CreateView(ctx, table.View{Name: "w", Query: "SELECT 3"}, true)))
	had, _ := db.View("v")
	_, taken := db.CreateTable(ctx, def("v"))
	for i, err := range []error{taken, db.CreateView(ctx, first, false),
		db.CreateView(ctx, table.View{Name: "t", Query: "SELECT 1"}, true),
		db.RenameTable(ctx, "t", "v")} {
		if !errors.Is(err, table.ErrExists) {
			t.Errorf("a name that is taken, %d: %v", i, err)
		}
	}
	for _, bad := range []table.View{{Name: "", Query: "x"}, {Name: "x"},
		{Name: "\xff", Query: "x"}} {
		if err := db.CreateView(ctx, bad, false); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	first.Query = "SELECT 4, 5"
	ok(t, errors.Join(db.CreateView(ctx, first, true), db.DropView(ctx, "w")))
	wantIs(t, db.DropView(ctx, "w"), table.ErrNoView)
	if now, _ := db.View("v"); now == had || now.ID != had.ID || had.Query == now.Query {
		t.Errorf("%+v after %+v", now, had)
	}
	for range 2 {
		ok(t, db.Close())
		if db, err = local.OpenDir(ctx, dir, nil); err != nil {
			t.Fatal(err)
		}
		all := db.Views()
		if len(all) != 1 || all[0].Query != first.Query || !slices.Equal(all[0].Columns,
			first.Columns) {
			t.Errorf("after opening: %+v", all)
		}
		// Its id and version are known: it can be replaced.
		ok(t, db.CreateView(ctx, first, true))
	}
	made, err := db.CreateTable(ctx, def("u"))
	if err != nil || made.Schema().ID != 4 {
		t.Errorf("the next table: %+v, %v", made, err)
	}
	ok(t, db.Close())
}
