package table

import (
	"context"
	"errors"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// firstByKey is First of a query that asks for one primary key and nothing else: it needs
// no plan. ok is false if the query is another one, or if a value is one that takes more
// than a key to find: then the plan decides.
func (q *Query[T]) firstByKey(ctx context.Context, r Reader, bindings []Binding) (row T,
	ok bool, err error) {
	if q.limit != nil || q.offset != nil || q.page || q.index != "" || q.hints.Index != nil {
		return row, false, nil
	}
	b, err := q.table.bind(r.DB())
	if err != nil {
		return row, true, err
	}
	if len(q.where) != len(b.schema.PK)+len(b.schema.SK) {
		return row, false, nil
	}
	s := getPool.Get().(*getScratch)
	defer s.release()
	s.blank(len(b.schema.Columns))
	for _, e := range q.where {
		f, v := q.equality(e, bindings)
		if f == nil || !s.row[b.ordinals[f.index]].IsNull() || !f.exact(v) {
			return row, false, nil
		}
		s.row[b.ordinals[f.index]] = *v
	}
	for i := range bindings {
		if bindings[i].err != nil {
			return row, false, nil
		}
	}
	if !b.isKey(s.row, len(q.where)) {
		return row, false, nil
	}
	found := new(T)
	if err = q.table.load(ctx, r, b, s, unsafe.Pointer(found)); errors.Is(err, ErrNotFound) {
		return row, true, ErrNotFound
	}
	return *found, true, err
}

// equality returns the column and the value of a condition that is an equality, nil if it
// is none.
func (q *Query[T]) equality(e expr.Expr, bindings []Binding) (*field, *expr.Value) {
	c, ok := e.(expr.Cmp)
	if !ok || c.Op != expr.Eq {
		return nil, nil
	}
	column, ok := c.L.(expr.Column)
	if !ok {
		return nil, nil
	}
	switch r := c.R.(type) {
	case expr.Const:
		return q.table.fields[column.Ordinal], &r.Value
	case expr.Param:
		if b := bindingOf(bindings, r.Name); b != nil {
			return q.table.fields[column.Ordinal], &b.value
		}
	}
	return nil, nil
}

// exact reports whether a value is one of those that the column has, so that no other one
// is equal to it and none is lost in a key. It knows the usual columns of keys.
func (f *field) exact(v *expr.Value) bool {
	if f.pointer || f.column.List || v.Kind() != f.column.Kind() {
		return false
	}
	switch f.kind {
	case kindString:
		return f.column.Collation == keycodec.CollateBytes
	case kindInt64, kindUint64, kindUUID:
		return true
	case kindTime:
		seconds, nanoseconds, _ := v.AsUnixTime()
		return seconds > -commonSeconds && seconds < commonSeconds &&
			nanoseconds%tick[f.column.Unit] == 0
	}
	return false
}

// commonSeconds bounds the times, around 1970, that columns of all units can hold.
const commonSeconds = 1 << 33

// tick is the length of each unit in nanoseconds.
var tick = [...]uint32{keycodec.UnitNone: 1, keycodec.Second: 1e9, keycodec.Millisecond: 1e6,
	keycodec.Microsecond: 1e3, keycodec.Nanosecond: 1, keycodec.FullRange: 1}
