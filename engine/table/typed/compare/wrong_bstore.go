//go:build wrong_bstore

package compare

import (
	"context"

	"github.com/mjl-/bstore"
)

func wrongBstore(ctx context.Context, db *bstore.DB, o bstoreOrder) {
	q := bstore.QueryDB[bstoreOrder](ctx, db)
	q.FilterGreater("Usr", 1)
	q.FilterGreater("User", "1")
	q.FilterEqual("City", "Paris")
	_ = cityRow{City: o.Cents}             // error
	_ = db.Get(ctx, &bstoreUser{ID: o.At}) // error
}
