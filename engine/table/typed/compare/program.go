package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// libraries are the programs, by the names of their files.
var libraries = map[string]func(ctx context.Context, dir string) (program, error){
	"kstone": openKstone, "bstore": openBstore, "gorm": openGorm,
}

// program is what each library does. Times are whole seconds in UTC.
type program interface {
	// load stores all rows of three tables, in a new database.
	load(ctx context.Context, d *data) error
	// user returns the row with a key.
	user(ctx context.Context, id int64) (userRow, error)
	// latest returns the last orders of a user, the newest first.
	latest(ctx context.Context, user int64, limit int) ([]orderRow, error)
	// sales returns the orders from one time on and before another one, in the order of times,
	// with the names of user and product.
	sales(ctx context.Context, from, to time.Time) ([]saleRow, error)
	// cities returns the number and sum of orders of each city, the largest sums first.
	cities(ctx context.Context) ([]cityRow, error)
	// rename changes one row.
	rename(ctx context.Context, id int64, name string) error
	close() error
}

type (
	userRow struct {
		ID         int64
		Name, City string
	}
	productRow struct {
		ID   int64
		Name string
	}
	orderRow struct {
		ID, User, Product int64
		At                time.Time
		Cents             int64
	}
	saleRow struct {
		Order         int64
		At            time.Time
		User, Product string
	}
	cityRow struct {
		City          string
		Orders, Cents int64
	}
)

// data are the rows of the tables.
type data struct {
	users    []userRow
	products []productRow
	orders   []orderRow
}

const (
	userCount    = 1_000
	productCount = 200
	orderCount   = 50_000
)

var start = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// timeOf returns the time of an order: they come one a minute.
func timeOf(order int64) time.Time { return start.Add(time.Duration(order) * time.Minute) }

func draw() *data {
	rnd := rand.New(rand.NewPCG(1, 2))
	d := new(data)
	for i := range int64(userCount) {
		d.users = append(d.users, userRow{i + 1, fmt.Sprintf("user %d", i+1),
			fmt.Sprintf("city %02d", rnd.IntN(50))})
	}
	for i := range int64(productCount) {
		d.products = append(d.products, productRow{i + 1, fmt.Sprintf("product %d", i+1)})
	}
	for i := range int64(orderCount) {
		d.orders = append(d.orders, orderRow{i + 1, 1 + rnd.Int64N(userCount),
			1 + rnd.Int64N(productCount), timeOf(i + 1), 1 + rnd.Int64N(100_00)})
	}
	return d
}
