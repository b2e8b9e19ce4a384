package typed_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
)

// Order is an order of a shop. Orders of a user lie together, by date.
type Order struct {
	UserID string           `kstone:"user_id,pk"`
	Date   time.Time        `kstone:"order_date,sk,ms"`
	ID     keycodec.UUID    `kstone:"order_id,sk"`
	Amount keycodec.Decimal `kstone:"amount,decimal(2)"`
	Status string           `kstone:"status"`
}

// Orders and its columns. The index is a second composite key, kept beside the first one.
var (
	Orders = typed.NewTable[Order]("orders")
	UserID = typed.Col(Orders, func(o *Order) *string { return &o.UserID })
	Date   = typed.Col(Orders, func(o *Order) *time.Time { return &o.Date })
	ID     = typed.Col(Orders, func(o *Order) *keycodec.UUID { return &o.ID })
	Amount = typed.Col(Orders, func(o *Order) *keycodec.Decimal { return &o.Amount })
	Status = typed.Col(Orders, func(o *Order) *string { return &o.Status })

	_ = Orders.Index("by_status", Status.Asc(), Date.Asc()).Include(Amount).Shard(16)
)

// openExample returns a database in memory with some tables, and what closes it.
func openExample(ctx context.Context, tables ...typed.Definition) (*table.DB, func()) {
	db, err := local.OpenDir(ctx, "example",
		&local.Options{Engine: &engine.Options{InMemory: true}})
	if err != nil {
		log.Fatal(err)
	}
	if err := typed.Migrate(ctx, db, tables...); err != nil {
		log.Fatal(err)
	}
	return db, func() {
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// openOrders returns a database in memory with five orders of two users.
func openOrders(ctx context.Context) (*table.DB, func()) {
	db, closeAll := openExample(ctx, Orders)
	start := time.UnixMilli(1737100800000) // 2025-01-17 08:00 UTC
	for i, status := range []string{"paid", "sent", "paid", "new", "paid"} {
		o := Order{UserID: "USR_12345", Date: start.AddDate(0, 0, i), ID: keycodec.UUID{byte(i)},
			Amount: keycodec.NewDecimal(int64(1000+50*i), 2), Status: status}
		if i == 4 {
			o.UserID = "USR_9"
		}
		if err := Orders.Insert(ctx, db, &o); err != nil {
			log.Fatal(err)
		}
	}
	return db, closeAll
}

// The access patterns of composite keys: exact, prefix and range, and a second key beside
// the first one.
func Example() {
	ctx := context.Background()
	db, closeAll := openOrders(ctx)
	defer closeAll()
	first := time.UnixMilli(1737100800000)

	// Exact: a single read.
	o, err := Orders.Get(ctx, db, UserID.Eq("USR_12345"), Date.Eq(first), ID.Eq(keycodec.UUID{}))
	fmt.Println("exact:", o.Amount, o.Status, err)

	// Prefix: all orders of a user.
	n, err := Orders.Where(UserID.Eq("USR_12345")).Count(ctx, db)
	fmt.Println("prefix:", n, err)

	// Range: those of some days, the latest first.
	days := Orders.Where(UserID.Eq("USR_12345"),
		Date.Between(first, first.AddDate(0, 0, 2))).OrderBy(Date.Desc()).Limit(100)
	for o, err := range days.All(ctx, db) {
		fmt.Println("range:", o.Date.Format(time.DateOnly), o.Status, err)
	}

	// By the second key: paid orders of all users, by date.
	paid := Orders.Where(Status.Eq("paid"), Date.Ge(first.AddDate(0, 0, 1)))
	for o, err := range paid.OrderBy(Date.Asc()).All(ctx, db) {
		fmt.Println("paid:", o.UserID, o.Amount, err)
	}
	// Output:
	// exact: 10 paid <nil>
	// prefix: 4 <nil>
	// range: 2025-01-19 paid <nil>
	// range: 2025-01-18 sent <nil>
	// range: 2025-01-17 paid <nil>
	// paid: USR_12345 11 <nil>
	// paid: USR_9 12 <nil>
}

// Several statements that commit as one, on the condition that the order is still paid.
func ExampleTable_Update() {
	ctx := context.Background()
	db, closeAll := openOrders(ctx)
	defer closeAll()
	err := db.Update(ctx, func(tx *table.Tx) error {
		paid, err := Orders.Where(UserID.Eq("USR_12345"), Status.Eq("paid")).First(ctx, tx)
		if err != nil {
			return err
		}
		return Orders.Update(ctx, tx, func(o *Order) error {
			o.Status = "sent"
			return nil
		}, UserID.Eq(paid.UserID), Date.Eq(paid.Date), ID.Eq(paid.ID), Status.Eq("paid"))
	})
	n, countErr := Orders.Where(Status.Eq("sent")).Count(ctx, db)
	fmt.Println(n, err, countErr)
	// Output: 2 <nil> <nil>
}

// A query that is planned once and run with parameters.
func ExampleQuery_Prepare() {
	ctx := context.Background()
	db, closeAll := openOrders(ctx)
	defer closeAll()
	who := UserID.Arg("who")
	latest := Orders.Where(UserID.EqArg(who)).OrderBy(Date.Desc()).Limit(1).Prepare()
	for _, user := range []string{"USR_12345", "USR_9"} {
		o, err := latest.First(ctx, db, who.Is(user))
		fmt.Println(user, o.Date.Format(time.DateOnly), err)
	}
	// Output:
	// USR_12345 2025-01-20 <nil>
	// USR_9 2025-01-21 <nil>
}

// Totals of groups.
func ExampleGroupBy() {
	ctx := context.Background()
	db, closeAll := openOrders(ctx)
	defer closeAll()
	type total struct {
		Status string
		Orders int64
		Amount float64
		Latest time.Time
	}
	amount := typed.Sum(Amount, func(t *total) *float64 { return &t.Amount })
	totals := typed.GroupBy(Orders.Where(), amount,
		typed.By(Status, func(t *total) *string { return &t.Status }),
		typed.Count(UserID, func(t *total) *int64 { return &t.Orders }),
		typed.Max(Date, func(t *total) *time.Time { return &t.Latest })).OrderBy(amount.Desc())
	for t, err := range totals.All(ctx, db) {
		fmt.Println(t.Status, t.Orders, t.Amount, t.Latest.Format(time.DateOnly), err)
	}
	// Output:
	// paid 3 33 2025-01-21 <nil>
	// new 1 11.5 2025-01-20 <nil>
	// sent 1 10.5 2025-01-18 <nil>
}

// Rows of two tables, and rows that have a partner.
func ExampleNewJoin() {
	type User struct {
		ID   string `kstone:"id,pk"`
		Name string `kstone:"name"`
	}
	users := typed.NewTable[User]("users")
	userID := typed.Col(users, func(u *User) *string { return &u.ID })

	type Sale struct {
		Order Order
		User  *User // nil without one
	}
	sales := typed.NewJoin[Sale](Orders, users)
	buyer := typed.Col(sales, func(s *Sale) *string { return &s.Order.UserID })
	date := typed.Col(sales, func(s *Sale) *time.Time { return &s.Order.Date })
	known := typed.Col(sales, func(s *Sale) *string { return &s.User.ID })

	ctx := context.Background()
	db, closeAll := openOrders(ctx)
	defer closeAll()
	if err := typed.Migrate(ctx, db, users); err != nil {
		log.Fatal(err)
	}
	if err := users.Insert(ctx, db, &User{"USR_9", "An"}); err != nil {
		log.Fatal(err)
	}
	latest := sales.On(buyer.EqColumn(known)).OrderBy(date.Desc()).Limit(2)
	for s, err := range latest.All(ctx, db) {
		fmt.Println(s.Order.UserID, s.Order.Amount, s.User, err)
	}
	large := Orders.Where(Amount.Gt(keycodec.NewDecimal(1100, 2)))
	n, err := users.Where(userID.InQuery(typed.Select(large, UserID))).Count(ctx, db)
	fmt.Println(n, err)
	// Output:
	// USR_9 12 &{USR_9 An} <nil>
	// USR_12345 11.5 <nil> <nil>
	// 1 <nil>
}

// The same table without its struct: rows are values.
func ExampleDB_Table() {
	ctx := context.Background()
	db, closeAll := openOrders(ctx)
	defer closeAll()
	orders, err := db.Table("orders")
	if err != nil {
		log.Fatal(err)
	}
	date := time.UnixMilli(1737100800000).AddDate(0, 0, 4)
	row, err := orders.Get(ctx, expr.String("USR_9"), expr.Time(date), expr.UUID([16]byte{4}))
	fmt.Println(row[0], row[1], row[3], row[4], err)
	// Output: 'USR_9' TIMESTAMP '2025-01-21T08:00:00Z' 12.0 'paid' <nil>
}
