package table

import (
	"context"
	"iter"
	"sync"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
)

// ReadWriter is what can be written to: a *DB, for which every call is a commit of its own,
// or a *Tx.
type ReadWriter interface {
	Reader
	handle(core *tableCore) *Table
}

var (
	_ ReadWriter = (*DB)(nil)
	_ ReadWriter = (*Tx)(nil)
)

func (db *DB) handle(core *tableCore) *Table { return &Table{db: db, core: core} }

func (tx *Tx) handle(core *tableCore) *Table { return &Table{db: tx.db, core: core, tx: tx} }

// rowPool has the rows of values that structs are written as.
var rowPool = sync.Pool{New: func() any { return new([]expr.Value) }}

func putRow(row *[]expr.Value) {
	clear(*row)
	*row = (*row)[:0]
	rowPool.Put(row)
}

// write calls do with the values of a row. It does so once more if the definition of the
// table has changed meanwhile, so that nothing was written.
func (t *TableOf[T]) write(w ReadWriter, row *T, do func(*Table, []expr.Value) error) error {
	values := rowPool.Get().(*[]expr.Value)
	defer putRow(values)
	for {
		b, err := t.bind(w.DB())
		if err != nil {
			return err
		}
		*values = b.appendValues((*values)[:0], t.fields, unsafe.Pointer(row))
		if err = do(w.handle(b.core), *values); err == nil || !b.outgrown() {
			return err
		}
	}
}

// outgrown reports whether the table has got another number of columns, which makes rows of
// the binding invalid.
func (b *binding) outgrown() bool {
	return len(b.core.state.Load().schema.Columns) != len(b.schema.Columns)
}

// Insert writes a row that must not be there yet. If its primary key, or its columns in a
// unique index, are taken, the error is a *UniqueError.
func (t *TableOf[T]) Insert(ctx context.Context, w ReadWriter, row *T) error {
	return t.write(w, row, func(h *Table, values []expr.Value) error {
		return h.Insert(ctx, values)
	})
}

// Put writes a row, in place of the one with its primary key if there is one.
func (t *TableOf[T]) Put(ctx context.Context, w ReadWriter, row *T) error {
	return t.write(w, row, func(h *Table, values []expr.Value) error {
		return h.Put(ctx, values)
	})
}

// InsertMany inserts rows: as one commit if they are not more than 10,000 and 16 MiB, and
// in a transaction anyway. It returns how many are written.
func (t *TableOf[T]) InsertMany(ctx context.Context, w ReadWriter, rows []T) (int, error) {
	b, err := t.bind(w.DB())
	if err != nil {
		return 0, err
	}
	return w.handle(b.core).insertMany(ctx, t.sequence(b, rows))
}

// PutMany is InsertMany that replaces rows. No two of them may have the same key.
func (t *TableOf[T]) PutMany(ctx context.Context, w ReadWriter, rows []T) (int, error) {
	b, err := t.bind(w.DB())
	if err != nil {
		return 0, err
	}
	return w.handle(b.core).putMany(ctx, t.sequence(b, rows))
}

// sequence returns the rows as values, in one row that is used again.
func (t *TableOf[T]) sequence(b *binding, rows []T) iter.Seq[[]expr.Value] {
	return func(yield func([]expr.Value) bool) {
		var values []expr.Value
		for i := range rows {
			values = b.appendValues(values[:0], t.fields, unsafe.Pointer(&rows[i]))
			if !yield(values) {
				return
			}
		}
	}
}

// keyed is what the predicates of a call by primary key are.
type keyed struct {
	key  []expr.Value
	cond []Condition
}

// split returns the key, and a condition made of all other predicates.
func split[T any](t *TableOf[T], b *binding, predicates []Predicate[T]) (k keyed, err error) {
	used := make([]bool, len(predicates))
	for _, o := range b.schema.KeyOrdinals() {
		found := false
		for i, p := range predicates {
			if !used[i] && p.field != nil && b.ordinals[p.field.index] == o {
				k.key = append(k.key, p.value)
				used[i], found = true, true
				break
			}
		}
		if !found {
			return k, invalid("the primary key of %s needs an Eq of column %s", t.name,
				b.schema.Columns[o].Name)
		}
	}
	var args arguments
	for i, p := range predicates {
		if used[i] {
			continue
		}
		e, err := b.resolve(p.expression(), 0, &args)
		if err != nil {
			return k, err
		}
		if e != nil {
			k.cond = append(k.cond, If(e))
		}
	}
	if len(args) > 0 {
		return k, invalid("a condition has the parameter %s", args[0])
	}
	return k, nil
}

