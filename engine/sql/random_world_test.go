package sql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// world is the two tables of a program: t with indexes, o the same rows without.
type world struct {
	ctx    context.Context
	open   func() (*table.DB, error)
	db     *table.DB
	s      *sql.Session
	snap   *table.Snapshot   // that queries read, nil of the present
	hours  atomic.Int64      // since the beginning
	unique map[string]*index // of t
	counts *counts
	// spoil, if not nil, changes the rows that t returns: for the test of the check.
	spoil func(text string, rows []string) []string

	expected *answers // nil: they are not compared
	noTx     bool     // the storage has no transactions

	kept    string // the check of t, "" for none
	expires bool   // rows may have expired when they are written
	oracles bool
	ids     []int64  // of the rows of t, if pivots are known
	pivots  [2]int64 // ids of the rows in p1 and p2, 0 if they are not known
}

// counts says what was done.
type counts struct {
	writes, compared, judged, pages int
	refused                         int // statements that both tables refuse
	violated                        int // statements that the check refuses
	queries                         int // of oracles, without those that are refused
	unusable                        int // hints that cannot be followed
	ended                           int // statements whose context has ended
}

// run runs a program and returns the step that has failed. Over other storage its queries give the
// rows that they give over the engine.
func (p *program) run(t *testing.T, c *counts, spoil func(string, []string) []string,
) (at int, err error) {
	t.Helper()
	over := func(own *counts, storage storageOf, answers *answers) (int, error) {
		w := &world{ctx: context.Background(), unique: map[string]*index{}, counts: own,
			spoil: spoil, oracles: p.oracles, kept: p.check, expires: p.ttl != "",
			expected: answers, noTx: p.noTx}
		return w.run(t, p, storage)
	}
	if otherStorage == nil {
		return over(c, nil, nil)
	}
	if p.noTx = !transacts(t); p.noTx {
		p.check = ""
	}
	known := &answers{known: p.oracles} // without an order several answers are right
	if !p.oracles {
		if at, err := over(&counts{}, nil, known); err != nil {
			return at, err
		}
		known.known = true
	}
	return over(c, otherStorage, known)
}

// run runs a program over new tables.
func (w *world) run(t *testing.T, p *program, storage storageOf) (at int, err error) {
	t.Helper()
	clock := func() time.Time {
		return beginning.Add(time.Duration(w.hours.Load()) * time.Hour)
	}
	s, end := p.storage(t, clock, storage)
	defer end()
	var files atomic.Int64
	w.open = func() (*table.DB, error) {
		return table.Open(w.ctx, s, &table.Options{Workers: p.workers, Clock: clock,
			PlanCache: p.planCache, Costs: &p.costs, Lease: quickLease, MemoryBytes: p.memory,
			Temp: func() (store.TempFile, error) {
				files.Add(1)
				return &scratch{open: &files}, nil
			}})
	}
	w.db, err = w.open()
	ok(t, err)
	defer func() { w.db.Close() }()
	w.s = sql.Open(w.db)
	for _, text := range p.tables() {
		if _, err := w.s.Exec(w.ctx, text); err != nil {
			return -1, err
		}
	}
	for at, s := range p.steps {
		if err := w.do(s); err != nil {
			return at, err
		}
	}
	return len(p.steps), nil
}

// tables returns the definitions of the tables.
func (p *program) tables() (texts []string) {
	create := func(name, key, ttl string) {
		columns := strings.Join(p.columns, ", ")
		if name != "t" {
			columns = constants.Replace(columns)
		}
		texts = append(texts, fmt.Sprintf("CREATE TABLE %s (%s, %s%s)", name, columns, key, ttl))
	}
	create("t", p.key, p.ttl+p.checkPart())
	if p.oracles {
		create("p1", "PRIMARY KEY (id)", "")
		create("p2", "PRIMARY KEY (id)", "")
		texts = append(texts, "CREATE VIEW v AS SELECT * FROM t",
			"CREATE VIEW vv AS SELECT * FROM v WHERE id IS NOT NULL")
	} else {
		create("o", "PRIMARY KEY (id)", p.ttl)
	}
	return texts
}

