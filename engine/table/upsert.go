package table

import (
	"context"
	"iter"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Upserted is what Upsert has done.
type Upserted struct {
	New      int // rows whose primary key was free
	Replaced int // rows that took the place of another one, rows of the same call included
}

// Upsert is PutMany that counts new and replaced rows apart, exactly, whatever is written at
// the same time. Of several rows with one key the last one stays. What is counted is
// written, also if there is an error.
func (t *Table) Upsert(ctx context.Context, rows iter.Seq[[]expr.Value]) (Upserted, error) {
	var sum Upserted
	_, err := t.chunks(rows, func(chunk [][]expr.Value) error {
		done, err := t.upsert(ctx, chunk)
		sum.New += done.New
		sum.Replaced += done.Replaced
		return err
	})
	return sum, err
}

// upsert writes rows in one commit.
func (t *Table) upsert(ctx context.Context, rows [][]expr.Value) (done Upserted, err error) {
	err = t.Write(ctx, func(w *rowio.Writer) (err error) {
		done.New, done.Replaced, err = w.UpsertAll(ctx, rows)
		return err
	})
	if err != nil {
		return Upserted{}, err
	}
	return done, nil
}
