package typed

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Format: every exported field of a struct is a column. Its tag is that of package keycodec
//
//	kstone:"name[,option]..."
//
// with these options beside those of keycodec (s ms us ns full, decimal(N), ascii, unicode,
// desc, nullslast):
//
//	pk sk         the column is one of the partition key, or of the sort key, in the order
//	              of the struct
//	null          the zero value of the Go type is stored as NULL
//	default(x)    what rows have that were written before the column was added
//	ttl(24h)      rows expire that long after this time
//	was(old)      the column was called old before
//
// An empty name stands for the name of the Go field; with the name "-" the field is no
// column. Fields that are not exported are none either. A pointer is a nullable column, a
// slice of anything but bytes a list.

// tagKey is the key of the tags, that of package keycodec.
const tagKey = "kstone"

// field is a column as the struct has it. It is immutable.
type field struct {
	column  schema.Column
	goName  string
	index   int // among the fields of the table
	offset  uintptr
	size    uintptr
	kind    fieldKind
	pointer bool         // a nullable column, nil is NULL
	zero    bool         // the zero value is NULL
	elem    reflect.Type // of a pointer or slice

	key     keyRole
	desc    bool // in the primary key
	nulls   bool // NULLs last in the primary key
	ttl     time.Duration
	was     string
	initial string // the option default
}

// keyRole says which part of the primary key a column belongs to.
type keyRole uint8

const (
	noKey keyRole = iota
	partKey
	sortKey
)

// fieldsOf reads the fields of a struct type.
func fieldsOf(t reflect.Type) ([]*field, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is no struct", t)
	}
	var fields []*field
	var errs []error
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get(tagKey)
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || !sf.IsExported() {
			continue
		}
		f, err := newField(sf, name, options)
		if err != nil {
			errs = append(errs, fmt.Errorf("field %s: %w", sf.Name, err))
			continue
		}
		f.index = len(fields)
		fields = append(fields, f)
	}
	return fields, errors.Join(errs...)
}

func newField(sf reflect.StructField, name, options string) (*field, error) {
	f := &field{goName: sf.Name, offset: sf.Offset, size: sf.Type.Size()}
	f.column.Name = name
	if name == "" {
		f.column.Name = sf.Name
	}
	t := sf.Type
	isBytes := t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	switch {
	case t.Kind() == reflect.Pointer:
		t = t.Elem()
		f.pointer, f.column.Nullable, f.elem = true, true, t
	case t.Kind() == reflect.Slice && !isBytes:
		t = t.Elem()
		f.column.List, f.elem = true, t
	}
	if f.kind, f.column.Type = kindOfGo(t); f.kind == 0 {
		return nil, fmt.Errorf("a %s cannot be a column", sf.Type)
	}
	for option := range strings.SplitSeq(options, ",") {
		if options == "" {
			break
		}
		if err := f.setOption(option); err != nil {
			return nil, err
		}
	}
	if f.column.Type == keycodec.TypeTime && f.column.Unit == keycodec.UnitNone {
		return nil, errors.New("a time needs a unit: s, ms, us, ns or full")
	}
	return f, f.setDefault()
}

// setDefault reads the text of the default as a value of the column.
func (f *field) setDefault() error {
	if f.initial == "" {
		return nil
	}
	text := strings.TrimSuffix(strings.TrimPrefix(f.initial, "default("), ")")
	c := f.column
	v, err := c.Field(schema.KeyColumn{}).ParseValue(text)
	if err != nil {
		return err
	}
	value, err := expr.From(v)
	if err != nil {
		return err
	}
	if value, err = c.Convert(value); err != nil {
		return err
	}
	f.column.Default = &value
	return nil
}

