package sql

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

type fixedCatalog map[string]*schema.Table

func (c fixedCatalog) View(string) *table.View { return nil }

func (c fixedCatalog) Views() []string { return nil }

func (c fixedCatalog) Schema(name string) *schema.Table { return c[name] }

func (c fixedCatalog) Names() []string { return slices.Collect(maps.Keys(c)) }

// define adds the tables of CREATE TABLE statements to a catalogue.
func (c fixedCatalog) define(text string) error {
	parts, err := syntax.ParseAll(text)
	if err != nil {
		return err
	}
	for _, p := range parts {
		b := &binder{catalog: c, asked: asked{text: text}}
		err := syntax.Caught(func() {
			t := b.createTable(p.Statement.(*syntax.CreateTable))
			def := *t
			def.ID = uint32(len(c) + 1)
			if t, err = schema.New(def); err == nil {
				c[t.Name] = t
			}
		})
		if err != nil {
			return err
		}
	}
	return err
}

// TestBind runs the scripts in testdata/bind. "define" adds tables, "show" prints their
// JSON form, "select" prints the plan of a query, or the error with the place it points at.
//
// Promise (sql): Names and types are bound to the tables; a fault points at its place and names
// what was meant.
func TestBind(t *testing.T) {
	datadriven.Walk(t, "testdata/bind", func(t *testing.T, path string) {
		catalog := fixedCatalog{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out string
			var err error
			switch d.Cmd {
			case "define":
				err = catalog.define(d.Input)
			case "show":
				out = showTable(t, catalog[d.CmdArgs[0].Key])
			case "select":
				out, err = explainBound(catalog, d.Input)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			var e *syntax.Error
			switch {
			case errors.As(err, &e):
				return fmt.Sprintf("%v\n%s\n", e, e.Excerpt())
			case err != nil:
				t.Fatalf("%s: error without a position: %v", d.Pos, err)
			}
			return out
		})
	})
}

// estimates are what the cost model says of a step, which these tests are not about.
var estimates = regexp.MustCompile(` \| rows \S+ cost \S+`)

// showTable returns the JSON form of a table, with a line for each column and index.
func showTable(t *testing.T, table *schema.Table) string {
	if table == nil {
		return "no such table\n"
	}
	raw, err := table.MarshalJSON()
	testutil.OK(t, err)
	return strings.ReplaceAll(string(raw), "},{", "},\n{") + "\n"
}

// explainBound returns the columns of a query with their types, and its plan.
func explainBound(catalog catalog, text string) (string, error) {
	s, err := syntax.Parse(text)
	if err != nil {
		return "", err
	}
	b := &binder{catalog: catalog, asked: asked{text: text}}
	var sc *scope
	if err := syntax.Caught(func() { sc = b.selectQuery(s.(*syntax.Select), nil) }); err != nil {
		return "", err
	}
	p, err := plan.Prepare(sc.sel, plan.Options{})
	if err != nil {
		return "", b.planError(err, 0)
	}
	out := ""
	for i, o := range sc.outputs {
		if i > 0 {
			out += ", "
		}
		out += o.name + " " + o.typ.String()
	}
	bound, err := p.Bind(make([]expr.Value, b.params.count()))
	if err != nil {
		return "", b.planError(err, 0)
	}
	return out + "\n" + estimates.ReplaceAllString(bound.Explain().String(), ""), nil
}

// A statement is bound again when its table has another definition, also if that is not among those
// that are listed yet: it is replaced first.
func TestOutdatedBeforeDefinitions(t *testing.T) {
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	testutil.OK(t, err)
	defer e.Close()
	db, err := local.Open(t.Context(), e, nil)
	testutil.OK(t, err)
	defer db.Close()
	s := &Stmt{session: Open(db)}
	b := &binding{tables: db.Definitions()}
	for err, want := range map[error]bool{table.ErrChanged: true, table.ErrNoTable: false} {
		if s.outdated(b, fmt.Errorf("failed: %w", err)) != want {
			t.Errorf("%v: outdated %v", err, !want)
		}
	}
}
