package typed

import (
	"context"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// statement makes the plan.Select of a query for a database, and appends the names of its
// parameters to args. Queries whose results are not structs of one table run through it.
type statement func(db *table.DB, args *arguments) (*plan.Select, error)

// rows prepares the query and binds its parameters.
func (s statement) rows(ctx context.Context, r table.Reader, bindings []Binding) (*table.Rows,
	error) {
	var args arguments
	sel, err := s(r.DB(), &args)
	if err != nil {
		return nil, err
	}
	p, err := r.DB().Prepare(sel)
	if err != nil {
		return nil, err
	}
	return queryWith(ctx, p, r, args, bindings)
}

// each calls f for the values of each row, which are valid in the call, until f returns false.
func (s statement) each(ctx context.Context, r table.Reader, bindings []Binding,
	f func(values []expr.Value) (more bool, err error)) error {
	rows, err := s.rows(ctx, r, bindings)
	if err != nil {
		return err
	}
	return eachRow(rows, f)
}

// eachRow calls f for the values of each row, until f returns false.
func eachRow(rows *table.Rows, f func(values []expr.Value) (more bool, err error)) error {
	for values, err := range rows.All() {
		if err != nil {
			return err
		}
		if more, err := f(values); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s statement) explain(ctx context.Context, r table.Reader, bindings []Binding) (
	*plan.Explanation, error) {
	rows, err := s.rows(ctx, r, bindings)
	if err != nil {
		return nil, err
	}
	return rows.Explain()
}
