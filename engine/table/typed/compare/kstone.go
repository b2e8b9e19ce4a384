package compare

import (
	"context"
	"time"

	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

type kstoneUser struct {
	ID   int64  `kstone:"id,pk"`
	Name string `kstone:"name"`
	City string `kstone:"city"`
}

type kstoneProduct struct {
	ID   int64  `kstone:"id,pk"`
	Name string `kstone:"name"`
}

type kstoneOrder struct {
	ID      int64     `kstone:"id,pk"`
	User    int64     `kstone:"user"`
	Product int64     `kstone:"product"`
	At      time.Time `kstone:"at,s"`
	Cents   int64     `kstone:"cents"`
}

type kstoneSale struct {
	Order   kstoneOrder
	User    kstoneUser
	Product kstoneProduct
}

var (
	users    = typed.NewTable[kstoneUser]("users")
	userID   = typed.Col(users, func(u *kstoneUser) *int64 { return &u.ID })
	userName = typed.Col(users, func(u *kstoneUser) *string { return &u.Name })

	products = typed.NewTable[kstoneProduct]("products")

	orders    = typed.NewTable[kstoneOrder]("orders")
	orderUser = typed.Col(orders, func(o *kstoneOrder) *int64 { return &o.User })
	orderAt   = typed.Col(orders, func(o *kstoneOrder) *time.Time { return &o.At })

	_ = orders.Index("by_user", orderUser.Asc(), orderAt.Desc())
	_ = orders.Index("by_at", orderAt.Asc())

	sales       = typed.NewJoin[kstoneSale](orders, users, products)
	saleID      = typed.Col(sales, func(s *kstoneSale) *int64 { return &s.Order.ID })
	saleAt      = typed.Col(sales, func(s *kstoneSale) *time.Time { return &s.Order.At })
	saleCents   = typed.Col(sales, func(s *kstoneSale) *int64 { return &s.Order.Cents })
	saleBuyer   = typed.Col(sales, func(s *kstoneSale) *int64 { return &s.Order.User })
	saleUser    = typed.Col(sales, func(s *kstoneSale) *int64 { return &s.User.ID })
	saleCity    = typed.Col(sales, func(s *kstoneSale) *string { return &s.User.City })
	saleBought  = typed.Col(sales, func(s *kstoneSale) *int64 { return &s.Order.Product })
	saleProduct = typed.Col(sales, func(s *kstoneSale) *int64 { return &s.Product.ID })

	all = sales.On(saleBuyer.EqColumn(saleUser), saleBought.EqColumn(saleProduct))

	argUser     = orderUser.Arg("user")
	argLimit    = typed.Arg[int]{Name: "limit"}
	from        = saleAt.Arg("from")
	to          = saleAt.Arg("to")
	latestQuery = orders.Where(orderUser.EqArg(argUser)).OrderBy(orderAt.Desc()).
			LimitArg(argLimit).Prepare()
	salesQuery = all.Where(saleAt.GeArg(from), saleAt.LtArg(to)).OrderBy(saleAt.Asc()).Prepare()

	cityCents  = typed.Sum(saleCents, func(c *cityRow) *int64 { return &c.Cents })
	cityTotals = typed.GroupBy(all, cityCents,
		typed.By(saleCity, func(c *cityRow) *string { return &c.City }),
		typed.Count(saleID, func(c *cityRow) *int64 { return &c.Orders })).
		OrderBy(cityCents.Desc())
)

type kstoneProgram struct{ db *table.DB }

func openKstone(ctx context.Context, dir string) (program, error) {
	db, err := local.OpenDir(ctx, dir, nil)
	if err != nil {
		return nil, err
	}
	return kstoneProgram{db}, typed.Migrate(ctx, db, users, products, orders)
}

func (p kstoneProgram) load(ctx context.Context, d *data) error {
	return p.db.Update(ctx, func(tx *table.Tx) error {
		for _, u := range d.users {
			if err := users.Insert(ctx, tx, &kstoneUser{u.ID, u.Name, u.City}); err != nil {
				return err
			}
		}
		for _, x := range d.products {
			if err := products.Insert(ctx, tx, &kstoneProduct{x.ID, x.Name}); err != nil {
				return err
			}
		}
		for _, o := range d.orders {
			row := kstoneOrder{o.ID, o.User, o.Product, o.At, o.Cents}
			if err := orders.Insert(ctx, tx, &row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p kstoneProgram) user(ctx context.Context, id int64) (userRow, error) {
	u, err := users.Get(ctx, p.db, userID.Eq(id))
	return userRow(u), err
}

func (p kstoneProgram) latest(ctx context.Context, user int64, limit int) ([]orderRow, error) {
	var out []orderRow
	for o, err := range latestQuery.All(ctx, p.db, argUser.Is(user), argLimit.Is(limit)) {
		if err != nil {
			return nil, err
		}
		out = append(out, orderRow(o))
	}
	return out, nil
}

func (p kstoneProgram) sales(ctx context.Context, first, end time.Time) ([]saleRow, error) {
	var out []saleRow
	for s, err := range salesQuery.All(ctx, p.db, from.Is(first), to.Is(end)) {
		if err != nil {
			return nil, err
		}
		out = append(out, saleRow{s.Order.ID, s.Order.At, s.User.Name, s.Product.Name})
	}
	return out, nil
}

func (p kstoneProgram) cities(ctx context.Context) ([]cityRow, error) {
	var out []cityRow
	for c, err := range cityTotals.All(ctx, p.db) {
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (p kstoneProgram) rename(ctx context.Context, id int64, name string) error {
	return users.Set(ctx, p.db, []typed.Assign[kstoneUser]{userName.Set(name)}, userID.Eq(id))
}

func (p kstoneProgram) close() error { return p.db.Close() }
