package main

import (
	"slices"
	"strings"
	"testing"
)

const source = `package p

const limit = 7

func (t T) String() string { return name[3] }

func read(f *File, n int) (got int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.done()
	f.opts.Logger.Warn("slow", 1)
	if n < max(f.a, f.b) && f.ok {
		f.count++
		f.last = n
		_ = n
		return n, f.err
	}
	return n, nil
}
`

// TestOperators: every operator finds its places, and what no test can miss is left alone.
//
// Promise (tests): Changes drawn by a seed are tried in the same order whatever else is drawn; a
// run goes on where it ended. Also `TestDrawIsThatOfTheSeed`, `TestMutantsOfAModule` in
// `internal/mutants`.
func TestOperators(t *testing.T) {
	ms, err := mutantsIn([]byte(source))
	ok(t, err)
	var got []string
	for _, m := range ms {
		got = append(got, m.Op+" "+source[m.from:m.to]+" -> "+m.text)
	}
	want := []string{
		"const 7 -> 8",
		"defer defer f.done() -> ",
		"negate n < max(f.a, f.b) && f.ok -> !(n < max(f.a, f.b) && f.ok)",
		"boundary < -> <=",
		"minmax max -> min",
		"logic && -> ||",
		"drop f.count++ -> ",
		"drop f.last = n -> ",
		"nilerr f.err -> nil",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d := ms[3].Diff
	if !strings.Contains(d, "-\tif n < max") || !strings.Contains(d, "+\tif n <= max") {
		t.Errorf("the change is shown as\n%s", d)
	}
}

// TestDrawIsThatOfTheSeed: a seed draws the same mutants of a package whatever other packages
// are drawn from, and another seed others.
func TestDrawIsThatOfTheSeed(t *testing.T) {
	group := func(pkg string) []mutant {
		var g []mutant
		for i := range 50 {
			g = append(g, mutant{Pkg: pkg, Line: i})
		}
		return g
	}
	of := func(pkg string, order []mutant) (lines []int) {
		for _, m := range order {
			if m.Pkg == pkg {
				lines = append(lines, m.Line)
			}
		}
		return lines
	}
	alone := of("a", draw([][]mutant{group("a")}, 1))
	if both := of("a", draw([][]mutant{group("b"), group("a")}, 1)); !slices.Equal(both, alone) {
		t.Errorf("%v beside another package, %v alone", both, alone)
	}
	if other := of("a", draw([][]mutant{group("a")}, 2)); slices.Equal(other, alone) {
		t.Error("two seeds draw the same")
	}
}
