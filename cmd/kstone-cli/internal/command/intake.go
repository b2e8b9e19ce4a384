package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
)

const (
	// A group is handled when it holds that many items or bytes. Larger ones are not
	// faster; smaller ones cost more commits.
	intakeItems = 1000
	intakeBytes = 1 << 20
	// groupsAhead is how many groups the parser may be ahead of the one who handles them.
	groupsAhead = 4
)

// intake reads records and hands them on as items, in groups. One goroutine reads and
// parses, the caller's handles. It takes constant memory.
type intake struct {
	db    *database
	flags *importFlags
	name  string
	meter *meter.Meter

	read     int64 // records, rejected and expired ones included
	rejected int64
	expired  int64 // left out, because their time was over

	ready, free chan *parsed
	readErr     error // set before ready is closed

	accepted *engine.Batch // puts of the items of the present group, see accept
}

// parsed is a group of items with the lines they come from, and rejected lines.
type parsed struct {
	items    []engine.Item
	lines    []int
	n        int
	bytes    int
	rejected []*record.Reject
}

// run reads everything, and hands the items on that have not expired and that a database
// can hold. They are valid until handle returns, and so is in.accepted, a batch that
// writes them.
func (in *intake) run(ctx context.Context, from io.Reader,
	handle func(ctx context.Context, items []engine.Item) error) error {
	defer in.meter.Done()
	in.ready, in.free = make(chan *parsed, groupsAhead), make(chan *parsed, groupsAhead)
	in.accepted = engine.NewBatch()
	for range groupsAhead {
		in.free <- &parsed{items: make([]engine.Item, intakeItems),
			lines: make([]int, intakeItems)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go in.parse(ctx, in.meter.Reader(from))
	return in.handleAll(ctx, handle)
}

// handleAll hands on what the parser delivers. If ctx ends it does not wait for the
// parser, which may be stuck in a read.
func (in *intake) handleAll(ctx context.Context,
	handle func(ctx context.Context, items []engine.Item) error) error {
	var items []engine.Item
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case p, more := <-in.ready:
			if !more {
				return in.readErr
			}
			var err error
			if items, err = in.accept(p, items[:0]); err != nil {
				return err
			}
			if err := handle(ctx, items); err != nil {
				return err
			}
			in.read += int64(p.n + len(p.rejected))
			in.meter.Rows(in.read)
			for i := range p.items[:p.n] {
				if it := &p.items[i]; cap(it.Value) > intakeBytes {
					it.Value = nil // a large value must not keep its memory a thousand times
				}
			}
			p.n, p.bytes, p.rejected = 0, 0, nil
			in.free <- p
		}
	}
}

// accept appends to items, and to the batch, those of a group that can be stored, and
// reports the others.
func (in *intake) accept(p *parsed, items []engine.Item) ([]engine.Item, error) {
	for _, r := range p.rejected {
		in.reject(r.Line, r.Reason)
	}
	in.accepted.Reset()
	now := time.Now().UnixMilli()
	for i := range p.items[:p.n] {
		it := &p.items[i]
		if it.Expiry != 0 && it.Expiry <= now {
			in.expired++
			continue
		}
		switch err := in.accepted.Put(it.Key, it.Value, engine.Expiry(it.Expiry)); {
		case err == nil:
			items = append(items, *it)
		case isArgumentError(err):
			in.reject(p.lines[i], plainText(err))
		default:
			return items, err
		}
	}
	return items, nil
}

// parse reads the input to its end and closes ready.
func (in *intake) parse(ctx context.Context, from io.Reader) {
	defer close(in.ready)
	r, err := in.flags.records(in.name, from)
	if err != nil {
		in.readErr = err
		return
	}
	defer r.close()
	for {
		var p *parsed
		select {
		case p = <-in.free:
		case <-ctx.Done():
			return
		}
		err := in.parseGroup(r, p)
		in.ready <- p
		if err != nil {
			if err != io.EOF {
				in.readErr = err
			}
			return
		}
	}
}

// parseGroup fills p. It returns an error at the end of the input.
func (in *intake) parseGroup(r *records, p *parsed) error {
	for p.n < intakeItems && p.bytes < intakeBytes && len(p.rejected) < intakeItems {
		item := &p.items[p.n]
		err := r.next(func(row *record.Row) error {
			p.lines[p.n] = row.Line
			return in.db.schema.ReadRow(row, item)
		})
		var rejected *record.Reject
		switch {
		case err == nil:
			p.bytes += len(item.Key.PK) + len(item.Key.SK) + len(item.Value)
			p.n++
		case errors.As(err, &rejected):
			p.rejected = append(p.rejected, rejected)
		default:
			return err
		}
	}
	return nil
}

// reject reports a line that was left out.
func (in *intake) reject(line int, reason string) {
	in.rejected++
	if in.rejected <= int64(in.flags.shown) {
		in.meter.Note(fmt.Sprintf("%s:%d: %s", in.name, line, reason))
	}
}

// storeSchema stores the fields of --pk and --sk in the database, if they are new. It
// comes before the first items.
func (in *intake) storeSchema() error {
	if in.flags.newSchema == nil {
		return nil
	}
	err := in.db.SetProperty(layout.Property, in.flags.newSchema)
	if err == nil {
		in.flags.newSchema = nil
	}
	return err
}
