package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Condition is what Update and Delete require of the row: see IfVersion and If.
type Condition struct {
	versioned bool
	version   uint64 // if versioned
	where     expr.Expr
	params    []expr.Value
	err       error
}

// IfVersion requires that the row is still the one that GetVersion returned with this
// version.
func IfVersion(version uint64) Condition { return Condition{versioned: true, version: version} }

// If requires that a predicate is true of the row. Its columns have source 0, or are
// plan.Unresolved.
func If(predicate expr.Expr, params ...any) Condition {
	c := Condition{where: predicate}
	c.params, c.err = values(params)
	return c
}

// holds returns nil, an error that matches ErrConditionFailed or another one.
func (c *Condition) holds(t *schema.Table, it *store.Item, row []expr.Value) error {
	if c.err != nil {
		return c.err
	}
	if c.versioned {
		if it.Version != c.version {
			return fmt.Errorf("%w: the version is %d, not %d", ErrConditionFailed, it.Version,
				c.version)
		}
		return nil
	}
	where, err := compileFor(t, c.where)
	if err != nil {
		return err
	}
	truth, err := where.Test(row, c.params)
	if err == nil && truth != expr.True {
		err = fmt.Errorf("%w: %v is %v", ErrConditionFailed, c.where, truth)
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
	return t.update(ctx, key, func(_ *schema.Table, row []expr.Value) error { return f(row) },
		conditions)
}

// update is Update with the definition that the row is of.
func (t *Table) update(ctx context.Context, key []expr.Value,
	f func(t *schema.Table, row []expr.Value) error, conditions []Condition) error {
	return t.Write(ctx, func(w *rowio.Writer) error {
		it, old, err := find(ctx, w, key, conditions)
		if err != nil {
			return err
		}
		row := slices.Clone(old)
		if err := f(w.Rules().Schema, row); err != nil {
			return err
		}
		return w.Replace(&it, old, row)
	})
}

// find returns the row with a primary key, if it satisfies the conditions.
func find(ctx context.Context, w *rowio.Writer, key []expr.Value, conditions []Condition) (
	it store.Item, row []expr.Value, err error) {
	if it, row, err = w.Find(ctx, key); err != nil {
		return it, nil, err
	}
	for i := range conditions {
		t := w.Rules().Schema
		if err := conditions[i].holds(t, &it, row); err != nil {
			return it, nil, fmt.Errorf("table: %s: row (%s): %w", t.Name, join(key), err)
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
	all := assignmentsOf(set)
	if _, err := all.of(t.Schema()); err != nil {
		return err
	}
	return t.update(ctx, key, func(t *schema.Table, row []expr.Value) error {
		a, err := all.of(t)
		if err != nil {
			return err
		}
		return a.apply(row, params)
	}, conditions)
}

// assignments are compiled Assignments.
type assignments struct {
	columns  []int
	programs []expr.Program
}

// assignmentsOf returns assignments to be compiled.
func assignmentsOf(set []Assignment) *perTable[assignments] {
	return &perTable[assignments]{compile: func(t *schema.Table) (assignments, error) {
		return compileAssignments(t, set)
	}}
}

func compileAssignments(t *schema.Table, set []Assignment) (a assignments, err error) {
	for _, s := range set {
		if s.Column < 0 || s.Column >= len(t.Columns) {
			return a, invalid("there is no column %d", s.Column)
		}
		if err := live(t, t.Ref(0, s.Column)); err != nil {
			return a, err
		}
		p, err := compileFor(t, s.Value)
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
	return t.UpdateWhereReturning(ctx, where, set, nil, params...)
}

// UpdateWhereReturning is UpdateWhere, which calls each with the rows as they are to be written;
// nil is no function. A row is valid during the call; an error of each ends the statement. Without
// a transaction (In), a commit that is tried again passes its rows again.
func (t *Table) UpdateWhereReturning(ctx context.Context, where expr.Expr, set []Assignment,
	each func(row []expr.Value) error, params ...any) (int, error) {
	set, found := withoutSubqueries(set, len(params))
	all := assignmentsOf(set)
	if _, err := all.of(t.Schema()); err != nil {
		return 0, err
	}
	return t.where(ctx, where, found, params, func(w *rowio.Writer, it *store.Item, old,
		params []expr.Value) error {
		a, err := all.of(w.Rules().Schema)
		if err != nil {
			return err
		}
		row := slices.Clone(old)
		if err := a.apply(row, params); err != nil {
			return err
		}
		if each != nil {
			if err := w.Rules().Schema.Convert(row); err != nil {
				return err
			}
			if err := each(row); err != nil {
				return err
			}
		}
		return w.Replace(it, old, row)
	})
}

// withoutSubqueries returns assignments in which expressions with subqueries are parameters after
// those that there are, and these expressions.
func withoutSubqueries(set []Assignment, params int) (out []Assignment, found []expr.Expr) {
	for _, a := range set {
		if expr.HasSubquery(a.Value) {
			found = append(found, a.Value)
			a.Value = expr.Param{Index: params + len(found) - 1}
		}
		out = append(out, a)
	}
	return out, found
}
