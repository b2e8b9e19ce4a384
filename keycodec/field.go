package keycodec

import (
	"fmt"
	"unicode/utf8"
)

// MaxScale is the largest number of decimal places of a fixed-scale decimal.
const MaxScale = 18

// Field describes one field of a key.
type Field struct {
	Name      string // valid UTF-8, not empty, unique in its schema
	Type      Type
	Unit      Unit      // of a time; UnitNone for all other types
	Desc      bool      // larger values sort first
	Nullable  bool      // the value may be NULL
	NullsLast bool      // NULLs sort after all values, also if Desc; only with Nullable
	Scale     int32     // decimal places of a fixed-scale decimal, 0 to MaxScale
	Collation Collation // of a string; CollateBytes for all other types
	// KeepCase makes a collated field decode to the text that went in and not to its
	// folded form. The text stands after the last field, where it also distinguishes keys
	// that are equal under the collation.
	KeepCase bool
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
	case f.NullsLast && !f.Nullable:
		return fmt.Errorf("keycodec: field %q orders NULLs but is not nullable", f.Name)
	}
	return f.validateType()
}

// validateType checks the members that belong to one type only.
func (f Field) validateType() error {
	switch {
	case f.Type == TypeTime && !f.Unit.valid():
		return fmt.Errorf("keycodec: field %q needs a unit of time", f.Name)
	case f.Type != TypeTime && f.Unit != UnitNone:
		return fmt.Errorf("keycodec: field %q has a unit but is not a time", f.Name)
	case f.Type != TypeFixed && f.Scale != 0:
		return fmt.Errorf("keycodec: field %q has a scale but is not a fixed-scale decimal", f.Name)
	case f.Scale < 0 || f.Scale > MaxScale:
		return fmt.Errorf("keycodec: field %q has %d decimal places, possible are 0 to %d",
			f.Name, f.Scale, MaxScale)
	case !f.Collation.valid():
		return fmt.Errorf("keycodec: field %q has the unknown %s", f.Name, f.Collation)
	case f.Type != TypeString && f.Collation != CollateBytes:
		return fmt.Errorf("keycodec: field %q has a collation but is not a string", f.Name)
	case f.KeepCase && f.Collation == CollateBytes:
		return fmt.Errorf("keycodec: field %q keeps the case but has no collation", f.Name)
	}
	return nil
}

// String describes the field, for example "at time(ms) desc".
func (f Field) String() string {
	out := f.Name + " " + f.Type.String()
	switch f.Type {
	case TypeTime:
		out += "(" + f.Unit.String() + ")"
	case TypeFixed:
		out += fmt.Sprintf("(%d)", f.Scale)
	}
	if f.Collation != CollateBytes {
		out += " collate " + f.Collation.String()
	}
	if f.KeepCase {
		out += " keepcase"
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
func (f *Field) markerLast() bool { return f.NullsLast != f.Desc }

// mask is what the bytes of the field are combined with: FF if it is descending.
func (f *Field) mask() byte {
	if f.Desc {
		return 0xff
	}
	return 0
}

// Append appends the encoding of one value, nil for NULL, to dst: what Schema.Append
// writes for a schema of this field alone that keeps no case. Errors are those of
// Schema.Append. Requires: the field is one that NewSchema accepts.
func (f Field) Append(dst []byte, v any) ([]byte, error) {
	out, err := f.append(dst, v)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Decode reads the value at the start of b and returns what follows it, a view into b. A
// collated string comes folded. Errors are those of Schema.Decode.
func (f Field) Decode(b []byte) (v any, rest []byte, err error) {
	v, rest, _, err = f.decode(b, nil)
	return v, rest, err
}

// Skip returns what follows the value at the start of b, a view into b. It finds the end
// of the value without decoding or checking it, and allocates nothing.
func (f Field) Skip(b []byte) (rest []byte, err error) {
	n, err := f.encodedLen(b)
	if err != nil {
		return nil, err
	}
	return b[n:], nil
}
