package expr

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

// From returns the value of a Go value: nil, bool, all integers and floats, string,
// []byte, time.Time, [16]byte, keycodec.UUID, keycodec.Decimal, netip.Addr,
// netip.Prefix, a Value; slices of them, which become lists; pointers to them, nil being
// NULL; and types made of them. It fails for everything else, and for addresses and prefixes that
// a column cannot hold as they are.
func From(v any) (Value, error) {
	switch v := v.(type) {
	case nil:
		return Value{}, nil
	case Value:
		return v, nil
	case bool:
		return Bool(v), nil
	case int:
		return Int(int64(v)), nil
	case int64:
		return Int(v), nil
	case uint64:
		return Uint(v), nil
	case float64:
		return Float(v), nil
	case string:
		return String(v), nil
	case []byte:
		if v == nil {
			return Value{}, nil
		}
		return Bytes(v), nil
	case time.Time:
		return Time(v), nil
	case keycodec.UUID:
		return UUID(v), nil
	case [16]byte:
		return UUID(v), nil
	case keycodec.Decimal:
		return Decimal(v), nil
	case netip.Addr:
		if v.Zone() != "" {
			return Value{}, fmt.Errorf("expr: the address %s has a zone", v)
		}
		return IP(v), nil
	case netip.Prefix:
		if v.IsValid() && v != v.Masked() {
			return Value{}, fmt.Errorf("expr: the prefix %s has bits after its length", v)
		}
		return Prefix(v), nil
	}
	return fromReflect(reflect.ValueOf(v))
}

func fromReflect(v reflect.Value) (Value, error) {
	switch v.Kind() {
	case reflect.Bool:
		return Bool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Int(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Uint(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return Float(v.Float()), nil
	case reflect.String:
		return String(v.String()), nil
	case reflect.Pointer:
		if v.IsNil() {
			return Value{}, nil
		}
		return From(v.Elem().Interface())
	case reflect.Slice:
		return fromSlice(v)
	case reflect.Array, reflect.Struct:
		for _, t := range []reflect.Type{reflect.TypeFor[keycodec.UUID](),
			reflect.TypeFor[time.Time](), reflect.TypeFor[keycodec.Decimal](),
			reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.Prefix]()} {
			if v.Type() != t && v.Type().ConvertibleTo(t) {
				return From(v.Convert(t).Interface())
			}
		}
	}
	return Value{}, fmt.Errorf("expr: a Go value of type %s cannot be stored in a column", v.Type())
}

func fromSlice(v reflect.Value) (Value, error) {
	if v.IsNil() {
		return Value{}, nil
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return Bytes(v.Bytes()), nil
	}
	elements := make([]Value, v.Len())
	for i := range elements {
		e, err := From(v.Index(i).Interface())
		if err != nil {
			return Value{}, err
		}
		if e.kind == KindList {
			return Value{}, fmt.Errorf("expr: a list of lists cannot be stored in a column")
		}
		elements[i] = e
	}
	return List(elements), nil
}
