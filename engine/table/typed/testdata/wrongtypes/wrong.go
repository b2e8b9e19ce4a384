// Package wrongtypes has programs that must not compile: every line that ends in "// error"
// has a mistake, and no other one.
package wrongtypes

import (
	"context"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

type order struct {
	ID   int64  `kstone:"id,pk"`
	Name string `kstone:"name"`
}

type user struct {
	ID string `kstone:"id,pk"`
}

var (
	orders = typed.NewTable[order]("orders")
	id     = typed.Col(orders, func(o *order) *int64 { return &o.ID })
	name   = typed.Col(orders, func(o *order) *string { return &o.Name })
	users  = typed.NewTable[user]("users")
	userID = typed.Col(users, func(u *user) *string { return &u.ID })
)

type sale struct {
	Order order
	User  *user
}

var (
	sales    = typed.NewJoin[sale](orders, users)
	saleName = typed.Col(sales, func(s *sale) *string { return &s.Order.Name })
	saleID   = typed.Col(sales, func(s *sale) *int64 { return &s.Order.ID })
	saleUser = typed.Col(sales, func(s *sale) *string { return &s.User.ID })
)

// total and its outputs are right.
type total struct {
	Name string
	Sum  int64
}

type saleTotal struct{ Name string }

var (
	key     = typed.By(name, func(t *total) *string { return &t.Name })
	sum     = typed.Sum(id, func(t *total) *int64 { return &t.Sum })
	saleKey = typed.By(saleName, func(t *saleTotal) *string { return &t.Name })
)

func right(ctx context.Context, db *table.DB, snap *table.Snapshot) error {
	_ = orders.Where(id.Eq(5), name.Eq("x")).OrderBy(name.Desc())
	_ = sales.On(saleName.EqColumn(saleUser)).Where(saleID.Gt(5)).OrderBy(saleUser.Asc())
	_ = typed.GroupBy(orders.Where(), key, sum).Having(sum.Gt(5)).OrderBy(key.Asc())
	_, err := orders.Get(ctx, snap, id.Eq(5))
	return err
}

func wrong(ctx context.Context, db *table.DB, snap *table.Snapshot) {
	_ = id.Eq("five")                                                // error
	_ = name.Between("a", 5)                                         // error
	_ = orders.Where(userID.Eq("x"))                                 // error
	_ = orders.Where().OrderBy(userID.Asc())                         // error
	_ = orders.Index("by_user", userID.Asc())                        // error
	_ = orders.Unique("by_name", name.Asc()).Include(userID)         // error
	_ = typed.Col(orders, func(o *order) *string { return &o.Nam })  // error
	_ = typed.Col(orders, func(o *order) *string { return &o.ID })   // error
	_ = typed.NewJoin[sale](orders, user{})                          // error
	_ = typed.Col(sales, func(s *sale) *string { return &s.Nobody }) // error
	_ = sales.On(saleID.EqColumn(saleUser))                          // error
	_ = sales.On(name.EqColumn(saleUser))                            // error
	_ = sales.On(saleName.EqColumn(saleUser)).Where(userID.Eq("x"))  // error
	_ = sales.On().Where(saleID.Eq("x"))                             // error
	_ = sales.On().OrderBy(name.Asc())                               // error
	_ = sales.On().Columns(saleID, name)                             // error
	_ = orders.Where().Columns(saleID)                               // error
	_ = typed.GroupBy(sales.On(), saleKey, key)                      // error
	_ = typed.GroupBy(orders.Where(), key, saleKey)                  // error
	_ = typed.GroupBy(orders.Where(), key).Having(saleKey.Eq("x"))   // error
	_ = typed.GroupBy(orders.Where(), key).Having(key.Eq(5))         // error
	_ = typed.GroupBy(orders.Where(), key).OrderBy(name.Asc())       // error
	_ = typed.By(name, func(u *user) *int64 { return nil })          // error
	_ = typed.Sum(name, func(t *total) *int64 { return &t.Sum })     // error
	_ = typed.Sum(id, func(t *total) *string { return &t.Name })     // error
	_ = orders.Where(key.Eq("x"))                                    // error
	_ = typed.Select(sales.On(), id)                                 // error
	_ = saleID.InQuery(typed.Select(sales.On(), saleName))           // error
	_ = sales.On().EqArg(saleID.Arg("x"))                            // error
	_ = sales.Insert(ctx, db, &sale{})                               // error
	_ = typed.Migrate(ctx, db, sales)                                // error
	_ = id.InQuery(typed.Select(users.Where(), userID))              // error
	_ = id.EqArg(typed.Arg[string]{Name: "x"})                       // error
	_ = typed.BeginsWith(id, 5)                                      // error
	_ = typed.Or(name.Eq("x"), userID.Eq("x"))                       // error
	_ = orders.Insert(ctx, db, &user{})                              // error
	_ = orders.Insert(ctx, snap, &order{})                           // error
	_, _ = orders.UpdateWhere(ctx, db, id.Eq(1), userID.Set("x"))    // error
}