func (w *world) do(s step) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if w.oracles && s.do < doTransaction && s.do != doQuery {
		return w.alone(s)
	}
	if w.noTx && w.needsTx(&s) {
		return nil
	}
	switch s.do {
	case doInsert:
		return w.checked(s, w.insert)
	case doChange:
		return w.checked(s, w.change)
	case doQuery:
		return w.query(s)
	case doCreateIndex:
		return w.createIndex(s)
	case doDropIndex:
		delete(w.unique, s.index.name)
		_, err = w.exec(s.text, "t", nil)
	case doAlter:
		return w.alter(s)
	case doAnalyze:
		_, err = w.exec(s.text, "", nil)
	case doTransaction:
		return w.transaction(s)
	case doSnapshot:
		return w.snapshot(s)
	case doWait:
		w.pivots = [2]int64{}
		w.hours.Add(int64(s.hours))
	case doFlush, doCompact:
		e := local.Engine(w.db)
		switch {
		case e == nil:
			return nil
		case s.do == doFlush:
			return e.Flush(w.ctx)
		}
		return e.Compact(w.ctx)
	case doVerify:
		return w.verify()
	case doReopen:
		if err := w.db.Close(); err != nil {
			return err
		}
		if w.db, err = w.open(); err == nil {
			w.s = sql.Open(w.db)
		}
	case doCheck:
		return w.check(s)
	}
	return err
}

// exec runs a statement over one of the tables that returns no rows.
func (w *world) exec(text, name string, args []any) (sql.Result, error) {
	stmt, err := w.s.Prepare(strings.ReplaceAll(text, "{t}", name))
	if err != nil {
		return sql.Result{}, err
	}
	w.counts.writes++
	args, reuse := lent(given(text, args))
	defer reuse()
	return stmt.Exec(w.ctx, args...)
}

// lent returns copies of arguments, and what writes over them, as callers do that use their buffers
// again.
func lent(args []any) (own []any, reuse func()) {
	own = slices.Clone(args)
	for i, arg := range own {
		switch arg := arg.(type) {
		case []byte:
			own[i] = slices.Clone(arg)
		case []int64:
			own[i] = slices.Clone(arg)
		case []string:
			own[i] = slices.Clone(arg)
		}
	}
	return own, func() {
		for i, arg := range own {
			switch arg := arg.(type) {
			case []byte:
				copy(arg, "written over")
			case []int64:
				clear(arg)
			case []string:
				clear(arg)
			}
			own[i] = nil
		}
	}
}

// endingContext is one that ends when it has been looked at so many times.
type endingContext struct {
	context.Context
	looks atomic.Int64 // that are left
	end   func()
	done  chan struct{}
}

func newEnding(ctx context.Context, looks int64) *endingContext {
	c := &endingContext{Context: ctx, done: make(chan struct{})}
	c.looks.Store(looks)
	c.end = sync.OnceFunc(func() { close(c.done) })
	return c
}

func (c *endingContext) Err() error {
	if c.looks.Add(-1) >= 0 {
		return nil
	}
	c.end()
	return context.Canceled
}

func (c *endingContext) Done() <-chan struct{} {
	_ = c.Err()
	return c.done
}

// values returns the rows of a query over one of the tables.
func (w *world) values(text, name, hint string, args []any) (out [][]expr.Value, err error) {
	text = strings.NewReplacer("{t}", name, "{hint}", hint).Replace(text)
	stmt, err := w.s.Prepare(text)
	if err != nil {
		return nil, err
	}
	args, reuse := lent(given(text, args))
	var rows *sql.Rows
	if w.snap != nil {
		rows, err = stmt.QueryIn(w.ctx, w.snap, false, nil, args...)
	} else {
		rows, err = stmt.Query(w.ctx, args...)
	}
	reuse()
	if err != nil {
		return nil, err
	}
	for row, err := range rows.All() {
		if err != nil {
			return nil, err
		}
		kept := make([]expr.Value, len(row))
		for i := range row {
			kept[i] = row[i].Clone()
		}
		out = append(out, kept)
	}
	return out, nil
}

// reader returns what queries read.
func (w *world) reader() table.Reader {
	if w.snap != nil {
		return w.snap
	}
	return w.s.Reader()
}

// rows returns the rows of a query as texts.
func (w *world) rows(text, name, hint string, args []any) ([]string, error) {
	values, err := w.values(text, name, hint, args)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(values))
	for i, row := range values {
		out[i] = rendered(row)
	}
	if err := w.expected.next(text+" "+hint, out); err != nil {
		return nil, err
	}
	if w.spoil != nil && name == "t" {
		out = w.spoil(hint+" "+text, out)
	}
	return out, nil
}

