//go:build generated

package compare

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/sqlc/gen"
	_ "github.com/mattn/go-sqlite3" // the driver
)

func init() { libraries["sqlc"] = openSqlc }

//go:embed testdata/sqlc/schema.sql
var sqlcSchema string

type sqlcProgram struct {
	db *sql.DB
	q  *gen.Queries
}

func openSqlc(ctx context.Context, dir string) (program, error) {
	db, err := sql.Open("sqlite3", sqliteSource(dir))
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, sqlcSchema); err != nil {
		return nil, err
	}
	q, err := gen.Prepare(ctx, db)
	return sqlcProgram{db, q}, err
}

func (p sqlcProgram) load(ctx context.Context, d *data) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	q := p.q.WithTx(tx)
	for _, u := range d.users {
		if err := q.InsertUser(ctx, gen.InsertUserParams(u)); err != nil {
			return err
		}
	}
	for _, x := range d.products {
		if err := q.InsertProduct(ctx, gen.InsertProductParams(x)); err != nil {
			return err
		}
	}
	for _, o := range d.orders {
		row := gen.InsertOrderParams{ID: o.ID, UserID: o.User, ProductID: o.Product,
			At: o.At.Unix(), Cents: o.Cents}
		if err := q.InsertOrder(ctx, row); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p sqlcProgram) user(ctx context.Context, id int64) (userRow, error) {
	u, err := p.q.UserByID(ctx, id)
	return userRow(u), err
}

func (p sqlcProgram) latest(ctx context.Context, user int64, limit int) ([]orderRow, error) {
	list, err := p.q.Latest(ctx, gen.LatestParams{UserID: user, Limit: int64(limit)})
	out := make([]orderRow, len(list))
	for i, o := range list {
		out[i] = orderRow{o.ID, o.UserID, o.ProductID, time.Unix(o.At, 0), o.Cents}
	}
	return out, err
}

func (p sqlcProgram) sales(ctx context.Context, from, to time.Time) ([]saleRow, error) {
	list, err := p.q.Sales(ctx, gen.SalesParams{First: from.Unix(), EndAt: to.Unix()})
	out := make([]saleRow, len(list))
	for i, s := range list {
		out[i] = saleRow{s.ID, time.Unix(s.At, 0), s.UserName, s.ProductName}
	}
	return out, err
}

func (p sqlcProgram) cities(ctx context.Context) ([]cityRow, error) {
	list, err := p.q.Cities(ctx)
	out := make([]cityRow, len(list))
	for i, c := range list {
		out[i] = cityRow(c)
	}
	return out, err
}

func (p sqlcProgram) rename(ctx context.Context, id int64, name string) error {
	return p.q.Rename(ctx, gen.RenameParams{Name: name, ID: id})
}

func (p sqlcProgram) close() error {
	if err := p.q.Close(); err != nil {
		return err
	}
	return p.db.Close()
}
