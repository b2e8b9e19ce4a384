// Package layout says how the items of a database look to people: which fields their
// keys are made of, how records become items and items records, how arguments of
// commands become keys and conditions on sort keys, and how keys are shown.
//
// A database that was filled by an import has a [Schema], which the import stores in
// it. A database without one has plain keys: one string of bytes for the PK, one for
// the SK. The methods of a nil *Schema serve those.
package layout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
)

// Property is the name of the database property that holds the schema.
const Property = "cli.schema"

// Schema names the fields of the keys and their types. It is immutable.
type Schema struct {
	pk, sk part
}

// part is the schema of the PK or of the SK.
type part struct {
	keycodec.Schema
	fields []keycodec.Field
	// raw says that the key is the bytes of its only field, without any encoding: one
	// string that sorts ascending by its bytes and cannot be NULL. So a key that consists
	// of one field is the same as one put by hand.
	raw bool
}

func newPart(s keycodec.Schema) part {
	p := part{Schema: s, fields: s.Fields()}
	if len(p.fields) == 1 {
		f := p.fields[0]
		p.raw = f.Type == keycodec.TypeString && !f.Desc && !f.Nullable &&
			f.Collation == keycodec.CollateBytes
	}
	return p
}

// typeNames are the names of types in flags.
var typeNames = map[string]keycodec.Field{
	"string":  {Type: keycodec.TypeString},
	"bytes":   {Type: keycodec.TypeBytes},
	"int":     {Type: keycodec.TypeInt64},
	"uint":    {Type: keycodec.TypeUint64},
	"float":   {Type: keycodec.TypeFloat64},
	"bool":    {Type: keycodec.TypeBool},
	"uuid":    {Type: keycodec.TypeUUID},
	"decimal": {Type: keycodec.TypeDecimal},
	"time-s":  {Type: keycodec.TypeTime, Unit: keycodec.Second},
	"time-ms": {Type: keycodec.TypeTime, Unit: keycodec.Millisecond},
	"time-us": {Type: keycodec.TypeTime, Unit: keycodec.Microsecond},
	"time-ns": {Type: keycodec.TypeTime, Unit: keycodec.Nanosecond},
}

// moreTypes are the types that only ParseFields knows.
var moreTypes = map[string]keycodec.Field{
	"int8":      {Type: keycodec.TypeInt8},
	"int16":     {Type: keycodec.TypeInt16},
	"int32":     {Type: keycodec.TypeInt32},
	"uint8":     {Type: keycodec.TypeUint8},
	"uint16":    {Type: keycodec.TypeUint16},
	"uint32":    {Type: keycodec.TypeUint32},
	"float32":   {Type: keycodec.TypeFloat32},
	"time-full": {Type: keycodec.TypeTime, Unit: keycodec.FullRange},
	"fixed":     {Type: keycodec.TypeFixed},
	"ip":        {Type: keycodec.TypeIP},
	"ipprefix":  {Type: keycodec.TypeIPPrefix},
}

// ParseSchema reads the --pk and --sk flags of an import: lists of fields, each
// "name[:type][:desc][:null]". The type is string if none is given.
func ParseSchema(pk, sk []string) (*Schema, error) {
	s := &Schema{}
	for _, part := range []struct {
		flag   string
		fields []string
		to     *part
	}{{"--pk", pk, &s.pk}, {"--sk", sk, &s.sk}} {
		schema, err := parseFields(part.fields, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.flag, err)
		}
		*part.to = newPart(schema)
	}
	return s, s.validate()
}

// ParseKey reads the fields of a key that stands alone, in the notation of ParseSchema. The
// Schema has them as its PK.
func ParseKey(fields []string) (*Schema, error) {
	schema, err := parseFields(fields, false)
	if err != nil {
		return nil, err
	}
	s := &Schema{pk: newPart(schema)}
	return s, s.validate()
}

// ParseFields reads a list of fields that need not be those of an import: beyond the
// notation of ParseSchema it knows all types of package keycodec ("fixed:2" with its
// decimal places), "null-last", and the collations "ascii" and "unicode".
func ParseFields(texts []string) (keycodec.Schema, error) {
	return parseFields(texts, true)
}

func parseFields(texts []string, all bool) (keycodec.Schema, error) {
	fields := make([]keycodec.Field, 0, len(texts))
	for _, text := range texts {
		f, err := parseField(text, all)
		if err != nil {
			return keycodec.Schema{}, err
		}
		fields = append(fields, f)
	}
	return keycodec.NewSchema(fields...)
}

