package table

import (
	"context"
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
)

// Condition is what Update and Delete require of the row: see IfVersion and If.
type Condition struct {
	version uint64
	where   expr.Program
	params  []expr.Value
	err     error
}

// IfVersion requires that the row is still the one that GetVersion returned with this
// version.
func IfVersion(version uint64) Condition { return Condition{version: version} }

// If requires that a predicate is true of the row. Its columns have source 0.
func If(predicate expr.Expr, params ...any) Condition {
	var c Condition
	if c.params, c.err = values(params); c.err == nil {
		c.where, c.err = expr.Compile(predicate)
	}
	return c
}

// holds returns nil, ErrConditionFailed or another error.
func (c *Condition) holds(it *store.Item, row []expr.Value) error {
	if c.err != nil {
		return c.err
	}
	if c.version != 0 {
		if it.Version != c.version {
			return ErrConditionFailed
		}
		return nil
	}
	truth, err := c.where.Test(row, c.params)
	if err == nil && truth != expr.True {
		err = ErrConditionFailed
	}
	return err
}

// Update changes the row with a primary key: f changes the row it is given, in its place,
// and may change its key, too. Nothing is written if f returns an error, which is returned.
// It may be called again after a lost race. The error matches ErrNotFound without such a
// row, ErrConditionFailed if a condition does not hold, and is a *UniqueError if the new
// row is in conflict with another one.
func (t *Table) Update(ctx context.Context, key []expr.Value, f func(row []expr.Value) error,
	conditions ...Condition) error {
	return t.run(ctx, func(w *writer) error {
		it, old, err := w.find(ctx, key, conditions)
		if err != nil {
			return err
		}
		row := slices.Clone(old)
		if err := f(row); err != nil {
			return err
		}
		return w.replace(&it, old, row)
	})
}

// find returns the row with a primary key, if it satisfies the conditions.
func (w *writer) find(ctx context.Context, values []expr.Value, conditions []Condition) (
	it store.Item, row []expr.Value, err error) {
	row = w.st.schema.Row()
	if err := setKey(w.st.schema, row, values); err != nil {
		return it, nil, err
	}
	key, err := w.rowKey(row)
	if err != nil {
		return it, nil, err
	}
	if it, err = store.GetItem(ctx, w.r, key); err != nil {
		return it, nil, err
	}
	if err := w.st.schema.Decode(row, it.Key, it.Value, nil); err != nil {
		return it, nil, err
	}
	for i := range conditions {
		if err := conditions[i].holds(&it, row); err != nil {
			return it, nil, err
		}
	}
	return it, row, nil
}

// Assignment sets a column to the value of an expression over the old row.
type Assignment struct {
	Column int // its ordinal
	Value  expr.Expr
}

// Set changes the row with a primary key by assignments: see Update.
func (t *Table) Set(ctx context.Context, key []expr.Value, set []Assignment, params []expr.Value,
	conditions ...Condition) error {
	a, err := compileAssignments(set)
	if err != nil {
		return err
	}
	return t.Update(ctx, key, func(row []expr.Value) error {
		return a.apply(row, params)
	}, conditions...)
}

// assignments are compiled Assignments.
type assignments struct {
	columns  []int
	programs []expr.Program
}

func compileAssignments(set []Assignment) (a assignments, err error) {
	for _, s := range set {
		p, err := expr.Compile(s.Value)
		if err != nil {
			return a, err
		}
		a.columns, a.programs = append(a.columns, s.Column), append(a.programs, p)
	}
	return a, nil
}

// apply evaluates everything over the old row before it changes it.
func (a *assignments) apply(row, params []expr.Value) error {
	var buf [8]expr.Value
	results := buf[:0]
	for _, p := range a.programs {
		v, err := p.Value(row, params)
		if err != nil {
			return err
		}
		results = append(results, v)
	}
	for i, o := range a.columns {
		if o < 0 || o >= len(row) {
			return invalid("there is no column %d", o)
		}
		row[o] = results[i]
	}
	return nil
}

// UpdateWhere changes all rows for which a predicate is true and returns how many. Its
// columns have source 0; nil is all rows. Rows are found in one snapshot, and each of them
// is tested once more when it is written. Up to 10,000 rows and 16 MiB are one commit, in
// a transaction all of them; beyond it, those counted are written when one fails. Rows of
// one commit may exchange unique values.
func (t *Table) UpdateWhere(ctx context.Context, where expr.Expr, set []Assignment,
	params ...any) (int, error) {
	a, err := compileAssignments(set)
	if err != nil {
		return 0, err
	}
	return t.where(ctx, where, params, func(w *writer, it *store.Item, old,
		params []expr.Value) error {
		row := slices.Clone(old)
		if err := a.apply(row, params); err != nil {
			return err
		}
		return w.replace(it, old, row)
	})
}

// where calls f for the rows for which a predicate is true, some of them for each commit.
func (t *Table) where(ctx context.Context, where expr.Expr, args []any,
	f func(w *writer, it *store.Item, old, params []expr.Value) error) (n int, err error) {
	return 0, errors.ErrUnsupported
}

func (t *Table) whereTx(ctx context.Context, where expr.Expr, args []any,
	f func(w *writer, it *store.Item, old, params []expr.Value) error) (n int, err error) {
	err = t.db.Update(ctx, func(tx *Tx) error {
		n, err = t.In(tx).where(ctx, where, args, f)
		return err
	})
	return n, err
}
