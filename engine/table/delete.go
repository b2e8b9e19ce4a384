package table

import (
	"context"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Delete removes the row with a primary key. The error matches ErrNotFound without such a
// row, and ErrConditionFailed if a condition does not hold.
func (t *Table) Delete(ctx context.Context, key []expr.Value, conditions ...Condition) error {
	return t.Write(ctx, func(w *rowio.Writer) error {
		it, old, err := find(ctx, w, key, conditions)
		if err != nil {
			return err
		}
		return w.Remove(&it, old)
	})
}

// DeleteWhere removes all rows for which a predicate is true and returns how many: see
// UpdateWhere.
func (t *Table) DeleteWhere(ctx context.Context, where expr.Expr, params ...any) (int, error) {
	return t.DeleteWhereReturning(ctx, where, nil, params...)
}

// DeleteWhereReturning is DeleteWhere, which calls each with the rows that it removes: see
// UpdateWhereReturning.
func (t *Table) DeleteWhereReturning(ctx context.Context, where expr.Expr,
	each func(row []expr.Value) error, params ...any) (int, error) {
	return t.where(ctx, where, nil, params, func(w *rowio.Writer, it *store.Item, old,
		_ []expr.Value) error {
		if each != nil {
			if err := each(old); err != nil {
				return err
			}
		}
		return w.Remove(it, old)
	})
}