// parseField reads a field of an import or, with all, of ParseFields.
func parseField(text string, all bool) (keycodec.Field, error) {
	types, more := typeNames, "desc and null"
	if all {
		types, more = maps.Clone(typeNames), "desc, null, null-last, ascii and unicode"
		maps.Copy(types, moreTypes)
	}
	options := strings.Split(text, ":")
	f := keycodec.Field{Name: options[0], Type: keycodec.TypeString}
	scaled := false
	for i, option := range options[1:] {
		known, isType := types[option]
		places, err := strconv.ParseInt(option, 10, 32)
		switch {
		case isType && i == 0:
			f.Type, f.Unit = known.Type, known.Unit
		case option == "desc":
			f.Desc = true
		case option == "null":
			f.Nullable = true
		case option == "" && len(options) == 2: // "name:" is a name
		case all && option == "null-last":
			f.Nullable, f.NullsLast = true, true
		case all && option == keycodec.CollateASCII.String():
			f.Collation = keycodec.CollateASCII
		case all && option == keycodec.CollateUnicode.String():
			f.Collation = keycodec.CollateUnicode
		case err == nil && f.Type == keycodec.TypeFixed && !scaled:
			f.Scale, scaled = int32(places), true
		default:
			return f, fmt.Errorf("unknown type %q of field %q; types are %s, options %s", option,
				f.Name, strings.Join(slices.Sorted(maps.Keys(types)), ", "), more)
		}
	}
	return f, nil
}

func (s *Schema) validate() error {
	if s.pk.Len() == 0 {
		return fmt.Errorf("--pk names no field; name the field that holds the partition key")
	}
	names := map[string]bool{}
	for _, f := range slices.Concat(s.pk.fields, s.sk.fields) {
		switch {
		case names[f.Name]:
			return fmt.Errorf("the key has two fields %q", f.Name)
		case strings.HasPrefix(f.Name, "$"):
			return fmt.Errorf("a key field cannot be called %q: names with $ are reserved", f.Name)
		}
		names[f.Name] = true
	}
	return nil
}

// Flags returns the schema as import flags.
func (s *Schema) Flags() string {
	if s == nil {
		return ""
	}
	out := "--pk " + flagOf(s.pk)
	if s.sk.Len() > 0 {
		out += " --sk " + flagOf(s.sk)
	}
	return out
}

func flagOf(p part) string {
	var parts []string
	for _, f := range p.fields {
		text := f.Name
		for name, known := range typeNames {
			if known.Type == f.Type && known.Unit == f.Unit && name != "string" {
				text += ":" + name
			}
		}
		if f.Desc {
			text += ":desc"
		}
		if f.Nullable {
			text += ":null"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}

// Equal reports whether both schemas describe the same keys.
func (s *Schema) Equal(other *Schema) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.pk.Equal(other.pk.Schema) && s.sk.Equal(other.sk.Schema)
}

// On disk: the value of Property.
type schemaJSON struct {
	PK keycodec.Schema `json:"pk"`
	SK keycodec.Schema `json:"sk"`
}

// Encode returns the form that is stored in the database.
func (s *Schema) Encode() ([]byte, error) {
	return json.Marshal(schemaJSON{s.pk.Schema,
		s.sk.Schema})
}

// DecodeSchema reads what Encode wrote.
func DecodeSchema(data []byte) (*Schema, error) {
	var in schemaJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("the key schema stored in the database: %w", err)
	}
	s := &Schema{newPart(in.PK), newPart(in.SK)}
	return s, s.validate()
}

// PKFields returns the names of the fields of the PK, nil without a schema.
func (s *Schema) PKFields() []string {
	if s == nil {
		return nil
	}
	return fieldNames(s.pk)
}

// SKFields returns the names of the fields of the SK, nil if there are none.
func (s *Schema) SKFields() []string {
	if s == nil {
		return nil
	}
	return fieldNames(s.sk)
}

func fieldNames(p part) []string {
	var names []string
	for _, f := range p.fields {
		names = append(names, f.Name)
	}
	return names
}

// hasField reports whether the key has a field of that name.
func (s *Schema) hasField(name []byte) bool { return s.pk.has(name) || s.sk.has(name) }

func (p *part) has(name []byte) bool {
	for i := range p.fields {
		if p.fields[i].Name == string(name) {
			return true
		}
	}
	return false
}
