package sql

import (
	"context"
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// boundUpsert is an ON CONFLICT whose names are resolved.
type boundUpsert struct {
	index string // the key or unique index that may conflict; empty: any
	set   []boundAssignment
	where expr.Expr // or nil
	pos   int       // of where
	// query computes where and then set for the two rows as parameters, if they have subqueries.
	query *table.Prepared
}

// reads reports whether there are subqueries.
func (u *boundUpsert) reads() bool {
	return u.where != nil && expr.HasSubquery(u.where) ||
		slices.ContainsFunc(u.set, func(a boundAssignment) bool { return a.value.reads() })
}

// upsert binds ON CONFLICT. Expressions see the row that is there, and as excluded the row that
// was to be inserted.
func (b *binder) upsert(t *schema.Table, s *syntax.Insert) *boundUpsert {
	u := s.Upsert
	if s.Conflict != syntax.ConflictFails {
		b.fail(u.Pos, "ON CONFLICT stands beside OR REPLACE or OR IGNORE")
	}
	out := &boundUpsert{}
	if u.Columns != nil {
		out.index = b.uniqueOf(t, u)
	}
	excluded := b.single("ON CONFLICT", t).called("excluded")
	out.set = b.assignments(t, "", u.Set, excluded)
	if u.Where != nil {
		sc := b.single("ON CONFLICT", t).inside(excluded)
		out.pos = u.Where.Position()
		out.where = sc.checked(sc.expr(u.Where), out.pos)
	}
	return out
}

// uniqueOf returns the primary key or unique index that has just the columns of ON CONFLICT: rather
// one of all rows than a partial one. One that is being built does not have the rows yet that are
// in the way.
func (b *binder) uniqueOf(t *schema.Table, u *syntax.Upsert) string {
	var want schema.ColumnSet
	for _, n := range u.Columns {
		want.Add(b.column(t, n))
	}
	same := func(ordinals []int) bool { return schema.Columns(ordinals...) == want }
	if same(t.KeyOrdinals()) {
		return plan.PrimaryIndex
	}
	var found *schema.Index
	building := ""
	for _, x := range t.Indexes {
		switch {
		case !x.Unique || x.State == schema.Dropping || !same(x.Ordinals()):
		case x.State == schema.Building:
			building = "; index " + syntax.QuoteName(x.Name) + " is being built"
		case found == nil || found.Where != nil && x.Where == nil:
			found = x
		}
	}
	if found == nil {
		b.fail(u.Columns[0].Pos, "table %s has no primary key or unique index of these columns%s",
			syntax.QuoteName(t.Name), building)
	}
	return found.Name
}

// errKept ends the change of a row that stays as it is.
var errKept = errors.New("sql: the row stays")

// insertUpserting inserts rows, and changes those that are in the way or leaves the new ones
// out.
func (v *valuer) insertUpserting(ctx context.Context, rows [][]expr.Value, result *Result) (
	err error) {
	u := *v.insert.upsert
	u.set = slices.Clone(u.set)
	for i := range u.set { // subqueries run once
		value := &u.set[i].value
		if value.expr == nil {
			list, err := v.value(*value)
			if err != nil {
				return err
			}
			value.expr = expr.Const{Value: list}
		}
		if value.expr, err = v.withoutSubqueries(value.expr); err != nil {
			return err
		}
	}
	if u.where, err = v.withoutSubqueries(u.where); err != nil {
		return err
	}
	if err := v.prepareUpsert(&u); err != nil {
		return err
	}
	return v.insertEach(ctx, rows, result, func(in *table.Table, row []expr.Value,
		done *Result) error {
		err := v.upsertRow(ctx, in, &u, row, done)
		if errors.Is(err, table.ErrNotFound) { // what was in the way has expired meanwhile
			err = v.upsertRow(ctx, in, &u, row, done)
		}
		return err
	})
}

// upsertRow inserts a row, or does what ON CONFLICT says.
func (v *valuer) upsertRow(ctx context.Context, in *table.Table, u *boundUpsert,
	row []expr.Value, done *Result) error {
	var taken *table.UniqueError
	err := in.InsertUnless(ctx, row, u.index)
	switch {
	case errors.As(err, &taken) && (u.index == "" || u.index == taken.Index):
	case err != nil:
		return err
	default:
		return v.wrote(row, done)
	}
	if u.set == nil {
		done.Skipped++
		return nil
	}
	err = in.Update(ctx, taken.Key, func(old []expr.Value) error {
		apply := v.applyUpsert
		if u.query != nil {
			apply = v.queryUpsert
		}
		if err := apply(u, old, row); err != nil {
			return err
		}
		return done.returned.add(old)
	})
	switch {
	case errors.Is(err, errKept):
		done.Skipped++
		return nil
	case err == nil:
		done.Rows++
	}
	return err
}

// applyUpsert changes a row by SET, whose expressions see it as it was and the excluded row.
func (v *valuer) applyUpsert(u *boundUpsert, row, excluded []expr.Value) error {
	old := slices.Clone(row)
	get := func(source, ordinal int) expr.Value {
		if source == plan.Outer(0) {
			return excluded[ordinal]
		}
		return old[ordinal]
	}
	if u.where != nil {
		t, err := expr.Test(u.where, get, v.params)
		if err != nil {
			return v.binder.refused(u.pos, err)
		}
		if t != expr.True {
			return errKept
		}
	}
	for _, a := range u.set {
		got, err := expr.Eval(a.value.expr, get, v.params)
		if err == nil {
			row[a.column], err = v.insert.table.Columns[a.column].Convert(got)
		}
		if err != nil {
			return v.binder.refused(a.value.pos, err)
		}
	}
	return nil
}

// prepareUpsert prepares what has subqueries that use columns of the two rows.
func (v *valuer) prepareUpsert(u *boundUpsert) (err error) {
	t := v.insert.table
	where := u.where
	if where == nil {
		where = expr.Const{Value: expr.Bool(true)}
	}
	sel := v.binder.single("ON CONFLICT", t).sel
	sel.Columns = []plan.Output{{Expr: where, Name: "where"}}
	for _, a := range u.set {
		sel.Columns = append(sel.Columns, plan.Output{Expr: a.value.expr, Name: "set"})
	}
	found := false
	for _, o := range sel.Columns {
		found = found || expr.HasSubquery(o.Expr)
	}
	if found {
		n := len(v.params)
		u.query, err = v.stmt.session.db.Prepare(sel.OfRows(n, n+len(t.Columns)))
	}
	return err
}

// queryUpsert is applyUpsert with subqueries, which read what the transaction does.
func (v *valuer) queryUpsert(u *boundUpsert, row, excluded []expr.Value) error {
	params := slices.Concat(v.params, row, excluded)
	rows, err := u.query.Query(v.ctx, v.tx, params...)
	if err != nil {
		return err
	}
	for out, err := range rows.All() {
		if err != nil {
			return err
		}
		if ok, _ := out[0].AsBool(); !ok {
			return errKept
		}
		for i, a := range u.set {
			got, err := v.insert.table.Columns[a.column].Convert(out[1+i])
			if err != nil {
				return v.binder.refused(a.value.pos, err)
			}
			row[a.column] = got.Clone()
		}
	}
	return nil
}
