package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// rowImporter moves records into a table: fields to the columns of the same name.
type rowImporter struct {
	Intake
	table   *table.Table
	sum     summary
	commits commits
}

// importSample is how many rows are looked at for the statistics of what was imported.
const importSample = 2000

// hasKey reports whether a table has such a primary key, so that an import can be repeated as it
// was typed.
func hasKey(t *schema.Table, key []string) bool {
	return slices.EqualFunc(t.KeyOrdinals(), key, func(i int, name string) bool {
		return strings.EqualFold(t.Columns[i].Name, name)
	})
}

// importTable imports everything and prints the summary.
func importTable(ctx context.Context, a *cli.App, t *cli.Tables, f *ImportFlags, name string,
	in io.Reader, size int64) error {
	found, err := t.Find(f.table)
	fresh, line := errors.Is(err, table.ErrNoTable), ""
	switch best := cli.Closest(f.table, t.Names()); {
	case fresh && (best == "" || len(f.key) > 0):
		found, in, line, err = makeTable(ctx, a, t, f, name, in)
	case fresh:
		err = cli.Advise(err, "did you mean "+best+
			"? --key COLUMN,… makes a new table in any case")
	case err == nil && (len(f.types) > 0 || len(f.key) > 0 && !hasKey(found.Schema(), f.key)):
		err = cli.Usage("--key and --type are for a new table, and there is a table %s", f.table).
			WithHint("leave them out to add to it")
	}
	if err != nil {
		return err
	}
	im := &rowImporter{Intake: NewIntake(a, nil, f, name, size, "importing"), table: found}
	p := newRowParser(found.Schema(), f.null)
	im.same = newSameKeys()
	p.same, p.line = im.same, -1
	p.generate = func(row []expr.Value) error { return found.Generate(ctx, row) }
	if line != "" {
		p.line = p.names[line]
	}
	err = feed(ctx, &im.Intake, in, p.parse, func(g *parsed[[]expr.Value]) error {
		return im.write(ctx, g)
	})
	if err == nil && len(p.other) > 0 {
		fmt.Fprintf(a.Err, "%s: left out fields without a column: %s\n", name,
			strings.Join(slices.Sorted(maps.Keys(p.other)), ", "))
	}
	if err == nil { // commands that only read cannot store them
		_, err = t.Analyze(ctx, found.Name(), &table.AnalyzeOptions{SampleRows: importSample})
	}
	if e := local.Engine(t.DB); e != nil {
		err = errors.Join(err, e.Sync(ctx))
	}
	err = imported(a, &im.Intake, &im.sum, err)
	if fresh && im.rejected > 0 {
		others := "all others were imported"
		if im.rejected == im.read {
			others = "there are no others"
		}
		err = cli.Advise(err, fmt.Sprintf("%s; if a column needs another type, table drop %s, and "+
			"import again with --type COLUMN=TYPE", others, f.table))
	}
	return err
}

// rowParser makes rows of records.
type rowParser struct {
	schema *schema.Table
	names  map[string]int
	line   int      // the column that takes the number of the line, -1 for none
	key    []string // the columns of the primary key
	same   *sameKeys
	null   []byte          // canonical text of a cell without quotes that is NULL
	other  map[string]bool // fields that no column takes; complete at the end of the input
	// generate fills places for which the table makes values.
	generate func([]expr.Value) error
}

func newRowParser(t *schema.Table, null string) *rowParser {
	p := &rowParser{schema: t, names: map[string]int{}, other: map[string]bool{},
		null: record.AppendString(nil, []byte(null))}
	for _, i := range t.KeyOrdinals() {
		p.key = append(p.key, t.Columns[i].Name)
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Dropped {
			p.names[c.Name] = i
		}
	}
	return p
}

// parse converts a record.
func (p *rowParser) parse(r *record.Row, to *[]expr.Value) (bytes int, err error) {
	row := p.schema.Row()
	var given schema.ColumnSet
	for _, f := range r.Fields {
		i, ok := p.names[string(f.Name)]
		if !ok {
			p.other[string(f.Name)] = true
			continue
		}
		c := &p.schema.Columns[i]
		v, none, err := p.value(c, r, &f)
		if none {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("field %s: %w", f.Name, err)
		}
		row[i] = v
		given.Add(i)
		bytes += len(f.JSON)
	}
	if p.line >= 0 {
		row[p.line] = expr.Int(int64(r.Line))
		given.Add(p.line)
	}
	p.schema.Complete(row, &given)
	if err := p.generate(row); err != nil {
		return 0, err
	}
	pk, sk, err := p.schema.AppendRowKey(nil, nil, row)
	if err != nil {
		return 0, err
	}
	if _, err = p.schema.AppendRow(nil, row); err == nil {
		p.same.add(r, engine.Key{PK: pk, SK: sk}, p.key)
	}
	*to = row
	return bytes, err
}

