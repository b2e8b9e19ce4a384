package bulk

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

// An INSERT of a dump ends when it has this many rows or bytes. Loading commits once for each.
const (
	dumpRows  = 1000
	dumpBytes = 64 << 10
)

// DumpCommand returns the command dump.
func DumpCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   a.Use("dump", "[TABLE…]"),
		Short: "Write tables as statements that make them again",
		Long: `Write CREATE TABLE, INSERT and CREATE INDEX statements that make the same tables with
the same rows and indexes, and CREATE VIEW, of all tables and views or of those named.
The command sql runs them. Other items than rows of tables are not in it; export writes
those.`,
		Example: `  kstone-cli dump cities.db > cities.sql
  kstone-cli sql copy.db - < cities.sql
  kstone-cli dump cities.db cities`,
		Args: a.Arguments(0, -1),
	}
	var to string
	a.ToFlag(cmd, &to)
	cmd.RunE = a.OnTables(cli.ReadOnly, func(ctx context.Context, t *cli.Tables,
		args []string) error {
		return a.Into(to, func() error { return dump(ctx, a, t, args) })
	})
	return cmd
}

// dump writes the statements that make tables, of all if no names are given, with the rows of one
// moment: another program may write meanwhile.
func dump(ctx context.Context, a *cli.App, t *cli.Tables, names []string) error {
	if !t.SQL.InTransaction() { // of a shell
		if _, err := t.SQL.Exec(ctx, "BEGIN READ ONLY"); err != nil {
			return err
		}
		defer t.SQL.Rollback()
	}
	var found []*table.Table
	var views []string
	for _, name := range names {
		if _, err := t.View(name); err == nil {
			views = append(views, name)
			continue
		}
		one, err := t.Find(name)
		if err != nil {
			return err
		}
		found = append(found, one)
	}
	if len(names) == 0 {
		found = t.Tables()
	}
	out := bufio.NewWriterSize(a.Out, 64<<10)
	for _, one := range found {
		if err := dumpTable(ctx, a, t, out, one); err != nil {
			return err
		}
	}
	if len(names) == 0 || len(views) > 0 {
		text, err := sql.ViewDefinitions(t.DB, views...)
		if err != nil {
			return err
		}
		if _, err := out.WriteString(text); err != nil {
			return err
		}
	}
	return out.Flush()
}

// dumpTable writes a table: its definition, its rows, and then its indexes, which are built
// faster at once than row by row.
func dumpTable(ctx context.Context, a *cli.App, t *cli.Tables, out *bufio.Writer,
	one *table.Table) error {
	text, err := sql.Definition(one.Schema())
	if err != nil {
		return cli.Advise(err, "table describe -o json prints its definition, and export --table"+
			" its rows")
	}
	parts, err := sql.Split(text)
	if err != nil {
		return err
	}
	indexes := parts[0].End + len(";\n")
	if _, err := out.WriteString(text[:indexes]); err != nil {
		return err
	}
	// Before the rows, so that they leave the number as it is.
	if n := one.NextNumber(); one.Schema().IdentityColumn() >= 0 && n > 1 {
		_, err := fmt.Fprintf(out, "ALTER TABLE %s AUTO_INCREMENT = %d;\n",
			cli.QuoteName(one.Name()), n)
		if err != nil {
			return err
		}
	}
	if err := dumpInserts(ctx, a, t, out, one); err != nil {
		return err
	}
	_, err = out.WriteString(text[indexes:])
	return err
}

func dumpInserts(ctx context.Context, a *cli.App, t *cli.Tables, out *bufio.Writer,
	one *table.Table) error {
	name := cli.QuoteName(one.Name())
	rows, err := t.SQL.Query(ctx, "SELECT * FROM "+name)
	if err != nil {
		return err
	}
	head := "INSERT INTO " + name + " VALUES\n"
	var text []byte
	n := 0
	end := func() error {
		if n == 0 {
			return nil
		}
		_, err := out.Write(append(text, ";\n"...))
		text, n = text[:0], 0
		return err
	}
	for row, err := range a.FollowedRows("dumping "+one.Name(), one, rows.All()) {
		if err != nil {
			return err
		}
		next := appendRowLiteral(nil, row)
		if plain := len(head) + plainBytes(row...); plain > sql.MaxPlainBytes {
			return cli.Advise(fmt.Errorf("%s: the lists in the row with the key %s are longer than"+
				" a statement may be, %d MiB", one.Name(), rowKeyText(one.Schema(), row),
				sql.MaxPlainBytes>>20),
				"export --table writes rows of any length, and import reads them")
		}
		if n == dumpRows || n > 0 && len(text)+len(next) > dumpBytes {
			if err := end(); err != nil {
				return err
			}
		}
		if n++; n == 1 {
			text = append(text, head...)
		} else {
			text = append(text, ",\n"...)
		}
		text = append(text, next...)
	}
	return end()
}

// plainBytes returns about how long values are as text, those in quotes left out.
func plainBytes(values ...expr.Value) (n int) {
	for _, v := range values {
		switch v.Kind() {
		case expr.KindList:
			n += len("[]") + plainBytes(slices.Collect(v.Elements())...)
		case expr.KindString, expr.KindBytes:
		default:
			n += len(v.String())
		}
		n += len(", ")
	}
	return n
}

func appendRowLiteral(dst []byte, row []expr.Value) []byte {
	dst = append(dst, '(')
	for i, v := range row {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = present.AppendLiteral(dst, v)
	}
	return append(dst, ')')
}

// rowKeyText returns the primary key of a row for people: ('IT', 'Pisa').
func rowKeyText(t *schema.Table, row []expr.Value) string {
	var parts []string
	for _, i := range t.KeyOrdinals() {
		parts = append(parts, record.Short([]byte(row[i].String())))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
