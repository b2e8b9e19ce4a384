package sql_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// This file writes to both tables. Which rows are in the way of each other in the unique
// indexes of t is found by comparing all rows of o.

// insert puts the rows into o as the unique indexes of t allow, then the whole statement
// into t.
func (w *world) insert(s step) error {
	want, conflict, err := w.insertCopy(s)
	if err != nil {
		return w.refused(err)
	}
	got, err := w.exec(s.insertion(), "t", s.args)
	switch {
	case errors.Is(err, table.ErrCheck) && (conflict || s.conflict != ""):
		return errViolated // a row that is in the way, or would not be written, is checked, too
	case errors.Is(err, table.ErrCheck):
		return w.violated(s, err)
	case conflict && errors.Is(err, table.ErrUnique):
		return nil
	case conflict:
		return fmt.Errorf("%s: %v, %+v, but there is a conflict", s, err, got)
	case err != nil:
		return fmt.Errorf("%s: %w", s, err)
	}
	if got.Rows != want.Rows || got.Removed != want.Removed || got.Skipped != want.Skipped {
		return fmt.Errorf("%s: %+v, want %+v", s, got, want)
	}
	return nil
}

// errViolated says that t has refused a statement because of its check, and that o must not keep
// what it did.
var errViolated = errors.New("the check is false")

// violated compares the refusal of a statement, because of the check of t, with the rows of o.
func (w *world) violated(s step, refused error) error {
	rows, err := w.violations("o")
	switch {
	case err != nil:
		return err
	case len(rows) == 0 && !w.expires: // what has expired is checked, and not seen in o
		return fmt.Errorf("%s: %w, which no row says", s, refused)
	}
	return errViolated
}

// violations returns the rows for which the check is false.
func (w *world) violations(name string) ([]string, error) {
	return w.rows("SELECT * FROM {t} WHERE NOT ("+w.kept+")", name, "", nil)
}

// checked runs a step that writes to both tables, in a transaction if t has a check: if that
// refuses the step, o takes it back.
func (w *world) checked(s step, write func(step) error) error {
	if w.kept == "" {
		return write(s)
	}
	begin, keep, undo := w.bounds("c")
	if _, err := w.exec(begin, "", nil); err != nil {
		return err
	}
	err, end := write(s), keep
	if errors.Is(err, errViolated) {
		err, end = nil, undo
		w.counts.violated++
	}
	for _, text := range end {
		if _, failed := w.exec(text, "", nil); err == nil {
			err = failed
		}
	}
	if rows, failed := w.violations("t"); failed != nil || len(rows) > 0 {
		return fmt.Errorf("%s: the check is false for %q (%w)", s, rows, errors.Join(err, failed))
	}
	return err
}

// insertCopy inserts the rows one by one. Conflict says that the statement must fail; then
// no row is there.
func (w *world) insertCopy(s step) (want sql.Result, conflict bool, err error) {
	var done []int64
	verb := "INSERT"
	if s.conflict == "OR REPLACE" {
		verb = "INSERT OR REPLACE"
	}
	for i, row := range s.rows {
		id := s.ids[i]
		text := fmt.Sprintf("%s INTO {t} (%s) VALUES (%s)", verb, s.text,
			strings.Join(row, ", "))
		_, failed := w.exec(text, "o", s.args)
		taken := errors.Is(failed, table.ErrUnique)
		if failed != nil && !taken {
			return want, false, errors.Join(failed, w.remove(done...))
		}
		var rivals []int64
		if !taken {
			if rivals, err = w.rivals(id); err != nil {
				return want, false, err
			}
			done = append(done, id)
		}
		switch {
		case !taken && len(rivals) == 0:
			want.Rows++
		case s.conflict == "OR REPLACE":
			err = w.remove(rivals...)
			want.Rows++
			want.Removed += int64(len(rivals))
		case s.conflict == "OR IGNORE":
			if want.Skipped++; !taken {
				err = w.remove(id)
			}
		default:
			return sql.Result{}, true, w.remove(done...)
		}
		if err != nil {
			return want, false, err
		}
	}
	return want, false, nil
}

