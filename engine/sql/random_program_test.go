package sql_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
)

// action is what a step does.
type action int

const (
	doInsert action = iota
	doChange
	doQuery
	doCreateIndex
	doDropIndex
	doAlter
	doAnalyze
	doTransaction
	doSnapshot
	doWait
	doFlush
	doCompact
	doVerify
	doCheck
	doReopen
)

// step is one thing that a program does. In its text {t} stands for the table, {hint} for
// the place of a hint about its index.
type step struct {
	do    action
	text  string
	args  []any
	kinds []kind   // of args
	texts []string // of args, as literals, "" of those that have none

	// Of queries.
	ordered   bool   // no two rows of the result are equal in the order
	where     string // the condition, if it can be judged row by row
	whereArgs int    // how many of args it has
	page      int    // rows of a page, 0 if the query is not read in pages
	choice    int    // of an index for the pages

	// Of INSERT: text has the columns.
	conflict string // "OR REPLACE", "OR IGNORE"
	rows     [][]string
	ids      []int64 // of rows

	check  *check // of doCheck
	index  *index
	hours  int // of doWait
	steps  []step
	commit bool
	past   bool // of doSnapshot: it is one of the past, opened for each query
}

// program is a table with and without indexes, and what happens to both.
type program struct {
	seed    uint64
	columns []string
	key     string // of the table with indexes; that of the other is id
	ttl     string
	check   string // of the table with indexes, "" for none
	settings
	steps   []step
	oracles bool // there is no copy without indexes: see random_oracle_test.go
	noTx    bool // transactions are left out, as the storage has none
}

// settings are the options of the database. Costs that are out of proportion choose plans that
// would not be chosen otherwise.
type settings struct {
	workers, planCache, flushRecords, blockBytes int
	memory                                       int64
	retain                                       time.Duration // of old versions
	costs                                        plan.Costs
}

func (w *writer) settings() settings {
	s := settings{workers: w.IntN(4), costs: plan.DefaultCosts,
		flushRecords: oneOf(w.Rand, []int{0, 2, 20}), blockBytes: oneOf(w.Rand, []int{0, 1 << 10})}
	if w.chance(40) {
		s.retain = time.Hour
	}
	if w.chance(20) {
		s.planCache = -1
	}
	if w.few {
		s.memory = oneOf(w.Rand, []int64{0, 0, 0, 2_000, 20_000, 200_000})
	}
	if w.chance(50) {
		c := &s.costs
		for _, f := range []*float64{&c.Seek, &c.Stripe, &c.Key, &c.Byte, &c.Fetch,
			&c.Merge, &c.Hash, &c.Sort} {
			*f *= oneOf(w.Rand, []float64{1, 1, 0.01, 100})
		}
	}
	if c := &s.costs; w.chance(25) { // joins look rows up
		c.Seek, c.Fetch, c.Hash, c.Merge = c.Seek/100, c.Fetch/100, c.Hash*100, c.Merge*100
	}
	return s
}

// beginning is when programs begin.
var beginning = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// insertion is the text of INSERT.
func (s step) insertion() string {
	rows := make([]string, len(s.rows))
	for i, cells := range s.rows {
		rows[i] = "(" + strings.Join(cells, ", ") + ")"
	}
	return fmt.Sprintf("INSERT %s INTO {t} (%s) VALUES %s", s.conflict, s.text,
		strings.Join(rows, ", "))
}

// String renders a step as it may be repeated by hand.
func (s step) String() string {
	text := s.text
	switch s.do {
	case doInsert:
		text = s.insertion()
	case doTransaction:
		text = fmt.Sprintf("transaction, commit %t:", s.commit)
		for _, inner := range s.steps {
			text += "\n    " + inner.String()
		}
	case doSnapshot:
		text = fmt.Sprintf("snapshot, of the past %t, read after the changes:", s.past)
		for _, inner := range s.steps {
			text += "\n    " + inner.String()
		}
	case doWait:
		text = fmt.Sprintf("%d hours later", s.hours)
	case doFlush:
		text = "flush"
	case doCompact:
		text = "compact"
	case doVerify:
		text = "verify"
	case doReopen:
		text = "reopen"
	case doCheck:
		text = s.check.String()
	}
	if len(s.args) > 0 {
		text += fmt.Sprintf(" -- %#v", s.args)
	}
	return text
}

