package table

import (
	"context"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
)

// Delete removes the row with a primary key. The error matches ErrNotFound without such a
// row, and ErrConditionFailed if a condition does not hold.
func (t *Table) Delete(ctx context.Context, key []expr.Value, conditions ...Condition) error {
	return t.run(ctx, func(w *writer) error {
		it, old, err := w.find(ctx, key, conditions)
		if err != nil {
			return err
		}
		return w.remove(&it, old)
	})
}

// DeleteWhere removes all rows for which a predicate is true and returns how many: see
// UpdateWhere.
func (t *Table) DeleteWhere(ctx context.Context, where expr.Expr, params ...any) (int, error) {
	return t.where(ctx, where, params, func(w *writer, it *store.Item, old,
		_ []expr.Value) error {
		return w.remove(it, old)
	})
}
