package sql

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// A view is the text of a query. Where its name stands in FROM, the text is bound in its place, to
// the tables as they are then, and the planner merges what comes of it into the query around. So
// a view is never out of date, but may be an error after its tables have changed.

// viewSource binds a view as a source; without queries it is a table.
func (b *binder) viewSource(n syntax.Name, name string) plan.Source {
	v := b.catalog.View(n.Text)
	if v == nil && b.catalog.Schema(n.Text) == nil { // which has looked for what is new
		v = b.catalog.View(n.Text)
	}
	if v == nil {
		return plan.Source{}
	}
	out := b.expand(v, n.Pos, name)
	b.views = append(b.views, v) // after those that it reads
	return out
}

// expand binds the text of a view. Its errors have no place in the text around: they say where
// in the view they are, and stand at its name.
func (b *binder) expand(v *table.View, pos int, name string) (out plan.Source) {
	for _, outer := range b.inside {
		if outer.Name == v.Name {
			b.fail(pos, "view %s would read itself", syntax.QuoteName(v.Name))
		}
	}
	tree, err := syntax.Parse(v.Query)
	query, ok := tree.(*syntax.Select)
	if err == nil && !ok {
		err = errors.New("its text is not a query")
	}
	text, with, place, used := b.text, b.with, b.placed, len(b.used)
	if err == nil {
		b.placed = b.place(pos)
		b.text, b.with, b.inside = v.Query, nil, append(b.inside, v)
		err = syntax.Caught(func() {
			sc := b.selectQuery(query, nil)
			place := b.placed
			at := func(expr.Expr) int { return place }
			sc.sel.Walk(func(inner *plan.Select) { inner.Position = at })
			out = b.derived(sc, names(v.Columns), name, 0)
		})
		b.inside = b.inside[:len(b.inside)-1]
	}
	b.text, b.with, b.placed = text, with, place
	if err != nil {
		b.failInView(pos, v, err, b.used[used:])
	}
	return out
}

// place returns the place in the text of the statement that errors of a function carry: see
// expr.Func. What stands in a view is where its name is.
func (b *binder) place(pos int) int {
	if b.placed > 0 {
		return b.placed
	}
	return pos + 1
}

func names(list []string) (out []syntax.Name) {
	for _, text := range list {
		out = append(out, syntax.Name{Text: text})
	}
	return out
}

// failInView fails with an error of the text of a view.
func (b *binder) failInView(pos int, v *table.View, err error, used []*schema.Table) {
	message := plainText(err)
	var inner *syntax.Error
	if errors.As(err, &inner) {
		message = inner.Message
	}
	var nested *viewError
	if !errors.As(err, &nested) {
		for i, t := range used {
			message += []string{"; it reads ", ", "}[min(i, 1)] + syntax.QuoteName(t.Name)
		}
		message += "; CREATE OR REPLACE VIEW changes it"
	}
	panic(b.failed(pos, &viewError{err}, "view %s: %s", syntax.QuoteName(v.Name), message))
}

// viewError is the error of the text of a view.
type viewError struct{ error }

// Unwrap returns it without the view.
func (e *viewError) Unwrap() error { return e.error }

// notTable fails where a view stands in place of a table.
func (b *binder) notTable(n syntax.Name) {
	b.fail(n.Pos, "%s is a view; kstone has no writes through views, and no indexes of them; "+
		"name the table that it reads", syntax.QuoteName(n.Text))
}

// createView checks the query of a view and keeps its text.
func (s *Stmt) createView(ctx context.Context, b *binder, tree *syntax.CreateView) error {
	if b.catalog.Schema(tree.View.Text) != nil {
		b.fail(tree.View.Pos, "%s is the name of a table", syntax.QuoteName(tree.View.Text))
	}
	if b.catalog.View(tree.View.Text) != nil && !tree.Replace {
		return &table.NameError{Name: tree.View.Text, Err: table.ErrExists}
	}
	v := table.View{Name: tree.View.Text, Query: syntax.Format(tree.Query)}
	for _, c := range tree.Columns {
		if slices.Contains(v.Columns, c.Text) {
			b.fail(c.Pos, "the view has two columns %s", syntax.QuoteName(c.Text))
		}
		v.Columns = append(v.Columns, c.Text)
	}
	b.inside = append(b.inside, &v)
	sc := b.selectQuery(tree.Query, nil)
	if b.params.count() > 0 {
		b.fail(tree.View.Pos, "a view cannot have parameters; give them to the query that reads it")
	}
	b.derived(sc, tree.Columns, v.Name, tree.View.Pos)
	if _, err := plan.Prepare(sc.sel, plan.Options{}); err != nil {
		return b.planError(err, tree.Query.Pos)
	}
	return s.session.db.CreateView(ctx, v, tree.Replace)
}

// dropView removes a view.
func (s *Stmt) dropView(ctx context.Context, b *binder, tree *syntax.DropView) error {
	if b.catalog.Schema(tree.View.Text) != nil {
		b.fail(tree.View.Pos, "%s is a table; DROP TABLE removes it",
			syntax.QuoteName(tree.View.Text))
	}
	if b.catalog.View(tree.View.Text) == nil {
		b.missing(tree.View, table.ErrNoView, "view", b.catalog.Views())
	}
	return s.session.db.DropView(ctx, tree.View.Text)
}

// ViewDefinitions returns the statements that make the views with these names, or all, each after
// the views that it reads, with a semicolon and a line break after it. A view that is an error by
// now is a comment.
func ViewDefinitions(db *table.DB, only ...string) (string, error) {
	var out strings.Builder
	done := map[string]bool{}
	b := &binder{catalog: tables{db}}
	b.params.final = true
	for _, v := range db.Views() {
		if len(only) > 0 && !slices.Contains(only, v.Name) {
			continue
		}
		before := len(b.views)
		b.virtual = nil // which has a limit for each statement
		err := syntax.Caught(func() { b.viewSource(syntax.Name{Text: v.Name}, v.Name) })
		if err != nil {
			out.WriteString("-- " + strings.ReplaceAll(plainText(err), "\n", " ") + "\n")
			b.views = append(b.views[:before], v)
		}
		for _, v := range b.views[before:] {
			if done[v.Name] || len(only) > 0 && !slices.Contains(only, v.Name) {
				continue
			}
			done[v.Name] = true
			text, failed := viewDefinition(v)
			if failed != nil {
				return "", failed
			}
			if err != nil { // its texts and names may have line breaks
				text = "-- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n-- ") + "\n"
			}
			out.WriteString(text)
		}
	}
	return out.String(), nil
}

// viewDefinition returns the statement that makes a view.
func viewDefinition(v *table.View) (string, error) {
	tree, err := syntax.Parse(v.Query)
	if err != nil {
		return "", err
	}
	query, ok := tree.(*syntax.Select)
	if !ok {
		return "", errors.New("sql: the text of view " + syntax.QuoteName(v.Name) +
			" is not a query")
	}
	return syntax.FormatScript(&syntax.CreateView{View: syntax.Name{Text: v.Name},
		Columns: names(v.Columns), Query: query}), nil
}
