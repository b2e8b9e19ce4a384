package typed

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/keycodec"
)

// Insert writes a row that must not be there yet, after it has set fields with the option auto that
// are zero. If its primary key, or its columns in a unique index, are taken, the error is a
// *table.UniqueError.
func (t *Table[T]) Insert(ctx context.Context, w table.ReadWriter, row *T) error {
	_, err := t.write(ctx, w, unsafe.Slice(row, 1), (*structs).insert)
	return err
}

// Put writes a row, in place of the one with its primary key if there is one.
func (t *Table[T]) Put(ctx context.Context, w table.ReadWriter, row *T) error {
	_, err := t.write(ctx, w, unsafe.Slice(row, 1), (*structs).upsert)
	return err
}

// InsertMany inserts rows: up to 10,000 and 16 MiB as one commit, more as several, unless w is
// a transaction. It returns how many are written.
func (t *Table[T]) InsertMany(ctx context.Context, w table.ReadWriter, rows []T) (int, error) {
	return t.write(ctx, w, rows, (*structs).insert)
}

// PutMany is InsertMany that replaces rows. No two of them may have the same key.
func (t *Table[T]) PutMany(ctx context.Context, w table.ReadWriter, rows []T) (int, error) {
	return t.write(ctx, w, rows, (*structs).upsert)
}

