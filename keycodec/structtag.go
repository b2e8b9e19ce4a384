package keycodec

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Format: a field of a struct belongs to the key if it has a tag of the form
//
//	kstone:"name[,option]..."
//
// with these options:
//
//	s ms us ns full day the unit, of a time.Time; it has to be given
//	decimal(N)          N decimal places, of a Decimal or an int64 that is the coefficient
//	ascii unicode       the collation, of a string
//	keepcase            keep the case of a collated string
//	desc                larger values first
//	nullslast           NULLs last, of a pointer
//
// An empty name stands for the name of the Go field. Fields without the tag and fields
// with the name "-" do not belong to the key. The order is that of the struct; embedded
// structs are not searched. A pointer is a nullable field.

// tagKey is the key of the tags of struct fields.
const tagKey = "kstone"

// SchemaOf returns the schema of the struct type T, from the tags of its fields:
//
//	type Order struct {
//		User  string    `kstone:"user,ascii"`
//		At    time.Time `kstone:"at,ms,desc"`
//		ID    [16]byte  `kstone:"id"`
//		Price Decimal   `kstone:"price,decimal(2)"`
//		Note  *string   `kstone:"note,nullslast"`
//		Count int       // no part of the key
//	}
//
// The types are string, []byte, bool, all integers, floats, time.Time, [16]byte, UUID,
// Decimal, netip.Addr, netip.Prefix, types made of them, and pointers to them. It fails
// if T is not a struct, has no field of the key, or has one that cannot be in a key.
func SchemaOf[T any]() (Schema, error) {
	c, err := NewCodec[T]()
	if err != nil {
		return Schema{}, err
	}
	return c.Schema(), nil
}

// goTypes maps the types that are known by name.
var goTypes = map[reflect.Type]Type{
	reflect.TypeFor[time.Time]():    TypeTime,
	reflect.TypeFor[Decimal]():      TypeDecimal,
	reflect.TypeFor[netip.Addr]():   TypeIP,
	reflect.TypeFor[netip.Prefix](): TypeIPPrefix,
}

// goKinds maps the kinds of all other types.
var goKinds = map[reflect.Kind]Type{
	reflect.String: TypeString, reflect.Bool: TypeBool,
	reflect.Int: TypeInt64, reflect.Int8: TypeInt8, reflect.Int16: TypeInt16,
	reflect.Int32: TypeInt32, reflect.Int64: TypeInt64,
	reflect.Uint: TypeUint64, reflect.Uint8: TypeUint8, reflect.Uint16: TypeUint16,
	reflect.Uint32: TypeUint32, reflect.Uint64: TypeUint64,
	reflect.Float32: TypeFloat32, reflect.Float64: TypeFloat64,
}

// TypeOfGo returns the type of the fields that a Go type makes, 0 if it cannot be in a key.
// Pointers are not followed.
func TypeOfGo(t reflect.Type) Type {
	if typ, ok := goTypes[t]; ok {
		return typ
	}
	isBytes := t.Kind() == reflect.Slice || t.Kind() == reflect.Array && t.Len() == 16
	switch {
	case isBytes && t.Elem().Kind() != reflect.Uint8:
		return 0
	case isBytes && t.Kind() == reflect.Slice:
		return TypeBytes
	case isBytes:
		return TypeUUID
	}
	return goKinds[t.Kind()]
}

// fieldOfTag reads the tag of one field. ok is false if the field does not belong to the key.
func fieldOfTag(sf reflect.StructField) (f Field, ok bool, err error) {
	tag, ok := sf.Tag.Lookup(tagKey)
	name, options, _ := strings.Cut(tag, ",")
	if !ok || name == "-" {
		return Field{}, false, nil
	}
	f.Name = name
	if name == "" {
		f.Name = sf.Name
	}
	t := sf.Type
	if f.Nullable = t.Kind() == reflect.Pointer; f.Nullable {
		t = t.Elem()
	}
	f.Type = TypeOfGo(t)
	switch {
	case f.Type == 0:
		return f, true, fmt.Errorf("keycodec: field %s of type %s cannot be in a key", sf.Name,
			sf.Type)
	case !sf.IsExported():
		return f, true, fmt.Errorf("keycodec: field %s is not exported", sf.Name)
	}
	for option := range strings.SplitSeq(options, ",") {
		if options == "" {
			break
		}
		if err := f.SetOption(option); err != nil {
			return f, true, fmt.Errorf("keycodec: the tag of field %s: %w", sf.Name, err)
		}
	}
	return f, true, nil
}

// SetOption applies one option of a struct tag, as [SchemaOf] reads it. Requires: f has the type
// that TypeOfGo returns. On an error f is unchanged.
func (f *Field) SetOption(option string) error {
	switch option {
	case "desc":
		f.Desc = true
	case "nullslast":
		f.NullsLast = true
	case "keepcase":
		f.KeepCase = true
	case CollateASCII.String():
		f.Collation = CollateASCII
	case CollateUnicode.String():
		f.Collation = CollateUnicode
	default:
		for u := Second; u <= Day; u++ {
			if option == u.String() {
				f.Unit = u
				return nil
			}
		}
		scale, ok := strings.CutPrefix(option, "decimal(")
		n, err := strconv.ParseInt(strings.TrimSuffix(scale, ")"), 10, 32)
		if !ok || err != nil || !strings.HasSuffix(scale, ")") {
			return fmt.Errorf("%q is not an option", option)
		}
		if f.Type != TypeDecimal && f.Type != TypeInt64 {
			return fmt.Errorf("%s cannot have decimal places", f.Type)
		}
		f.Type, f.Scale = TypeFixed, int32(n)
	}
	return nil
}
