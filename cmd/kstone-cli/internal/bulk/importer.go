package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// importer moves records into the database.
type importer struct {
	Intake
	sum summary

	keys   []engine.Key        // of the present group
	seen   map[string]struct{} // the same, as far as they were looked at
	keyBuf []byte
}

// run imports everything. What was written before an error stays.
func (im *importer) run(ctx context.Context, in io.Reader) error {
	im.seen = map[string]struct{}{}
	store := im.replace
	if im.Flags.ifAbsent {
		store = im.insert
	}
	err := im.Intake.Run(ctx, in, store)
	return errors.Join(err, im.DB.Sync(ctx))
}

const unsynced = engine.Process

// insert is replace for --if-absent.
func (im *importer) insert(ctx context.Context, items []engine.Item) error {
	stats, err := im.insertNew(ctx, items)
	im.sum.Written += stats.New
	im.sum.Kept += stats.Keys - stats.New
	return err
}

// keysOf returns the keys of items in the memory of keys.
func keysOf(keys []engine.Key, items []engine.Item) []engine.Key {
	keys = keys[:0]
	for i := range items {
		keys = append(keys, items[i].Key)
	}
	return keys
}

// replace stores a group.
func (im *importer) replace(ctx context.Context, items []engine.Item) error {
	if len(items) == 0 {
		return nil
	}
	if err := im.storeSchema(); err != nil {
		return err
	}
	im.keys = keysOf(im.keys, items)
	var err error
	if im.which, err = im.DB.MultiHas(ctx, im.keys, im.which); err != nil {
		return err
	}
	if err := im.DB.Apply(ctx, im.accepted, unsynced); err != nil {
		return err
	}
	clear(im.seen)
	for i, key := range im.keys {
		im.keyBuf = keycodec.AppendLengthPrefixed(im.keyBuf[:0], key)
		if _, again := im.seen[string(im.keyBuf)]; again || im.which[i] {
			im.sum.Replaced++
			continue
		}
		im.seen[string(im.keyBuf)] = struct{}{}
	}
	im.sum.Written += int64(len(items))
	return nil
}

// records reads the records of one input, compressed or not, one after the other. Every
// command that reads records uses it.
type records struct {
	name   string
	plain  io.Closer
	reader record.Reader
	row    record.Row
}

// Records opens an input in the format that the flags name. The name is for errors.
func (f *ImportFlags) Records(name string, from io.Reader) (*records, error) {
	plain, err := record.Decompress(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	reader, err := f.reader(plain)
	if err != nil {
		return nil, errors.Join(cli.Usage("%s: %v", name, err), plain.Close())
	}
	return &records{name: name, plain: plain, reader: reader}, nil
}

// Next hands the next record to take. It returns a *record.Reject for a record that is
// malformed or that take refuses, io.EOF at the end, and any other error if the input
// cannot be read further.
func (r *records) Next(take func(row *record.Row) error) error {
	err := r.reader.Next(&r.row)
	if err == nil {
		if err = take(&r.row); err != nil {
			err = &record.Reject{Line: r.row.Line, Reason: cli.PlainText(err)}
		}
		return err
	}
	var reject *record.Reject
	if errors.As(err, &reject) {
		return reject
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return cli.Advise(fmt.Errorf("%s: reading after line %d: %w", r.name, r.row.Line, err),
		"everything before was handled; the file may be incomplete")
}

// Close releases what decompression holds, not the input.
func (r *records) Close() error { return r.plain.Close() }
