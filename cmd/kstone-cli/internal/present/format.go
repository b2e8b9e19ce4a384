// Package present writes items and figures for people and for programs: as tables,
// JSON, CSV, raw bytes and hexadecimal, and the stripes of a database as a heat map.
package present

import (
	"bufio"
	"encoding/hex"
	"io"
	"iter"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
)

// Format is a form in which items are written.
type Format string

// The formats.
const (
	Table    Format = "table"    // for people, with round corners
	Box      Format = "box"      // the same in ASCII
	Vertical Format = "vertical" // a line for each field
	Markdown Format = "markdown"
	TSV      Format = "tsv"      // tabs between cells, \t, \n and \\ in them
	Insert   Format = "insert"   // statements; of rows of tables only
	JSONL    Format = "jsonl"    // one object per line
	JSON     Format = "json"     // one array of the same objects
	CSV      Format = "csv"      // see Columns
	Raw      Format = "raw"      // values only, each followed by a line feed
	DynamoDB Format = "dynamodb" // its export format; of export only
	Hex      Format = "hex"      // PK, SK ("-" for none) and value, separated by tabs
)

// Formats of items, and of rows of tables.
var (
	Formats    = []Format{Table, Box, Vertical, Markdown, JSONL, JSON, CSV, TSV, Raw, Hex}
	RowFormats = []Format{Table, Box, Vertical, Markdown, JSONL, JSON, CSV, TSV, Insert}
)

// sheet reports whether a format is written cell by cell, for people or spreadsheets.
func (f Format) sheet() bool {
	return f == Table || f == Box || f == Vertical || f == Markdown || f == TSV
}

// FormatNames returns the names of formats.
func FormatNames(formats []Format) (names []string) {
	for _, f := range formats {
		names = append(names, string(f))
	}
	return names
}

// Items can be ranged over again and again, with the same result each time.
type Items = iter.Seq2[engine.Item, error]

// Options say how to write.
type Options struct {
	Format Format
	Schema *layout.Schema // nil for plain keys
	// KeysOnly leaves values out, which the items need not have. Not of Raw.
	KeysOnly bool
	// Width is the number of columns a table may take, 0 for any.
	Width int
	// Color allows escape sequences.
	Color bool
	// Brief, if not 0, lets a table leave out the middle of more rows than that.
	Brief int
	// Auto lets a table that does not fit become vertical.
	Auto bool
	// Plain leaves the headings out.
	Plain bool
	// Last returns the last items, the last one first, so that a brief table need not read those
	// in its middle; nil if there is no such way. About estimates how many items there are.
	Last  func(n int) Items
	About func() int64
}

// Write writes the items and returns how many there were. An error of the items is
// returned after what came before it has been written.
func Write(w io.Writer, items Items, o Options) (n int, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	switch {
	case o.Format.sheet():
		n, err = writeItemSheet(out, items, o)
	case o.Format == CSV:
		n, err = writeCSV(out, items, o)
	case o.Format == JSON:
		r := layout.Record{KeysOnly: o.KeysOnly}
		n, err = writeArray(out, items, func(dst []byte, item engine.Item) []byte {
			return o.Schema.AppendJSON(dst, &item, &r)
		})
	default:
		n, err = writeLines(out, items, o)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return n, err
}

// writeEach writes what line makes of each value; n counts them from 0.
func writeEach[T any](w *bufio.Writer, values iter.Seq2[T, error],
	line func(dst []byte, n int, v T) []byte) (n int, err error) {
	var buf []byte
	for v, err := range values {
		if err != nil {
			return n, err
		}
		buf = line(buf[:0], n, v)
		if _, err := w.Write(buf); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// writeArray writes the objects that object makes as one JSON array.
func writeArray[T any](w *bufio.Writer, values iter.Seq2[T, error],
	object func(dst []byte, v T) []byte) (n int, err error) {
	n, err = writeEach(w, values, func(dst []byte, n int, v T) []byte {
		if n == 0 {
			return object(append(dst, "[\n "...), v)
		}
		return object(append(dst, ",\n "...), v)
	})
	if err != nil {
		return n, err
	}
	end := "\n]\n"
	if n == 0 {
		end = "[]\n"
	}
	_, err = w.WriteString(end)
	return n, err
}

// writeLines writes formats that have one line for each item.
func writeLines(w *bufio.Writer, items Items, o Options) (n int, err error) {
	r := layout.Record{KeysOnly: o.KeysOnly}
	return writeEach(w, items, func(dst []byte, _ int, item engine.Item) []byte {
		switch o.Format {
		case Raw:
			dst = append(dst, item.Value...)
		case Hex:
			dst = appendHex(dst, &item, o.KeysOnly)
		case DynamoDB:
			dst = o.Schema.AppendDynamoDB(dst, &item, &r)
		default:
			dst = o.Schema.AppendJSON(dst, &item, &r)
		}
		return append(dst, '\n')
	})
}

func appendHex(dst []byte, item *engine.Item, keysOnly bool) []byte {
	dst = append(hex.AppendEncode(dst, item.Key.PK), '\t')
	if item.Key.SK == nil {
		dst = append(dst, '-')
	}
	dst = hex.AppendEncode(dst, item.Key.SK)
	if keysOnly {
		return dst
	}
	return hex.AppendEncode(append(dst, '\t'), item.Value)
}

// whole reports whether cells keep all of their text.
func (o *Options) whole() bool { return o.Format != Table && o.Format != Box }