// setOption applies one option of a tag.
func (f *field) setOption(option string) error {
	c := &f.column
	switch option {
	case "pk":
		f.key = partKey
	case "sk":
		f.key = sortKey
	case "desc":
		f.desc = true
	case "nullslast":
		f.nulls = true
	case "null":
		if f.pointer {
			return errors.New("a pointer is nullable without the option null")
		}
		f.zero, c.Nullable = true, true
	case keycodec.CollateASCII.String():
		c.Collation = keycodec.CollateASCII
	case keycodec.CollateUnicode.String():
		c.Collation = keycodec.CollateUnicode
	default:
		for u := keycodec.Second; u <= keycodec.FullRange; u++ {
			if option == u.String() {
				c.Unit = u
				return nil
			}
		}
		return f.setArgument(option)
	}
	return nil
}

// setArgument applies an option of the form name(argument).
func (f *field) setArgument(option string) (err error) {
	name, argument, ok := strings.Cut(option, "(")
	if !ok || !strings.HasSuffix(argument, ")") {
		return fmt.Errorf("%q is no option", option)
	}
	argument = strings.TrimSuffix(argument, ")")
	switch name {
	case "decimal":
		scale, err := strconv.ParseInt(argument, 10, 32)
		if err != nil || f.kind != kindDecimal && f.kind != kindInt64 {
			return fmt.Errorf("%s cannot have %s decimal places", f.column.Type, argument)
		}
		if f.kind == kindInt64 {
			f.kind = kindCoefficient
		}
		f.column.Type, f.column.Scale = keycodec.TypeFixed, int32(scale)
	case "ttl":
		if f.ttl, err = time.ParseDuration(argument); err == nil && f.ttl <= 0 {
			err = errors.New("a TTL has to be positive")
		}
	case "was":
		f.was = argument
	case "default":
		f.initial = option
	default:
		err = fmt.Errorf("%q is no option", option)
	}
	return err
}

// kindOfGo returns how values of a Go type are held, 0 if it cannot be a column.
func kindOfGo(t reflect.Type) (fieldKind, keycodec.Type) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return kindTime, keycodec.TypeTime
	case reflect.TypeFor[keycodec.Decimal]():
		return kindDecimal, keycodec.TypeDecimal
	case reflect.TypeFor[netip.Addr]():
		return kindIP, keycodec.TypeIP
	case reflect.TypeFor[netip.Prefix]():
		return kindPrefix, keycodec.TypeIPPrefix
	}
	isBytes := t.Kind() == reflect.Slice || t.Kind() == reflect.Array && t.Len() == 16
	switch {
	case isBytes && t.Elem().Kind() != reflect.Uint8:
		return 0, 0
	case isBytes && t.Kind() == reflect.Slice:
		return kindBytes, keycodec.TypeBytes
	case isBytes:
		return kindUUID, keycodec.TypeUUID
	}
	k, ok := goKinds[t.Kind()]
	if !ok {
		return 0, 0
	}
	return k.kind, k.column
}

var goKinds = map[reflect.Kind]struct {
	kind   fieldKind
	column keycodec.Type
}{
	reflect.String: {kindString, keycodec.TypeString}, reflect.Bool: {kindBool, keycodec.TypeBool},
	reflect.Int: {kindInt64, keycodec.TypeInt64}, reflect.Int8: {kindInt8, keycodec.TypeInt8},
	reflect.Int16: {kindInt16, keycodec.TypeInt16}, reflect.Int32: {kindInt32, keycodec.TypeInt32},
	reflect.Int64: {kindInt64, keycodec.TypeInt64}, reflect.Uint: {kindUint64, keycodec.TypeUint64},
	reflect.Uint8:   {kindUint8, keycodec.TypeUint8},
	reflect.Uint16:  {kindUint16, keycodec.TypeUint16},
	reflect.Uint32:  {kindUint32, keycodec.TypeUint32},
	reflect.Uint64:  {kindUint64, keycodec.TypeUint64},
	reflect.Float32: {kindFloat32, keycodec.TypeFloat32},
	reflect.Float64: {kindFloat64, keycodec.TypeFloat64},
}
