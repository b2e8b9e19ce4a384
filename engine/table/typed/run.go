package typed

import (
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// run is one execution of a query of structs T. Its memory is used again.
type run[T any] struct {
	rows    table.Rows
	request rowio.Request
	sink    sink
	params  []expr.Value
	shape   shape // of a query that is not prepared
	row     T     // the one that First returns
}

// run returns a run, which has to be released.
func (t *Table[T]) run() *run[T] {
	if x, ok := t.runs.Get().(*run[T]); ok {
		return x
	}
	return new(run[T])
}

// release lets go of everything but memory.
func (t *Table[T]) release(x *run[T]) {
	clear(x.params)
	x.rows.Reset()
	x.params, x.shape = x.params[:0], x.shape.reset()
	x.request, x.sink = rowio.Request{}, sink{}
	var none T
	x.row = none
	t.runs.Put(x)
}

// into returns the request of rows that go into x.sink, with the values of the parameters that x
// has.
func (x *run[T]) into(f *preparedFor) *rowio.Request {
	x.sink.b, x.request.Params, x.request.Sink = f.b, x.params, &x.sink
	return &x.request
}

// intoRow is into for one row, which goes into x.row.
func (x *run[T]) intoRow(t *Table[T], f *preparedFor) *rowio.Request {
	x.sink.table, x.sink.row, x.sink.keep = t, unsafe.Pointer(&x.row), true
	x.request.Most = 1
	return x.into(f)
}

// sink puts the rows of an execution into one struct, and yields after each.
type sink struct {
	table binder
	b     *binding
	row   unsafe.Pointer
	keep  bool        // the struct shares no bytes with what is read
	next  func() bool // nil: one row is wanted
}

// binder is a Table.
type binder interface {
	bindTo(handle *table.Table, s *schema.Table) (*binding, error)
	columns() []*field
}

// Stored implements rowio.Sink.
func (s *sink) Stored(def *schema.Table, key store.Key, value []byte) (more bool, err error) {
	if def != s.b.schema {
		if s.b, err = s.table.bindTo(s.b.table, def); err != nil {
			return false, err
		}
	}
	keepTexts := s.keep
	if s.keep && s.b.shares(value) {
		text := string(value) // of its size, which costs less than bytes.Clone
		value, keepTexts = unsafe.Slice(unsafe.StringData(text), len(text)), false
	}
	err = s.b.readParts(s.row, key, value, s.keep, keepTexts)
	return err == nil && s.next != nil && s.next(), err
}

// Values implements rowio.Sink, with a value for each field.
func (s *sink) Values(row []expr.Value) (more bool, err error) {
	if err := setValues(s.row, s.table.columns(), row, s.keep); err != nil {
		return false, err
	}
	return s.next != nil && s.next(), nil
}
