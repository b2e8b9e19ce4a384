package sql

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// Exec runs the statement: see Session.Exec.
func (s *Stmt) Exec(ctx context.Context, args ...any) (Result, error) {
	if s.Returns() {
		return Result{}, ErrNoResult
	}
	return s.run(ctx, args)
}

// run runs a statement that changes something.
func (s *Stmt) run(ctx context.Context, args []any) (Result, error) {
	if tree, ok := s.tree.(*syntax.Transaction); ok {
		return s.control(ctx, tree, args)
	}
	if t := s.session.open.Load(); t != nil {
		return t.exec(ctx, s, args)
	}
	return s.execBound(ctx, args)
}

// execBound runs the statement, again if its tables have changed since it was bound.
func (s *Stmt) execBound(ctx context.Context, args []any) (Result, error) {
	if s.past != nil {
		return s.execPast(ctx, args)
	}
	for {
		result, b, err := s.exec(ctx, args)
		if result.Rows > 0 || b == nil || !s.outdated(b, err) {
			return result, err
		}
	}
}

// outdated reports whether a statement has failed because its tables have changed or have
// been dropped since it was bound: then it is bound again, to the tables of these names now.
func (s *Stmt) outdated(b *binding, err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, table.ErrChanged) { // what is present may not say so yet
		return true
	}
	var query *plan.QueryError // of a column that was dropped
	return (errors.Is(err, table.ErrNoTable) || errors.As(err, &query)) && !s.present(b)
}

// exec binds the statement and runs it once.
func (s *Stmt) exec(ctx context.Context, args []any) (Result, *binding, error) {
	b, err := s.bound()
	if err != nil {
		return Result{}, nil, err
	}
	values, err := b.asked.values(args, s.session.db.Now, s.start)
	if err != nil {
		return Result{}, nil, err
	}
	var result Result
	switch {
	case b.insert != nil:
		result, err = s.insert(ctx, b, values)
	case b.change != nil:
		result, err = s.change(ctx, b, values)
	default:
		result, err = s.define(ctx)
	}
	return result, b, b.asked.at(s.target(), b.asked.planError(err, s.start))
}

// target returns where the table stands that a statement writes.
func (s *Stmt) target() int {
	switch tree := s.tree.(type) {
	case *syntax.Insert:
		return tree.Table.Pos
	case *syntax.Update:
		return tree.Table.Pos
	case *syntax.Delete:
		return tree.Table.Pos
	}
	return s.start
}

// define runs a statement that defines something, or ANALYZE.
func (s *Stmt) define(ctx context.Context) (Result, error) {
	db := s.session.db
	b := &binder{catalog: tables{db}, asked: asked{text: s.text}}
	b.params.final = true // so that now() is not a constant
	switch tree := s.tree.(type) {
	case *syntax.CreateView:
		ok := allowed(tree.IfMissing, table.ErrExists)
		return s.outcome(b, tree.View, ok, func() error { return s.createView(ctx, b, tree) })
	case *syntax.DropView:
		ok := allowed(tree.IfExists, table.ErrNoView)
		return s.outcome(b, tree.View, ok, func() error { return s.dropView(ctx, b, tree) })
	case *syntax.CreateTable:
		ok := allowed(tree.IfMissing, table.ErrExists)
		return s.outcome(b, tree.Table, ok, func() error {
			t, err := db.CreateTable(ctx, b.createTable(tree))
			if err == nil && tree.Number > 0 && t.Schema().IdentityColumn() >= 0 {
				err = t.SkipNumbers(ctx, int64(tree.Number))
			}
			return err
		})
	case *syntax.DropTable:
		ok := allowed(tree.IfExists, table.ErrNoTable)
		return s.outcome(b, tree.Table, ok, func() error {
			if b.catalog.View(tree.Table.Text) != nil {
				b.fail(tree.Table.Pos, "%s is a view; DROP VIEW removes it",
					syntax.QuoteName(tree.Table.Text))
			}
			return db.DropTable(ctx, b.table(tree.Table).Name, s.session.Progress)
		})
	case *syntax.CreateIndex:
		ok := allowed(tree.IfMissing, table.ErrExists)
		return s.outcome(b, tree.Index, ok, func() error {
			t := b.table(tree.Table)
			x := b.index(t, tree)
			if t.Index(x.Name) == nil {
				if _, err := t.AddIndex(x); err != nil {
					b.refuse(tree.Index.Pos, err)
				}
			}
			// By the definition that x has the columns of, not by the name.
			bound, err := db.Bound(t)
			if err != nil {
				return err
			}
			return bound.CreateIndex(ctx, x, s.session.Progress)
		})
	case *syntax.DropIndex:
		ok := allowed(tree.IfExists, table.ErrNoIndex)
		return s.outcome(b, tree.Index, ok, func() error {
			t := b.indexed(tree)
			return db.DropIndex(ctx, t.Name, tree.Index.Text, s.session.Progress)
		})
	case *syntax.AlterTable:
		at := tree.Table
		if at.Text == "" {
			at = tree.Index
		}
		return s.outcome(b, at, nil, func() error {
			return b.alter(ctx, db, tree)
		})
	case *syntax.Analyze:
		return s.outcome(b, tree.Table, nil, func() error {
			return s.analyze(ctx, b, tree)
		})
	}
	return Result{}, errors.ErrUnsupported
}

