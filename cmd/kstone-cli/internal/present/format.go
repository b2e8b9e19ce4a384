// Package present writes items and figures for people and for programs: as tables,
// JSON, CSV, raw bytes and hexadecimal, and the stripes of a database as a heat map.
package present

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
)

// Format is a form in which items are written.
type Format string

// The formats.
const (
	Table Format = "table" // for people
	JSONL Format = "jsonl" // one object per line
	JSON  Format = "json"  // one array of the same objects
	CSV   Format = "csv"   // see Columns
	Raw   Format = "raw"   // values only, each followed by a line feed
	Hex   Format = "hex"   // PK, SK ("-" for none) and value, separated by tabs
)

// Formats lists all of them.
var Formats = []Format{Table, JSONL, JSON, CSV, Raw, Hex}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	var names []string
	for _, f := range Formats {
		if string(f) == name {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("unknown format %q; formats are %s", name, strings.Join(names, ", "))
}

// Items can be ranged over again and again, with the same result each time.
type Items = iter.Seq2[engine.Item, error]

// Options say how to write.
type Options struct {
	Format Format
	Schema *layout.Schema // nil for plain keys
	// Width is the number of columns a table may take, 0 for any.
	Width int
	// Color allows escape sequences.
	Color bool
	// Brief lets a table leave out the middle of many rows.
	Brief bool
}

// Write writes the items and returns how many there were. An error of the items is
// returned after what came before it has been written.
func Write(w io.Writer, items Items, o Options) (n int, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	switch o.Format {
	case Table:
		n, err = writeTable(out, items, o)
	case CSV:
		n, err = writeCSV(out, items, o)
	case JSON:
		n, err = writeJSON(out, items, o)
	default:
		n, err = writeLines(out, items, o)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return n, err
}

// writeLines writes formats that have one line for each item.
func writeLines(w *bufio.Writer, items Items, o Options) (n int, err error) {
	var line []byte
	var r layout.Record
	for item, err := range items {
		if err != nil {
			return n, err
		}
		line = line[:0]
		switch o.Format {
		case Raw:
			line = append(line, item.Value...)
		case Hex:
			line = appendHex(line, &item)
		default:
			line = o.Schema.AppendJSON(line, &item, &r)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func appendHex(dst []byte, item *engine.Item) []byte {
	dst = append(hex.AppendEncode(dst, item.Key.PK), '\t')
	if item.Key.SK == nil {
		dst = append(dst, '-')
	}
	dst = append(hex.AppendEncode(dst, item.Key.SK), '\t')
	return hex.AppendEncode(dst, item.Value)
}

func writeJSON(w *bufio.Writer, items Items, o Options) (n int, err error) {
	var line []byte
	var r layout.Record
	for item, err := range items {
		if err != nil {
			return n, err
		}
		line = append(line[:0], ",\n "...)
		if n == 0 {
			line = append(line[:0], "[\n "...)
		}
		if _, err := w.Write(o.Schema.AppendJSON(line, &item, &r)); err != nil {
			return n, err
		}
		n++
	}
	end := "\n]\n"
	if n == 0 {
		end = "[]\n"
	}
	_, err = w.WriteString(end)
	return n, err
}
