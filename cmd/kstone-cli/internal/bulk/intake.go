package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

const (
	// A group is handled when it holds that many items or bytes. Larger ones are not
	// faster; smaller ones cost more commits.
	IntakeItems = 1000
	intakeBytes = 1 << 20
	// groupsAhead is how many groups the parser may be ahead of their handler.
	groupsAhead = 4
)

// Intake is a run over the records of one input: what it is given, and what it counts.
type Intake struct {
	DB    *cli.Database
	Flags *ImportFlags
	Name  string
	Meter *meter.Meter
	Start time.Time

	read     int64 // records, rejected and expired ones included
	rejected int64
	expired  int64 // left out, because their time was over

	place string    // the input of the present group, for messages
	same  *sameKeys // nil if records with the same key are not reported

	accepted *engine.Batch // puts of the items of the present group, see accept
	which    []bool        // for each key of the present group: whether it is new, or is there
}

// NewIntake returns an intake that shows how far it is.
func NewIntake(a *cli.App, d *cli.Database, f *ImportFlags, name string, size int64,
	doing string) Intake {
	return Intake{DB: d, Flags: f, Name: name, Start: time.Now(),
		Meter: meter.New(a.Err, a.ErrTTY, size, doing)}
}

// parsed is a group of records with the lines they come from, and rejected lines.
type parsed[T any] struct {
	records  []T
	lines    []int
	place    string // the input that they come from
	bytes    int
	rejected []*record.Reject
}

// feed reads everything, and hands it on in groups of what parse makes of a record in the
// memory of to. One goroutine reads and parses, the caller's handles. It takes constant memory.
//
// Ownership: a group is valid until handle returns. If ctx ends, feed does not wait for the
// parser, which may be stuck in a read.
func feed[T any](ctx context.Context, in *Intake, from io.Reader,
	parse func(row *record.Row, to *T) (bytes int, err error), handle func(*parsed[T]) error,
) error {
	defer in.Meter.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, free := make(chan *parsed[T], groupsAhead), make(chan *parsed[T], groupsAhead)
	for range groupsAhead {
		free <- &parsed[T]{records: make([]T, 0, IntakeItems), lines: make([]int, 0, IntakeItems)}
	}
	var readErr error // set before ready is closed
	go func() {
		defer close(ready)
		readErr = parseGroups(ctx, in, from, parse, ready, free)
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case g, more := <-ready:
			if !more {
				return readErr
			}
			in.place = g.place
			for _, r := range g.rejected {
				in.reject(r.Line, r.Reason)
			}
			if err := handle(g); err != nil {
				return err
			}
			in.read += int64(len(g.records) + len(g.rejected))
			in.Meter.Rows(in.read)
			g.records, g.lines, g.bytes, g.rejected = g.records[:0], g.lines[:0], 0, nil
			free <- g
		}
	}
}

// parseGroups parses the input to its end. It fills the groups of free for ready.
func parseGroups[T any](ctx context.Context, in *Intake, from io.Reader,
	parse func(*record.Row, *T) (int, error), ready chan<- *parsed[T],
	free <-chan *parsed[T]) error {
	for name, part := range in.Flags.parts(in.Name, from) {
		r, err := in.Flags.Records(name, in.Meter.Reader(part))
		for err == nil {
			var g *parsed[T]
			select {
			case g = <-free:
			case <-ctx.Done():
				return r.Close()
			}
			g.place = name
			err = parseGroup(r, g, parse)
			ready <- g
		}
		if r != nil {
			_ = r.Close() // its input has been read
		}
		if err != io.EOF {
			return err
		}
	}
	return nil
}

