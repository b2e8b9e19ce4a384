package driver

import (
	"database/sql/driver"
	"fmt"
	"reflect"

	"github.com/kstonedb/kstone/engine/expr"
)

// argument returns an argument as a value. What is a driver.Valuer says what its value is; a nil
// pointer to one is NULL.
func argument(v any) (any, error) {
	if valuer, ok := v.(driver.Valuer); ok {
		r := reflect.ValueOf(v)
		if r.Kind() == reflect.Pointer && r.IsNil() &&
			r.Type().Elem().Implements(reflect.TypeFor[driver.Valuer]()) {
			return expr.Null(), nil
		}
		var err error
		if v, err = valuer.Value(); err != nil {
			return nil, err
		}
	}
	return expr.From(v)
}

// column returns a value of a row as database/sql gets it. Types of kstone's own are texts, which
// every Scanner of such types reads.
func column(v expr.Value) driver.Value {
	switch v.Kind() {
	case expr.KindList:
		list := []any{}
		for e := range v.Elements() {
			list = append(list, column(e))
		}
		return list
	case expr.KindDecimal, expr.KindUUID, expr.KindIP, expr.KindIPPrefix:
		return fmt.Sprint(v.Any())
	}
	return v.Any()
}

// List scans a list: rows.Scan((*driver.List[string])(&tags)). NULL is a nil slice. Slices
// are arguments without it.
type List[T any] []T

// Scan implements sql.Scanner.
func (l *List[T]) Scan(from any) error {
	*l = nil
	if from == nil {
		return nil
	}
	elements, ok := from.([]any)
	if !ok {
		return fmt.Errorf("kstone: a value of type %T is not a list", from)
	}
	*l = make(List[T], len(elements))
	for i, e := range elements {
		v, ok := e.(T)
		if !ok {
			return fmt.Errorf("kstone: element %d of the list is of type %T, not %T", i, e, v)
		}
		(*l)[i] = v
	}
	return nil
}
