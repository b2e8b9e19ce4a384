package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// The outcomes of a mutant.
const (
	noticed  = "noticed"  // a test fails
	timeout  = "timeout"  // a test hangs: noticed, too
	survived = "survived" // every test passes
	invalid  = "invalid"  // it does not compile: not counted
)

// verdict is a mutant that was tried: a line of the results file.
type verdict struct {
	mutant
	Outcome string
	By      string // package and test that noticed it
	Seconds float64
}

// results is the results file. Methods are not called concurrently, except find.
type results struct {
	file  *os.File
	known map[string]verdict // of earlier runs; it does not change
}

// openResults reads the file's whole lines and makes it end after them.
func openResults(name string) (*results, error) {
	r := &results{known: map[string]verdict{}}
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	for line := range bytes.Lines(b[:whole]) {
		var v verdict
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s is not a file of results: %w", name, err)
		}
		r.known[v.key()] = v
	}
	if r.file, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	_, serr := r.file.Seek(int64(whole), io.SeekStart)
	if err := errors.Join(r.file.Truncate(int64(whole)), serr); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	return r, nil
}

func (r *results) close() error { return r.file.Close() }

// key is the same as long as the mutant's lines are where they were.
func (m *mutant) key() string { return fmt.Sprintf("%s:%d %s\n%s", m.File, m.Line, m.Op, m.Diff) }

func (r *results) find(m mutant) (verdict, bool) {
	v, ok := r.known[m.key()]
	return v, ok
}

func (r *results) add(v verdict) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(b, '\n'))
	return err
}

// report prints the survivors and the totals.
func (d *dispatch) report(w io.Writer) {
	byPkg, byOp := map[string]*totals{}, map[string]*totals{}
	all := &totals{}
	slices.SortFunc(d.done, func(a, b verdict) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	for _, v := range d.done {
		if v.Outcome == survived {
			fmt.Fprintf(w, "\nsurvived: %s:%d %s\n%s", v.File, v.Line, v.Op, v.Diff)
		}
		for _, t := range []*totals{of(byPkg, v.Pkg), of(byOp, v.Op), all} {
			t.add(v)
		}
	}
	for _, group := range []map[string]*totals{byPkg, byOp, {"all": all}} {
		fmt.Fprintf(w, "\n%-22s %8s %8s %8s %8s %8s\n", "", "mutants", "own", "others", "timeout",
			"survived")
		for _, name := range slices.Sorted(maps.Keys(group)) {
			t := group[name]
			fmt.Fprintf(w, "%-22s %8d %8d %8d %8d %8d\n", name, t.mutants, t.own, t.others,
				t.timeouts, t.survived)
		}
	}
}

func of(m map[string]*totals, name string) *totals {
	if m[name] == nil {
		m[name] = &totals{}
	}
	return m[name]
}

// totals counts mutants by outcome, those noticed by whether their own package's tests do.
type totals struct{ mutants, own, others, timeouts, survived int }

func (t *totals) add(v verdict) {
	t.mutants++
	switch {
	case v.Outcome == timeout:
		t.timeouts++
	case v.Outcome == survived:
		t.survived++
	case v.By == v.Pkg || len(v.By) > len(v.Pkg) && v.By[:len(v.Pkg)+1] == v.Pkg+" ":
		t.own++
	default:
		t.others++
	}
}
