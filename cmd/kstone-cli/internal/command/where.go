package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/figure"
)

// whereFlag is a condition on the fields of items.
type whereFlag struct{ text string }

func (f *whereFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "where", "", "only what meets this `EXPR` of the query "+
		"language, on\nfields of keys and JSON values: \"people > 1000 AND name LIKE 'B%'\"")
}

// fields tests items against a condition, and knows what did not fit.
type fields struct {
	names     []string
	condition *sql.Condition
	picker    *layout.Picker
	wrong     int64 // items whose values could not be compared
	why       error // the first of them
	tested    bool
}

// parse reads the condition; nil if there is none.
func (f *whereFlag) parse(s *layout.Schema) (*fields, error) {
	if f.text == "" {
		return nil, nil
	}
	c, err := sql.ParseCondition(f.text, s.Columns()...)
	if err != nil {
		return nil, err
	}
	return &fields{names: c.Names(), condition: c, picker: s.NewPicker(c.Names())}, nil
}

// and returns a filter for what another filter accepts, if there is one, and the condition.
func (f *fields) and(other func(engine.Item) bool) func(engine.Item) bool {
	if f == nil {
		return other
	}
	return func(item engine.Item) bool {
		if other != nil && !other(item) {
			return false
		}
		f.tested = true
		ok, err := f.condition.Test(f.picker.Values(&item))
		if err != nil {
			if f.wrong++; f.why == nil {
				f.why = err
			}
		}
		return ok
	}
}

// note says what of the condition did not fit the items that were read.
func (f *fields) note(w io.Writer) {
	if f == nil || !f.tested {
		return
	}
	var missing []string
	for i, name := range f.names[min(f.picker.Keys(), len(f.names)):] {
		if !f.picker.Seen[f.picker.Keys()+i] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(w, "note: no item that was read has %s; texts are in single quotes: '%s'\n",
			strings.Join(missing, " or "), missing[0])
	}
	if f.wrong > 0 {
		verb := "are"
		if f.wrong == 1 {
			verb = "is"
		}
		fmt.Fprintf(w, "note: %s could not be tested and %s left out: %s\n",
			figure.Plural(f.wrong, "item"), verb, cli.PlainText(f.why))
	}
}

// rangeFlags restrict the partition keys of a scan.
type rangeFlags struct{ cmd *cobra.Command }

func (r *rangeFlags) add(a *cli.App, cmd *cobra.Command) {
	a.InputFlag(cmd, cli.InputFormHelp)
	cmd.Flags().String("from", "", "partition keys from `KEY` on")
	cmd.Flags().String("to", "", "partition keys up to `KEY`, which is included")
	r.addPrefix(cmd)
}

// addPrefix adds --pk-prefix to a command that has --from and --to.
func (r *rangeFlags) addPrefix(cmd *cobra.Command) {
	r.cmd = cmd
	cmd.Flags().String("pk-prefix", "", "partition keys that begin with `P`")
}

// givenOf returns the first of some flags that was given, "" if none was.
func givenOf(cmd *cobra.Command, names ...string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// restrict sets the bounds of a scan.
func (r *rangeFlags) restrict(a *cli.App, s *layout.Schema, sc *engine.Scan) error {
	var args [3]*layout.Arg
	for i, name := range []string{"pk-prefix", "from", "to"} {
		if !r.cmd.Flags().Changed(name) {
			continue
		}
		text, _ := r.cmd.Flags().GetString(name)
		arg, err := a.Arg("--"+name, text)
		if err != nil {
			return err
		}
		args[i] = &arg
	}
	lo, hi, err := s.PKRange(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	if len(lo) > 0 {
		sc.From = engine.Key{PK: lo}
	}
	if hi != nil {
		sc.To = engine.Key{PK: hi}
	}
	return nil
}

// tableFlag makes a command about items one about the rows of a table.
type tableFlag struct{ name string }

func (f *tableFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "table", "", "rows of this `TABLE` in place of items")
}

// alone refuses flags about items beside --table.
func (f *tableFlag) alone(cmd *cobra.Command, names ...string) error {
	if name := givenOf(cmd, names...); f.name != "" && name != "" {
		return cli.Usage("--table and --%s exclude each other: --%s is about items", name, name).
			WithHint("--where restricts rows by their columns; the command sql can do all")
	}
	return nil
}

// query returns the statement for the rows that meet a condition.
func (f *tableFlag) query(t *cli.Tables, columns, where string) (string, error) {
	found, err := t.Find(f.name)
	if err != nil {
		return "", err
	}
	text := "SELECT " + columns + " FROM " + cli.QuoteName(found.Name())
	if where != "" {
		if _, err := sql.ParseCondition(where); err != nil {
			return "", err
		}
		text += " WHERE " + where
	}
	return text, nil
}
