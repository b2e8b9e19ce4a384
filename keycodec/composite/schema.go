package composite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// maxFields is the largest number of fields of a schema.
const maxFields = keycodec.MaxFields

// Options say how the fields of a key are put together. The zero value is the delimiter
// 1F and no shard.
type Options struct {
	Delimiter Delimiter
	// Shard spreads keys over buckets by their first field; nil does not. Its function is
	// MD5, XXHash or Murmur3. Text is hashed as it is, without padding; all other values
	// as they are encoded.
	Shard *shard.Spec
}

// Schema describes composite keys. It never changes, and neither may that of stored keys.
type Schema struct {
	fields    []Field
	delimiter string
	o         Options
}

// NewSchema returns the schema with the given fields, in their order. It fails if a field
// is not described properly, and if the keys could not be ordered: a string of variable
// length cannot stand before another field with the delimiter HighByte, which would put
// "a" after "ab".
func NewSchema(o Options, fields ...Field) (*Schema, error) {
	if !o.Delimiter.valid() {
		return nil, fmt.Errorf("composite: unknown %s", o.Delimiter)
	}
	if o.Shard != nil {
		pinned := *o.Shard
		o.Shard = &pinned
		if err := checkShard(pinned); err != nil {
			return nil, err
		}
	}
	if len(fields) == 0 || len(fields) > maxFields {
		return nil, fmt.Errorf("composite: a schema of %d fields, not 1 to %d", len(fields),
			maxFields)
	}
	for i, f := range fields {
		if err := f.validate(); err != nil {
			return nil, err
		}
		same := func(other Field) bool { return other.Name == f.Name }
		if slices.ContainsFunc(fields[:i], same) {
			return nil, fmt.Errorf("composite: two fields have the name %q", f.Name)
		}
		if f.variable() && o.Delimiter == HighByte && i < len(fields)-1 {
			return nil, fmt.Errorf("composite: field %q of variable length before another one"+
				" cannot be ordered with the delimiter %s", f.Name, o.Delimiter)
		}
	}
	return &Schema{slices.Clone(fields), o.Delimiter.bytes(), o}, nil
}

func checkShard(s shard.Spec) error {
	switch s.Function {
	case shard.MD5, shard.XXHash, shard.Murmur3:
		return s.Validate()
	}
	return fmt.Errorf("composite: keys of version 1 are sharded by md5, xxhash or murmur3,"+
		" not by %s", s.Function)
}

// Fields returns a copy of the fields.
func (s *Schema) Fields() []Field { return slices.Clone(s.fields) }

// Len returns the number of fields.
func (s *Schema) Len() int { return len(s.fields) }

// Options returns the options. Do not change the spec they point to.
func (s *Schema) Options() Options { return s.o }

// Size returns the length of the keys, 0 if it varies.
func (s *Schema) Size() int {
	n := len(s.fields)*len(s.delimiter) - len(s.delimiter)
	if s.o.Shard != nil {
		n += shardBytes + len(s.delimiter)
	}
	for _, f := range s.fields {
		if f.variable() {
			return 0
		}
		n += f.size()
	}
	return n
}

// String describes the schema in one line, for example
// "md5:256 UNIT_SEPARATOR user_id string(32), order_date timestamp".
func (s *Schema) String() string {
	out := ""
	if s.o.Shard != nil {
		out = s.o.Shard.String() + " "
	}
	texts := make([]string, len(s.fields))
	for i, f := range s.fields {
		texts[i] = f.String()
	}
	return out + s.o.Delimiter.String() + " " + strings.Join(texts, ", ")
}

// shardBytes is the length of the shard in front of a key.
const shardBytes = 2

// ErrValue is matched by the errors about values that the layout cannot order or
// distinguish, or that do not fit their field.
var ErrValue = errors.New("composite: value cannot be part of a key")

// valueError says which value cannot be encoded, and why.
type valueError struct {
	field Field
	why   string
}

func (e *valueError) Error() string {
	return fmt.Sprintf("composite: field %q (%s): %s", e.field.Name, e.field.Type, e.why)
}

func (e *valueError) Is(target error) bool { return target == ErrValue }

func (f Field) refuse(format string, args ...any) error {
	return &valueError{f, fmt.Sprintf(format, args...)}
}
