package table

import (
	"sync"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// structRun is one execution of a query of structs. Its memory is used again.
type structRun struct {
	Rows
	structSink
	params []expr.Value
	shape  shapeOf // of a query that is not prepared
}

var structRuns = sync.Pool{New: func() any { return &structRun{Rows: Rows{most: -1}} }}

// release lets go of everything but memory.
func (x *structRun) release() {
	clear(x.params)
	x.shape.reset()
	x.Rows, x.structSink, x.params = Rows{most: -1}, structSink{}, x.params[:0]
	structRuns.Put(x)
}

// structSink puts the rows of an execution into one struct, and yields after each.
type structSink struct {
	table binder
	b     *binding
	row   unsafe.Pointer
	keep  bool        // the struct shares no bytes with what is read
	next  func() bool // nil: one row is wanted
}

// binder is a TableOf.
type binder interface {
	bindTo(db *DB, core *tableCore, s *schema.Table) (*binding, error)
	columns() []*field
}

// read takes a row as it is stored by a definition of its table.
func (s *structSink) read(def *schema.Table, key store.Key, value []byte) (err error) {
	if def != s.b.schema {
		if s.b, err = s.table.bindTo(s.b.db, s.b.core, def); err != nil {
			return err
		}
	}
	if s.keep {
		return s.b.readOwn(s.row, key, value)
	}
	return s.b.read(s.row, key, value, false)
}

// fill takes the values of all fields.
func (s *structSink) fill(row []expr.Value) error {
	return setValues(s.row, s.table.columns(), row, s.keep)
}

// yield reports whether another row is wanted.
func (s *structSink) yield() bool { return s.next != nil && s.next() }
