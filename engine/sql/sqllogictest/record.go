package main

import (
	"fmt"
	"slices"
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

// parse returns the records of a file that are for the database named as, up to "halt".
func parse(text, as string) ([]record, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var out []record
	skip := false
	for i := 0; i < len(lines); {
		words := fields(lines[i])
		if len(words) == 0 {
			i++
			continue
		}
		switch words[0] {
		case "skipif", "onlyif":
			if len(words) < 2 {
				return nil, fmt.Errorf("line %d: %s needs a database", i+1, words[0])
			}
			skip = skip || (words[1] == as) == (words[0] == "skipif")
			i++
			continue
		case "halt":
			if !skip {
				return out, nil
			}
			i++
		case "hash-threshold":
			// The result says itself whether it is a hash.
			if len(words) < 2 {
				return nil, fmt.Errorf("line %d: hash-threshold needs a number", i+1)
			}
			if _, err := strconv.Atoi(words[1]); err != nil {
				return nil, fmt.Errorf("line %d: hash-threshold: %w", i+1, err)
			}
			i++
		case "statement", "query":
			r, next, err := one(lines, i, words)
			if err != nil {
				return nil, err
			}
			if i = next; !skip {
				out = append(out, r)
			}
		default:
			return nil, fmt.Errorf("line %d: unknown record %q", i+1, words[0])
		}
		skip = false
	}
	return out, nil
}

// fields returns the words of a line before its comment.
func fields(line string) []string {
	line, _, _ = strings.Cut(line, "#")
	return strings.Fields(line)
}

// one reads the record whose words begin at lines[i], and returns the line after it.
func one(lines []string, i int, words []string) (r record, next int, err error) {
	r = record{line: i + 1, query: words[0] == "query", sort: "nosort"}
	wrong := fmt.Errorf("line %d: wrong %s: %s", i+1, words[0], lines[i])
	switch {
	case len(words) < 2:
		return r, 0, wrong
	case !r.query:
		if r.mustFail = words[1] == "error"; !r.mustFail && words[1] != "ok" {
			return r, 0, wrong
		}
	default:
		if r.types = words[1]; strings.Trim(r.types, "IRT") != "" {
			return r, 0, wrong
		}
		if len(words) > 2 {
			r.sort = words[2]
		}
		if !slices.Contains([]string{"nosort", "rowsort", "valuesort"}, r.sort) {
			return r, 0, wrong
		}
		if len(words) > 3 {
			r.label = words[3]
		}
	}
	start := i + 1
	for i = start; i < len(lines) && lines[i] != "" && lines[i] != "----"; i++ {
	}
	r.text = strings.Join(lines[start:i], "\n")
	if i < len(lines) && lines[i] == "----" {
		i++
		start = i
		for ; i < len(lines) && lines[i] != ""; i++ {
		}
		r.want = lines[start:i]
	}
	return r, i, nil
}
