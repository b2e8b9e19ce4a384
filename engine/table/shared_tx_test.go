package table_test

import (
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// A transaction that has written a row is in conflict with a change of the definition between that
// and its commit, by another process.
//
// Promise (tables): In storage that several processes share, a transaction commits only if the
// definitions of its tables are those that its rows were written by.
func TestDefinitionsChangeBesideTransactions(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		for change, alter := range definitionChanges {
			t.Run(change, func(t *testing.T) {
				a, b := openShared(t, next(), quick), openShared(t, next(), behind)
				if !transacts(b) {
					t.Skip("the store has no transactions")
				}
				tab := create(t, a, sharedText)
				defer a.DropTable(ctx, "shared", nil)
				ok(t, tab.Insert(ctx, row(t, 1, 10, 1)))
				tx, err := b.Begin(ctx, nil)
				ok(t, err)
				defer tx.Rollback()
				in, err := tx.Table("shared")
				ok(t, err)
				ok(t, errors.Join(in.Insert(ctx, row(t, 9, 90, 90)), alter(a)))
				if err := tx.Commit(ctx); !errors.Is(err, table.ErrConflict) {
					t.Errorf("the error is %v, want a conflict", err)
				}
				if r := verify(t, tab); r.Rows != 1 {
					t.Errorf("there are %d rows", r.Rows)
				}
				if _, err := tab.Get(ctx, expr.Int(9)); err == nil {
					t.Errorf("the row was written")
				}
			})
		}
	})
}
