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
	"github.com/kstonedb/kstone/keycodec"
)

const (
	// A batch is applied when it holds that many items or bytes. Larger ones are not
	// faster; smaller ones cost more commits.
	importBatchItems = 1000
	importBatchBytes = 1 << 20
	// batchesAhead is how many batches the parser may be ahead of the writer.
	batchesAhead = 4
)

// importer moves records into the database. One goroutine reads and parses, the
// caller's looks for existing keys and writes.
type importer struct {
	db    *database
	flags *importFlags
	name  string
	meter *meter.Meter
	sum   summary

	ready, free chan *parsed
	readErr     error // set before ready is closed

	batch *engine.Batch
	keys  map[string]struct{} // of the present batch
	key   []byte              // scratch
}

// parsed is a group of items with the lines they come from, and rejected lines.
type parsed struct {
	items    []engine.Item
	lines    []int
	n        int
	bytes    int
	rejected []*record.Reject
}

// run imports everything. What was written before an error stays.
//
// Why the clock is held: an item's expiry is given to the engine as the time to live
// from now, and must come out to the millisecond.
func (im *importer) run(ctx context.Context, in io.Reader) error {
	defer im.db.clock.hold()()
	im.ready, im.free = make(chan *parsed, batchesAhead), make(chan *parsed, batchesAhead)
	im.batch, im.keys = engine.NewBatch(), map[string]struct{}{}
	for range batchesAhead {
		im.free <- &parsed{items: make([]engine.Item, importBatchItems),
			lines: make([]int, importBatchItems)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go im.parse(ctx, in)
	err := im.write(ctx)
	return errors.Join(err, im.db.Sync(context.WithoutCancel(ctx)))
}

// write applies what the parser delivers. If ctx ends it does not wait for the parser,
// which may be stuck in a read.
func (im *importer) write(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case p, more := <-im.ready:
			if !more {
				return im.readErr
			}
			if err := im.apply(ctx, p); err != nil {
				return err
			}
			p.n, p.bytes, p.rejected = 0, 0, nil
			im.free <- p
		}
	}
}

// parse reads the input to its end and closes ready.
func (im *importer) parse(ctx context.Context, in io.Reader) {
	defer close(im.ready)
	plain, err := record.Decompress(in)
	if err != nil {
		im.readErr = fmt.Errorf("%s: %w", im.name, err)
		return
	}
	defer plain.Close()
	reader, err := im.flags.reader(plain)
	if err != nil {
		im.readErr = usage("%s: %v", im.name, err)
		return
	}
	var row record.Row
	for {
		var p *parsed
		select {
		case p = <-im.free:
		case <-ctx.Done():
			return
		}
		err := im.parseBatch(reader, &row, p)
		im.ready <- p
		if err != nil {
			if !errors.Is(err, io.EOF) {
				im.readErr = &advice{fmt.Errorf("%s: reading behind line %d: %w", im.name, row.Line,
					err),
					"everything before was imported; the file may be incomplete"}
			}
			return
		}
	}
}

// parseBatch fills p. It returns an error at the end of the input.
func (im *importer) parseBatch(reader record.Reader, row *record.Row, p *parsed) error {
	for p.n < importBatchItems && p.bytes < importBatchBytes && len(p.rejected) < importBatchItems {
		err := reader.Next(row)
		item := &p.items[p.n]
		if err == nil {
			if err = im.db.schema.ReadRow(row, item); err == nil {
				p.lines[p.n] = row.Line
				p.bytes += len(item.Key.PK) + len(item.Key.SK) + len(item.Value)
				p.n++
				continue
			}
			err = &record.Reject{Line: row.Line, Reason: plainText(err)}
		}
		var rejected *record.Reject
		if !errors.As(err, &rejected) {
			return err
		}
		p.rejected = append(p.rejected, rejected)
	}
	return nil
}

// apply writes one group of items.
func (im *importer) apply(ctx context.Context, p *parsed) error {
	for _, r := range p.rejected {
		im.reject(r.Line, r.Reason)
	}
	im.sum.Read += int64(len(p.rejected))
	clear(im.keys)
	im.batch.Reset()
	var done summary
	for i := range p.items[:p.n] {
		item := &p.items[i]
		if err := im.add(item, p.lines[i], &done); err != nil {
			return err
		}
		if cap(item.Value) > importBatchBytes {
			item.Value = nil // one large value must not keep its memory a thousand times
		}
	}
	if im.batch.Len() > 0 {
		if im.flags.newSchema != nil {
			if err := im.db.SetProperty(layout.Property, im.flags.newSchema); err != nil {
				return err
			}
			im.flags.newSchema = nil
		}
		o := &engine.WriteOptions{Durability: engine.Process}
		if err := im.db.Apply(ctx, im.batch, o); err != nil {
			return err
		}
	}
	im.sum.Read += int64(p.n)
	im.sum.Written += done.Written
	im.sum.Replaced += done.Replaced
	im.sum.Kept += done.Kept
	im.sum.Expired += done.Expired
	im.meter.Rows(im.sum.Read)
	return nil
}

// add puts an item into the batch, unless it is to be left out.
func (im *importer) add(item *engine.Item, line int, done *summary) error {
	var ttl time.Duration
	if item.Expiry != 0 {
		ttl = time.UnixMilli(item.Expiry).Sub(im.db.clock.now().Truncate(time.Millisecond))
		if ttl <= 0 {
			done.Expired++
			return nil
		}
	}
	im.key = keycodec.AppendLengthPrefixed(im.key[:0], item.Key)
	_, exists := im.keys[string(im.key)]
	if !exists {
		var err error
		if exists, err = im.db.Has(item.Key); err != nil {
			return err
		}
	}
	if exists && im.flags.ifAbsent {
		done.Kept++
		return nil
	}
	if err := im.batch.Put(item.Key, item.Value, ttl); err != nil {
		if !isArgumentError(err) {
			return err
		}
		im.reject(line, plainText(err))
		return nil
	}
	im.keys[string(im.key)] = struct{}{}
	done.Written++
	if exists {
		done.Replaced++
	}
	return nil
}

// reject reports a line that was not imported.
func (im *importer) reject(line int, reason string) {
	im.sum.Rejected++
	if im.sum.Rejected <= int64(im.flags.shown) {
		im.meter.Note(fmt.Sprintf("%s:%d: %s", im.name, line, reason))
	}
}
