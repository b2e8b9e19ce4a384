package clients

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"
	"time"

	"github.com/Masterminds/squirrel"
	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	_ "github.com/kstonedb/kstone/engine/sql/driver"
	"github.com/kstonedb/kstone/engine/table"
)

var ctx = context.Background()

func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("kstone", filepath.Join(t.TempDir(), "a.db")+"?durability=process")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ok2[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

const towns = "CREATE TABLE towns (country TEXT, name TEXT, people INT NULL, " +
	"founded TIMESTAMP(s) NULL, PRIMARY KEY (country, name))"

// town is a row for all clients.
type town struct {
	Country string
	Name    string
	People  *int64
	Founded sql.NullTime
}

// TestSQLX: structs, names, IN, and what a transaction gives back.
func TestSQLX(t *testing.T) {
	db := sqlx.NewDb(open(t), "kstone")
	sqlx.BindDriver("kstone", sqlx.QUESTION)
	db.MustExec(towns)
	people := int64(126_000)
	founded := time.Date(854, 7, 22, 0, 0, 0, 0, time.UTC)
	all := []town{{"DE", "Ulm", &people, sql.NullTime{Time: founded, Valid: true}},
		{"IT", "Pisa", nil, sql.NullTime{}}}
	ok2[sql.Result](t)(db.NamedExec("INSERT INTO towns (country, name, people, founded) "+
		"VALUES (:country, :name, :people, :founded)", all))
	var got []town
	ok(t, db.Select(&got, "SELECT * FROM towns ORDER BY country"))
	if !reflect.DeepEqual(got, all) {
		t.Errorf("%+v", got)
	}
	text, args, err := sqlx.In("SELECT name FROM towns WHERE country IN (?) AND people > ?",
		[]string{"DE", "IT"}, 5)
	ok(t, err)
	var name string
	ok(t, db.Get(&name, db.Rebind(text), args...))
	if name != "Ulm" {
		t.Error(name)
	}
	tx := db.MustBegin()
	tx.MustExec("DELETE FROM towns")
	var n int
	ok(t, tx.Get(&n, "SELECT count(*) FROM towns"))
	ok(t, tx.Rollback())
	stmt, err := db.PrepareNamed("SELECT count(*) FROM towns WHERE country = :c")
	ok(t, err)
	defer stmt.Close()
	var left int
	ok(t, stmt.Get(&left, map[string]any{"c": "IT"}))
	if n != 0 || left != 1 {
		t.Error(n, left)
	}
	row := map[string]any{}
	ok(t, db.QueryRowx("SELECT * FROM towns WHERE country = 'IT'").MapScan(row))
	if fmt.Sprint(row) != "map[country:IT founded:<nil> name:Pisa people:<nil>]" {
		t.Error(row)
	}
}

// TestSquirrel: built statements.
func TestSquirrel(t *testing.T) {
	db := open(t)
	ok2[sql.Result](t)(db.Exec(towns))
	b := squirrel.StatementBuilder.RunWith(db)
	ok2[sql.Result](t)(b.Insert("towns").Columns("country", "name", "people").
		Values("DE", "Ulm", 1).Values("DE", "Bonn", squirrel.Expr("? + 1", 2)).
		Suffix("ON CONFLICT DO NOTHING").Exec())
	ok2[sql.Result](t)(b.Update("towns").Set("people", squirrel.Expr("people * ?", 10)).
		Where(squirrel.And{squirrel.Eq{"country": "DE"}, squirrel.Gt{"people": 2}}).Exec())
	var n int
	ok(t, b.Select("sum(people)").From("towns").
		Where(squirrel.Or{squirrel.Like{"name": "B%"},
			squirrel.Eq{"name": []string{"Ulm", "Rom"}}}).QueryRow().Scan(&n))
	if n != 31 {
		t.Error(n)
	}
	ok2[sql.Result](t)(b.Delete("towns").Where("name = ?", "Ulm").Exec())
}

// versions is the table in which goose notes what it has done. It is there before: goose would
// create it in a transaction.
type versions struct{ name string }

func (v versions) Tablename() string { return v.name }

func (versions) TableExists(context.Context, database.DBTxConn) (bool, error) {
	return true, nil
}

func (v versions) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE "+v.name+
		" (version_id INT PRIMARY KEY, applied_at TIMESTAMP(ms)); INSERT INTO "+v.name+
		" VALUES (0, now())")
	return err
}

func (v versions) Insert(ctx context.Context, db database.DBTxConn,
	r database.InsertRequest) error {
	_, err := db.ExecContext(ctx, "INSERT INTO "+v.name+" VALUES (?, now())", r.Version)
	return err
}

func (v versions) Delete(ctx context.Context, db database.DBTxConn, version int64) error {
	_, err := db.ExecContext(ctx, "DELETE FROM "+v.name+" WHERE version_id = ?", version)
	return err
}

