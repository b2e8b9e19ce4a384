package table

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// compileFor compiles an expression over a row of a table. Columns may be given by name. The
// error matches ErrChanged if one of them has been dropped.
func compileFor(t *schema.Table, e expr.Expr) (expr.Program, error) {
	resolved, err := expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
		c, ok := e.(expr.Column)
		if !ok {
			return e, nil
		}
		if c.Source != plan.Unresolved {
			return e, live(t, c)
		}
		i := t.Column(c.Name)
		if i < 0 {
			return nil, invalid("there is no column %q", c.Name)
		}
		return t.Ref(0, i), nil
	})
	if err != nil {
		return expr.Program{}, err
	}
	return expr.Compile(resolved)
}

// live returns an error if a resolved column is not in the table, or not any more.
func live(t *schema.Table, c expr.Column) error {
	switch {
	case c.Source != 0 || c.Ordinal < 0 || c.Ordinal >= len(t.Columns):
		return invalid("table %q has no column %s", t.Name, c)
	case t.Columns[c.Ordinal].Dropped:
		return fmt.Errorf("%w: column %s of %q has been dropped", ErrChanged, c, t.Name)
	}
	return nil
}

// perTable is something that is compiled for a definition of a table, and again when it is
// used with another one: what was compiled for a former one may read columns that have been
// dropped since, as NULL.
type perTable[P any] struct {
	compile func(*schema.Table) (P, error)
	table   *schema.Table // that program is for
	program P
}

// of returns what is compiled for a definition.
func (c *perTable[P]) of(t *schema.Table) (p P, err error) {
	if c.table != t {
		if c.program, err = c.compile(t); err != nil {
			c.table = nil
			return p, err
		}
		c.table = t
	}
	return c.program, nil
}

// statement changes the rows for which a predicate is true.
type statement struct {
	table  *Table
	where  expr.Expr
	test   *perTable[expr.Program] // nil: rows are not tested again
	params []expr.Value
	change func(w *rowio.Writer, it *store.Item, old, params []expr.Value) error
	// found are expressions with subqueries that are computed when the rows are found: further
	// parameters of change.
	found []expr.Expr

	keys   []store.Key
	values [][]expr.Value // of found, by key; nil without them
	bytes  int
	done   int
}

// where calls change for the rows for which a predicate is true, some of them for each
// commit.
func (t *Table) where(ctx context.Context, where expr.Expr, found []expr.Expr, args []any,
	change func(w *rowio.Writer, it *store.Item, old, params []expr.Value) error) (int, error) {
	params, err := values(args)
	if err != nil {
		return 0, err
	}
	s := &statement{table: t, where: where, found: found, params: params, change: change}
	if t.tx != nil {
		return s.inTx(ctx)
	}
	if (len(found) > 0 || expr.HasSubquery(where)) && t.snap == nil {
		// What the subqueries read must be the same when the rows are written.
		n := 0
		err := t.db.Update(ctx, func(tx *Tx) (err error) {
			n, err = t.In(tx).where(ctx, where, found, args, change)
			return err
		})
		return n, err
	}
	for _, e := range found {
		if _, err := compileFor(t.Schema(), e); err != nil {
			return 0, err
		}
	}
	if where != nil && t.snap == nil {
		s.test = &perTable[expr.Program]{compile: func(t *schema.Table) (expr.Program, error) {
			return compileFor(t, where)
		}}
		if _, err := s.test.of(t.Schema()); err != nil {
			return 0, err
		}
	}
	err = s.each(ctx, t.db, func() error { return s.write(ctx) })
	if err != nil && s.done > 0 {
		err = fmt.Errorf("%w; the statement is several commits, and %d rows were changed before",
			err, s.done)
	}
	return s.done, err
}

// inTx finds all rows before the first of them is changed, so that none is found twice.
func (s *statement) inTx(ctx context.Context) (int, error) {
	var all []store.Key
	bytes, most := 0, s.table.db.commitBytes()
	err := s.each(ctx, s.table.tx, func() error {
		if bytes += s.bytes; bytes > most {
			return tooLarge(most)
		}
		all, s.keys = append(all, s.keys...), nil
		return nil
	})
	if err != nil || len(all) == 0 {
		return 0, err
	}
	s.keys = all // at once, since any of them may exchange unique values
	err = s.write(ctx)
	return s.done, err
}

