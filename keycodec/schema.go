package keycodec

import (
	"fmt"
	"slices"
)

// Limits of schemas.
const (
	// MaxFields is the largest number of fields of a schema.
	MaxFields = 64
	// MaxNameBytes is the longest name of a field.
	MaxNameBytes = 255
)

// Schema describes the typed fields that make up a PK, an SK or any other ordered byte
// string, in their order. It is immutable and may be used concurrently. The zero Schema
// has no fields.
type Schema struct {
	fields []Field
	kept   []int // positions of the fields that keep their case
}

// MustSchema is NewSchema of fields that the program knows, as for a variable of a package: it
// panics if one is not described properly.
func MustSchema(fields ...Field) Schema {
	s, err := NewSchema(fields...)
	if err != nil {
		panic(err)
	}
	return s
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
	s := Schema{fields: slices.Clone(fields)}
	for i, f := range fields {
		if f.KeepCase {
			s.kept = append(s.kept, i)
		}
	}
	return s, nil
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
