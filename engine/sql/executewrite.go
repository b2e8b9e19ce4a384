package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// insert runs an INSERT: all rows, or none if one of them is refused. What it reads of tables must
// be the same when the rows are written, if they are not more than one transaction takes.
func (s *Stmt) insert(ctx context.Context, b *binding, params []expr.Value) (result Result,
	err error) {
	in := b.insert
	t, err := s.session.bound(in.table)
	if err != nil {
		return Result{}, err
	}
	v := &valuer{ctx: ctx, stmt: s, binder: b.binder, params: params, insert: in, to: t,
		outputs: b.returning}
	var rows [][]expr.Value
	if !in.reads() {
		if rows, err = v.insertRows(); err != nil {
			return Result{}, err
		}
		return s.insertParts(ctx, t, v, rows)
	}
	err = v.update(ctx, func(tx *table.Tx) (err error) {
		v.number = 0
		if rows, err = v.insertRows(); err != nil {
			return err
		}
		if len(fitting(rows)) < len(rows) && !s.session.InTransaction() {
			return errParts
		}
		result, err = s.insertAll(ctx, t.In(tx), v, rows)
		return err
	})
	switch {
	case err == errParts:
		return s.insertParts(ctx, t, v, rows)
	case err != nil:
		return Result{}, err
	}
	return result, nil
}

// errParts ends a transaction whose rows are to be written in several.
var errParts = errors.New("sql: the rows are several transactions")

// reads reports whether the statement reads tables for the rows, or for ON CONFLICT.
func (in *boundInsert) reads() bool {
	reads := func(b boundValue) bool { return b.reads() }
	return in.query != nil ||
		slices.ContainsFunc(in.rows, func(row []boundValue) bool {
			return slices.ContainsFunc(row, reads)
		}) || in.upsert != nil && in.upsert.reads()
}

// insertParts inserts rows. Many are several transactions, unless the session is in one.
func (s *Stmt) insertParts(ctx context.Context, t *table.Table, v *valuer, rows [][]expr.Value) (
	Result, error) {
	result, err := s.insertAll(ctx, t, v, rows)
	if err != nil && result.Rows > 0 && !s.session.InTransaction() {
		err = fmt.Errorf("%w; the statement is several commits, and %d rows were written before",
			err, result.Rows)
	}
	return result, err
}

// insertAll inserts rows. Its result with an error is what is written nevertheless, outside of a
// transaction.
func (s *Stmt) insertAll(ctx context.Context, t *table.Table, v *valuer, rows [][]expr.Value) (
	Result, error) {
	var err error
	in := v.insert
	result := Result{Statement: syntax.Verb(s.tree), returned: v.returning()}
	late := result.returned != nil && result.returned.late
	if in.upsert == nil && in.conflict != syntax.ConflictIgnored && !late {
		for _, row := range rows {
			if err := result.returned.add(row); err != nil {
				return Result{}, err
			}
		}
	}
	switch {
	case in.upsert != nil:
		err = v.insertUpserting(ctx, rows, &result)
	case in.conflict == syntax.ConflictReplaces:
		err = v.insertReplacing(ctx, t, rows, &result)
	case in.conflict == syntax.ConflictIgnored, late:
		err = v.insertEach(ctx, rows, &result, func(to *table.Table, row []expr.Value,
			done *Result) error {
			err := to.Insert(ctx, row)
			if errors.Is(err, table.ErrUnique) && in.conflict == syntax.ConflictIgnored {
				done.Skipped++
				return nil
			}
			if err != nil {
				return err
			}
			return v.wrote(row, done)
		})
	default:
		var n int
		n, err = t.InsertMany(ctx, slices.Values(rows))
		if result.Rows = int64(n); n > 0 {
			result.note(in.table, rows[n-1])
		}
	}
	return result, err
}

