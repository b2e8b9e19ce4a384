package command

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

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// rowImporter moves records into a table: fields to the columns of the same name. It takes
// constant memory.
type rowImporter struct {
	intake // for what it counts and reports
	table  *table.Table
	schema *schema.Table
	names  map[string]int
	other  map[string]bool // fields that no column takes
	sum    rowSummary

	rows  [][]expr.Value
	lines []int
	bytes int
}

// importTable imports everything and prints the summary.
func (a *app) importTable(ctx context.Context, t *tables, f *importFlags, name string,
	in io.Reader, size int64) error {
	found, err := t.find(f.table)
	if err != nil {
		return err
	}
	im := &rowImporter{intake: intake{flags: f, name: name}, table: found, schema: found.Schema(),
		names: map[string]int{}, other: map[string]bool{}}
	for i := range im.schema.Columns {
		if c := &im.schema.Columns[i]; !c.Dropped {
			im.names[c.Name] = i
		}
	}
	im.meter = meter.New(a.err, a.errTTY, size, "importing")
	start := time.Now()
	err = errors.Join(im.run(ctx, in), t.Engine().Sync(context.WithoutCancel(ctx)))
	im.meter.Done()
	a.moreRejected(&im.intake)
	if len(im.other) > 0 {
		fmt.Fprintf(a.err, "%s: left out fields without a column: %s\n", name,
			strings.Join(slices.Sorted(maps.Keys(im.other)), ", "))
	}
	im.sum.Read, im.sum.Rejected, im.sum.Seconds = im.read, im.rejected, time.Since(start).Seconds()
	if printErr := a.printRowSummary(&im.sum); err == nil {
		err = printErr
	}
	return im.verdict(err, "all others were imported; correct these lines and import them again",
		"what was written stays; run the import again to finish it")
}

// rowSummary is what an import into a table did.
type rowSummary struct {
	Read     int64   `json:"read"`
	Written  int64   `json:"written"`
	Kept     int64   `json:"kept"`
	Rejected int64   `json:"rejected"`
	Seconds  float64 `json:"seconds"`
}

func (a *app) printRowSummary(s *rowSummary) error {
	if a.format == "json" {
		return json.NewEncoder(a.out).Encode(s)
	}
	line := fmt.Sprintf("%s read, %s written, %s rejected", present.Count(s.Read),
		present.Count(s.Written), present.Count(s.Rejected))
	if s.Kept > 0 {
		line += fmt.Sprintf(", %s kept", present.Count(s.Kept))
	}
	took := time.Duration(s.Seconds * float64(time.Second))
	_, err := fmt.Fprintf(a.out, "%s in %s (%s)\n", line, present.Duration(took),
		present.PerSecond(s.Read, took))
	return err
}

// run reads everything. What was written before an error stays.
func (im *rowImporter) run(ctx context.Context, in io.Reader) error {
	plain, err := record.Decompress(im.meter.Reader(in))
	if err != nil {
		return fmt.Errorf("%s: %w", im.name, err)
	}
	defer plain.Close()
	reader, err := im.flags.reader(plain)
	if err != nil {
		return usage("%s: %v", im.name, err)
	}
	var row record.Row
	for {
		var rejected *record.Reject
		err := reader.Next(&row)
		switch {
		case errors.As(err, &rejected):
			im.read++
			im.reject(rejected.Line, rejected.Reason)
			continue
		case errors.Is(err, io.EOF):
			return im.flush(ctx)
		case err != nil:
			return errors.Join(fmt.Errorf("%s: reading behind line %d: %w", im.name, row.Line, err),
				im.flush(ctx))
		}
		im.read++
		if err := im.add(&row); err != nil {
			im.reject(row.Line, plainText(err))
			continue
		}
		if len(im.rows) >= intakeItems || im.bytes >= intakeBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add converts a record.
func (im *rowImporter) add(r *record.Row) error {
	row := im.schema.Row()
	var given schema.ColumnSet
	for _, f := range r.Fields {
		i, ok := im.names[string(f.Name)]
		if !ok {
			im.other[string(f.Name)] = true
			continue
		}
		c := &im.schema.Columns[i]
		if r.Untyped && string(f.JSON) == `""` && c.Kind() != expr.KindString {
			continue // an empty cell
		}
		v, err := fieldValue(c, f.JSON)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		row[i] = v
		given.Add(i)
		im.bytes += len(f.JSON)
	}
	im.schema.Complete(row, &given)
	if _, _, err := im.schema.AppendRowKey(nil, nil, row); err != nil {
		return err
	}
	if _, err := im.schema.AppendRow(nil, row); err != nil {
		return err
	}
	im.rows, im.lines = append(im.rows, row), append(im.lines, r.Line)
	return nil
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

// flush writes the rows collected so far. If they cannot be written together, because one of
// them is in conflict with another row, they are written one by one.
func (im *rowImporter) flush(ctx context.Context) error {
	if len(im.rows) == 0 {
		return ctx.Err()
	}
	var err error
	if im.flags.ifAbsent {
		_, err = im.table.InsertMany(ctx, slices.Values(im.rows))
	} else {
		_, err = im.table.PutMany(ctx, slices.Values(im.rows))
	}
	switch {
	case errors.Is(err, table.ErrUnique):
		err = im.singly(ctx)
	case err == nil:
		im.sum.Written += int64(len(im.rows))
	}
	im.rows, im.lines, im.bytes = im.rows[:0], im.lines[:0], 0
	im.meter.Rows(im.read)
	return err
}

func (im *rowImporter) singly(ctx context.Context) error {
	for i, row := range im.rows {
		write := im.table.Put
		if im.flags.ifAbsent {
			write = im.table.Insert
		}
		err := write(ctx, row)
		var unique *table.UniqueError
		switch {
		case err == nil:
			im.sum.Written++
		case errors.As(err, &unique) && im.flags.ifAbsent && unique.Index == plan.PrimaryIndex:
			im.sum.Kept++
		case unique != nil:
			im.reject(im.lines[i], plainText(err))
		default:
			return err
		}
	}
	return nil
}