// rendered writes a row so that equal rows have equal texts.
func rendered(row []expr.Value) string {
	cells := make([]string, len(row))
	for i, v := range row {
		v = v.Canonical()
		cells[i] = v.Kind().String() + ":" + v.String()
	}
	return strings.Join(cells, "|")
}

// hints returns the hints that a query over t may have for its index, nothing first.
func (w *world) hints() []string {
	out := []string{"", "NOT INDEXED"}
	for _, x := range w.s.Schema("t").Indexes {
		out = append(out, "INDEXED BY "+x.Name)
	}
	return out
}

// query compares a query over o with the same one over t, with each of its indexes.
func (w *world) query(s step) error {
	want, err := w.rows(s.text, "o", "", s.args)
	if err != nil {
		return w.refused(err)
	}
	whole := want
	if !s.ordered {
		whole = slices.Sorted(slices.Values(want))
	}
	if err := w.judge(s, len(want)); err != nil {
		return err
	}
	hints := w.hints()
	for _, hint := range hints {
		got, err := w.rows(s.text, "t", hint, s.args)
		if hint != "" && w.unusable(err) {
			w.counts.unusable++
			continue
		}
		if err != nil {
			return fmt.Errorf("%q: %w", hint, err)
		}
		w.counts.compared++
		if !s.ordered {
			slices.Sort(got)
		}
		if !slices.Equal(got, whole) {
			return w.differs(s, hint, got, whole)
		}
	}
	if s.page > 0 {
		return w.paged(s, hints[s.choice%len(hints)], want)
	}
	return nil
}

// refused counts statements that cannot be run over tables without indexes; other errors
// are faults.
func (w *world) refused(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return err
	}
	w.counts.refused++
	return nil
}

// unusable reports whether an error says that the index of a hint cannot answer, or that the
// snapshot has none of that name.
func (w *world) unusable(err error) bool {
	var q *plan.QueryError
	return errors.As(err, &q) && (strings.Contains(q.Message, "cannot answer") ||
		w.snap != nil && strings.Contains(q.Message, "has no index"))
}

// judge compares the number of rows with that of rows for which the condition, as a column,
// is true: no plan makes use of it there.
func (w *world) judge(s step, want int) error {
	if s.where == "" {
		return nil
	}
	w.counts.judged++
	rows, err := w.rows("SELECT ("+s.where+") FROM {t}", "o", "", s.args[:s.whereArgs])
	if err != nil {
		return err
	}
	n := 0
	for _, row := range rows {
		if row == "bool:TRUE" {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("the condition is true for %d rows of o, the query returns %d", n, want)
	}
	return nil
}

// paged reads a query page by page.
func (w *world) paged(s step, hint string, want []string) error {
	text := strings.NewReplacer("{t}", "t", "{hint}", hint).Replace(s.text)
	stmt, err := w.s.Prepare(fmt.Sprintf("%s LIMIT %d", text, s.page))
	if err != nil {
		return w.hinted(hint, err)
	}
	var got []string
	var after []byte
	for pages := 0; pages <= len(want)+1; pages++ {
		args, reuse := lent(given(text, s.args))
		rows, err := stmt.QueryIn(w.ctx, w.reader(), true, after, args...)
		reuse()
		if err != nil {
			return w.hinted(hint, err)
		}
		after = nil
		for row, err := range rows.All() {
			if err != nil {
				return err
			}
			got, after = append(got, rendered(row)), rows.Cursor()
		}
		if after == nil {
			break
		}
	}
	w.counts.pages++
	if !slices.Equal(got, want) {
		return w.differs(s, hint+", in pages", got, want)
	}
	return nil
}

// hinted makes an error none that is about the hint.
func (w *world) hinted(hint string, err error) error {
	if hint != "" && w.unusable(err) {
		return nil
	}
	return fmt.Errorf("%q, in pages: %w", hint, err)
}

// differs describes a difference, with the plan.
func (w *world) differs(s step, hint string, got, want []string) error {
	var lines []string
	plain, _, _ := strings.Cut(hint, ",")
	if w.reader() == w.db {
		explained, _ := w.values("EXPLAIN "+s.text, "t", plain, s.args)
		for _, row := range explained {
			line, _ := row[0].AsString()
			lines = append(lines, line)
		}
	}
	return fmt.Errorf("%s\nhint %q\ngot  %d rows %.1500q\nwant %d rows %.1500q\n%s", s, hint,
		len(got), got, len(want), want, strings.Join(lines, "\n"))
}
