package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

// create returns the statement that makes the table.
func (t *Table) create() string {
	var text strings.Builder
	fmt.Fprintf(&text, "CREATE TABLE %s (", cli.QuoteName(t.Name))
	for i := range t.Columns {
		c := &t.Columns[i]
		fmt.Fprintf(&text, "%s %s", cli.QuoteName(c.Name), c.To)
		if c.Nullable {
			text.WriteString(" NULL")
		}
		if c.Default != "" {
			text.WriteString(" DEFAULT (" + c.Default + ")")
		}
		text.WriteString(", ")
	}
	var key []string
	for _, name := range t.Key {
		key = append(key, cli.QuoteName(name))
	}
	fmt.Fprintf(&text, "PRIMARY KEY (%s))", strings.Join(key, ", "))
	return text.String()
}

func (x *Index) create(table string) string {
	text := "CREATE INDEX "
	if x.Unique {
		text = "CREATE UNIQUE INDEX "
	}
	text += fmt.Sprintf("%s ON %s (%s)", cli.QuoteName(x.Name), cli.QuoteName(table),
		strings.Join(x.Columns, ", "))
	if x.Where != "" {
		text += " WHERE " + x.Where
	}
	return text
}

// define returns the definition of a table as a database has it. It tries the table out in memory:
// defaults and indexes that a database does not take are left out, and listed.
func define(ctx context.Context, t *Table) (definition string, err error) {
	db, err := engine.Open("define", &engine.Options{InMemory: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables, err := table.Open(ctx, local.New(db), nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	session := sql.Open(tables)
	if err := t.settleDefaults(ctx, session); err != nil {
		return "", err
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if _, err := session.Exec(ctx, x.create(t.Name)); err != nil {
			t.Left = append(t.Left, fmt.Sprintf("the index %s: %s", x.Name, cli.PlainText(err)))
		}
	}
	made, err := tables.Table(t.Name)
	if err != nil {
		return "", err
	}
	return sql.Definition(made.Schema())
}

// settleDefaults makes the table, without the defaults that it cannot have.
func (t *Table) settleDefaults(ctx context.Context, session *sql.Session) error {
	_, err := session.Exec(ctx, t.create())
	if err == nil {
		return nil
	}
	alone := *t // each default is tried by itself
	alone.Columns = slices.Clone(t.Columns)
	for i := range alone.Columns {
		alone.Columns[i].Default = ""
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Default == "" {
			continue
		}
		alone.Columns[i].Default = c.Default
		if _, err := session.Exec(ctx, alone.create()); err != nil {
			t.Left = append(t.Left, fmt.Sprintf("the default %s of %s", c.Default, c.Name))
			c.Default = ""
		} else if _, err := session.Exec(ctx, "DROP TABLE "+cli.QuoteName(t.Name)); err != nil {
			return err
		}
		alone.Columns[i].Default = ""
	}
	_, err = session.Exec(ctx, t.create())
	return err
}
