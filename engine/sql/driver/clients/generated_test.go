package clients

import (
	"database/sql"
	"os"
	"reflect"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/kstonedb/kstone/engine/sql/driver/clients/sqlctowns"
)

// TestSQLC: code that sqlc has generated of a schema and queries, with the dialect of SQLite, also
// in a transaction.
func TestSQLC(t *testing.T) {
	db := open(t)
	schema := ok2[[]byte](t)(os.ReadFile("sqlctowns/schema.sql"))
	ok2[sql.Result](t)(db.ExecContext(ctx, string(schema)))
	q := sqlctowns.New(db)
	people := func(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n > 0} }
	ulm := ok2[sqlctowns.Town](t)(q.CreateTown(ctx, sqlctowns.CreateTownParams{Country: "DE",
		Name: "Ulm", People: people(126)}))
	made := sqlctowns.Town{ID: 1, Country: "DE", Name: "Ulm", People: people(126)}
	if ulm != made {
		t.Errorf("%+v was made, not %+v", ulm, made)
	}
	tx := ok2[*sql.Tx](t)(db.BeginTx(ctx, nil))
	inside := q.WithTx(tx)
	bonn := ok2[sqlctowns.Town](t)(inside.CreateTown(ctx, sqlctowns.CreateTownParams{Country: "DE",
		Name: "Bonn"}))
	grown := ok2[int64](t)(inside.Grow(ctx, sqlctowns.GrowParams{People: people(4), Country: "DE"}))
	ok(t, tx.Commit())
	if got := ok2[sqlctowns.Town](t)(q.GetTown(ctx, bonn.ID)); grown != 1 || got != bonn {
		t.Errorf("%d towns have grown, and %+v is %+v", grown, bonn, got)
	}
	of := ok2[[]sqlctowns.TownsOfRow](t)(q.TownsOf(ctx, "DE"))
	want := []sqlctowns.TownsOfRow{{ID: bonn.ID, Name: "Bonn"},
		{ID: 1, Name: "Ulm", People: people(130)}}
	if !reflect.DeepEqual(of, want) {
		t.Errorf("got %+v, want %+v", of, want)
	}
	ok(t, q.DeleteTown(ctx, bonn.ID))
	sizes := ok2[[]sqlctowns.SizesRow](t)(q.Sizes(ctx))
	if len(sizes) != 1 || sizes[0].Towns != 1 || sizes[0].People.Float64 != 130 {
		t.Errorf("the sizes are %+v", sizes)
	}
}

// TestBun: models of bun with the dialect of SQLite.
func TestBun(t *testing.T) {
	type Town struct {
		bun.BaseModel `bun:"table:town"`

		ID     int64 `bun:",pk,autoincrement"`
		Name   string
		People *int64
	}
	db := bun.NewDB(open(t), sqlitedialect.New())
	ok2[sql.Result](t)(db.NewCreateTable().Model((*Town)(nil)).Exec(ctx))
	n := int64(126)
	all := []Town{{Name: "Ulm", People: &n}, {Name: "Bonn", People: &n}}
	ok2[sql.Result](t)(db.NewInsert().Model(&all).Exec(ctx))
	if all[0].ID == 0 || all[0].ID == all[1].ID {
		t.Errorf("the towns have the numbers %d and %d", all[0].ID, all[1].ID)
	}
	ok2[sql.Result](t)(db.NewUpdate().Model((*Town)(nil)).Set("people = people + ?", 4).
		Where("name = ?", "Ulm").Exec(ctx))
	var got []Town
	ok(t, db.NewSelect().Model(&got).Where("people > ?", 100).Order("name DESC").Limit(1).Scan(ctx))
	if len(got) != 1 || got[0].ID != all[0].ID || *got[0].People != 130 {
		t.Errorf("got %+v", got)
	}
	if n := ok2[int](t)(db.NewSelect().Model((*Town)(nil)).Count(ctx)); n != 2 {
		t.Errorf("%d towns, want 2", n)
	}
	ok2[sql.Result](t)(db.NewDelete().Model(&all).WherePK().Exec(ctx))
}
