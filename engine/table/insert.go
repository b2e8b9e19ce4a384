package table

import (
	"context"
	"iter"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Insert writes a row that must not be there yet. The row has a value for each column of
// the schema, of any kind that the column takes; values of dropped columns are not looked
// at. If the primary key or the columns of a unique index are taken, the error is a
// *UniqueError, and if a value does not fit, that of schema.Column.Convert; nothing is
// written then.
func (t *Table) Insert(ctx context.Context, row []expr.Value) error {
	return t.Write(ctx, func(w *rowio.Writer) error { return w.Insert(row) })
}

// InsertUnless is Insert with a choice: if several rows are in the way, and one of them is in the
// named unique index, the *UniqueError is about that one. An empty name, or that of the primary
// key, makes it Insert.
func (t *Table) InsertUnless(ctx context.Context, row []expr.Value, index string) error {
	return t.Write(ctx, func(w *rowio.Writer) error {
		if err := w.Insert(row); err != nil {
			return err
		}
		w.First(index)
		return nil
	})
}

// InsertMany inserts rows. Up to 10,000 rows and 16 MiB are one commit, and any number is part
// of the transaction that t is in. More rows are several commits, in their order; when one fails,
// InsertMany returns how many rows are written. The sequence is read once; its rows, and what
// their values refer to, may be reused by it after each step.
func (t *Table) InsertMany(ctx context.Context, rows iter.Seq[[]expr.Value]) (int, error) {
	return t.writeMany(ctx, rows, (*rowio.Writer).Insert)
}

// writeMany writes rows one by one, many of them in one commit, and returns how many were written.
func (t *Table) writeMany(ctx context.Context, rows iter.Seq[[]expr.Value],
	write func(w *rowio.Writer, row []expr.Value) error) (int, error) {
	return t.chunks(rows, func(chunk [][]expr.Value) error {
		return t.Write(ctx, func(w *rowio.Writer) error {
			for _, row := range chunk {
				if err := write(w, row); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// chunks calls write with copies of some rows at a time, and returns how many were written.
func (t *Table) chunks(rows iter.Seq[[]expr.Value], write func([][]expr.Value) error) (n int,
	err error) {
	var c chunk
	for row := range rows {
		c.add(row)
		if !rowio.Full(len(c.rows), c.bytes) {
			continue
		}
		if err := write(c.rows); err != nil {
			return n, err
		}
		n += len(c.rows)
		c.reset()
	}
	if len(c.rows) == 0 {
		return n, nil
	}
	if err := write(c.rows); err != nil {
		return n, err
	}
	return n + len(c.rows), nil
}

// chunk keeps copies of rows: those of a query are views. Its memory is used again.
type chunk struct {
	rows  [][]expr.Value
	room  []expr.Value
	bytes int
}

func (c *chunk) add(row []expr.Value) {
	start := len(c.room)
	for _, v := range row {
		c.room = append(c.room, v.Clone())
		c.bytes += 16 + v.Size()
	}
	c.rows = append(c.rows, c.room[start:len(c.room):len(c.room)])
}

func (c *chunk) reset() { c.rows, c.room, c.bytes = c.rows[:0], c.room[:0], 0 }

// Put writes a row, in place of the one with its primary key if there is one. The error is
// a *UniqueError if the columns of a unique index are taken by another row.
func (t *Table) Put(ctx context.Context, row []expr.Value) error {
	return t.Write(ctx, func(w *rowio.Writer) error { return w.Upsert(ctx, row) })
}

// PutMany is InsertMany that replaces rows. Of two rows with one key the later one stays,
// but they must not be among the same 10,000: then the error is a *UniqueError.
func (t *Table) PutMany(ctx context.Context, rows iter.Seq[[]expr.Value]) (int, error) {
	return t.writeMany(ctx, rows, func(w *rowio.Writer, row []expr.Value) error {
		return w.Upsert(ctx, row)
	})
}
