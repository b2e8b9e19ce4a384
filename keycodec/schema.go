package keycodec

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Type is the type of a field.
type Type uint8

// The types and the Go values that Schema.Append takes and Schema.Decode returns.
const (
	TypeString  Type = iota + 1 // string
	TypeBytes                   // []byte
	TypeInt64                   // int64; Append also takes the smaller types and int
	TypeUint64                  // uint64; Append also takes the smaller types and uint
	TypeBool                    // bool
	TypeFloat64                 // float64; Append also takes float32
	TypeTime                    // time.Time
	TypeUUID                    // UUID; Append also takes [16]byte
	TypeDecimal                 // Decimal
)

// On disk (schema files): the types' names.
var typeNames = [...]string{TypeString: "string", TypeBytes: "bytes", TypeInt64: "int64",
	TypeUint64: "uint64", TypeBool: "bool", TypeFloat64: "float64", TypeTime: "time",
	TypeUUID: "uuid", TypeDecimal: "decimal"}

// String returns the name of the type in schema files: "string", "bytes", "int64",
// "uint64", "bool", "float64", "time", "uuid" or "decimal".
func (t Type) String() string {
	if t.valid() {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

func (t Type) valid() bool { return t >= TypeString && t <= TypeDecimal }

// Limits of schemas.
const (
	// MaxFields is the largest number of fields of a schema.
	MaxFields = 64
	// MaxNameBytes is the longest name of a field.
	MaxNameBytes = 255
)

// Field describes one field of a key.
type Field struct {
	Name      string // valid UTF-8, not empty, unique in its schema
	Type      Type
	Unit      Unit // of a time; UnitNone for all other types
	Desc      bool // larger values sort first
	Nullable  bool // the value may be NULL
	NullsLast bool // NULLs sort after all values, also if Desc; only with Nullable
}

// Schema describes the typed fields that make up a PK, an SK or any other ordered byte
// string, in their order. It is immutable and may be used concurrently. The zero Schema
// has no fields.
type Schema struct {
	fields []Field
}

// NewSchema returns the schema with the given fields. It fails if a field is not
// described properly.
func NewSchema(fields ...Field) (Schema, error) {
	if len(fields) > MaxFields {
		return Schema{}, fmt.Errorf("keycodec: a schema of %d fields, at most %d are possible",
			len(fields), MaxFields)
	}
	for i, f := range fields {
		if err := f.validate(); err != nil {
			return Schema{}, err
		}
		same := func(other Field) bool { return other.Name == f.Name }
		if slices.ContainsFunc(fields[:i], same) {
			return Schema{}, fmt.Errorf("keycodec: two fields have the name %q", f.Name)
		}
	}
	return Schema{slices.Clone(fields)}, nil
}

func (f Field) validate() error {
	switch {
	case f.Name == "":
		return fmt.Errorf("keycodec: a field of type %s has no name", f.Type)
	case len(f.Name) > MaxNameBytes:
		return fmt.Errorf("keycodec: field name of %d bytes, at most %d are possible",
			len(f.Name), MaxNameBytes)
	case !utf8.ValidString(f.Name):
		return fmt.Errorf("keycodec: the field name %q is not valid UTF-8", f.Name)
	case !f.Type.valid():
		return fmt.Errorf("keycodec: field %q has the unknown %s", f.Name, f.Type)
	case f.Type == TypeTime && !f.Unit.valid():
		return fmt.Errorf("keycodec: field %q needs a unit of time", f.Name)
	case f.Type != TypeTime && f.Unit != UnitNone:
		return fmt.Errorf("keycodec: field %q has a unit but is no time", f.Name)
	case f.NullsLast && !f.Nullable:
		return fmt.Errorf("keycodec: field %q orders NULLs but is not nullable", f.Name)
	}
	return nil
}

// Fields returns a copy of the fields.
func (s Schema) Fields() []Field { return slices.Clone(s.fields) }

// Len returns the number of fields.
func (s Schema) Len() int { return len(s.fields) }

// Equal reports whether two schemas describe the same bytes with the same names.
func (s Schema) Equal(other Schema) bool { return slices.Equal(s.fields, other.fields) }

// String describes the schema in one line, for example
// "region string, at time(ms) desc, note string null last".
func (s Schema) String() string {
	var out []byte
	for i, f := range s.fields {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, f.String()...)
	}
	return string(out)
}

// String describes the field, for example "at time(ms) desc".
func (f Field) String() string {
	out := f.Name + " " + f.Type.String()
	if f.Type == TypeTime {
		out += "(" + f.Unit.String() + ")"
	}
	if f.Desc {
		out += " desc"
	}
	switch {
	case f.NullsLast:
		out += " null last"
	case f.Nullable:
		out += " null first"
	}
	return out
}

// markerLast reports whether the ascending encoding marks a NULL with nullLast. A
// descending field is complemented, which moves its NULLs to the other end.
func (f Field) markerLast() bool { return f.NullsLast != f.Desc }
