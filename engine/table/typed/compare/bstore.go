package compare

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/mjl-/bstore"
)

type bstoreUser struct {
	ID         int64
	Name, City string
}

type bstoreProduct struct {
	ID   int64
	Name string
}

type bstoreOrder struct {
	ID      int64
	User    int64     `bstore:"ref bstoreUser,index User+At"`
	Product int64     `bstore:"ref bstoreProduct"`
	At      time.Time `bstore:"index"`
	Cents   int64
}

type bstoreProgram struct{ db *bstore.DB }

func openBstore(ctx context.Context, dir string) (program, error) {
	db, err := bstore.Open(ctx, filepath.Join(dir, "bstore"), nil, bstoreUser{}, bstoreProduct{},
		bstoreOrder{})
	return bstoreProgram{db}, err
}

func (p bstoreProgram) load(ctx context.Context, d *data) error {
	return p.db.Write(ctx, func(tx *bstore.Tx) error {
		for _, u := range d.users {
			if err := tx.Insert(&bstoreUser{u.ID, u.Name, u.City}); err != nil {
				return err
			}
		}
		for _, x := range d.products {
			if err := tx.Insert(&bstoreProduct{x.ID, x.Name}); err != nil {
				return err
			}
		}
		for _, o := range d.orders {
			row := bstoreOrder{o.ID, o.User, o.Product, o.At, o.Cents}
			if err := tx.Insert(&row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p bstoreProgram) user(ctx context.Context, id int64) (userRow, error) {
	u := bstoreUser{ID: id}
	err := p.db.Get(ctx, &u)
	return userRow(u), err
}

func (p bstoreProgram) latest(ctx context.Context, user int64, limit int) ([]orderRow, error) {
	list, err := bstore.QueryDB[bstoreOrder](ctx, p.db).FilterNonzero(bstoreOrder{User: user}).
		SortDesc("At").Limit(limit).List()
	out := make([]orderRow, len(list))
	for i, o := range list {
		out[i] = orderRow(o)
	}
	return out, err
}

// sales reads the partners of each order: there are no joins.
func (p bstoreProgram) sales(ctx context.Context, from, to time.Time) ([]saleRow, error) {
	var out []saleRow
	err := p.db.Read(ctx, func(tx *bstore.Tx) error {
		return bstore.QueryTx[bstoreOrder](tx).FilterGreaterEqual("At", from).
			FilterLess("At", to).SortAsc("At").ForEach(func(o bstoreOrder) error {
			u, x := bstoreUser{ID: o.User}, bstoreProduct{ID: o.Product}
			if err := tx.Get(&u, &x); err != nil {
				return err
			}
			out = append(out, saleRow{o.ID, o.At, u.Name, x.Name})
			return nil
		})
	})
	return out, err
}

// cities groups by hand.
func (p bstoreProgram) cities(ctx context.Context) ([]cityRow, error) {
	cityOf, groups := map[int64]string{}, map[string]*cityRow{}
	err := p.db.Read(ctx, func(tx *bstore.Tx) error {
		err := bstore.QueryTx[bstoreUser](tx).ForEach(func(u bstoreUser) error {
			cityOf[u.ID] = u.City
			return nil
		})
		if err != nil {
			return err
		}
		return bstore.QueryTx[bstoreOrder](tx).ForEach(func(o bstoreOrder) error {
			g := groups[cityOf[o.User]]
			if g == nil {
				g = &cityRow{City: cityOf[o.User]}
				groups[g.City] = g
			}
			g.Orders++
			g.Cents += o.Cents
			return nil
		})
	})
	var out []cityRow
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b cityRow) int { return int(b.Cents - a.Cents) })
	return out, err
}

func (p bstoreProgram) rename(ctx context.Context, id int64, name string) error {
	_, err := bstore.QueryDB[bstoreUser](ctx, p.db).FilterID(id).UpdateField("Name", name)
	return err
}

func (p bstoreProgram) close() error { return p.db.Close() }
