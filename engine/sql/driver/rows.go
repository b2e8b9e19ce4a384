package driver

import (
	"context"
	"database/sql/driver"
	"io"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	engine "github.com/kstonedb/kstone/engine/sql"
)

// rows are the results of one query or more.
type rows struct {
	ctx   context.Context //nolint:containedctx // of the queries
	given arguments
	alone bool
	parts []*engine.Stmt // those that are not open yet

	columns []engine.ColumnInfo
	next    func() ([]expr.Value, error, bool)
	stop    func()
}

var _ interface {
	driver.Rows
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
} = (*rows)(nil)

// open begins the next query.
func (r *rows) open() error {
	part := r.parts[0]
	r.parts = r.parts[1:]
	own, err := r.given.of(part, r.alone)
	if err != nil {
		return err
	}
	found, err := part.Query(r.ctx, own...)
	if err != nil {
		return err
	}
	r.columns = found.Columns
	r.next, r.stop = iter.Pull2(found.All())
	return nil
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.Name
	}
	return names
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	r.stop()
	return nil
}

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	row, err, more := r.next()
	switch {
	case !more:
		return io.EOF
	case err != nil:
		return err
	}
	for i := range dest {
		dest[i] = column(row[i])
	}
	return nil
}

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *rows) HasNextResultSet() bool { return len(r.parts) > 0 }

// NextResultSet implements driver.RowsNextResultSet.
func (r *rows) NextResultSet() error {
	if len(r.parts) == 0 {
		return io.EOF
	}
	r.stop()
	return r.open()
}

// ColumnTypeDatabaseTypeName returns the type in the words of CREATE TABLE, without arguments.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	name, args, _ := strings.Cut(r.columns[i].Type, "(")
	if strings.HasSuffix(args, "[]") {
		name += "[]"
	}
	return name
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable. What may be NULL for all that is
// known is nullable.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) { return !r.columns[i].NotNull, true }

// ColumnTypePrecisionScale returns those of DECIMAL(p, s).
func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	args, found := strings.CutPrefix(r.columns[i].Type, "DECIMAL(")
	p, s, both := strings.Cut(strings.TrimSuffix(args, ")"), ", ")
	precision, err := strconv.ParseInt(p, 10, 64)
	if !found || !both || err != nil {
		return 0, 0, false
	}
	scale, err = strconv.ParseInt(s, 10, 64)
	return precision, scale, err == nil
}

// scanTypes are the Go types of values, by the types of columns.
var scanTypes = map[string]reflect.Type{
	"INT": reflect.TypeFor[int64](), "INT32": reflect.TypeFor[int64](),
	"INT16": reflect.TypeFor[int64](), "INT8": reflect.TypeFor[int64](),
	"UINT64": reflect.TypeFor[uint64](), "UINT32": reflect.TypeFor[uint64](),
	"UINT16": reflect.TypeFor[uint64](), "UINT8": reflect.TypeFor[uint64](),
	"FLOAT": reflect.TypeFor[float64](), "FLOAT32": reflect.TypeFor[float64](),
	"BOOL": reflect.TypeFor[bool](), "BYTES": reflect.TypeFor[[]byte](),
	"TIMESTAMP": reflect.TypeFor[time.Time](), "DATE": reflect.TypeFor[time.Time](),
	"TEXT": reflect.TypeFor[string](), "DECIMAL": reflect.TypeFor[string](),
	"UUID": reflect.TypeFor[string](), "IP": reflect.TypeFor[string](),
	"IPPREFIX": reflect.TypeFor[string](),
}

// ColumnTypeScanType returns the type of the values that are not NULL, any if it is not known.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	name := r.ColumnTypeDatabaseTypeName(i)
	switch t := scanTypes[name]; {
	case t != nil:
		return t
	case strings.HasSuffix(name, "[]"):
		return reflect.TypeFor[[]any]()
	}
	return reflect.TypeFor[any]()
}