// value returns what a field is in a column; none is true for an empty cell that says nothing,
// so that the column gets its default.
func (p *rowParser) value(c *schema.Column, r *record.Row, f *record.Field) (v expr.Value,
	none bool, err error) {
	text, empty := !c.List && (c.Kind() == expr.KindString || c.Kind() == expr.KindBytes),
		string(f.JSON) == `""`
	switch {
	case !r.Untyped:
	case f.Bare && bytes.Equal(f.JSON, p.null):
		if c.Nullable {
			return expr.Null(), false, nil
		}
		if !empty || !text || c.Default != nil {
			return v, true, nil
		}
	case empty && !text:
		return v, true, nil
	case c.List && f.JSON[0] == '"':
		cell, err := record.Unquote(nil, f.JSON)
		if err == nil {
			cell, err = record.AppendCanonical(nil, cell)
		}
		if err != nil || cell[0] != '[' {
			return v, false, errors.New("a list in CSV is written as JSON: [1,2]")
		}
		v, err = listValue(c, cell)
		return v, false, err
	}
	v, err = fieldValue(c, f.JSON)
	return v, false, err
}

// fieldValue returns what the canonical JSON text of a field is in a column. A number for a
// time counts the column's unit since 1970.
func fieldValue(c *schema.Column, text []byte) (expr.Value, error) {
	switch {
	case string(text) == "null":
		return expr.Null(), nil
	case text[0] == '[' && c.List:
		return listValue(c, text)
	case text[0] == '"' || record.IsBytes(text):
		b, err := record.Unquote(nil, text)
		if err != nil {
			return expr.Value{}, err
		}
		return sql.Read(c, string(b))
	case c.Type == keycodec.TypeTime && text[0] != '{' && text[0] != '[':
		return timeOfNumber(c, text)
	case c.Type == keycodec.TypeString: // numbers, objects and so on stay as they are written
		return expr.String(string(text)), nil
	}
	return sql.Read(c, string(text))
}

func listValue(c *schema.Column, text []byte) (expr.Value, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return expr.Value{}, err
	}
	element := *c
	element.List = false
	values := make([]expr.Value, len(parts))
	for i, part := range parts {
		v, err := fieldValue(&element, bytes.TrimSpace(part))
		if err != nil {
			return v, err
		}
		values[i] = v
	}
	return c.Convert(expr.List(values))
}

func timeOfNumber(c *schema.Column, text []byte) (expr.Value, error) {
	integer := schema.Column{Name: c.Name, Type: keycodec.TypeInt64}
	v, err := sql.Read(&integer, string(text))
	if err != nil {
		return v, err
	}
	n, _ := v.AsInt()
	var at time.Time
	switch c.Unit {
	case keycodec.Millisecond:
		at = time.UnixMilli(n)
	case keycodec.Microsecond:
		at = time.UnixMicro(n)
	case keycodec.Nanosecond:
		at = time.Unix(0, n)
	default:
		at = time.Unix(n, 0)
	}
	return c.Convert(expr.Time(at))
}

// write writes the rows of a group. If they cannot be written together, because one of them
// is refused, they are written one by one.
func (im *rowImporter) write(ctx context.Context, g *parsed[[]expr.Value]) error {
	lines := g.lines
	return im.commits.write(g.records, func(rows [][]expr.Value) (int, error) {
		n, err := im.together(ctx, rows)
		if refused(err) || len(rows) == 1 && errors.Is(err, store.ErrTooLarge) {
			err = im.singly(ctx, rows[n:], lines[n:])
			n = len(rows)
		}
		lines = lines[n:]
		return n, err
	})
}

// refused reports whether the table does not take one of the rows: it is in conflict with another
// row, a check is false for it, or an index cannot have it.
func refused(err error) bool {
	var unfit *schema.EntryError
	return errors.Is(err, table.ErrUnique) || errors.Is(err, table.ErrCheck) ||
		errors.As(err, &unfit)
}

// together writes rows at once, and returns how many.
func (im *rowImporter) together(ctx context.Context, rows [][]expr.Value) (int, error) {
	if im.Flags.ifAbsent {
		n, err := im.table.InsertMany(ctx, slices.Values(rows))
		im.sum.Written += int64(n)
		return n, err
	}
	done, err := im.table.Upsert(ctx, slices.Values(rows))
	im.count(done)
	return done.New + done.Replaced, err
}

func (im *rowImporter) count(done table.Upserted) {
	im.sum.Written += int64(done.New + done.Replaced)
	im.sum.Replaced += int64(done.Replaced)
}

func (im *rowImporter) singly(ctx context.Context, rows [][]expr.Value, lines []int) error {
	for i, row := range rows {
		var err error
		done := table.Upserted{New: 1}
		if im.Flags.ifAbsent {
			err = im.table.Insert(ctx, row)
		} else {
			done, err = im.table.Upsert(ctx, slices.Values(rows[i:i+1]))
		}
		var unique *table.UniqueError
		switch {
		case err == nil:
			im.count(done)
		case im.Flags.ifAbsent && errors.As(err, &unique) && unique.Index == plan.PrimaryIndex:
			im.sum.Kept++
		case refused(err), errors.Is(err, store.ErrTooLarge):
			im.reject(lines[i], cli.PlainText(err))
		default:
			return err
		}
	}
	return nil
}
