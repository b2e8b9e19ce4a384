package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	operators "github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

// This file runs checks: see check.

// differenceError says what a check has found.
type differenceError struct {
	hint        string
	left, right string
	args        []any
	more        []string // of the left, that the right does not have
	fewer       []string // of the right, that the left does not have
	plan        string
}

func (d *differenceError) Error() string {
	return fmt.Sprintf("%s\n%s\narguments %#v\nonly the first: %.900q\nonly the second: %.900q\n%s",
		d.left, d.right, d.args, d.more, d.fewer, d.plan)
}

// alone runs a step that changes something of the one table there is.
func (w *world) alone(s step) error {
	text := s.text
	if s.do == doInsert {
		text = s.insertion()
	}
	w.pivots = [2]int64{}
	_, err := w.exec(text, "t", s.args)
	if s.do == doAlter && err == nil {
		for _, name := range []string{"p1", "p2"} {
			if _, err := w.exec(text, name, s.args); err != nil {
				return err
			}
		}
	}
	if !refusal(err) && !(w.noTx && errors.Is(err, errors.ErrUnsupported)) {
		return err
	}
	w.counts.refused++
	return nil
}

// refusal reports whether an error is one that statements may have.
func refusal(err error) bool {
	for _, known := range []error{table.ErrUnique, table.ErrCheck, expr.ErrRange, expr.ErrType,
		schema.ErrRange, schema.ErrType, schema.ErrNull, sql.ErrArguments, operators.ErrMemory} {
		if errors.Is(err, known) {
			return true
		}
	}
	var e *syntax.Error
	return errors.As(err, &e)
}

var numbered = regexp.MustCompile(`\?[0-9]+`)

// given returns the values for the parameters of a text, which may not have all that were drawn.
func given(text string, args []any) []any {
	most := 0
	if len(args) > 0 && strings.Contains(text, "?") {
		for _, p := range numbered.FindAllString(text, -1) {
			n, _ := strconv.Atoi(p[1:])
			most = max(most, n)
		}
	}
	return args[:most]
}

// asked returns the rows of one query of a check.
func (w *world) asked(s step, text, name, hint string) ([][]expr.Value, error) {
	text = s.check.filled(text)
	w.counts.queries++
	return w.values(text, name, hint, s.args)
}

