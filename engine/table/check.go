package table

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// AddCheck adds a check to the table, which rows that are written satisfy from then on, and looks
// at all other rows while writers write. If it is false for one of them, the check is removed
// again, and the error is a *schema.CheckError. If ctx ends or the process does, the check stays
// for writers: Resume, or AddCheck once more, looks at the rows. Otherwise the error matches
// ErrExists if there is a check of that name. Progress, if not nil, is called now and then.
func (t *Table) AddCheck(ctx context.Context, c schema.Check, progress func(Progress)) error {
	db := t.db
	return db.job(ctx, func() error {
		have := t.Schema().Check(c.Name)
		if have != nil && (!have.Unverified || !expr.Equal(have.Condition, c.Condition)) {
			return &NameError{t.Name() + "." + c.Name, ErrExists}
		}
		if have == nil {
			c.Unverified = true
			if err := db.change(ctx, t.core, nil, func(s *schema.Table) (*schema.Table, error) {
				if s.Dropping {
					return nil, &NameError{s.Name, ErrNoTable}
				}
				return s.AddCheck(c)
			}); err != nil {
				return err
			}
		}
		return db.verifyCheck(ctx, t.core, c.Name, progress)
	})
}

// verifyCheck looks at the rows from before a check.
//
// Invariant: since the check is in the catalogue, every commit satisfies it. So rows that the
// snapshot does not have do.
func (db *DB) verifyCheck(ctx context.Context, core *tableCore, name string,
	progress func(Progress)) error {
	snap, err := db.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	err = core.checkRows(ctx, snap, name, progress)
	then := func(t *schema.Table) (*schema.Table, error) { return t.VerifyCheck(name) }
	if errors.Is(err, schema.ErrCheck) {
		ctx = context.WithoutCancel(ctx)
		then = func(t *schema.Table) (*schema.Table, error) { return t.DropCheck(name) }
	} else if err != nil {
		return err
	}
	return errors.Join(err, db.change(ctx, core, nil, then))
}

// checkRows returns a *schema.CheckError for the first row for which a check is false.
func (c *tableCore) checkRows(ctx context.Context, r store.Reader, name string,
	progress func(Progress)) error {
	t := c.state.Load().Schema
	p := Progress{Table: t.Name, Index: name, What: "check"}
	if s := c.stats.Load(); s != nil {
		p.Total = int64(s.Rows)
	}
	row := t.Row()
	for it, err := range r.Scan(ctx, rowio.Rows(t)) {
		if err != nil {
			return err
		}
		if err := t.Decode(row, it.Key, it.Value, nil); err != nil {
			return err
		}
		if err := t.CheckRowBy(name, row); err != nil {
			return err
		}
		if p.Done++; progress != nil && p.Done%buildRows == 0 {
			progress(p)
		}
	}
	return nil
}

// DropCheck removes a check. The error matches ErrNoCheck if there is none of that name.
func (t *Table) DropCheck(ctx context.Context, name string) error {
	return t.db.change(ctx, t.core, nil, func(s *schema.Table) (*schema.Table, error) {
		if s.Check(name) == nil {
			return nil, &NameError{s.Name + "." + name, ErrNoCheck}
		}
		return s.DropCheck(name)
	})
}
