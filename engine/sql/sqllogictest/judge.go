package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
)

// tally counts the records of files.
type tally struct {
	files, queries, equal, wrong, refused int
	// Of statements: all, those that did what they should, and those that were to fail and did
	// not. The others were refused.
	statements, done, unfailing int
	elapsed                     time.Duration // of queries
	// With SQLite beside: what kstone and SQLite answer alike, and the corpus otherwise; the
	// queries that both answered, and the processor time of both.
	asSQLite, both int
	ours, theirs   time.Duration
	reasons        map[string]*reason
}

// reason is a kind of message.
type reason struct {
	queries, statements int
	example             string
}

// refuse counts a record that is refused.
func (t *tally) refuse(r record, err error) {
	if t.reasons == nil {
		t.reasons = map[string]*reason{}
	}
	kind := kindOf(err)
	if t.reasons[kind] == nil {
		t.reasons[kind] = &reason{example: r.text}
	}
	if r.query {
		t.reasons[kind].queries++
		t.refused++
	} else {
		t.reasons[kind].statements++
	}
}

// add adds what another tally has counted.
func (t *tally) add(o *tally) {
	t.files += o.files
	t.queries += o.queries
	t.equal += o.equal
	t.wrong += o.wrong
	t.refused += o.refused
	t.statements += o.statements
	t.done += o.done
	t.unfailing += o.unfailing
	t.elapsed += o.elapsed
	t.asSQLite += o.asSQLite
	t.both += o.both
	t.ours += o.ours
	t.theirs += o.theirs
}

// rate is how many queries kstone answers in the processor time that SQLite takes for one.
func (t *tally) rate() float64 { return float64(t.theirs) / max(1, float64(t.ours)) }

var (
	numbers = regexp.MustCompile(`[0-9]+`)
	names   = regexp.MustCompile(`"[^"]*"|\b[a-z]+[0-9]+[\w.]*`)
	signs   = regexp.MustCompile(`^"[^\w]*"$`)
)

// kindOf returns the message of an error without the names and numbers of one statement.
func kindOf(err error) string {
	text := err.Error()
	var e *sql.Error
	if errors.As(err, &e) {
		text = e.Message
	}
	text, _, _ = strings.Cut(text, "; did you mean")
	text = names.ReplaceAllStringFunc(text, func(name string) string {
		word := strings.ToUpper(strings.Trim(name, `"`))
		if signs.MatchString(name) || slices.Contains(sql.Keywords(), word) {
			return name
		}
		return "…"
	})
	return numbers.ReplaceAllString(text, "N")
}

// judge runs the records of one file over an empty database.
type judge struct {
	session *sql.Session
	adapter adapter
	limit   time.Duration     // for one record
	labels  map[string]string // the digest of the results with a label
	stale   map[string]bool   // tables that a refused statement should have written
	tally   *tally
	referee *referee                    // or nil
	report  func(line int, what string) // of what is wrong
}

// run counts the records of a file, up to an error in it.
func (j *judge) run(records iter.Seq2[record, error]) (err error) {
	e, err := engine.Open("sqllogictest", &engine.Options{InMemory: true})
	if err != nil {
		return err
	}
	defer e.Close()
	db, err := local.Open(context.Background(), e, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	j.session, j.adapter = sql.Open(db), adapter{}
	j.labels, j.stale = map[string]string{}, map[string]bool{}
	j.tally.files++
	for r, err := range records {
		switch {
		case err != nil:
			return err
		case r.query:
			j.query(r)
		default:
			j.statement(r)
		}
	}
	return nil
}

// statement runs a record that has no result.
func (j *judge) statement(r record) {
	j.tally.statements++
	if j.referee != nil {
		j.referee.exec(r.text)
	}
	text, name, err := j.adapter.statement(r.text)
	if err == nil {
		err = j.exec(text)
	}
	switch {
	case (err != nil) == r.mustFail:
		j.tally.done++
		if strings.HasPrefix(text, "CREATE TABLE") {
			delete(j.stale, name)
		}
	case r.mustFail:
		j.tally.unfailing++
		j.report(r.line, "should fail: "+r.text)
	default:
		j.tally.refuse(r, err)
		if name != "" {
			j.stale[name] = true
		}
	}
}

func (j *judge) exec(text string) (err error) {
	defer caught(&err)
	ctx, cancel := context.WithTimeout(context.Background(), j.limit)
	defer cancel()
	_, err = j.session.Exec(ctx, text)
	return err
}

// caught makes a panic an error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// query runs a record with a result.
func (j *judge) query(r record) {
	j.tally.queries++
	text, _, _ := j.adapter.statement(r.text)
	start, used := time.Now(), processorTime()
	values, err := j.values(text, r.types)
	j.tally.elapsed += time.Since(start)
	other := j.beside(r, err, processorTime()-used)
	if err == nil && len(j.stale) > 0 {
		err = j.reads(text)
	}
	if err != nil {
		j.tally.refuse(r, err)
		return
	}
	values = arrange(values, len(r.types), r.sort)
	hash := digest(values)
	switch before := j.labels[r.label]; {
	case !equal(values, r.want) && other != nil && slices.Equal(values, other):
		j.tally.asSQLite++
	case !equal(values, r.want):
		j.wrong(r, "gives", values)
	case r.label != "" && before != "" && before != hash:
		j.wrong(r, "differs from "+r.label+", gives", values)
	default:
		j.tally.equal++
		j.labels[r.label] = hash
	}
}

// reads returns an error if a query reads a table that a refused statement should have written.
func (j *judge) reads(text string) error {
	for _, t := range tokens(text) {
		if j.stale[t.text] {
			return errors.New("reads a table that a refused statement should have written")
		}
	}
	return nil
}

// beside runs a query on SQLite, if it is there, and returns its values; ours is the time that
// kstone took, with err.
func (j *judge) beside(r record, err error, ours time.Duration) []string {
	if j.referee == nil {
		return nil
	}
	used := processorTime()
	values, failed := j.referee.values(r.text, r.types)
	used = processorTime() - used
	if failed != nil {
		return nil
	}
	if err == nil {
		j.tally.both++
		j.tally.ours += ours
		j.tally.theirs += used
	}
	return arrange(values, len(r.types), r.sort)
}

func (j *judge) wrong(r record, what string, values []string) {
	j.tally.wrong++
	j.report(r.line, fmt.Sprintf("%s\n\t%s %.200q\n\tnot   %.200q", r.text, what, values, r.want))
}

// values runs a query and returns its values, row by row.
func (j *judge) values(text, types string) (out []string, err error) {
	defer caught(&err)
	ctx, cancel := context.WithTimeout(context.Background(), j.limit)
	defer cancel()
	rows, err := j.session.Query(ctx, text)
	if err != nil {
		return nil, err
	}
	var shown []int
	for i, c := range rows.Columns {
		if c.Name != hiddenKey {
			shown = append(shown, i)
		}
	}
	if len(shown) != len(types) {
		return []string{fmt.Sprintf("%d columns", len(shown))}, nil
	}
	for row, err := range rows.All() {
		if err != nil {
			return nil, err
		}
		for i, c := range shown {
			out = append(out, cell(row[c], types[i]))
		}
	}
	return out, nil
}