// allowed returns the error that IF EXISTS or IF NOT EXISTS makes none.
func allowed(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// outcome runs a step and points at the name if it fails; an error that matches allowed is
// none.
func (s *Stmt) outcome(b *binder, n syntax.Name, allowed error, step func() error) (Result, error) {
	var failed error
	err := syntax.Caught(func() { failed = step() })
	if err == nil {
		err = failed
	}
	result := Result{Statement: syntax.Verb(s.tree)}
	if err != nil && allowed != nil && errors.Is(err, allowed) {
		result.Unchanged = true
		return result, nil
	}
	return result, b.at(n.Pos, err)
}

// at makes an error of the table layer one that points at a place, unless it is about the
// state of the database, a context or the like.
func (b *asked) at(pos int, err error) error {
	var already *syntax.Error
	switch {
	case err == nil, errors.As(err, &already):
		return err
	case errors.Is(err, table.ErrNoTable), errors.Is(err, table.ErrNoView),
		errors.Is(err, table.ErrNoIndex), errors.Is(err, table.ErrExists),
		errors.Is(err, table.ErrInvalid), errors.Is(err, schema.ErrType),
		errors.Is(err, schema.ErrRange), errors.Is(err, schema.ErrNull),
		errors.Is(err, table.ErrUnique), errors.Is(err, table.ErrCheck),
		errors.Is(err, expr.ErrType), errors.Is(err, expr.ErrRange):
		return b.refused(pos, err)
	}
	return err
}

// indexed returns the table that DROP INDEX is about.
func (b *binder) indexed(d *syntax.DropIndex) (t *schema.Table) {
	name := d.Index.Text
	if d.Table.Text != "" {
		if t = b.table(d.Table); t.Index(name) == nil {
			panic(b.failed(d.Index.Pos, &table.NameError{Name: t.Name + "." + name,
				Err: table.ErrNoIndex}, "table %s has no index %s%s", syntax.QuoteName(t.Name),
				syntax.QuoteName(name), hint(name, indexNames(t))))
		}
		return t
	}
	var all []string
	for _, other := range b.catalog.Names() {
		s := b.catalog.Schema(other)
		if s == nil || s.Dropping {
			continue
		}
		all = append(all, indexNames(s)...)
		if s.Index(name) == nil {
			continue
		}
		if t != nil {
			b.fail(d.Index.Pos, "tables %s and %s have an index %s; say which with ON",
				syntax.QuoteName(t.Name), syntax.QuoteName(other), syntax.QuoteName(name))
		}
		t = s
	}
	if t == nil {
		b.missing(d.Index, table.ErrNoIndex, "index", all)
	}
	return t
}

func (b *binder) alter(ctx context.Context, db *table.DB, tree *syntax.AlterTable) error {
	if tree.Action == syntax.RenameIndex {
		t := b.indexed(&syntax.DropIndex{Index: tree.Index, Table: tree.Table})
		return b.pointed(tree.To.Pos, db.RenameIndex(ctx, t.Name, tree.Index.Text, tree.To.Text))
	}
	t := b.table(tree.Table)
	column := func() string { return t.Columns[b.column(t, tree.Column)].Name }
	switch tree.Action {
	case syntax.RenameTable:
		return b.pointed(tree.To.Pos, db.RenameTable(ctx, t.Name, tree.To.Text))
	case syntax.SetZones:
		var names []string
		if tree.Zones != nil {
			names = make([]string, len(tree.Zones))
		}
		for i, n := range tree.Zones {
			names[i] = t.Columns[b.column(t, n)].Name
		}
		return b.pointed(tree.Table.Pos, db.SetZones(ctx, t.Name, names))
	case syntax.SetNumber:
		if t.IdentityColumn() < 0 {
			b.fail(tree.Table.Pos, "table %s has no identity column", syntax.QuoteName(t.Name))
		}
		return b.pointed(tree.Table.Pos, b.handle(db, tree.Table, t).SkipNumbers(ctx,
			int64(tree.Number)))
	case syntax.SetDefault, syntax.DropDefault:
		var value *expr.Value
		if tree.Action == syntax.SetDefault {
			c := t.Columns[b.column(t, tree.Column)]
			value = b.defaultFor(&c, tree.Default)
		}
		return b.pointed(tree.Column.Pos, db.SetDefault(ctx, t.Name, column(), value))
	case syntax.AddColumn:
		if columnNamed(t, tree.Add.Name.Text) >= 0 {
			b.fail(tree.Add.Name.Pos, "table %s has a column %s already", syntax.QuoteName(t.Name),
				syntax.QuoteName(tree.Add.Name.Text))
		}
		c := b.columnDef(&tree.Add)
		if c.Generated == schema.CurrentTime { // of the rows that there are
			v, err := c.Convert(expr.Time(db.Now()))
			if err != nil {
				return err
			}
			c.Before = &v
		}
		return b.pointed(tree.Add.Name.Pos, db.AddColumn(ctx, t.Name, c))
	case syntax.AddCheck:
		c := b.check(t, &tree.Check)
		return b.pointed(tree.Check.Name.Pos, b.handle(db, tree.Table, t).AddCheck(ctx, c, nil))
	case syntax.DropConstraint:
		return b.dropConstraint(ctx, db, t, tree.Check.Name)
	case syntax.DropColumn:
		return b.pointed(tree.Column.Pos, db.DropColumn(ctx, t.Name, column()))
	}
	return b.pointed(tree.To.Pos, db.RenameColumn(ctx, t.Name, column(), tree.To.Text))
}

// dropConstraint drops a check, or the unique index of that name.
func (b *binder) dropConstraint(ctx context.Context, db *table.DB, t *schema.Table,
	n syntax.Name) error {
	if x := t.Index(n.Text); x != nil && x.Unique && t.Check(n.Text) == nil {
		return b.pointed(n.Pos, db.DropIndex(ctx, t.Name, x.Name, nil))
	}
	if t.Check(n.Text) == nil {
		names := indexNames(t)
		for i := range t.Checks {
			names = append(names, t.Checks[i].Name)
		}
		b.fail(n.Pos, "table %s has no constraint %s%s", syntax.QuoteName(t.Name),
			syntax.QuoteName(n.Text), hint(n.Text, names))
	}
	return b.pointed(n.Pos, b.handle(db, n, t).DropCheck(ctx, n.Text))
}

// handle returns the table of a definition that was just found.
func (b *binder) handle(db *table.DB, n syntax.Name, t *schema.Table) *table.Table {
	h, err := db.Table(t.Name)
	if err != nil {
		b.refuse(n.Pos, err)
	}
	return h
}

// pointed makes what a change of a definition is refused for point at a place.
func (b *binder) pointed(pos int, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, table.ErrClosed) {
		return err
	}
	return b.refused(pos, err)
}

func (s *Stmt) analyze(ctx context.Context, b *binder, tree *syntax.Analyze) error {
	names := b.catalog.Names()
	if tree.Table.Text != "" {
		names = []string{b.table(tree.Table).Name}
	}
	o := &table.AnalyzeOptions{Progress: s.session.Progress}
	for _, name := range names {
		if _, err := s.session.db.Analyze(ctx, name, o); err != nil {
			return err
		}
	}
	return nil
}