// Update changes the row with a primary key: f changes the struct it is given, and may be
// called again after a lost race. Columns that the struct does not have stay. The predicates
// are an Eq for each column of the primary key; further ones are conditions: the error
// matches ErrConditionFailed if they are not true of the row, and ErrNotFound without one.
func (t *TableOf[T]) Update(ctx context.Context, w ReadWriter, f func(*T) error,
	key ...Predicate[T]) error {
	b, err := t.bind(w.DB())
	if err != nil {
		return err
	}
	k, err := split(t, b, key)
	if err != nil {
		return err
	}
	return w.handle(b.core).Update(ctx, k.key, func(values []expr.Value) error {
		if len(values) != len(b.schema.Columns) {
			if b, err = t.bind(w.DB()); err != nil {
				return err
			}
		}
		row := new(T)
		for i, fd := range t.fields {
			if err := fd.set(unsafe.Pointer(row), values[b.ordinals[i]], true); err != nil {
				return err
			}
		}
		if err := f(row); err != nil {
			return err
		}
		for i, fd := range t.fields {
			values[b.ordinals[i]] = fd.get(unsafe.Pointer(row))
		}
		return nil
	}, k.cond...)
}

// Delete removes the row with a primary key: see Update.
func (t *TableOf[T]) Delete(ctx context.Context, w ReadWriter, key ...Predicate[T]) error {
	b, err := t.bind(w.DB())
	if err != nil {
		return err
	}
	k, err := split(t, b, key)
	if err != nil {
		return err
	}
	return w.handle(b.core).Delete(ctx, k.key, k.cond...)
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

// Set is Update by assignments, all of which see the old row.
func (t *TableOf[T]) Set(ctx context.Context, w ReadWriter, set []Assign[T],
	key ...Predicate[T]) error {
	b, err := t.bind(w.DB())
	if err != nil {
		return err
	}
	k, err := split(t, b, key)
	if err != nil {
		return err
	}
	list, err := assigned(b, set)
	if err != nil {
		return err
	}
	return w.handle(b.core).Set(ctx, k.key, list, nil, k.cond...)
}

func assigned[T any](b *binding, set []Assign[T]) ([]Assignment, error) {
	var list []Assignment
	for _, a := range set {
		e, err := b.resolve(a.value, 0, new(arguments))
		if err != nil {
			return nil, err
		}
		list = append(list, Assignment{Column: b.ordinals[a.field.index], Value: e})
	}
	return list, nil
}

// UpdateWhere changes all rows for which a predicate is true, and returns how many: see
// Table.UpdateWhere.
func (t *TableOf[T]) UpdateWhere(ctx context.Context, w ReadWriter, where Predicate[T],
	set ...Assign[T]) (int, error) {
	b, e, err := t.statement(w, where)
	if err != nil {
		return 0, err
	}
	list, err := assigned(b, set)
	if err != nil {
		return 0, err
	}
	return w.handle(b.core).UpdateWhere(ctx, e, list)
}

// DeleteWhere removes all rows for which a predicate is true, and returns how many.
func (t *TableOf[T]) DeleteWhere(ctx context.Context, w ReadWriter,
	where Predicate[T]) (int, error) {
	b, e, err := t.statement(w, where)
	if err != nil {
		return 0, err
	}
	return w.handle(b.core).DeleteWhere(ctx, e)
}

func (t *TableOf[T]) statement(w ReadWriter, where Predicate[T]) (*binding, expr.Expr, error) {
	b, err := t.bind(w.DB())
	if err != nil {
		return nil, nil, err
	}
	var args arguments
	e, err := b.resolve(where.expression(), 0, &args)
	if err == nil && len(args) > 0 {
		err = invalid("a condition has the parameter %s", args[0])
	}
	return b, e, err
}