// write adds rows to commits, as many to each as it takes, and returns how many are written.
func (t *Table[T]) write(ctx context.Context, to table.ReadWriter, rows []T,
	add func(*structs, context.Context, *rowio.Writer, unsafe.Pointer) error) (done int,
	err error) {
	s := structs{fields: t.fields}
	if s.binding, err = t.bind(to.DB()); err != nil {
		return 0, err
	}
	h := s.table.In(to)
	for done < len(rows) {
		n := 0
		err := h.Write(ctx, func(w *rowio.Writer) (err error) {
			if def := w.Rules().Schema; def != s.schema { // it has changed since
				if s.binding, err = t.bindTo(s.table, def); err != nil {
					return err
				}
			}
			rows := rows[done:min(done+rowio.MaxRows, len(rows))]
			for n = 0; n < len(rows) && !w.Full(); n++ {
				row := unsafe.Pointer(&rows[n])
				if err := t.checkExpiry(row); err != nil {
					return err
				}
				if err := t.generate(ctx, h, w, s.binding, row); err != nil {
					return err
				}
				if err := add(&s, ctx, w, row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// generate sets the fields with the option auto that are zero.
func (t *Table[T]) generate(ctx context.Context, h *table.Table, w *rowio.Writer, b *binding,
	row unsafe.Pointer) error {
	for _, f := range t.auto {
		if !f.isMade(row) {
			continue
		}
		if n := w.Number(); n >= h.NextNumber() { // after those of the rows before
			if err := h.SkipNumbers(ctx, n+1); err != nil {
				return err
			}
		}
		v, err := h.NextValue(ctx, b.ordinals[f.index])
		if err == nil {
			err = f.set(row, v, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isMade reports whether a field with the option auto is to be set.
func (f *field) isMade(row unsafe.Pointer) bool { return !f.pointer && f.isZero(f.at(row)) }

// makesKey reports whether a part of the primary key is set when the row is written.
func (t *Table[T]) makesKey(row *T) bool {
	return slices.ContainsFunc(t.auto, func(f *field) bool {
		return f.key != noKey && f.isMade(unsafe.Pointer(row))
	})
}

// checkExpiry refuses a row whose time of the TTL was never set: it would be gone at once.
func (t *Table[T]) checkExpiry(row unsafe.Pointer) error {
	if t.expires == nil {
		return nil
	}
	return t.expires.checkExpiry(t.expires.get(row))
}

func (f *field) checkExpiry(v expr.Value) error {
	if at, ok := v.AsTime(); ok && at.IsZero() {
		return invalid("column %s, which a TTL counts from, is the zero time, so that the row "+
			"expires at once; rows with NULL stay: the option null, or a pointer", f.column.Name)
	}
	return nil
}

// structs adds structs of one type to a writer.
type structs struct {
	*binding
	fields []*field
}

func (s *structs) insert(ctx context.Context, w *rowio.Writer, row unsafe.Pointer) error {
	key, ok := s.put(w, row, store.Absent())
	switch {
	case !ok:
		return s.write(ctx, w, row, w.Insert)
	case !w.Rules().Indexed:
		return nil
	}
	return s.write(ctx, w, row, func(values []expr.Value) error {
		return w.PutEntries(key, values, 0)
	})
}

func (s *structs) upsert(ctx context.Context, w *rowio.Writer, row unsafe.Pointer) error {
	if !w.Rules().Indexed {
		if _, ok := s.put(w, row, store.Condition{}); ok {
			return nil
		}
	}
	return s.write(ctx, w, row, func(values []expr.Value) error { return w.Upsert(ctx, values) })
}

// write calls f with the values of a struct, and with those that the table makes for columns that
// the struct does not have.
func (s *structs) write(ctx context.Context, w *rowio.Writer, row unsafe.Pointer,
	f func([]expr.Value) error) error {
	w.Values = s.appendValues(w.Values[:0], s.fields, row)
	if !s.full {
		if err := s.table.Generate(ctx, w.Values); err != nil {
			return err
		}
	}
	return f(w.Values)
}

// put adds a struct, with the condition on what is there; ok is false if that needs values.
func (s *structs) put(w *rowio.Writer, row unsafe.Pointer, cond store.Condition) (key store.Key,
	ok bool) {
	if s.direct == nil || w.Rules().Converts {
		return key, false
	}
	pk, sk, val := w.Buffers()
	pkStart, skStart := len(pk), len(sk)
	if sk, ok = s.direct.appendKey(sk, 1, row); !ok {
		return key, false
	}
	pk, err := s.schema.AppendRowPartition(pk, sk[skStart:])
	if err != nil {
		return key, false
	}
	if pk, ok = s.direct.appendKey(pk, 0, row); !ok ||
		max(len(pk)-pkStart, len(sk)-skStart) > keycodec.MaxKeyBytes {
		return key, false
	}
	if val, ok = s.direct.appendRow(val, s.schema, row); !ok {
		return key, false
	}
	return w.PutStored(pk, sk, val, cond), true
}

// keyed is what the predicates of a call by primary key are.
type keyed struct {
	key  []expr.Value
	cond []table.Condition
}

// split returns the key, and a condition made of all other predicates.
func split[T any](t *Table[T], db *table.DB, predicates []Predicate[T]) (b *binding, k keyed,
	err error) {
	if b, err = t.bind(db); err != nil {
		return nil, k, err
	}
	used := make([]bool, len(predicates))
	for _, o := range b.schema.KeyOrdinals() {
		i := findKey(b, o, predicates)
		if i < 0 {
			return nil, k, invalid("the primary key of %s needs an Eq of column %s; UpdateWhere "+
				"and DeleteWhere take other conditions", t.name, b.schema.Columns[o].Name)
		}
		k.key = append(k.key, predicates[i].value)
		used[i] = true
	}
	for i, p := range predicates {
		if used[i] {
			continue
		}
		e, err := b.condition(p.expression())
		if err != nil {
			return nil, k, err
		}
		if e != nil {
			k.cond = append(k.cond, table.If(e))
		}
	}
	return b, k, nil
}

// Update changes the row with a primary key: f changes the struct it is given, and may be
// called again after a lost race. Columns that the struct does not have stay. The predicates
// are an Eq for each column of the primary key; further ones are conditions: the error
// matches table.ErrConditionFailed if they are not true of the row, and table.ErrNotFound
// without one.
func (t *Table[T]) Update(ctx context.Context, w table.ReadWriter, f func(*T) error,
	key ...Predicate[T]) error {
	for {
		b, k, err := split(t, w.DB(), key)
		if err != nil {
			return err
		}
		h, err := w.DB().Bound(b.schema)
		if err != nil {
			return err
		}
		err = h.In(w).Update(ctx, k.key, func(values []expr.Value) error {
			return t.change(b, values, f)
		}, k.cond...)
		if !errors.Is(err, table.ErrChanged) || b.table.Schema() == b.schema {
			return err
		}
	}
}

// change changes a row of values as f changes its struct.
func (t *Table[T]) change(b *binding, values []expr.Value, f func(*T) error) error {
	row := new(T)
	for i, fd := range t.fields {
		if err := fd.set(unsafe.Pointer(row), values[b.ordinals[i]], true); err != nil {
			return err
		}
	}
	if err := f(row); err != nil {
		return err
	}
	if err := t.checkExpiry(unsafe.Pointer(row)); err != nil {
		return err
	}
	for i, fd := range t.fields {
		values[b.ordinals[i]] = fd.get(unsafe.Pointer(row))
	}
	return nil
}

// Delete removes the row with a primary key: see Update.
func (t *Table[T]) Delete(ctx context.Context, w table.ReadWriter, key ...Predicate[T]) error {
	b, k, err := split(t, w.DB(), key)
	if err != nil {
		return err
	}
	return b.table.In(w).Delete(ctx, k.key, k.cond...)
}

// Assign sets a column of rows T to a value: see Column.Set.
type Assign[T any] struct {
	field *field
	value expr.Expr
}

// Set sets the column to v.
func (c Column[T, V]) Set(v V) Assign[T] {
	if c.field.zero && c.field.isZero(unsafe.Pointer(&v)) {
		return c.SetNull()
	}
	return Assign[T]{c.field, c.constant(v)}
}

// SetNull sets the column to NULL.
func (c Column[T, V]) SetNull() Assign[T] { return Assign[T]{c.field, expr.Const{}} }

// Add adds v to the column, a number; NULL stays NULL.
func (c Column[T, V]) Add(v V) Assign[T] {
	return Assign[T]{c.field, expr.Arith{Op: expr.Add, L: c.ref(), R: c.constant(v)}}
}

// SetTo sets the column to what another one was before.
func (c Column[T, V]) SetTo(other Column[T, V]) Assign[T] { return Assign[T]{c.field, other.ref()} }

// Set is Update by assignments; all see the old row.
func (t *Table[T]) Set(ctx context.Context, w table.ReadWriter, set []Assign[T],
	key ...Predicate[T]) error {
	b, k, err := split(t, w.DB(), key)
	if err != nil {
		return err
	}
	list, err := assigned(b, set)
	if err != nil {
		return err
	}
	return b.table.In(w).Set(ctx, k.key, list, nil, k.cond...)
}

func assigned[T any](b *binding, set []Assign[T]) ([]table.Assignment, error) {
	var list []table.Assignment
	for _, a := range set {
		if v, ok := a.value.(expr.Const); ok && a.field.ttl > 0 {
			if err := a.field.checkExpiry(v.Value); err != nil {
				return nil, err
			}
		}
		e, err := b.resolve(a.value, new(arguments))
		if err != nil {
			return nil, err
		}
		list = append(list, table.Assignment{Column: b.ordinals[a.field.index], Value: e})
	}
	return list, nil
}

// UpdateWhere changes all rows for which a predicate is true, and returns how many: see
// Table.UpdateWhere.
func (t *Table[T]) UpdateWhere(ctx context.Context, w table.ReadWriter, where Predicate[T],
	set ...Assign[T]) (int, error) {
	b, e, err := t.statement(w, where)
	if err != nil {
		return 0, err
	}
	list, err := assigned(b, set)
	if err != nil {
		return 0, err
	}
	return b.table.In(w).UpdateWhere(ctx, e, list)
}

// DeleteWhere removes all rows for which a predicate is true, and returns how many.
func (t *Table[T]) DeleteWhere(ctx context.Context, w table.ReadWriter,
	where Predicate[T]) (int, error) {
	b, e, err := t.statement(w, where)
	if err != nil {
		return 0, err
	}
	return b.table.In(w).DeleteWhere(ctx, e)
}

func (t *Table[T]) statement(w table.ReadWriter, where Predicate[T]) (*binding, expr.Expr, error) {
	b, err := t.bind(w.DB())
	if err != nil {
		return nil, nil, err
	}
	e, err := b.condition(where.expression())
	return b, e, err
}

// condition resolves a condition, which has no parameters.
func (b *binding) condition(e expr.Expr) (expr.Expr, error) {
	var args arguments
	e, err := b.resolve(e, &args)
	if err == nil && len(args) > 0 {
		err = invalid("a condition has the parameter %s", args[0])
	}
	return e, err
}
