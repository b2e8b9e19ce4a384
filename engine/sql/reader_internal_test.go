package sql

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// What follows runs statements where the API of the package has no way to: in transactions
// and in pages. The tests of random statements want both.

// QueryIn runs a query in r. If paged, it begins after the cursor after, and Rows.Cursor
// gives more of them.
func (s *Stmt) QueryIn(ctx context.Context, r table.Reader, paged bool, after []byte,
	args ...any) (*Rows, error) {
	b, err := s.bound()
	if err != nil {
		return nil, err
	}
	values, err := b.binder.params.values(args, nil)
	if err != nil {
		return nil, err
	}
	sel := *b.query.sel
	sel.Page = paged
	prepared, err := s.session.db.Prepare(&sel)
	if err != nil {
		return nil, b.binder.planError(err, s.start)
	}
	rows, err := prepared.QueryAfter(ctx, r, after, values...)
	if err != nil {
		return nil, b.binder.planError(err, s.start)
	}
	return &Rows{Columns: b.query.columns(), rows: rows, stmt: s, binder: b.binder}, nil
}

// Cursor returns where a page after the row of the loop body begins.
func (r *Rows) Cursor() []byte { return r.rows.Cursor() }

// ExecIn runs INSERT, UPDATE or DELETE in a transaction.
func (s *Stmt) ExecIn(ctx context.Context, tx *table.Tx, args ...any) (Result, error) {
	b, err := s.bound()
	if err != nil {
		return Result{}, err
	}
	params, err := b.binder.params.values(args, nil)
	if err != nil {
		return Result{}, err
	}
	v := &valuer{ctx: ctx, stmt: s, binder: b.binder, params: params}
	if b.insert != nil {
		return v.insertIn(tx, b.insert)
	}
	return v.changeIn(tx, b.change)
}

func (v *valuer) insertIn(tx *table.Tx, in *boundInsert) (result Result, err error) {
	t, err := tx.Table(in.table.Name)
	if err != nil {
		return result, err
	}
	for _, values := range in.rows {
		row, err := v.row(in, values)
		if err != nil {
			return result, err
		}
		removed := int64(0)
		if in.conflict == syntax.ConflictReplaces {
			removed, err = replace(v.ctx, t, row)
		} else {
			err = t.Insert(v.ctx, row)
		}
		switch {
		case err == nil:
			result.Rows++
			result.Removed += removed
		case in.conflict == syntax.ConflictIgnored && errors.Is(err, table.ErrUnique):
			result.Skipped++
		default:
			return result, err
		}
	}
	return result, nil
}

func (v *valuer) changeIn(tx *table.Tx, b *boundUpdate) (Result, error) {
	t, err := tx.Table(b.table.Name)
	if err != nil {
		return Result{}, err
	}
	if _, err := v.stmt.session.db.Prepare(b.query); err != nil {
		return Result{}, v.binder.planError(err, v.stmt.start)
	}
	args := make([]any, len(v.params))
	for i, p := range v.params {
		args[i] = p
	}
	if _, ok := v.stmt.tree.(*syntax.Delete); ok {
		n, err := t.DeleteWhere(v.ctx, b.query.Where, args...)
		return Result{Rows: int64(n)}, err
	}
	var set []table.Assignment
	for _, a := range b.set {
		e := a.value.expr
		if e == nil {
			list, err := v.value(a.value)
			if err != nil {
				return Result{}, err
			}
			e = expr.Const{Value: list}
		}
		set = append(set, table.Assignment{Column: a.column, Value: e})
	}
	n, err := t.UpdateWhere(v.ctx, b.query.Where, set, args...)
	return Result{Rows: int64(n)}, err
}

// Schema returns the table with that name, nil if there is none.
func (s *Session) Schema(name string) *schema.Table { return tables{s.db}.Schema(name) }

// CachedPlans returns how many plans and statements the database of the session keeps.
func (s *Session) CachedPlans() int { return s.db.Plans().Stats().Entries }
