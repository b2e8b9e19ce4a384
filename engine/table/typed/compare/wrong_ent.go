//go:build wrong_ent

package compare

import (
	"context"

	"entgo.io/ent/dialect/sql"
	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/ent"
	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/ent/order"
	"github.com/kstonedb/kstone/engine/table/typed/compare/testdata/ent/user"
)

func wrongEnt(ctx context.Context, db *ent.Client, s *sql.Selector, t *sql.SelectTable) {
	db.Order.Query().Where(order.UsrID(1))     // error
	db.Order.Query().Where(order.UserID("1"))  // error
	db.Order.Query().Where(user.City("Paris")) // error
	cents := db.Order.Query().Aggregate(ent.As(ent.Sum(order.FieldCents), "city"))
	_ = cents.Scan(ctx, &[]cityRow{})
	s.Join(t).On(s.C(user.FieldCity), t.C(order.FieldUserID))
}
