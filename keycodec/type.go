package keycodec

import (
	"fmt"
	"slices"
)

// Type is the type of a field.
type Type uint8

// The types and the Go values that Schema.Append takes and Schema.Decode returns. Numbers
// are decoded to the widest type of their kind; encoding takes every type of the kind
// and refuses a number that the field cannot hold.
const (
	TypeString   Type = iota + 1 // string
	TypeBytes                    // []byte
	TypeInt64                    // int64
	TypeUint64                   // uint64
	TypeBool                     // bool
	TypeFloat64                  // float64
	TypeTime                     // time.Time, in the resolution of Field.Unit
	TypeUUID                     // UUID; Append also takes [16]byte
	TypeDecimal                  // Decimal, of any precision
	TypeInt8                     // int64
	TypeInt16                    // int64
	TypeInt32                    // int64
	TypeUint8                    // uint64
	TypeUint16                   // uint64
	TypeUint32                   // uint64
	TypeFloat32                  // float64 that is a float32
	TypeFixed                    // Decimal, with Field.Scale decimal places
	TypeIP                       // netip.Addr, without a zone
	TypeIPPrefix                 // netip.Prefix, masked
)

// typeInfo is what the parts of the package know about a type. A width of 0 means that
// the length is found in the bytes or depends on the unit.
type typeInfo struct {
	name  string // On disk: the name in schema files
	width int
}

var typeTable = [...]typeInfo{
	TypeString: {"string", 0}, TypeBytes: {"bytes", 0}, TypeInt64: {"int64", 8},
	TypeUint64: {"uint64", 8}, TypeBool: {"bool", 1}, TypeFloat64: {"float64", 8},
	TypeTime: {"time", 0}, TypeUUID: {"uuid", 16}, TypeDecimal: {"decimal", 0},
	TypeInt8: {"int8", 1}, TypeInt16: {"int16", 2}, TypeInt32: {"int32", 4},
	TypeUint8: {"uint8", 1}, TypeUint16: {"uint16", 2}, TypeUint32: {"uint32", 4},
	TypeFloat32: {"float32", 4}, TypeFixed: {"fixed", 8}, TypeIP: {"ip", 0},
	TypeIPPrefix: {"ipprefix", 0},
}

// String returns the name of the type in schema files: "string", "bytes", "int8" to
// "int64", "uint8" to "uint64", "bool", "float32", "float64", "time", "uuid", "decimal",
// "fixed", "ip" or "ipprefix".
func (t Type) String() string {
	if t.valid() {
		return typeTable[t].name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// ParseType returns the type of that name.
func ParseType(name string) (Type, error) {
	i := slices.IndexFunc(typeTable[TypeString:], func(t typeInfo) bool { return t.name == name })
	if i < 0 {
		return 0, fmt.Errorf("keycodec: %q is not a type", name)
	}
	return TypeString + Type(i), nil
}

func (t Type) valid() bool { return t >= TypeString && t <= TypeIPPrefix }

func (t Type) isText() bool { return t == TypeString || t == TypeBytes }
