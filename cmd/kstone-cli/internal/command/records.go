package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
)

// records reads the records of one input, compressed or not, one after the other. Every
// command that reads records uses it.
type records struct {
	name   string
	plain  io.Closer
	reader record.Reader
	row    record.Row
}

// records opens an input in the format that the flags name. The name is for errors.
func (f *importFlags) records(name string, from io.Reader) (*records, error) {
	plain, err := record.Decompress(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	reader, err := f.reader(plain)
	if err != nil {
		return nil, errors.Join(usage("%s: %v", name, err), plain.Close())
	}
	return &records{name: name, plain: plain, reader: reader}, nil
}

// next hands the next record to take. It returns a *record.Reject for a record that is
// malformed or that take refuses, io.EOF at the end, and any other error if the input
// cannot be read further.
func (r *records) next(take func(row *record.Row) error) error {
	err := r.reader.Next(&r.row)
	if err == nil {
		if err = take(&r.row); err != nil {
			err = &record.Reject{Line: r.row.Line, Reason: plainText(err)}
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
	return &advice{fmt.Errorf("%s: reading after line %d: %w", r.name, r.row.Line, err),
		"everything before was handled; the file may be incomplete"}
}

// close releases what decompression holds, not the input.
func (r *records) close() error { return r.plain.Close() }
