package table

import (
	"context"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
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

// Insert writes a row that must not be there yet. If its primary key, or its columns in a
// unique index, are taken, the error is a *UniqueError.
func (t *TableOf[T]) Insert(ctx context.Context, w ReadWriter, row *T) error {
	_, err := t.write(ctx, w, unsafe.Slice(row, 1), (*structs).insert)
	return err
}

// Put writes a row, in place of the one with its primary key if there is one.
func (t *TableOf[T]) Put(ctx context.Context, w ReadWriter, row *T) error {
	_, err := t.write(ctx, w, unsafe.Slice(row, 1), (*structs).upsert)
	return err
}

// InsertMany inserts rows: as one commit if they are not more than 10,000 and 16 MiB, and
// in a transaction anyway. It returns how many are written.
func (t *TableOf[T]) InsertMany(ctx context.Context, w ReadWriter, rows []T) (int, error) {
	return t.write(ctx, w, rows, (*structs).insert)
}

// PutMany is InsertMany that replaces rows. No two of them may have the same key.
func (t *TableOf[T]) PutMany(ctx context.Context, w ReadWriter, rows []T) (int, error) {
	return t.write(ctx, w, rows, (*structs).upsert)
}

// write adds rows to commits, as many to each as it takes, and returns how many are written.
func (t *TableOf[T]) write(ctx context.Context, to ReadWriter, rows []T,
	add func(*structs, context.Context, *writer, unsafe.Pointer) error) (done int, err error) {
	s := structs{fields: t.fields}
	if s.binding, err = t.bind(to.DB()); err != nil {
		return 0, err
	}
	h := to.handle(s.core)
	for done < len(rows) {
		n := 0
		err := h.run(ctx, func(w *writer) (err error) {
			if w.st.schema != s.schema { // it has changed since
				if s.binding, err = t.bindTo(s.db, s.core, w.st.schema); err != nil {
					return err
				}
			}
			rows := rows[done:min(done+chunkRows, len(rows))]
			for n = 0; n < len(rows) && w.bytes() < chunkBytes; n++ {
				if err := add(&s, ctx, w, unsafe.Pointer(&rows[n])); err != nil {
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

// structs adds structs of one type to a writer.
type structs struct {
	*binding
	fields []*field
}

func (s *structs) insert(_ context.Context, w *writer, row unsafe.Pointer) error {
	key, ok := s.put(w, row, store.Absent())
	switch {
	case !ok:
		return w.insert(s.values(w, row))
	case !w.st.indexed:
		return nil
	}
	return w.putEntries(key, s.values(w, row), 0)
}

func (s *structs) upsert(ctx context.Context, w *writer, row unsafe.Pointer) error {
	if !w.st.indexed {
		if _, ok := s.put(w, row, store.Condition{}); ok {
			return nil
		}
	}
	return w.upsert(ctx, s.values(w, row))
}

// values returns the values of a struct, valid until it is called again.
func (s *structs) values(w *writer, row unsafe.Pointer) []expr.Value {
	w.values = s.appendValues(w.values[:0], s.fields, row)
	return w.values
}

// put is writer.put of a struct; ok is false if that needs values.
func (s *structs) put(w *writer, row unsafe.Pointer, cond store.Condition) (key store.Key,
	ok bool) {
	if s.direct == nil || w.st.converts {
		return key, false
	}
	pk, sk, val := len(w.pk), len(w.sk), len(w.val)
	w.pk, ok = s.direct.appendKey(s.schema.AppendRowPrefix(w.pk), 0, row)
	if ok {
		w.sk, ok = s.direct.appendKey(w.sk, 1, row)
	}
	if ok = ok && max(len(w.pk)-pk, len(w.sk)-sk) <= keycodec.MaxKeyBytes; ok {
		w.val, ok = s.direct.appendRow(w.val, s.schema, row)
	}
	if !ok {
		w.pk, w.sk, w.val = w.pk[:pk], w.sk[:sk], w.val[:val]
		return key, false
	}
	key.PK = w.pk[pk:len(w.pk):len(w.pk)]
	if len(s.schema.SK) > 0 {
		key.SK = w.sk[sk:len(w.sk):len(w.sk)]
	}
	w.add(store.Op{Key: key, Value: w.val[val:len(w.val):len(w.val)], Cond: cond},
		opInfo{key: key, puts: true, unique: true})
	w.rows++
	return key, true
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
	return w.handle(b.core).update(ctx, k.key, func(s *schema.Table, values []expr.Value) error {
		if s != b.schema { // it has changed since, or the transaction sees a former one
			if b, err = t.bindTo(b.db, b.core, s); err != nil {
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
	}, k.cond)
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
