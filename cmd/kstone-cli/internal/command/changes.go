package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
)

// changesFlags are the flags of changes.
type changesFlags struct {
	tables   []string
	pk       string
	prefix   string
	from     string
	consumer string
	before   bool
	visible  bool
	once     bool
}

func changesCommand(a *cli.App) *cobra.Command {
	var f changesFlags
	cmd := &cobra.Command{
		Use: a.Use("changes", "[--table T | --pk PK | --prefix P] [--from POSITION] "+
			"[--no-follow]"),
		Short: "Print what commits have changed, and follow",
		Long: `Print what commits have changed, a JSON object per line: puts and deletes of items
and rows, and new definitions of tables. It follows further commits until it is stopped,
also those of a program that has the database open, unless --no-follow is given. The
setting retain-bytes must be chosen, and retain-age to keep changes that no consumer waits
for. --before needs retain-versions; without it, rows from before a new definition of
their table are read by the present one.

"next" is the position after the change: with --from it goes on there. Without --from it
begins with the oldest change that is retained. A consumer keeps its position in the
database, and its changes until it has printed them; no other program may have the
database open then.`,
		Example: `  kstone-cli settings orders.db retain-bytes=1GiB retain-age=24h
  kstone-cli changes orders.db
  kstone-cli changes orders.db --table orders --before --no-follow
  kstone-cli changes orders.db --from now --prefix user:
  kstone-cli changes orders.db --consumer index`,
		Args: a.Arguments(0, 0),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.tables, "table", nil, "changes of this `TABLE` only (repeat for each)")
	flags.StringVar(&f.pk, "pk", "", "changes of items of this partition `KEY` only")
	flags.StringVar(&f.prefix, "prefix", "", "changes of partitions that begin with `P` only")
	flags.StringVar(&f.from, "from", "", "begin at this `POSITION`: a version, what \"next\" "+
		"says, or now")
	flags.StringVar(&f.consumer, "consumer", "", "go on where the consumer `NAME` was, which is "+
		"made if there is none")
	flags.BoolVar(&f.before, "before", false, "also what was there before, where that is kept")
	flags.BoolVar(&f.visible, "visible", false, "also commits that a power cut may take back")
	flags.BoolVar(&f.once, "no-follow", false, "end with the newest commit")
	a.InputFlag(cmd, cli.InputFormHelp)
	a.OutputFlag(cmd, "`FORMAT`: jsonl", "jsonl")
	cli.Before(cmd, func() error {
		switch {
		case len(f.tables) > 0 && (f.pk != "" || f.prefix != ""), f.pk != "" && f.prefix != "":
			return cli.Usage("--table, --pk and --prefix exclude each other")
		case f.from != "" && f.consumer != "":
			return cli.Usage("--from and --consumer exclude each other: a consumer has a position")
		}
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, _ := a.Split(args)
		m := cli.ReadOnly
		if f.consumer != "" {
			m = cli.ReadWrite
		}
		err := a.WithOptions(path, m, &engine.Options{Visible: f.visible},
			func(d *cli.Database) error { return f.run(cmd.Context(), a, d) })
		if f.consumer != "" && errors.Is(err, engine.ErrLocked) {
			err = cli.Advise(err, "without --consumer it follows beside that program: --from goes "+
				"on at the position that \"next\" says")
		}
		return err
	}
	return cmd
}

// run prints changes until there are no more, or ctx ends.
func (f *changesFlags) run(ctx context.Context, a *cli.App, d *cli.Database) error {
	if err := d.Retained(); err != nil {
		return err
	}
	if len(f.tables) > 0 {
		t, err := a.OpenTables(ctx, d)
		for i := 0; err == nil && i < len(f.tables); i++ {
			_, err = t.Find(f.tables[i])
		}
		if err != nil {
			return err
		}
	}
	from, consumer, err := f.begin(d)
	if err != nil {
		return err
	}
	w := newLiveWriter(a.Out)
	p := changePrinter{schema: d.Schema}
	err = f.each(ctx, a, d, from, consumer, func(c *local.TableChange) error {
		if _, err := w.Write(p.line(c)); err != nil || consumer == nil || !c.Last {
			return err
		}
		if err := w.Flush(); err != nil { // printed first: after a crash it comes again
			return err
		}
		return consumer.Ack(c.Next())
	})
	if errors.Is(err, engine.ErrGone) {
		err = cli.Advise(err, "without --from it begins with the oldest change that is there")
	}
	return errors.Join(err, w.Close())
}

// begin returns where to begin.
func (f *changesFlags) begin(d *cli.Database) (from engine.Position, c *engine.Consumer,
	err error) {
	switch f.from {
	case "":
		from, err = oldest(d.DB)
	case "now":
		from.Version = d.Metrics().LastVersion + 1
	default:
		from, err = engine.ParsePosition(f.from)
	}
	if err == nil && f.consumer != "" {
		c, err = d.Consumer(f.consumer, from)
	}
	return from, c, err
}

// oldest returns the position of the oldest change that is retained.
func oldest(db *engine.DB) (p engine.Position, err error) {
	for _, err := range db.Changes(context.Background(), p, &engine.ChangesOptions{Stop: true}) {
		var gone *engine.GoneError
		if errors.As(err, &gone) {
			return engine.Position{Version: gone.Oldest}, nil
		}
		return p, err
	}
	return p, nil
}

// each calls fn with the selected changes.
func (f *changesFlags) each(ctx context.Context, a *cli.App, d *cli.Database,
	from engine.Position, consumer *engine.Consumer, fn func(*local.TableChange) error) error {
	o := local.ChangesOptions{Tables: f.tables, Items: len(f.tables) == 0, Before: f.before,
		Visible: f.visible, Stop: f.once, Consumer: consumer}
	all := local.Changes(ctx, d.DB, from, &o)
	if f.pk != "" || f.prefix != "" {
		items := &engine.ChangesOptions{Before: o.Before, Visible: o.Visible, Stop: o.Stop}
		if err := f.selectKeys(a, d.Schema, items); err != nil {
			return err
		}
		changes := d.DB.Changes(ctx, from, items)
		if consumer != nil {
			changes = consumer.Changes(ctx, items)
		}
		all = asTableChanges(changes)
	}
	for c, err := range all {
		if err != nil {
			return err
		}
		if err := fn(&c); err != nil {
			return err
		}
	}
	return nil
}

// selectKeys sets which items are selected.
func (f *changesFlags) selectKeys(a *cli.App, s *layout.Schema,
	o *engine.ChangesOptions) error {
	if f.prefix != "" {
		p, err := a.BytesOf("--prefix", f.prefix)
		o.PKPrefix = p
		return err
	}
	pk, err := a.Arg("--pk", f.pk)
	if err == nil {
		o.PK, err = s.PK(pk)
	}
	return err
}

func asTableChanges(changes iter.Seq2[engine.Change, error],
) iter.Seq2[local.TableChange, error] {
	return func(yield func(local.TableChange, error) bool) {
		for c, err := range changes {
			t := local.TableChange{Kind: local.ItemChanged, Known: c.Known, Last: c.Last, Item: c}
			if !yield(t, err) {
				return
			}
		}
	}
}

// changePrinter writes changes as JSON.
type changePrinter struct {
	schema *layout.Schema
	record layout.Record
	buf    bytes.Buffer
}

// changeJSON is a line about a change.
type changeJSON struct {
	Version uint64          `json:"version"`
	Index   int             `json:"index"`
	Kind    string          `json:"kind"`
	Table   string          `json:"table,omitempty"`
	Key     json.RawMessage `json:"key,omitempty"`
	Row     json.RawMessage `json:"row,omitempty"`
	Item    json.RawMessage `json:"item,omitempty"`
	Range   []string        `json:"range,omitempty"`
	// Before is null if there was nothing, and left out if that is not known.
	Before     json.RawMessage `json:"before,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"`
	Last       bool            `json:"last"`
	Next       string          `json:"next"`
}

// line returns the line about a change, which is valid until the next call.
func (p *changePrinter) line(c *local.TableChange) []byte {
	out := changeJSON{Version: c.Item.Version, Index: c.Item.Index, Kind: c.Kind.String(),
		Last: c.Last, Next: c.Next().String()}
	if c.Table != nil {
		out.Table = c.Table.Name
	}
	if c.Known {
		out.Before = []byte("null")
	}
	switch c.Kind {
	case local.RowPut, local.RowDeleted:
		if c.After == nil {
			out.Key = present.AppendRow(nil, c.Table, c.Table.KeyOrdinals(), c.Key)
		} else {
			out.Row = present.AppendRow(nil, c.Table, columnsOf(c.Table), c.After)
		}
		if c.Before != nil {
			out.Before = present.AppendRow(nil, c.Table, columnsOf(c.Table), c.Before)
		}
	case local.TableDefined:
		out.Definition = c.Item.Value
	case local.ItemChanged:
		out.Kind = c.Item.Kind.String()
		p.item(c, &out)
	case local.RowsDeleted:
		out.Range = rangeOf(&c.Item)
	case local.TableDropped:
	}
	p.buf.Reset()
	e := json.NewEncoder(&p.buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(&out) // never fails: what is raw is JSON
	return p.buf.Bytes()
}

// item adds what is to be said about an item.
func (p *changePrinter) item(c *local.TableChange, out *changeJSON) {
	item := engine.Item{Key: c.Item.Key, Value: c.Item.Value, Expiry: c.Item.Expiry}
	switch c.Item.Kind {
	case engine.ChangeDeleteRange:
		out.Range = rangeOf(&c.Item)
	case engine.ChangeDelete:
		out.Key = p.schema.AppendJSON(nil, &item, &layout.Record{KeysOnly: true})
	default:
		out.Kind = engine.ChangePut.String()
		out.Item = p.schema.AppendJSON(nil, &item, &p.record)
	}
	if c.Item.Before != nil {
		out.Before = p.schema.AppendJSON(nil, c.Item.Before, &p.record)
	}
}

// rangeOf returns the bounds of a range delete, in hexadecimal.
func rangeOf(c *engine.Change) []string {
	return []string{
		hex.EncodeToString(c.Start), hex.EncodeToString(c.End),
	}
}

// columnsOf returns the ordinals of the columns that a table has now.
func columnsOf(t *schema.Table) (all []int) {
	for i := range t.Columns {
		if !t.Columns[i].Dropped {
			all = append(all, i)
		}
	}
	return all
}

// liveWriter is a buffer that does not keep what it has for long.
type liveWriter struct {
	mu    sync.Mutex
	w     *bufio.Writer // guarded by mu, as all below
	err   error
	timer *time.Timer
	due   bool // the timer runs
}

// flushAfter is how long a change may wait for others to be written with.
const flushAfter = 5 * time.Millisecond

func newLiveWriter(w io.Writer) *liveWriter {
	l := &liveWriter{w: bufio.NewWriterSize(w, 64<<10)}
	l.timer = time.AfterFunc(time.Hour, func() { _ = l.Flush() }) // the next Write returns it
	return l
}

// Write implements io.Writer.
func (l *liveWriter) Write(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	n, l.err = l.w.Write(p)
	if !l.due {
		l.due = true
		l.timer.Reset(flushAfter)
	}
	return n, l.err
}

// Flush writes what is buffered.
func (l *liveWriter) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = false
	if l.err == nil {
		l.err = l.w.Flush()
	}
	return l.err
}

// Close is Flush, and nothing is written after it.
func (l *liveWriter) Close() error {
	l.timer.Stop()
	return l.Flush()
}