// parseGroup fills g. It returns an error at the end of the input.
func parseGroup[T any](r *records, g *parsed[T], parse func(*record.Row, *T) (int, error)) error {
	for len(g.records) < IntakeItems && g.bytes < intakeBytes && len(g.rejected) < IntakeItems {
		n := len(g.records)
		err := r.Next(func(row *record.Row) error {
			size, err := parse(row, &g.records[:n+1][n])
			if err == nil {
				g.records, g.lines = g.records[:n+1], append(g.lines, row.Line)
				g.bytes += size
			}
			return err
		})
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

// Run reads everything, and hands the items on that have not expired and that a database
// can hold. They are valid until handle returns, and so is in.accepted, a batch that
// writes them.
func (in *Intake) Run(ctx context.Context, from io.Reader,
	handle func(ctx context.Context, items []engine.Item) error) error {
	in.accepted = engine.NewBatch()
	var items []engine.Item
	names := []string{"pk", "sk"}
	if s := in.DB.Schema; s != nil {
		names = append(s.PKFields(), s.SKFields()...)
	}
	return feed(ctx, in, from, func(row *record.Row, it *engine.Item) (int, error) {
		err := in.DB.Schema.ReadRow(row, it)
		if err == nil && in.same != nil {
			in.same.add(row, it.Key, names)
		}
		return len(it.Key.PK) + len(it.Key.SK) + len(it.Value), err
	}, func(g *parsed[engine.Item]) error {
		var err error
		if items, err = in.accept(g, items[:0]); err != nil {
			return err
		}
		err = handle(ctx, items)
		for i := range g.records {
			if it := &g.records[i]; cap(it.Value) > intakeBytes {
				it.Value = nil // a large value must not keep its memory a thousand times
			}
		}
		return err
	})
}

// accept appends to items, and to the batch, those of a group that can be stored, and
// reports the others.
func (in *Intake) accept(g *parsed[engine.Item], items []engine.Item) ([]engine.Item, error) {
	in.accepted.Reset()
	now := time.Now().UnixMilli()
	for i := range g.records {
		it := &g.records[i]
		if it.Expiry != 0 && it.Expiry <= now {
			in.expired++
			continue
		}
		switch err := in.accepted.Put(it.Key, it.Value, engine.Expiry(it.Expiry)); {
		case err == nil:
			items = append(items, *it)
		case cli.IsArgumentError(err):
			in.reject(g.lines[i], cli.PlainText(err))
		default:
			return items, err
		}
	}
	return items, nil
}

// reject reports a line that was left out.
func (in *Intake) reject(line int, reason string) {
	in.rejected++
	if in.rejected <= int64(in.Flags.Shown) {
		in.Meter.Note(fmt.Sprintf("%s:%d: %s", in.place, line, reason))
	}
}

// insertNew stores those of a group that the database does not have, in one step with looking
// for them; which says which those were.
func (in *Intake) insertNew(
	ctx context.Context, items []engine.Item,
) (stats engine.DedupStats, err error) {
	if len(items) == 0 {
		return stats, nil
	}
	if err := in.storeSchema(); err != nil {
		return stats, err
	}
	in.which, stats, err = in.DB.InsertNew(ctx, items, in.which, unsynced)
	return stats, err
}

// storeSchema stores the fields of --pk and --sk in the database, if they are new. It
// comes before the first items.
func (in *Intake) storeSchema() error {
	if in.Flags.newSchema == nil {
		return nil
	}
	err := in.DB.SetProperty(layout.Property, in.Flags.newSchema)
	if err == nil {
		in.Flags.newSchema = nil
	}
	return err
}

// End reports rejected lines that were not shown, and returns what all summaries have.
func (in *Intake) End(a *cli.App) Reading {
	r := Reading{in.read, in.rejected, in.expired, time.Since(in.Start)}
	if n := in.rejected - int64(in.Flags.Shown); n > 0 {
		fmt.Fprintf(a.Err, "%s: … and %s (--show-rejected shows more)\n", in.Name,
			figure.Plural(n, "more rejected line"))
	}
	return r
}

// Reading is a finished run over records: what all summaries have.
type Reading struct {
	Read, Rejected, Expired int64
	Took                    time.Duration
}

// Text returns a summary in one line. It has what came of the records after the number read,
// and more after the number rejected.
func (r Reading) Text(what, more string) string {
	line := fmt.Sprintf("%s read%s, %s rejected%s", figure.Count(r.Read), what,
		figure.Count(r.Rejected), more)
	if r.Expired > 0 {
		line += fmt.Sprintf(", %s expired", figure.Count(r.Expired))
	}
	return fmt.Sprintf("%s in %s (%s)", line, figure.Duration(r.Took),
		figure.PerSecond(r.Read, r.Took))
}

// Verdict returns the error of a command that has read records: err with advice, or that
// records were rejected: onRejected says what was done with all others, and then what to do.
func (r Reading) Verdict(err error, onRejected, onInterrupt string) error {
	switch {
	case errors.Is(err, context.Canceled):
		return cli.Advise(fmt.Errorf("interrupted%w", cli.Quiet(err)), onInterrupt)
	case err != nil:
		return err
	case r.Rejected > 0:
		if _, next, ok := strings.Cut(onRejected, "; "); ok && r.Rejected == r.Read {
			onRejected = "there are no others; " + next
		}
		return cli.Advise(fmt.Errorf("%s rejected", figure.Plural(r.Rejected, "record")),
			onRejected)
	}
	return nil
}
