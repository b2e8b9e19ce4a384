package sql

import (
	"context"
	"slices"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// RETURNING is evaluated for each row as it is written, before the commit: a statement whose
// RETURNING fails writes nothing. With subqueries it is evaluated when all rows are written, so
// that these read the same for all of them.

// returning returns the table and the columns of the RETURNING of a statement; nil without one.
func returning(s syntax.Statement) (syntax.Source, []syntax.Output) {
	switch s := s.(type) {
	case *syntax.Insert:
		return syntax.Source{Table: s.Table}, s.Returning
	case *syntax.Update:
		return syntax.Source{Table: s.Table, Alias: s.Alias}, s.Returning
	case *syntax.Delete:
		return syntax.Source{Table: s.Table, Alias: s.Alias}, s.Returning
	}
	return syntax.Source{}, nil
}

// returning binds RETURNING, whose columns are those of the row that is written or removed.
func (b *binder) returning(of syntax.Source, outputs []syntax.Output) *scope {
	sc := b.single("RETURNING", b.table(of.Table)).called(of.Alias)
	sc.ast = &syntax.Select{Outputs: outputs}
	sc.bindOutputs()
	if len(sc.sel.Aggregates) > 0 {
		b.fail(outputs[0].Pos, "RETURNING cannot have aggregates: it has a row for each that is "+
			"written")
	}
	for _, o := range sc.outputs {
		sc.checked(o.expr, outputs[0].Pos)
		sc.sel.Columns = append(sc.sel.Columns, plan.Output{Expr: o.expr, Name: o.name})
	}
	return sc
}

// returned are the rows of RETURNING. A nil one takes in nothing.
type returned struct {
	outputs *scope
	params  []expr.Value
	rows    [][]expr.Value
	// late says that there are subqueries: until finish, rows are those of the table.
	late bool
}

// returning returns an empty result, nil for a statement without RETURNING.
func (v *valuer) returning() *returned {
	if v.outputs == nil {
		return nil
	}
	out := &returned{outputs: v.outputs, params: v.params}
	for _, o := range v.outputs.outputs {
		out.late = out.late || expr.HasSubquery(o.expr)
	}
	return out
}

// add takes in a row of the table.
func (r *returned) add(row []expr.Value) error {
	if r == nil {
		return nil
	}
	if r.late {
		return r.append(&returned{rows: [][]expr.Value{exec.Clone(row)}})
	}
	out := make([]expr.Value, len(r.outputs.outputs))
	for i, o := range r.outputs.outputs {
		got, err := expr.Eval(o.expr, func(_, ordinal int) expr.Value { return row[ordinal] },
			r.params)
		if err != nil {
			return r.outputs.b.refused(r.outputs.ast.Outputs[0].Pos, err)
		}
		out[i] = got.Clone()
	}
	return r.append(&returned{rows: [][]expr.Value{out}})
}

// finish evaluates what has subqueries, which read what the transaction does.
func (r *returned) finish(ctx context.Context, tx *table.Tx, db *table.DB) error {
	if r == nil || !r.late || len(r.rows) == 0 {
		return nil
	}
	sel := r.outputs.sel
	prepared, err := db.Prepare(sel) // checks types
	if err == nil {
		prepared, err = db.Prepare(sel.OfRows(len(r.params)))
	}
	if err != nil {
		return err
	}
	for i, row := range r.rows {
		rows, err := prepared.Query(ctx, tx, slices.Concat(r.params, row)...)
		if err != nil {
			return err
		}
		for out, err := range rows.All() {
			if err != nil {
				return err
			}
			r.rows[i] = exec.Clone(out)
		}
	}
	r.late = false
	return nil
}

// append takes in the rows of another result.
func (r *returned) append(other *returned) error {
	if r == nil {
		return nil
	}
	b := r.outputs.b
	if len(r.rows)+len(other.rows) > maxInsertRows {
		return b.failed(r.outputs.ast.Outputs[0].Pos, nil, "RETURNING has more than %d rows",
			maxInsertRows)
	}
	r.rows = append(r.rows, other.rows...)
	return nil
}

// all yields the rows.
func (r *returned) all(yield func([]expr.Value, error) bool) {
	for _, row := range r.rows {
		if !yield(row, nil) {
			return
		}
	}
}

// queryReturning runs a statement and returns what RETURNING says.
func (s *Stmt) queryReturning(ctx context.Context, args []any) (*Rows, error) {
	result, err := s.run(ctx, args)
	if err != nil {
		return nil, err
	}
	return &Rows{Columns: result.returned.outputs.columns(), kept: result.returned}, nil
}

// changeWhere runs an UPDATE or DELETE. With RETURNING all of it is one commit, and so it is if it
// reads other rows than those that it writes, which must be the same then.
func (v *valuer) changeWhere(ctx context.Context, t *table.Table, reads bool,
	change func(*table.Table, func([]expr.Value) error) (int, error)) (Result, error) {
	result := Result{Statement: syntax.Verb(v.stmt.tree), returned: v.returning()}
	var n int
	var err error
	if result.returned == nil && !reads {
		n, err = change(t, nil)
	} else {
		err = v.update(ctx, func(tx *table.Tx) (err error) {
			result.returned = v.returning()
			if n, err = change(t.In(tx), result.returned.add); err != nil {
				return err
			}
			return result.returned.finish(ctx, tx, v.stmt.session.db)
		})
	}
	result.Rows = int64(n)
	return result, err
}
