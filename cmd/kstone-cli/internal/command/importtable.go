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
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// rowImporter moves records into a table: fields to the columns of the same name. One
// goroutine reads and converts, the caller's writes. It takes constant memory.
type rowImporter struct {
	intake // for what it counts and reports
	table  *table.Table
	sum    summary
}

// rowGroup is some rows with the lines they come from, and rejected lines.
type rowGroup struct {
	rows     [][]expr.Value
	lines    []int
	bytes    int
	rejected []*record.Reject
}

// importTable imports everything and prints the summary.
func (a *app) importTable(ctx context.Context, t *tables, f *importFlags, name string,
	in io.Reader, size int64) error {
	found, err := t.find(f.table)
	if err != nil {
		return err
	}
	im := &rowImporter{intake: intake{flags: f, name: name}, table: found}
	im.meter = meter.New(a.err, a.errTTY, size, "importing")
	start := time.Now()
	other, err := im.run(ctx, in)
	err = errors.Join(err, t.Engine().Sync(context.WithoutCancel(ctx)))
	im.meter.Done()
	a.moreRejected(&im.intake)
	if len(other) > 0 {
		fmt.Fprintf(a.err, "%s: left out fields without a column: %s\n", name,
			strings.Join(slices.Sorted(maps.Keys(other)), ", "))
	}
	im.sum.Read, im.sum.Rejected, im.sum.Seconds = im.read, im.rejected, time.Since(start).Seconds()
	if printErr := a.printSummary(&im.sum); err == nil {
		err = printErr
	}
	return im.verdict(err, "all others were imported; correct these lines and import them again",
		"what was written stays; run the import again to finish it")
}

// run reads everything, and returns the names of fields that no column takes. What was
// written before an error stays. If ctx ends it does not wait for the parser, which may be
// stuck in a read.
func (im *rowImporter) run(ctx context.Context, in io.Reader) (other map[string]bool,
	err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := newRowParser(im.flags, im.name, im.table.Schema())
	go p.run(ctx, im.meter.Reader(in))
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case g, more := <-p.ready:
			if !more {
				return p.other, p.err
			}
			im.read += int64(len(g.rows) + len(g.rejected))
			for _, r := range g.rejected {
				im.reject(r.Line, r.Reason)
			}
			if err := im.write(ctx, g); err != nil {
				return nil, err
			}
			im.meter.Rows(im.read)
		}
	}
}

// rowParser makes rows of records.
type rowParser struct {
	flags  *importFlags
	name   string
	schema *schema.Table
	names  map[string]int
	ready  chan *rowGroup
	// Set before ready is closed:
	other map[string]bool // fields that no column takes
	err   error
}

func newRowParser(f *importFlags, name string, t *schema.Table) *rowParser {
	p := &rowParser{flags: f, name: name, schema: t, names: map[string]int{},
		other: map[string]bool{}, ready: make(chan *rowGroup, groupsAhead)}
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Dropped {
			p.names[c.Name] = i
		}
	}
	return p
}

// run parses the input to its end and closes ready.
func (p *rowParser) run(ctx context.Context, in io.Reader) {
	defer close(p.ready)
	r, err := p.flags.records(p.name, in)
	if err != nil {
		p.err = err
		return
	}
	defer r.close()
	for {
		g := new(rowGroup)
		err := p.group(r, g)
		select {
		case p.ready <- g:
		case <-ctx.Done():
			return
		}
		if err != nil {
			if err != io.EOF {
				p.err = err
			}
			return
		}
	}
}

// group fills a group. It returns an error at the end of the input.
func (p *rowParser) group(r *records, g *rowGroup) error {
	for len(g.rows) < intakeItems && g.bytes < intakeBytes && len(g.rejected) < intakeItems {
		err := r.next(func(row *record.Row) error { return p.add(row, g) })
		var rejected *record.Reject
		switch {
		case errors.As(err, &rejected):
			g.rejected = append(g.rejected, rejected)
		case err != nil:
			return err
		}
	}
	return nil
}

// add converts a record.
func (p *rowParser) add(r *record.Row, g *rowGroup) error {
	row := p.schema.Row()
	var given schema.ColumnSet
	for _, f := range r.Fields {
		i, ok := p.names[string(f.Name)]
		if !ok {
			p.other[string(f.Name)] = true
			continue
		}
		c := &p.schema.Columns[i]
		if r.Untyped && string(f.JSON) == `""` && c.Kind() != expr.KindString {
			continue // an empty cell
		}
		v, err := fieldValue(c, f.JSON)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		row[i] = v
		given.Add(i)
		g.bytes += len(f.JSON)
	}
	p.schema.Complete(row, &given)
	if _, _, err := p.schema.AppendRowKey(nil, nil, row); err != nil {
		return err
	}
	if _, err := p.schema.AppendRow(nil, row); err != nil {
		return err
	}
	g.rows, g.lines = append(g.rows, row), append(g.lines, r.Line)
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

// write writes the rows of a group. If they cannot be written together, because one of them
// is in conflict with another row, they are written one by one.
func (im *rowImporter) write(ctx context.Context, g *rowGroup) error {
	if im.flags.ifAbsent {
		n, err := im.table.InsertMany(ctx, slices.Values(g.rows))
		if errors.Is(err, table.ErrUnique) {
			return im.singly(ctx, g)
		}
		im.sum.Written += int64(n)
		return err
	}
	done, err := im.table.Upsert(ctx, slices.Values(g.rows))
	if errors.Is(err, table.ErrUnique) {
		return im.singly(ctx, g)
	}
	im.count(done)
	return err
}

func (im *rowImporter) count(done table.Upserted) {
	im.sum.Written += int64(done.New + done.Replaced)
	im.sum.Replaced += int64(done.Replaced)
}

func (im *rowImporter) singly(ctx context.Context, g *rowGroup) error {
	for i, row := range g.rows {
		var err error
		done := table.Upserted{New: 1}
		if im.flags.ifAbsent {
			err = im.table.Insert(ctx, row)
		} else {
			done, err = im.table.Upsert(ctx, slices.Values(g.rows[i:i+1]))
		}
		var unique *table.UniqueError
		switch {
		case err == nil:
			im.count(done)
		case errors.As(err, &unique) && im.flags.ifAbsent && unique.Index == plan.PrimaryIndex:
			im.sum.Kept++
		case unique != nil:
			im.reject(g.lines[i], plainText(err))
		default:
			return err
		}
	}
	return nil
}
