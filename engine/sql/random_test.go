package sql_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: statements mean the same whatever indexes a table has.
//
// Method: random programs of statements run over a table with random indexes (plain, unique,
// local, sharded, partial, covering, descending, of the elements of lists) and over another
// one without. A query gives the same rows over both, with every index forced and none, in
// pages, in transactions, prepared and asked again with other values. What unique indexes
// refuse, skip or replace is found by comparing all rows. A program that fails is reduced to
// the statements that it takes.
//
// Promise (sql): Statements of all kinds mean the same whatever indexes a table has: random
// programs over a table with random indexes and its copy without, every index forced, in pages,
// in transactions, prepared; what unique indexes refuse, skip or replace is found by comparing
// all rows; a program that fails is reduced. Also `TestRandomStatementsAreReduced` in
// `engine/sql`.
func TestRandomStatements(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	worlds, queries := uint64(testutil.Effort(4, 400)), testutil.Effort(60, 120)
	seed := testutil.Seed(t)
	var c counts
	for i := range worlds {
		p := newProgram(seed+i, queries)
		if at, err := p.run(t, &c, nil); err != nil {
			p, err = p.reduced(t, at, err, nil, 30*time.Second)
			t.Fatalf("repeat with: %s\na shorter program is\n%s\n%v",
				testutil.Repeat(t, seed+i), p, err)
		}
	}
	t.Logf("%+v", c)
	if worlds > 3 && (c.refused*10 > c.compared || c.pages == 0 || c.judged == 0) {
		t.Errorf("too little was compared")
	}
}

// reduced leaves out what the failure of a program at a step does not take, until a time is
// over.
func (p *program) reduced(t *testing.T, at int, err error, spoil func(string, []string) []string,
	limit time.Duration) (*program, error) {
	t.Helper()
	until := time.Now().Add(limit)
	small := *p
	small.steps = p.steps[:at+1]
	try := func(steps []step) bool {
		if time.Now().After(until) {
			return false
		}
		candidate := small
		candidate.steps = steps
		at, failure := candidate.run(t, &counts{}, spoil)
		if failure == nil {
			return false
		}
		small.steps, err = slices.Clone(steps[:at+1]), failure
		return true
	}
	for before := -1; before != small.size(); {
		before = small.size()
		leaveOut(func() int { return len(small.steps) }, func(from, to int) bool {
			return try(slices.Concat(small.steps[:from], small.steps[to:]))
		})
		for i := 0; i < len(small.steps); i++ {
			leaveOut(func() int { return small.parts(i) }, func(from, to int) bool {
				steps := slices.Clone(small.steps)
				steps[i] = steps[i].without(from, to)
				return small.parts(i) > to-from && try(steps)
			})
		}
	}
	return &small, err
}

// leaveOut tries to leave out ranges of n things, large ones first.
func leaveOut(n func() int, without func(from, to int) bool) {
	for size := max(1, n()/2); size > 0; size /= 2 {
		for from := 0; from < n(); {
			if !without(from, min(from+size, n())) {
				from += size
			}
		}
	}
}

// size is the number of steps and their parts.
func (p *program) size() int {
	n := len(p.steps)
	for i := range p.steps {
		n += p.parts(i)
	}
	return n
}

// parts is how many parts of step i can be left out.
func (p *program) parts(i int) int {
	if i >= len(p.steps) {
		return 0
	}
	if s := p.steps[i]; len(s.rows) != 1 {
		return len(s.rows) + len(s.steps)
	}
	return 0
}

// without leaves out some rows of an INSERT, or steps of a transaction.
func (s step) without(from, to int) step {
	if s.do != doInsert {
		s.steps = slices.Delete(slices.Clone(s.steps), from, to)
		return s
	}
	s.rows = slices.Delete(slices.Clone(s.rows), from, to)
	s.ids = slices.Delete(slices.Clone(s.ids), from, to)
	return s
}

// TestRandomStatementsAreReduced: an index that forgets some rows is found, and what is
// printed is about as short as it can be: the row, the index, the query.
func TestRandomStatementsAreReduced(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	forgetful := func(text string, rows []string) []string {
		if !strings.HasPrefix(text, "INDEXED BY x") || strings.Contains(text, "OFFSET") {
			return rows
		}
		return slices.DeleteFunc(rows, func(row string) bool {
			return strings.HasPrefix(row, "int:11|")
		})
	}
	for seed := uint64(1); ; seed++ {
		p := newProgram(seed, 60)
		at, err := p.run(t, &counts{}, forgetful)
		if err == nil && seed < 20 {
			continue
		}
		if err == nil {
			t.Fatal("nothing was noticed")
		}
		small, err := p.reduced(t, at, err, forgetful, 10*time.Minute)
		t.Logf("seed %d: %d steps become\n%s%v", seed, at+1, small, err)
		if len(small.steps) > 5 || err == nil || errors.Is(err, errAbort) {
			t.Errorf("%d steps are left", len(small.steps))
		}
		return
	}
}