// String renders the program.
func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", p.settings)
	fmt.Fprintf(&b, "CREATE TABLE {t} (%s, %s%s%s)\n", strings.Join(p.columns, ", "), p.key, p.ttl,
		p.checkPart())
	for _, s := range p.steps {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// checkPart is the check in CREATE TABLE.
func (p *program) checkPart() string {
	if p.check == "" {
		return ""
	}
	return ", CONSTRAINT usual CHECK (" + p.check + ")"
}

// newProgram writes a program: tables, indexes, rows, then queries between changes.
func newProgram(seed uint64, queries int) *program {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &writer{Rand: rng, ttl: rng.IntN(10) < 4, unique: rng.IntN(10) < 6, now: beginning}
	w.columns = append([]field{{name: "id", kind: "id", ddl: "INT"}},
		renamed(rng, slices.Concat(keyColumns, otherColumns))...)
	w.created, w.asks = len(w.columns), w.query
	p := &program{seed: seed, settings: w.settings()}
	w.retain = p.retain
	for _, c := range w.columns {
		p.columns = append(p.columns, c.name+" "+c.ddl)
	}
	p.key, p.check = w.key(), w.tableCheck()
	if w.ttl {
		p.ttl = ", TTL (at + '24h')"
	}
	w.prepare(p)
	for i := range queries {
		if i%30 == 29 {
			w.between(p)
		}
		p.steps = append(p.steps, w.query())
	}
	p.steps = append(p.steps, step{do: doVerify})
	return p
}

// prepare fills the tables while indexes and columns come.
func (w *writer) prepare(p *program) {
	add := func(s ...step) { p.steps = append(p.steps, s...) }
	added := renamed(w.Rand, addedColumns)
	for range w.IntN(4) {
		add(w.index())
	}
	inserts := 20 + w.IntN(30)
	if w.few {
		inserts = 4 + inserts/4
	}
	for range inserts {
		add(w.insert(4))
	}
	for len(added) > 0 && w.chance(75) {
		add(w.alter(&added))
		if w.chance(50) {
			add(w.insert(6), w.insert(6), w.index())
		}
	}
	for range 1 + w.IntN(4) {
		add(w.index())
	}
	for range w.IntN(20) {
		if w.few && w.chance(60) {
			continue
		}
		add(w.insert(4))
	}
	for range w.IntN(25) {
		add(w.change())
	}
	add(w.index(), w.index())
	if w.chance(40) {
		add(step{do: doFlush})
	}
	if w.chance(50) {
		add(step{do: doAnalyze, text: "ANALYZE"})
	}
	add(step{do: doVerify})
}

// between changes something after some queries.
func (w *writer) between(p *program) {
	add := func(s ...step) { p.steps = append(p.steps, s...) }
	if w.ttl && w.chance(50) {
		hours := w.IntN(20)
		w.now = w.now.Add(time.Duration(hours) * time.Hour)
		add(step{do: doWait, hours: hours})
	}
	if w.chance(60) {
		add(w.transaction())
	}
	if w.chance(40) {
		add(w.snapshot())
	}
	if w.chance(30) {
		add(step{do: doReopen})
	}
	add(w.change(), w.insert(4), w.upkeep())
}

// upkeep writes a step that changes no rows.
func (w *writer) upkeep() step {
	switch w.IntN(8) {
	case 0, 1:
		return w.index()
	case 2, 3:
		if len(w.indexes) > 0 {
			return w.dropIndex()
		}
	case 4:
		return step{do: doCompact}
	case 5, 6:
		return step{do: doFlush}
	}
	return step{do: doVerify}
}

// snapshot writes queries that are answered from one moment while something changes.
func (w *writer) snapshot() step {
	s := step{do: doSnapshot, past: w.retain > 0 && w.chance(70)}
	for range 1 + w.IntN(4) {
		s.steps = append(s.steps, w.change(), w.upkeep(), w.asks(), w.asks())
		if w.chance(50) {
			s.steps = append(s.steps, w.insert(3), w.asks())
		}
	}
	return s
}

// transaction writes some changes, with queries that see them, and commits them or not. One in
// another one is a part of it, with a savepoint.
func (w *writer) transaction() step {
	s := step{do: doTransaction, commit: w.chance(50)}
	for range 1 + w.IntN(4) {
		switch n := w.IntN(10); {
		case n < 2:
			s.steps = append(s.steps, w.transaction())
		case n < 5:
			s.steps = append(s.steps, w.insert(3))
		default:
			s.steps = append(s.steps, w.change())
		}
		for range 4 {
			s.steps = append(s.steps, w.asks())
		}
	}
	return s
}