// insertEach inserts rows one by one, many of them in one transaction, and then evaluates
// RETURNING: a late one takes all of them. insert inserts a row and counts it.
func (v *valuer) insertEach(ctx context.Context, rows [][]expr.Value, result *Result,
	insert func(in *table.Table, row []expr.Value, done *Result) error) error {
	for len(rows) > 0 {
		part := rows
		if result.returned == nil || !result.returned.late {
			part = fitting(rows)
		}
		rows = rows[len(part):]
		var done Result
		err := v.update(ctx, func(tx *table.Tx) error {
			done = Result{returned: v.returning()}
			in := v.to.In(tx)
			for _, row := range part {
				if err := insert(in, row, &done); err != nil {
					return err
				}
			}
			return done.returned.finish(ctx, tx, v.stmt.session.db)
		})
		if err != nil {
			return err
		}
		result.Rows += done.Rows
		result.Removed += done.Removed
		result.Skipped += done.Skipped
		if done.HasLastID {
			result.LastID, result.HasLastID = done.LastID, true
		}
		if err := result.returned.append(done.returned); err != nil {
			return err
		}
	}
	return nil
}

// wrote counts a row that is written.
func (v *valuer) wrote(row []expr.Value, done *Result) error {
	done.Rows++
	done.note(v.insert.table, row)
	return done.returned.add(row)
}

// note notes the number of a row that was written.
func (r *Result) note(t *schema.Table, row []expr.Value) {
	if o := t.IdentityColumn(); o >= 0 {
		r.LastID, r.HasLastID = row[o].AsInt()
	}
}

// Limits of the rows that an INSERT writes in one transaction.
const (
	maxTxRows  = 10_000
	maxTxBytes = 16 << 20
)

// fitting returns the first of the rows, as many as are written in one transaction.
func fitting(rows [][]expr.Value) [][]expr.Value {
	bytes := 0
	for i, row := range rows {
		if i == maxTxRows || bytes >= maxTxBytes {
			return rows[:i]
		}
		for _, v := range row {
			bytes += v.Size()
		}
	}
	return rows
}

// insertReplacing inserts rows in place of those that have their primary key or their unique
// values, one after the other: so of two rows of the statement, too, the later one stays.
func (v *valuer) insertReplacing(ctx context.Context, t *table.Table, rows [][]expr.Value,
	result *Result) error {
	unique := func(x *schema.Index) bool { return x.Unique && x.State != schema.Dropping }
	late := result.returned != nil && result.returned.late
	if !late && !slices.ContainsFunc(t.Schema().Indexes, unique) {
		done, err := t.Upsert(ctx, slices.Values(rows))
		result.Rows = int64(done.New + done.Replaced)
		if err == nil && len(rows) > 0 {
			result.note(t.Schema(), rows[len(rows)-1])
		}
		return err
	}
	return v.insertEach(ctx, rows, result, func(in *table.Table, row []expr.Value,
		done *Result) error {
		n, err := replace(ctx, in, row)
		if err != nil {
			return err
		}
		done.Removed += n
		if !late { // RETURNING was evaluated before
			done.Rows++
			done.note(v.insert.table, row)
			return nil
		}
		return v.wrote(row, done)
	})
}

// replace puts a row and deletes the rows that are in the way in unique indexes: one in each
// of them, or one for each element of a list.
func replace(ctx context.Context, in *table.Table, row []expr.Value) (removed int64, err error) {
	for gone := false; ; {
		var taken *table.UniqueError
		if err = in.Put(ctx, row); !errors.As(err, &taken) {
			return removed, err
		}
		switch err = in.Delete(ctx, taken.Key); {
		case err == nil:
			removed++
		case gone || !errors.Is(err, table.ErrNotFound):
			return removed, err
		default:
			gone = true // it has expired meanwhile
		}
	}
}

// valuer evaluates expressions that have no columns, for one run of a statement.
type valuer struct {
	ctx     context.Context
	stmt    *Stmt
	binder  *binder
	params  []expr.Value
	insert  *boundInsert // or nil
	to      *table.Table // of insert
	outputs *scope       // of RETURNING, or nil
	number  int64        // the greatest one given to an identity column so far
	tx      *table.Tx    // that the statement is in; nil: that of the session, if there is one
}

// update runs fn in the transaction of the statement, or else in one of its own.
func (v *valuer) update(ctx context.Context, fn func(*table.Tx) error) error {
	if v.tx != nil {
		return fn(v.tx)
	}
	return v.stmt.session.update(ctx, func(tx *table.Tx) error {
		v.tx = tx
		defer func() { v.tx = nil }()
		return fn(tx)
	})
}