func (v versions) GetMigration(ctx context.Context, db database.DBTxConn, version int64,
) (*database.GetMigrationResult, error) {
	out := &database.GetMigrationResult{IsApplied: true}
	err := db.QueryRowContext(ctx, "SELECT applied_at FROM "+v.name+" WHERE version_id = ?",
		version).Scan(&out.Timestamp)
	if errors.Is(err, sql.ErrNoRows) {
		err = database.ErrVersionNotFound
	}
	return out, err
}

func (v versions) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	var n sql.NullInt64
	err := db.QueryRowContext(ctx, "SELECT max(version_id) FROM "+v.name).Scan(&n)
	if err == nil && !n.Valid {
		err = database.ErrVersionNotFound
	}
	return n.Int64, err
}

func (v versions) ListMigrations(ctx context.Context, db database.DBTxConn,
) (out []*database.ListMigrationsResult, err error) {
	rows, err := db.QueryContext(ctx, "SELECT version_id FROM "+v.name+" ORDER BY version_id DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		m := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&m.Version); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// TestGoose: migrations go up and down. Those that define something say NO TRANSACTION.
func TestGoose(t *testing.T) {
	db := open(t)
	const rome = "INSERT INTO towns (country, name) VALUES ('IT', 'Rom');\n"
	files := fstest.MapFS{
		"001_towns.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\n" + towns +
			";\nCREATE INDEX by_people ON towns (people);\n-- +goose Down\nDROP TABLE towns;\n")},
		"002_rows.sql": {Data: []byte("-- +goose Up\n" + rome +
			"INSERT INTO towns (country, name) VALUES ('DE', 'Ulm');\n" +
			"-- +goose Down\nDELETE FROM towns;\n")},
		"003_fails.sql": {Data: []byte("-- +goose Up\nDELETE FROM towns;\n" + rome + rome)},
	}
	ok(t, versions{"versions"}.CreateVersionTable(ctx, db))
	p, err := goose.NewProvider("", db, fs.FS(files), goose.WithStore(versions{"versions"}),
		goose.WithDisableGlobalRegistry(true))
	ok(t, err)
	count := func() (n int) {
		t.Helper()
		ok(t, db.QueryRow("SELECT count(*) FROM towns").Scan(&n))
		return n
	}
	ok2[[]*goose.MigrationResult](t)(p.UpTo(ctx, 2))
	if n := count(); n != 2 {
		t.Errorf("%d rows", n)
	}
	_, err = p.Up(ctx)
	if !errors.Is(err, table.ErrUnique) || count() != 2 {
		t.Errorf("a migration that fails: %v, %d rows", err, count())
	}
	ok2[*goose.MigrationResult](t)(p.Down(ctx))
	if n := count(); n != 0 {
		t.Errorf("%d rows", n)
	}
	ok2[*goose.MigrationResult](t)(p.Down(ctx))
	if _, err := db.Exec("SELECT 1 FROM towns"); err == nil {
		t.Error("the table is there")
	}
}

// TestGORM: models are read and written; see dialector for what it knows.
func TestGORM(t *testing.T) {
	db, err := gorm.Open(dialector{open(t)}, &gorm.Config{Logger: logger.Discard})
	ok(t, err)
	type Note struct {
		ID   string    `gorm:"primaryKey"`
		User string    `gorm:"index"`
		Text string    `gorm:"default:empty"`
		At   time.Time `gorm:"not null"`
		N    *int
	}
	ok(t, db.AutoMigrate(&Note{}))
	ok(t, db.AutoMigrate(&Note{})) // nothing is to be done
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	seven := 7
	ok(t, db.Create(&[]Note{{ID: "a", User: "x", Text: "1", At: at},
		{"b", "x", "2", at, &seven}}).Error)
	var notes []Note
	ok(t, db.Where("user = ?", "x").Where("n IS NOT NULL OR id IN ?", []string{"a"}).
		Order("id desc").Limit(5).Find(&notes).Error)
	if len(notes) != 2 || notes[0].ID != "b" || *notes[0].N != 7 || !notes[1].At.Equal(at) {
		t.Errorf("%+v", notes)
	}
	notes[0].Text = "3"
	ok(t, db.Save(&notes[0]).Error)
	ok(t, db.Model(&Note{}).Where("id = ?", "a").Update("text", gorm.Expr("text || ?", "!")).Error)
	err = db.Transaction(func(tx *gorm.DB) error {
		ok(t, tx.Delete(&Note{}, "id = ?", "a").Error)
		inner := tx.Transaction(func(tx *gorm.DB) error { // a savepoint
			ok(t, tx.Delete(&Note{}, "id = ?", "b").Error)
			return errors.New("undone")
		})
		if inner == nil {
			t.Error("no error")
		}
		return nil
	})
	ok(t, err)
	var first Note
	ok(t, db.First(&first).Error)
	if first.ID != "b" || first.Text != "3" {
		t.Errorf("%+v", first)
	}
	if err := db.First(&first, "id = ?", "a").Error; !errors.Is(err, gorm.ErrRecordNotFound) {
		t.Error(err)
	}
}
