package typed

import (
	"errors"
	"fmt"
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
//	auto          Insert and Put set the zero value: of an integer the next number, of a UUID
//	              a new one, of a time the present one
//	ttl(24h)      rows expire that long after this time
//	was(old)      the column was called old before
//
// An empty name stands for the name of the Go field; with the name "-" the field is no
// column. Neither are fields that are not exported. A pointer is a nullable column, a slice of
// anything but bytes a list.

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

	part   *part // of a column of a join: its row is there, and the offset in this row
	source int   // the place of part in the join
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
		return nil, fmt.Errorf("%s is not a struct", t)
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
	f.column.Type = keycodec.TypeOfGo(t)
	if f.kind = kinds[f.column.Type]; f.kind == 0 {
		return nil, fmt.Errorf("a %s cannot be a column", sf.Type)
	}
	if k := t.Kind(); strconv.IntSize < 64 && (k == reflect.Int || k == reflect.Uint) {
		return nil, fmt.Errorf("a %s has %d bits on this platform and its column 64: use %s64",
			t, strconv.IntSize, k)
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
		return nil, errors.New("a time needs a unit: s, ms, us, ns, full or day")
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
func (f *field) setOption(option string) (err error) {
	name, argument, _ := strings.Cut(strings.TrimSuffix(option, ")"), "(")
	switch c := &f.column; {
	case option == "pk":
		f.key = partKey
	case option == "sk":
		f.key = sortKey
	case option == "auto" && kindsOfIntegers[f.kind]:
		c.Generated = schema.Identity
	case option == "auto" && f.kind == kindUUID:
		c.Generated = schema.RandomUUID
	case option == "auto" && f.kind == kindTime:
		c.Generated = schema.CurrentTime
	case option == "auto":
		return errors.New("only integers, UUIDs and times are made: the option auto")
	case option == "null":
		if f.pointer {
			return errors.New("a pointer is nullable without the option null")
		}
		f.zero, c.Nullable = true, true
	case name == option || !strings.HasSuffix(option, ")") || name == "decimal":
		return f.setKeyOption(option)
	case name == "ttl":
		if f.ttl, err = time.ParseDuration(argument); err == nil && f.ttl <= 0 {
			err = errors.New("a TTL has to be positive")
		}
	case name == "was":
		f.was = argument
	case name == "default":
		f.initial = option
	default:
		err = fmt.Errorf("%q is not an option", option)
	}
	return err
}

// setKeyOption applies an option of package keycodec.
func (f *field) setKeyOption(option string) error {
	c := &f.column
	k := keycodec.Field{Type: c.Type, Unit: c.Unit, Scale: c.Scale, Collation: c.Collation,
		Desc: f.desc, NullsLast: f.nulls}
	if err := k.SetOption(option); err != nil {
		return err
	}
	if k.KeepCase { // a table keeps the text in the row
		return fmt.Errorf("%q is not an option of a column", option)
	}
	if k.Type == keycodec.TypeFixed && f.kind == kindInt64 {
		f.kind = kindCoefficient
	}
	c.Type, c.Unit, c.Scale, c.Collation = k.Type, k.Unit, k.Scale, k.Collation
	f.desc, f.nulls = k.Desc, k.NullsLast
	return nil
}

// kindsOfIntegers are those that may be numbers of an identity.
var kindsOfIntegers = map[fieldKind]bool{kindInt8: true, kindInt16: true, kindInt32: true,
	kindInt64: true, kindUint8: true, kindUint16: true, kindUint32: true, kindUint64: true}

// kinds are the layouts of the types that keycodec.TypeOfGo returns.
var kinds = map[keycodec.Type]fieldKind{
	keycodec.TypeString: kindString, keycodec.TypeBytes: kindBytes, keycodec.TypeBool: kindBool,
	keycodec.TypeInt8: kindInt8, keycodec.TypeInt16: kindInt16, keycodec.TypeInt32: kindInt32,
	keycodec.TypeInt64: kindInt64, keycodec.TypeUint8: kindUint8, keycodec.TypeUint16: kindUint16,
	keycodec.TypeUint32: kindUint32, keycodec.TypeUint64: kindUint64,
	keycodec.TypeFloat32: kindFloat32, keycodec.TypeFloat64: kindFloat64,
	keycodec.TypeTime: kindTime, keycodec.TypeUUID: kindUUID, keycodec.TypeDecimal: kindDecimal,
	keycodec.TypeIP: kindIP, keycodec.TypeIPPrefix: kindPrefix,
}