// check runs a check.
func (w *world) check(s step) error {
	c := s.check
	switch {
	case len(c.pivots) > 0:
		return w.pivoted(s)
	case c.set != "":
		return w.touched(s)
	}
	if c.before != "" {
		_, err := w.exec(c.filled(c.before), "t", nil)
		if refusal(err) {
			w.counts.refused++
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.filled(c.before), err)
		}
	}
	if c.single {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	right, err := w.asked(s.literal(), c.right, "t", "")
	if c.single {
		runtime.GOMAXPROCS(2)
	}
	if err != nil {
		return w.mishap(s, err)
	}
	for _, l := range c.left {
		want := c.kept(right, l.keep)
		err := w.answers(s, l.text, func(got []string) (more, fewer []string) {
			return c.compare(got, want)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// literal returns the step with literals in the place of parameters in the conditions of its check,
// for some checks.
func (s step) literal() step {
	if s.check.single || s.check.choice%3 != 0 || slices.Contains(s.texts, "") {
		return s
	}
	c := *s.check
	for _, text := range []*string{&c.p, &c.q} {
		*text = numbered.ReplaceAllStringFunc(*text, func(p string) string {
			n, _ := strconv.Atoi(p[1:])
			return s.texts[n-1]
		})
	}
	s.check = &c
	return s
}

// mishap counts checks whose plain query fails: a value may be out of range.
func (w *world) mishap(s step, err error) error {
	if !refusal(err) {
		return fmt.Errorf("%s\n%w", s.check, err)
	}
	w.counts.refused++
	return nil
}

// kept returns the rows that a left query must return.
func (c *check) kept(rows [][]expr.Value, keep string) []string {
	var out []string
	for _, row := range rows {
		if keep != "" {
			if row[0].String() != keep {
				continue
			}
			row = row[1:]
		}
		out = append(out, rendered(row))
	}
	if c.limit >= 0 {
		out = out[min(len(out), c.offset):]
		out = out[:min(len(out), c.limit)]
	}
	return out
}

// compare returns what only one side has, or where their orders part.
func (c *check) compare(got, want []string) (more, fewer []string) {
	if c.ordered {
		for len(got) > 0 && len(want) > 0 && got[0] == want[0] {
			got, want = got[1:], want[1:]
		}
		return got, want
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	for len(got) > 0 && len(want) > 0 {
		switch {
		case got[0] == want[0]:
			got, want = got[1:], want[1:]
		case got[0] < want[0]:
			more, got = append(more, got[0]), got[1:]
		default:
			fewer, want = append(fewer, want[0]), want[1:]
		}
	}
	return append(more, got...), append(fewer, want...)
}

// answers asks a query of a check with some of the hints.
func (w *world) answers(s step, text string,
	compare func([]string) (more, fewer []string)) error {
	c := s.check
	hints := []string{""}
	if strings.Contains(text, "{hint}") {
		rng := rand.New(rand.NewPCG(c.choice, 0))
		hints = slices.DeleteFunc(w.hints(), func(h string) bool {
			return h != "" && rng.IntN(3) > 0
		})
	}
	if c.only != nil {
		hints = []string{*c.only}
	}
	for _, hint := range hints {
		rows, err := w.asked(s, text, "t", hint)
		if hint != "" && w.unusable(err) {
			w.counts.unusable++
			continue
		}
		if errors.Is(err, operators.ErrMemory) {
			w.counts.refused++
			continue
		}
		if err != nil {
			return fmt.Errorf("%s\nhint %q: %w", c, hint, err)
		}
		if more, fewer := compare(w.texts(rows, hint+" "+text)); len(more)+len(fewer) > 0 {
			return w.found(s, text, hint, more, fewer)
		}
		if c.choice%4 == 0 {
			rows, err, ended := w.ending(int64(c.choice>>8), func() ([][]expr.Value, error) {
				return w.asked(s, text, "t", hint)
			})
			if err != nil {
				return fmt.Errorf("%s\nhint %q, its context ends: %w", c, hint, err)
			}
			more, fewer := compare(w.texts(rows, hint+" "+text))
			if !ended && len(more)+len(fewer) > 0 {
				return w.found(s, text, hint+" with a context that ends", more, fewer)
			}
		}
	}
	return nil
}

// texts renders rows, those that spoil leaves.
func (w *world) texts(rows [][]expr.Value, text string) []string {
	got := make([]string, len(rows))
	for i, row := range rows {
		got[i] = rendered(row)
	}
	if w.spoil != nil {
		got = w.spoil(text, got)
	}
	return got
}

// endingAtTimes runs f with a context that ends, for some checks.
func (w *world) endingAtTimes(c *check, f func() ([][]expr.Value, error)) (
	rows [][]expr.Value, err error, ended bool,
) {
	if c.choice%4 == 0 && !c.commit {
		return w.ending(int64(c.choice>>8), f)
	}
	rows, err = f()
	return rows, err, false
}

// ending runs f with a context that ends after some looks at it.
func (w *world) ending(draw int64, f func() ([][]expr.Value, error)) (
	rows [][]expr.Value, err error, ended bool,
) {
	before := w.ctx
	w.ctx = newEnding(before, 1<<(draw%12)+draw%7)
	defer func() { w.ctx = before }()
	rows, err = f()
	if errors.Is(err, context.Canceled) {
		w.counts.ended++
		return nil, nil, true
	}
	return rows, err, false
}

// found describes a difference.
func (w *world) found(s step, text, hint string, more, fewer []string) error {
	c := s.check
	text = c.filled(text)
	d := &differenceError{hint: hint, args: s.args, more: more, fewer: fewer,
		left:  strings.NewReplacer("{t}", "t", "{hint}", hint).Replace(text),
		right: strings.NewReplacer("{t}", "t", "{hint}", "").Replace(c.filled(c.right))}
	if w.reader() == w.db && strings.HasPrefix(text, "SELECT") {
		explained, _ := w.values("EXPLAIN "+text, "t", hint, s.args)
		for _, row := range explained {
			line, _ := row[0].AsString()
			d.plan += line + "\n"
		}
	}
	return d
}

// pivoted runs a check whose condition is computed for single rows.
func (w *world) pivoted(s step) error {
	c := s.check
	for i := range c.pivots {
		if ok, err := w.choose(i, c.pivot[i]); err != nil || !ok {
			return err
		}
	}
	row := []expr.Value{}
	from := "p1 " + c.pivots[0]
	row = append(row, expr.Int(w.pivots[0]))
	if len(c.pivots) > 1 {
		from += " CROSS JOIN p2 " + c.pivots[1]
		row = append(row, expr.Int(w.pivots[1]))
	}
	fixed := *c
	for _, p := range []*string{&fixed.p, &fixed.q} {
		if *p == "" {
			continue
		}
		text := "SELECT (" + *p + ") FROM " + from
		w.counts.queries++
		values, err := w.values(text, "t", "", s.args)
		if err != nil {
			return w.mishap(s, err)
		}
		switch values[0][0].String() {
		case "NULL":
			*p = "(" + *p + ") IS NULL"
		case "FALSE":
			*p = "NOT (" + *p + ")"
		}
	}
	want := rendered(row)
	s.check = &fixed
	return w.answers(s, c.left[0].text, func(got []string) (more, fewer []string) {
		if !slices.Contains(got, want) {
			return nil, []string{want}
		}
		return nil, nil
	})
}

// choose puts a row of t into the i-th table of pivots; ok is false if there is none.
func (w *world) choose(i int, draw int64) (ok bool, err error) {
	if w.ids == nil || w.pivots == [2]int64{} {
		if w.ids, err = w.allIDs(); err != nil || len(w.ids) == 0 {
			return false, err
		}
	}
	id := w.ids[int(draw*7)%len(w.ids)]
	if w.pivots[i] == id {
		return true, nil
	}
	name := fmt.Sprint("p", i+1)
	for _, text := range []string{"DELETE FROM " + name,
		fmt.Sprintf("INSERT INTO %s SELECT * FROM t WHERE id = %d", name, id)} {
		if _, err := w.exec(text, "", nil); err != nil {
			return false, err
		}
	}
	w.pivots[i] = id
	return true, nil
}

// allIDs returns the ids of all rows in their order.
func (w *world) allIDs() (ids []int64, err error) {
	rows, err := w.values("SELECT id FROM {t} NOT INDEXED ORDER BY id", "t", "", nil)
	for _, row := range rows {
		id, _ := row[0].AsInt()
		ids = append(ids, id)
	}
	return ids, err
}

// touched compares the rows of SELECT with those that UPDATE and DELETE change, in transactions
// that are given up, or with UPDATE alone outside of one.
func (w *world) touched(s step) error {
	c := s.check
	update := "UPDATE {t} SET m = m + 1" + c.set + " WHERE {p}"
	if c.commit {
		if err := w.changes(s, update, "m <> 0"); err != nil {
			return err
		}
		w.pivots = [2]int64{}
		_, err := w.exec("UPDATE {t} SET m = 0 WHERE m <> 0", "t", nil)
		return err
	}
	for _, text := range []string{update, "DELETE FROM {t} WHERE {p}"} {
		if w.noTx {
			return nil
		}
		if _, err := w.exec("BEGIN", "", nil); err != nil {
			return err
		}
		err := w.changes(s, text, "m <> 0")
		if w.s.Rollback(); err != nil {
			return err
		}
	}
	return nil
}

// changes compares the rows that a statement changes, and those that it returns, with those that
// its condition selects. A statement whose context ends changes all of them or none.
func (w *world) changes(s step, text, changed string) error {
	c := s.check
	list := func(text string) (rows, ids []string, err error) {
		values, err := w.asked(s, text, "t", "")
		for _, row := range values {
			rows, ids = append(rows, rendered(row)), append(ids, rendered(row[:1]))
		}
		return rows, ids, err
	}
	wantRows, want, err := list(c.left[0].text)
	if err != nil {
		return w.mishap(s, err)
	}
	_, all, err := list("SELECT id FROM {t} NOT INDEXED")
	if err != nil {
		return err
	}
	deletes := strings.HasPrefix(text, "DELETE")
	if returning := c.returning; returning != "" {
		if wantRows = want; !deletes {
			if wantRows, _, err = list(c.left[0].text); err != nil {
				return w.mishap(s, err)
			}
		} else {
			returning = "id"
		}
		text += " RETURNING " + returning
	}
	var result sql.Result
	returned := wantRows
	_, err, ended := w.endingAtTimes(c, func() (out [][]expr.Value, err error) {
		if c.returning != "" {
			returned, _, err = list(text)
			return nil, err
		}
		w.counts.queries++
		result, err = w.exec(c.filled(text), "t", s.args)
		return nil, err
	})
	if err != nil {
		return w.mishap(s, err)
	}
	if ended {
		want, returned = nil, wantRows
	}
	var got []string
	if deletes {
		_, left, err := list("SELECT id FROM {t} NOT INDEXED")
		if err != nil {
			return err
		}
		got, _ = c.compare(all, left)
	} else if _, got, err = list("SELECT id FROM {t} NOT INDEXED WHERE " + changed); err != nil {
		return err
	}
	more, fewer := c.compare(got, want)
	if len(more)+len(fewer) > 0 || c.returning == "" && int(result.Rows) != len(want) {
		return w.found(s, text, fmt.Sprint(result.Rows, " rows"), more, append(fewer, want...))
	}
	if more, fewer = c.compare(returned, wantRows); len(more)+len(fewer) > 0 {
		return w.found(s, text, "returned", more, fewer)
	}
	return nil
}