// remove deletes rows of o.
func (w *world) remove(ids ...int64) error {
	for _, id := range ids {
		_, err := w.exec(fmt.Sprint("DELETE FROM {t} WHERE id = ", id), "o", nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// rivals returns the rows of o that have a unique value of the row id.
func (w *world) rivals(id int64) (out []int64, err error) {
	for _, x := range w.unique {
		rows, err := w.indexed(x)
		if err != nil {
			return nil, err
		}
		is := func(row []expr.Value) bool {
			n, _ := row[0].AsInt()
			return n == id
		}
		at := slices.IndexFunc(rows, is)
		if at < 0 {
			continue // the condition of the index leaves it out
		}
		for _, row := range rows {
			other, _ := row[0].AsInt()
			if !is(row) && x.clash(rows[at], row) && !slices.Contains(out, other) {
				out = append(out, other)
			}
		}
	}
	return out, nil
}

// indexed returns the ids and columns of the rows of o that an index has.
func (w *world) indexed(x *index) ([][]expr.Value, error) {
	text := "SELECT id"
	for _, c := range x.columns {
		text += ", " + c.name
	}
	text += " FROM {t}"
	if x.where != "" {
		text += " WHERE " + x.where
	}
	return w.values(text, "o", "", nil)
}

// clash reports whether two rows have a value of the index in common; NULLs are none.
func (x *index) clash(a, b []expr.Value) bool {
	for i, c := range x.columns {
		if !c.equal(a[i+1], b[i+1]) {
			return false
		}
	}
	return true
}

// equal compares values of a column; of lists it reports whether they share an element.
func (c field) equal(a, b expr.Value) bool {
	if a.IsNull() || b.IsNull() {
		return false
	}
	if c.element() != "" {
		for x := range a.Elements() {
			for y := range b.Elements() {
				if expr.Order(x, y) == 0 {
					return true
				}
			}
		}
		return false
	}
	s, text := a.AsString()
	t, _ := b.AsString()
	switch {
	case text && strings.Contains(c.ddl, "NOCASE"):
		return expr.CompareFolded(s, t, keycodec.CollateASCII) == 0
	case text && strings.Contains(c.ddl, "UNICODE"):
		return expr.CompareFolded(s, t, keycodec.CollateUnicode) == 0
	}
	return expr.Order(a, b) == 0
}

// createIndex creates an index of t. One that no table can have, or that finds a value
// twice, is refused.
func (w *world) createIndex(s step) error {
	twice := false
	if s.index.unique {
		rows, err := w.indexed(s.index)
		if err != nil {
			return w.refused(err)
		}
		for i := range rows {
			twice = twice || slices.ContainsFunc(rows[:i], func(other []expr.Value) bool {
				return s.index.clash(rows[i], other)
			})
		}
	}
	_, err := w.exec(s.text, "t", nil)
	conflict := errors.Is(err, table.ErrUnique)
	switch {
	case err != nil && !conflict:
		return w.refused(err)
	case conflict != twice:
		return fmt.Errorf("%s: %v, duplicates: %t", s, err, twice)
	case !conflict && s.index.unique:
		w.unique[s.index.name] = s.index
	}
	return nil
}

// change updates or deletes rows of both tables.
func (w *world) change(s step) error {
	got, err := w.exec(s.text, "t", s.args)
	if errors.Is(err, table.ErrUnique) && !w.noTx {
		return w.taken(s, err)
	}
	if err == nil || !errors.Is(err, table.ErrUnique) {
		want, wantErr := w.exec(s.text, "o", s.args)
		switch {
		case errors.Is(err, table.ErrCheck) && wantErr == nil:
			return w.violated(s, err)
		case (err == nil) != (wantErr == nil):
			return fmt.Errorf("%s: %v, without indexes %v", s, err, wantErr)
		case got.Rows != want.Rows:
			return fmt.Errorf("%s: %d rows, without indexes %d", s, got.Rows, want.Rows)
		case err == nil:
			return nil
		}
		w.counts.refused++
	}
	return w.same()
}

// taken compares the refusal of a statement by a unique index of t with what it does to o.
func (w *world) taken(s step, refused error) error {
	if err := w.same(); err != nil {
		return err
	}
	begin, _, undo := w.bounds("u")
	if _, err := w.exec(begin, "", nil); err != nil {
		return err
	}
	if _, err := w.exec(s.text, "o", s.args); err == nil && w.twice() == nil {
		return fmt.Errorf("%s: %w, which no row says", s, refused)
	}
	w.counts.refused++
	for _, text := range undo {
		if _, err := w.exec(text, "", nil); err != nil {
			return err
		}
	}
	return w.same()
}

// bounds returns what begins a transaction, or a part of the one that is open, keeps and undoes it.
func (w *world) bounds(name string) (begin string, keep, undo []string) {
	if w.s.InTransaction() {
		return "SAVEPOINT " + name, []string{"RELEASE " + name},
			[]string{"ROLLBACK TO " + name, "RELEASE " + name}
	}
	return "BEGIN", []string{"COMMIT"}, []string{"ROLLBACK"}
}

// alter changes the columns of both tables; t may have an index that forbids it.
func (w *world) alter(s step) error {
	if _, err := w.exec(s.text, "t", nil); err != nil {
		return w.refused(err)
	}
	_, err := w.exec(constants.Replace(s.text), "o", nil)
	return err
}

// transaction runs steps in one, or in a part of the one that is open, and keeps what they have
// written or not.
func (w *world) transaction(s step) error {
	begin, keep, undo := w.bounds("p")
	before, err := w.rows("SELECT * FROM {t}", "t", "NOT INDEXED", nil)
	if err != nil {
		return err
	}
	if _, err := w.exec(begin, "", nil); err != nil {
		return err
	}
	for _, inner := range s.steps {
		if err := w.do(inner); err != nil {
			return fmt.Errorf("in a transaction: %w", err)
		}
	}
	end := undo
	if s.commit {
		end = keep
	}
	for _, text := range end {
		if _, err := w.exec(text, "", nil); err != nil {
			return err
		}
	}
	if !s.commit {
		after, err := w.rows("SELECT * FROM {t}", "t", "NOT INDEXED", nil)
		slices.Sort(before)
		if slices.Sort(after); err != nil || !slices.Equal(before, after) {
			return fmt.Errorf("%s: %w\nbefore %.1500q\nafter  %.1500q", undo, err, before, after)
		}
	}
	w.pivots = [2]int64{}
	return w.same()
}

// snapshot runs steps whose queries read what was there before the first of them.
func (w *world) snapshot(s step) error {
	snap, err := w.db.Snapshot(w.ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	e := local.Engine(w.db)
	var then uint64
	if e != nil {
		then = e.Metrics().LastVersion
	}
	for _, inner := range s.steps {
		asks := inner.do == doQuery || inner.do == doCheck
		switch {
		case asks && s.past && e != nil:
			err = w.inThePast(e, then, inner)
		case asks:
			w.snap = snap
			err = w.do(inner)
			w.snap = nil
		default:
			err = w.do(inner)
		}
		if err != nil {
			return fmt.Errorf("in a snapshot: %w", err)
		}
	}
	return w.same()
}

// inThePast runs a step that asks something over the tables of a version.
func (w *world) inThePast(e *engine.DB, version uint64, s step) error {
	snap, err := e.SnapshotAt(version)
	if err != nil {
		return err
	}
	defer snap.Close()
	then, err := local.Past(w.ctx, e, snap, nil)
	if err != nil {
		return err
	}
	defer then.Close()
	db, session := w.db, w.s
	w.db, w.s = then, sql.Open(then)
	defer func() { w.db, w.s = db, session }()
	return w.do(s)
}

// verify compares the tables, and the indexes with their rows.
func (w *world) verify() error {
	t, err := w.db.Table("t")
	if err != nil {
		return err
	}
	if _, err = t.Verify(w.ctx, nil); err != nil {
		return err
	}
	if err := w.twice(); err != nil {
		return err
	}
	return w.same()
}

// twice returns an error if two rows of o have a value of a unique index.
func (w *world) twice() error {
	for _, x := range w.unique {
		rows, err := w.indexed(x)
		if err != nil {
			return err
		}
		for i := range rows {
			for j := range i {
				if x.clash(rows[i], rows[j]) {
					return fmt.Errorf("unique index %s has %v and %v", x.name, rows[i], rows[j])
				}
			}
		}
	}
	return nil
}

// same compares all rows of the tables.
func (w *world) same() error {
	if w.oracles {
		return nil
	}
	s := step{text: "SELECT * FROM {t}"}
	got, err := w.rows(s.text, "t", "", nil)
	if err != nil {
		return err
	}
	want, err := w.rows(s.text, "o", "", nil)
	if err != nil {
		return err
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return w.differs(s, "", got, want)
	}
	return nil
}
