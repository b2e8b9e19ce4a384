package main

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// record is a statement or query of a file.
type record struct {
	line  int // of the first line, from 1
	query bool
	text  string // the statement

	mustFail bool // of a statement: "statement error"

	// Of a query: a letter (I, R, T) for each column, how its result is sorted, a name that
	// queries with the same result share, or "", and the result.
	types, sort, label string
	want               []string
}

// parse returns the records of a file that are for the database named as, up to "halt". The
// sequence yields at most one error, last. Why one record after the other: a list of all is what
// the garbage collector goes through most, in the time that queries take.
func parse(text, as string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		in := &reader{text: strings.ReplaceAll(text, "\r\n", "\n")}
		skip := false
		for in.next() {
			words := fields(in.line)
			if len(words) == 0 {
				continue
			}
			switch words[0] {
			case "skipif", "onlyif":
				if len(words) < 2 {
					yield(record{}, fmt.Errorf("line %d: %s needs a database", in.number, words[0]))
					return
				}
				skip = skip || (words[1] == as) == (words[0] == "skipif")
				continue
			case "halt":
				if !skip {
					return
				}
			case "hash-threshold":
				// The result says itself whether it is a hash.
				if len(words) < 2 {
					yield(record{}, fmt.Errorf("line %d: hash-threshold needs a number", in.number))
					return
				}
				if _, err := strconv.Atoi(words[1]); err != nil {
					yield(record{}, fmt.Errorf("line %d: hash-threshold: %w", in.number, err))
					return
				}
			case "statement", "query":
				r, err := in.record(words)
				if err != nil {
					yield(record{}, err)
					return
				}
				if !skip && !yield(r, nil) {
					return
				}
			default:
				yield(record{}, fmt.Errorf("line %d: unknown record %q", in.number, words[0]))
				return
			}
			skip = false
		}
	}
}

// reader reads the lines of a file.
type reader struct {
	text   string
	at     int    // where the next line begins
	line   string // the present one
	number int    // of it, from 1
}

// next goes to the next line, and reports whether there is one.
func (in *reader) next() bool {
	if in.at >= len(in.text) {
		in.line = ""
		return false
	}
	in.line, _, _ = strings.Cut(in.text[in.at:], "\n")
	in.at += len(in.line) + 1
	in.number++
	return true
}

// fields returns the words of a line before its comment.
func fields(line string) []string {
	line, _, _ = strings.Cut(line, "#")
	return strings.Fields(line)
}

// record reads the record whose words the present line has.
func (in *reader) record(words []string) (r record, err error) {
	r = record{line: in.number, query: words[0] == "query", sort: "nosort"}
	wrong := func() (record, error) {
		return r, fmt.Errorf("line %d: wrong %s: %s", in.number, words[0], in.line)
	}
	switch {
	case len(words) < 2:
		return wrong()
	case !r.query:
		if r.mustFail = words[1] == "error"; !r.mustFail && words[1] != "ok" {
			return wrong()
		}
	default:
		if r.types = words[1]; strings.Trim(r.types, "IRT") != "" {
			return wrong()
		}
		if len(words) > 2 {
			r.sort = words[2]
		}
		if r.sort != "nosort" && r.sort != "rowsort" && r.sort != "valuesort" {
			return wrong()
		}
		if len(words) > 3 {
			r.label = words[3]
		}
	}
	start, end := in.at, in.at
	for in.next() && in.line != "" && in.line != "----" {
		end += len(in.line) + 1
	}
	end = min(max(start, end-1), len(in.text))
	r.text = in.text[min(start, end):end]
	if in.line == "----" {
		for in.next() && in.line != "" {
			r.want = append(r.want, in.line)
		}
	}
	return r, nil
}
