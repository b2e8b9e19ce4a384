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

// reducer makes a program that fails shorter.
type reducer struct {
	t     *testing.T
	small program
	err   error // of small
	until time.Time
	spoil func(string, []string) []string
}

// reduced leaves out what the failure of a program at a step does not take, until a time is
// over.
func (p *program) reduced(t *testing.T, at int, err error, spoil func(string, []string) []string,
	limit time.Duration) (*program, error) {
	t.Helper()
	r := &reducer{t: t, small: *p, err: err, until: time.Now().Add(limit), spoil: spoil}
	r.small.steps = p.steps[:at+1]
	for before := -1; before != r.small.size(); {
		before = r.small.size()
		r.leaveOutSteps()
		if p.oracles {
			r.simplify()
		}
	}
	return &r.small, r.err
}

// try keeps a program that fails in the same way.
func (r *reducer) try(candidate program) bool {
	r.t.Helper()
	if time.Now().After(r.until) {
		return false
	}
	at, failure := candidate.run(r.t, &counts{}, r.spoil)
	var a, b *differenceError
	if failure == nil || at < 0 || errors.As(failure, &a) != errors.As(r.err, &b) {
		return false
	}
	candidate.steps = slices.Clone(candidate.steps[:at+1])
	r.small, r.err = candidate, failure
	return true
}

// steps tries other steps.
func (r *reducer) steps(steps []step) bool {
	r.t.Helper()
	candidate := r.small
	candidate.steps = steps
	return r.try(candidate)
}

// leaveOutSteps leaves out steps, rows and steps of transactions.
func (r *reducer) leaveOutSteps() {
	r.t.Helper()
	leaveOut(func() int { return len(r.small.steps) }, func(from, to int) bool {
		return r.steps(slices.Concat(r.small.steps[:from], r.small.steps[to:]))
	})
	for i := 0; i < len(r.small.steps); i++ {
		leaveOut(func() int { return r.small.parts(i) }, func(from, to int) bool {
			steps := slices.Clone(r.small.steps)
			steps[i] = steps[i].without(from, to)
			return r.small.parts(i) > to-from && r.steps(steps)
		})
	}
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
		if len(small.steps) > 5 || err == nil {
			t.Errorf("%d steps are left", len(small.steps))
		}
		return
	}
}