// reader returns what subqueries read.
func (v *valuer) reader() table.Reader {
	if v.tx != nil {
		return v.tx
	}
	return v.stmt.session.reader()
}

// maxInsertRows bounds the rows of the query of an INSERT, which are in memory together: the
// query may read the table that they are written to.
const maxInsertRows = 1_000_000

// insertRows returns the rows of VALUES, or of the query.
func (v *valuer) insertRows() (rows [][]expr.Value, err error) {
	in := v.insert
	if in.query == nil {
		rows = make([][]expr.Value, len(in.rows))
		for i, values := range in.rows {
			if rows[i], err = v.row(in, values); err != nil {
				return nil, err
			}
		}
		return rows, nil
	}
	db, reader := v.stmt.source(v.reader())
	prepared, err := db.Prepare(in.query)
	if err != nil {
		return nil, err
	}
	found, err := prepared.Query(v.ctx, reader, v.params...)
	if err != nil {
		return nil, err
	}
	values := make([]boundValue, len(in.columns))
	for row, err := range found.All() {
		if err == nil && len(rows) == maxInsertRows {
			err = v.binder.failed(in.pos, nil, "the query of an INSERT has more than %d rows",
				maxInsertRows)
		}
		for i := range values {
			if err == nil {
				values[i] = boundValue{expr: expr.Const{Value: row[i].Clone()}, pos: in.places[i]}
			}
		}
		if err == nil {
			row, err = v.row(in, values)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// row returns a row for INSERT, with values as their columns take them.
func (v *valuer) row(in *boundInsert, values []boundValue) ([]expr.Value, error) {
	row, made := in.table.Row(), v.number > 0
	for i, value := range values {
		c := &in.table.Columns[in.columns[i]]
		got, err := v.value(value)
		if err != nil {
			return nil, err
		}
		if got.IsNull() && (c.Generated == schema.Identity || c.Generated == schema.RandomUUID) {
			continue
		}
		if row[in.columns[i]], err = c.Convert(got); err != nil {
			return nil, v.binder.refused(value.pos, err)
		}
		if c.Generated == schema.Identity {
			n, _ := row[in.columns[i]].AsInt()
			v.number, made = max(v.number, n), false
		}
	}
	in.table.Complete(row, &in.given)
	var err error
	if made && v.number >= v.to.NextNumber() { // after the numbers of the rows before
		err = v.to.SkipNumbers(v.ctx, v.number+1)
	}
	if err == nil {
		err = v.to.Generate(v.ctx, row)
	}
	if err != nil {
		return nil, err
	}
	pos := in.pos
	if len(values) > 0 {
		pos = values[0].pos
	}
	for i := range in.table.Columns {
		c := &in.table.Columns[i]
		if row[i].IsNull() && !c.Nullable && !c.Dropped && !in.given.Has(i) {
			return nil, v.binder.failed(pos, nil, "column %s needs a value: it is not nullable "+
				"and has no default", syntax.QuoteName(c.Name))
		}
	}
	return row, nil
}

// value evaluates an expression.
func (v *valuer) value(b boundValue) (expr.Value, error) {
	if b.expr == nil {
		elements := make([]expr.Value, len(b.list))
		for i, item := range b.list {
			var err error
			if elements[i], err = v.value(item); err != nil {
				return expr.Value{}, err
			}
		}
		return expr.List(elements), nil
	}
	e, err := v.withoutSubqueries(b.expr)
	if err != nil {
		return expr.Value{}, err
	}
	out, err := expr.Eval(e, noColumns, v.params)
	if err != nil {
		return out, v.binder.refused(b.pos, err)
	}
	return out, nil
}

func noColumns(int, int) expr.Value { return expr.Null() }

// withoutSubqueries returns an expression with subqueries replaced by what they return now, but
// for those that use columns of what is around them, or that columns are compared with.
func (v *valuer) withoutSubqueries(e expr.Expr) (expr.Expr, error) {
	return expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		switch x := x.(type) {
		case expr.Subquery:
			sel := x.Query.(*plan.Select)
			if x.Kind == expr.Rows || sel.Correlated() { // its In takes it
				return x, nil
			}
			return v.subquery(x.Kind, sel)
		case expr.In:
			if len(x.List) != 1 {
				return x, nil
			}
			sub, ok := x.List[0].(expr.Subquery)
			if !ok || sub.Query.(*plan.Select).Correlated() || !isConstant(x.X) {
				return x, nil
			}
			at := sub.Query.(*plan.Select).Position(nil)
			return v.subquery(expr.Scalar, &plan.Select{
				Columns:  []plan.Output{{Expr: x, Name: "in"}},
				Position: func(expr.Expr) int { return at }})
		}
		return x, nil
	})
}

// isConstant reports whether an expression has the same value for all rows.
func isConstant(e expr.Expr) bool {
	for range expr.Columns(e) {
		return false
	}
	return !expr.HasSubquery(e)
}

// subquery runs a subquery and returns its value, or whether it has rows.
func (v *valuer) subquery(kind expr.SubqueryKind, sel *plan.Select) (expr.Expr, error) {
	if kind == expr.Exists && sel.Limit == nil {
		one := *sel
		one.Limit = expr.Const{Value: expr.Int(1)}
		sel = &one
	}
	prepared, err := v.stmt.session.db.Prepare(sel)
	if err != nil {
		return nil, err
	}
	rows, err := prepared.Query(v.ctx, v.reader(), v.params...)
	if err != nil {
		return nil, err
	}
	found, out := false, expr.Const{}
	for row, err := range rows.All() {
		switch {
		case err != nil:
			return nil, err
		case kind == expr.Exists:
			return expr.Const{Value: expr.Bool(true)}, nil
		case found:
			return nil, v.binder.failed(max(v.stmt.start, sel.Position(nil)-1), nil, "a subquery "+
				"that stands for a value returned more than one row; LIMIT 1 takes the first")
		}
		found, out.Value = true, row[0].Clone()
	}
	if kind == expr.Exists {
		out.Value = expr.Bool(false)
	}
	return out, nil
}

// change runs an UPDATE or DELETE.
func (s *Stmt) change(ctx context.Context, b *binding, params []expr.Value) (Result, error) {
	t, err := s.session.bound(b.change.table)
	if err != nil {
		return Result{}, err
	}
	// The planner checks names and types of the condition.
	if _, err := s.session.db.Prepare(b.change.query); err != nil {
		return Result{}, err
	}
	v := &valuer{ctx: ctx, stmt: s, binder: b.binder, params: params, outputs: b.returning}
	where := b.change.query.Where
	args := make([]any, len(params))
	for i, p := range params {
		args[i] = p
	}
	if _, ok := s.tree.(*syntax.Delete); ok {
		return v.changeWhere(ctx, t, false, func(t *table.Table, each func([]expr.Value) error) (
			int, error) {
			return t.DeleteWhereReturning(ctx, where, each, args...)
		})
	}
	reads := slices.ContainsFunc(b.change.set, func(a boundAssignment) bool {
		return a.value.reads()
	})
	return v.changeWhere(ctx, t, reads, func(t *table.Table, each func([]expr.Value) error) (int,
		error) {
		set, err := v.assignments(b.change.set)
		if err != nil {
			return 0, err
		}
		return t.UpdateWhereReturning(ctx, where, set, each, args...)
	})
}

// reads reports whether a value has subqueries.
func (b *boundValue) reads() bool {
	return b.expr != nil && expr.HasSubquery(b.expr) ||
		slices.ContainsFunc(b.list, func(item boundValue) bool { return item.reads() })
}

// assignments returns those of an UPDATE, with what their subqueries return now.
func (v *valuer) assignments(bound []boundAssignment) (set []table.Assignment, err error) {
	for _, a := range bound {
		e := a.value.expr
		if e == nil {
			var list expr.Value
			list, err = v.value(a.value)
			e = expr.Const{Value: list}
		} else {
			e, err = v.withoutSubqueries(e)
		}
		if err != nil {
			return nil, err
		}
		set = append(set, table.Assignment{Column: a.column, Value: e})
	}
	return set, nil
}
