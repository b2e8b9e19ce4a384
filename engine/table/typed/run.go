package typed

import (
	"context"
	"sync"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// run is one execution of a query of structs. Its memory is used again.
type run struct {
	rows    table.Rows
	request rowio.Request
	sink    sink
	params  []expr.Value
	shape   shape // of a query that is not prepared
}

var runs = sync.Pool{New: func() any { return new(run) }}

// release lets go of everything but memory.
func (x *run) release() {
	clear(x.params)
	x.shape.reset()
	x.rows, x.request, x.sink, x.params = table.Rows{}, rowio.Request{}, sink{}, x.params[:0]
	runs.Put(x)
}

// read runs a query with the values of its parameters in params, with the rows going into
// x.sink, and returns how many there were.
func (x *run) read(ctx context.Context, r table.Reader, f *preparedFor) (int64, error) {
	x.sink.b, x.request.Params, x.request.Sink = f.b, x.params, &x.sink
	return f.prepared.Read(ctx, r, &x.rows, &x.request)
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
	if s.keep {
		err = s.b.readOwn(s.row, key, value)
	} else {
		err = s.b.read(s.row, key, value, false)
	}
	return err == nil && s.next != nil && s.next(), err
}

// Values implements rowio.Sink, with a value for each field.
func (s *sink) Values(row []expr.Value) (more bool, err error) {
	if err := setValues(s.row, s.table.columns(), row, s.keep); err != nil {
		return false, err
	}
	return s.next != nil && s.next(), nil
}
