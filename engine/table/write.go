package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/internal/base"
)

// Write commits the rows that build adds, in one commit, again and again while it loses races:
// for layers that have rows in forms of their own. build is called with an empty writer each
// time. The error is a *UniqueError if another row is in the way.
func (t *Table) Write(ctx context.Context, build func(*rowio.Writer) error) error {
	w := rowio.NewWriter(t.tx != nil, t.db.noVersions)
	defer w.Release()
	for attempt, lost := 0, 0; ; attempt++ {
		again, err := t.attempt(ctx, w, build)
		if !again {
			return err
		}
		before := lost
		if lost = w.Overwrites(); t.tx != nil && lost <= before {
			return errors.Join(ErrConflict, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// attempt builds and commits once; again says that a race was lost.
func (t *Table) attempt(ctx context.Context, w *rowio.Writer,
	build func(*rowio.Writer) error) (again bool, err error) {
	st, writeTo, err := t.begin(ctx)
	if err != nil {
		return false, err
	}
	again, final, err := t.try(ctx, w, build, st, writeTo)
	if err != nil && !final && t.db.fences > 0 && t.tx == nil {
		moved, failed := t.db.outdated(ctx, t.core, st)
		again, err = again || moved, errors.Join(err, failed)
	}
	return again, err
}

// try is attempt with a definition. final says that an error is one by any definition. It ends
// what begin has begun.
func (t *Table) try(ctx context.Context, w *rowio.Writer, build func(*rowio.Writer) error,
	st *tableState, writeTo store.ReadWriter) (again, final bool, err error) {
	if t.tx == nil {
		defer t.core.fence.RUnlock()
	}
	w.Reset(ctx, &st.Rules, writeTo)
	if err = build(w); err == nil {
		err = w.Finish(ctx)
	}
	if err != nil {
		return false, false, notUnique(st.Schema, err)
	}
	if w.Set().Len() == 0 {
		return false, false, nil
	}
	if err := t.core.numbers.pass(ctx, t.db, st.Schema.ID, w.Number()); err != nil {
		return false, true, err
	}
	if t.tx == nil {
		t.db.prove(w.Set(), st)
	}
	rows := t.core.touch(w)
	err = writeTo.Commit(ctx, w.Set())
	t.core.fresh.written.Add(int64(w.Rows()))
	if t.tx != nil {
		t.tx.touch(rows)
	} else {
		rows.end()
	}
	if err == nil {
		return false, true, nil
	}
	var failed *store.ConditionError
	switch {
	case errors.As(err, &failed):
		again, err = w.Lost(ctx, failed)
		return again, false, notUnique(st.Schema, err)
	case t.tx == nil && errors.Is(err, ErrConflict):
		return true, false, err
	}
	return false, true, err
}

// notUnique returns an error that is a *UniqueError if another row is in the way.
func notUnique(t *schema.Table, err error) error {
	var taken *rowio.Taken
	if errors.As(err, &taken) {
		return uniqueError(t, taken.Index, taken.Row, taken.Owner)
	}
	return err
}

// begin returns the definition to write by and where to. Outside of transactions it has locked the
// fence for reading.
func (t *Table) begin(ctx context.Context) (*tableState, store.ReadWriter, error) {
	if t.tx != nil {
		st, err := t.tx.state(ctx, t.core)
		if err == nil {
			err = t.bound(st)
		}
		return st, t.tx.store, err
	}
	if t.snap != nil {
		return nil, nil, invalid("a snapshot cannot be written to")
	}
	t.core.fence.RLock()
	st, err := t.core.present()
	if err == nil {
		err = t.bound(st)
	}
	if err != nil {
		t.core.fence.RUnlock()
		return nil, nil, err
	}
	return st, t.db.store, nil
}

// bound returns an error if the handle is for another definition: see DB.Bound.
func (t *Table) bound(st *tableState) error {
	switch {
	case t.only == nil || t.only == st.Schema:
		return nil
	case st != t.core.state.Load(): // only a transaction sees a former definition
		return changedSince(st)
	}
	return fmt.Errorf("%w: %q", ErrChanged, st.Schema.Name)
}

// changedSince is the error of a transaction that knows a former definition.
func changedSince(st *tableState) error {
	return fmt.Errorf("table: the definition of %s has changed: %w", st.Schema.Name, ErrConflict)
}

func uniqueError(t *schema.Table, x *schema.Index, row []expr.Value, owner store.Key) error {
	e := &UniqueError{Table: t.Name, Index: plan.PrimaryIndex}
	ordinals := t.KeyOrdinals()
	if x != nil {
		e.Index, ordinals = x.Name, x.Ordinals()
	}
	for _, o := range ordinals {
		e.Values = append(e.Values, row[o].Clone())
	}
	var err error
	if e.Key, err = t.KeyValues(owner); err != nil {
		return err
	}
	return e
}

// pause waits a little before the next attempt: not at first, then for random times that
// grow up to 5 ms.
func pause(ctx context.Context, attempt int) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	if attempt < 4 {
		runtime.Gosched()
		return nil
	}
	most := min(50*time.Microsecond<<min(attempt-4, 10), 5*time.Millisecond)
	return base.Sleep(ctx, rand.N(most))
}
