package composite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
)

// Type is the type of a field.
type Type uint8

// The types, with the Go values that encoding takes and decoding returns.
const (
	String    Type = iota + 1 // string, valid UTF-8
	Integer                   // int64; encoding also takes int and the smaller types
	Timestamp                 // time.Time of whole milliseconds, or int64 of them since 1970
	UUID                      // keycodec.UUID; encoding also takes [16]byte and the text
	Decimal                   // keycodec.Decimal
)

// On disk (stored schemas): the names.
var typeNames = [...]string{String: "string", Integer: "integer", Timestamp: "timestamp",
	UUID: "uuid", Decimal: "decimal"}

// String returns "string", "integer", "timestamp", "uuid" or "decimal".
func (t Type) String() string {
	if t.valid() {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

func (t Type) valid() bool { return t >= String && t <= Decimal }

const (
	// DefaultWidth is the width of strings in the layout's examples.
	DefaultWidth = 32
	// maxScale is the largest number of decimal places: one more, and 10 would overflow.
	maxScale = 18
)

// Field describes one field of a key.
type Field struct {
	Name string // not empty, unique in its schema
	Type Type
	// Width is the number of bytes that a string is padded to with zero bytes. 0 means
	// that it is written as it is.
	Width int
	// Scale is the number of decimal places of a decimal.
	Scale int
}

// String describes the field, for example "user_id string(32)" or "amount decimal(2)".
func (f Field) String() string {
	out := f.Name + " " + f.Type.String()
	switch {
	case f.Type == String && f.Width > 0:
		out += "(" + strconv.Itoa(f.Width) + ")"
	case f.Type == Decimal:
		out += "(" + strconv.Itoa(f.Scale) + ")"
	}
	return out
}

// ParseField reads "name[:type[:number]]", for example "user_id:string:32",
// "order_date:timestamp" or "amount:decimal:2". The number is the width of a string or the
// scale of a decimal. Without a type it is a string; "name" and "name:string" have
// DefaultWidth, "name:string:0" is of variable length.
func ParseField(text string) (Field, error) {
	parts := strings.Split(text, ":")
	f := Field{Name: parts[0], Type: String, Width: DefaultWidth}
	if len(parts) > 1 {
		i := slices.Index(typeNames[:], parts[1])
		if i < int(String) {
			return Field{}, fmt.Errorf("composite: unknown type %q of field %q; types are"+
				" string, integer, timestamp, uuid, decimal", parts[1], f.Name)
		}
		if f.Type = Type(i); f.Type != String {
			f.Width = 0
		}
	}
	if len(parts) > 2 {
		n, err := strconv.Atoi(parts[2])
		if err != nil || len(parts) > 3 || f.Type != String && f.Type != Decimal {
			return Field{}, fmt.Errorf("composite: field %q is not of the form name:type,"+
				" name:string:width or name:decimal:scale", text)
		}
		if f.Type == String {
			f.Width = n
		} else {
			f.Scale = n
		}
	}
	return f, f.validate()
}

func (f Field) validate() error {
	switch {
	case f.Name == "":
		return errors.New("composite: a field has no name")
	case !f.Type.valid():
		return fmt.Errorf("composite: field %q has the unknown %s", f.Name, f.Type)
	case f.Width != 0 && f.Type != String:
		return fmt.Errorf("composite: field %q has a width but is not a string", f.Name)
	case f.Width < 0 || f.Width > keycodec.MaxKeyBytes:
		return fmt.Errorf("composite: width %d of field %q is outside 0 to %d", f.Width, f.Name,
			keycodec.MaxKeyBytes)
	case f.Scale != 0 && f.Type != Decimal:
		return fmt.Errorf("composite: field %q has a scale but is not a decimal", f.Name)
	case f.Scale < 0 || f.Scale > maxScale:
		return fmt.Errorf("composite: scale %d of field %q is outside 0 to %d", f.Scale, f.Name,
			maxScale)
	}
	return nil
}

// size returns the number of bytes of the field, 0 if it varies.
func (f Field) size() int {
	switch f.Type {
	case String:
		return f.Width
	case UUID:
		return 16
	}
	return 8
}

func (f Field) variable() bool { return f.Type == String && f.Width == 0 }