// each collects the keys of the rows and calls full when there are enough, and in the end.
func (s *statement) each(ctx context.Context, r Reader, full func() error) error {
	st, err := r.stateOf(ctx, s.table.core)
	if err != nil {
		return err
	}
	sel := &plan.Select{From: []plan.Source{{Table: st.Schema}}, Where: s.where, RowKeys: true,
		Columns: []plan.Output{{Expr: st.Schema.Ref(0, st.Schema.KeyOrdinals()[0])}}}
	for _, e := range s.found {
		sel.Columns = append(sel.Columns, plan.Output{Expr: e, Name: "value"})
	}
	anys := make([]any, len(s.params))
	for i, v := range s.params {
		anys[i] = v
	}
	rows, err := r.Query(ctx, sel, anys...)
	if err != nil {
		return err
	}
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		if s.found != nil {
			values := make([]expr.Value, len(s.found))
			for i := range values {
				values[i] = row[1+i].Clone()
			}
			s.values, row = append(s.values, values), row[len(values):]
		}
		pk, _ := row[1].AsBytes()
		sk, hasSK := row[2].AsBytes()
		key := store.Key{PK: []byte(pk)}
		if hasSK {
			key.SK = []byte(sk)
		}
		s.keys = append(s.keys, key)
		if s.bytes += len(pk) + len(sk); rowio.Full(len(s.keys), s.bytes) {
			if err := full(); err != nil {
				return err
			}
			s.keys, s.bytes = s.keys[:0], 0
		}
	}
	if len(s.keys) == 0 {
		return nil
	}
	return full()
}

// write changes the rows with the collected keys in one commit, in more if they are large.
func (s *statement) write(ctx context.Context) error {
	keys, changed := s.keys, 0
	err := s.table.Write(ctx, func(w *rowio.Writer) error {
		changed = 0
		return s.changeAll(ctx, w, keys, &changed)
	})
	if errors.Is(err, ErrTooLarge) && len(keys) > 1 && s.table.tx == nil {
		half := len(keys) / 2
		for _, part := range [][]store.Key{keys[:half], keys[half:]} {
			s.keys = part
			if err := s.write(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err == nil {
		s.done += changed
	}
	return err
}

// commitBytes returns how many bytes of keys and values a commit may have.
func (db *DB) commitBytes() int {
	if n := db.store.Limits().CommitBytes; n > 0 {
		return n
	}
	return math.MaxInt
}

// tooLarge is the error of a statement whose rows are more than a commit. Why it does not wait for
// that: until then they are all in memory.
func tooLarge(most int) error {
	return fmt.Errorf("%w: the rows have more than the %d bytes of a commit", ErrTooLarge, most)
}

func (s *statement) changeAll(ctx context.Context, w *rowio.Writer, keys []store.Key,
	changed *int) error {
	most := s.table.db.commitBytes()
	return w.Each(ctx, keys, func(i int, it *store.Item) error {
		if s.table.tx == nil && w.Full() || w.Bytes() > most {
			return tooLarge(most)
		}
		params := s.params
		if s.found != nil {
			params = append(slices.Clip(params), s.values[i]...)
		}
		return s.changeOne(w, it, params, changed)
	})
}

func (s *statement) changeOne(w *rowio.Writer, it *store.Item, params []expr.Value,
	changed *int) error {
	old := w.Rules().Schema.Row()
	if err := w.Rules().Schema.Decode(old, it.Key, it.Value, nil); err != nil {
		return err
	}
	if s.test != nil {
		test, err := s.test.of(w.Rules().Schema)
		if err != nil {
			return err
		}
		truth, err := test.Test(old, params)
		if err != nil || truth != expr.True {
			return err
		}
	}
	*changed++
	return s.change(w, it, old, params)
}
