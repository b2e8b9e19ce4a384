//go:build generated

package compare

import (
	"context"
	"strings"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/ent"
	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/ent/order"
	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/ent/user"
)

func init() { libraries["ent"] = openEnt }

type entProgram struct{ db *ent.Client }

func openEnt(ctx context.Context, dir string) (program, error) {
	// Its migration wants foreign keys.
	source := strings.Replace(sqliteSource(dir), "_fk=0", "_fk=1", 1)
	db, err := ent.Open("sqlite3", source)
	if err != nil {
		return nil, err
	}
	return entProgram{db}, db.Schema.Create(ctx)
}

func (p entProgram) load(ctx context.Context, d *data) error {
	tx, err := p.db.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	for _, u := range d.users {
		err := tx.User.Create().SetID(u.ID).SetName(u.Name).SetCity(u.City).Exec(ctx)
		if err != nil {
			return err
		}
	}
	for _, x := range d.products {
		if err := tx.Product.Create().SetID(x.ID).SetName(x.Name).Exec(ctx); err != nil {
			return err
		}
	}
	for _, o := range d.orders {
		err := tx.Order.Create().SetID(o.ID).SetUserID(o.User).SetProductID(o.Product).
			SetAt(o.At).SetCents(o.Cents).Exec(ctx)
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p entProgram) user(ctx context.Context, id int64) (userRow, error) {
	u, err := p.db.User.Get(ctx, id)
	if err != nil {
		return userRow{}, err
	}
	return userRow{u.ID, u.Name, u.City}, nil
}

func (p entProgram) latest(ctx context.Context, of int64, limit int) ([]orderRow, error) {
	list, err := p.db.Order.Query().Where(order.UserID(of)).
		Order(order.ByAt(sql.OrderDesc())).Limit(limit).All(ctx)
	out := make([]orderRow, len(list))
	for i, o := range list {
		out[i] = orderRow{o.ID, o.UserID, o.ProductID, o.At, o.Cents}
	}
	return out, err
}

// sales reads the partners with a query for each table, as ent does.
func (p entProgram) sales(ctx context.Context, from, to time.Time) ([]saleRow, error) {
	list, err := p.db.Order.Query().Where(order.AtGTE(from), order.AtLT(to)).
		Order(order.ByAt()).WithUser().WithProduct().All(ctx)
	out := make([]saleRow, len(list))
	for i, o := range list {
		out[i] = saleRow{o.ID, o.At, o.Edges.User.Name, o.Edges.Product.Name}
	}
	return out, err
}

func (p entProgram) cities(ctx context.Context) ([]cityRow, error) {
	var out []cityRow
	err := p.db.User.Query().Modify(func(s *sql.Selector) {
		t := sql.Table(order.Table)
		s.Join(t).On(s.C(user.FieldID), t.C(order.FieldUserID))
		s.Select(s.C(user.FieldCity), sql.As(sql.Count("*"), "orders"),
			sql.As(sql.Sum(t.C(order.FieldCents)), "cents"))
		s.GroupBy(s.C(user.FieldCity)).OrderBy(sql.Desc("cents"))
	}).Scan(ctx, &out)
	return out, err
}

func (p entProgram) rename(ctx context.Context, id int64, name string) error {
	return p.db.User.UpdateOneID(id).SetName(name).Exec(ctx)
}

func (p entProgram) close() error { return p.db.Close() }
