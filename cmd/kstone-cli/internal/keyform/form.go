// Package keyform makes keys from text and takes keys apart, in the three layouts that the
// keys commands know: ordered (package keycodec), composite (keycodec/composite) and
// rowkey (keycodec/rowkey).
package keyform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Part is a piece of a key: a field, or what stands between fields.
type Part struct {
	Start int    `json:"start"` // position of its first byte
	End   int    `json:"end"`   // position after its last byte
	Name  string `json:"name"`  // of the field; "" for what is no field
	What  string `json:"what"`  // type of the field, or what else it is
	Value string `json:"value"`
}

// Form is a layout with its fields.
type Form interface {
	// Fields returns how many values a key takes; -1 if any number.
	Fields() int
	// Encode returns the key of the values.
	Encode(values []string) ([]byte, error)
	// Explain returns all bytes of a key as parts, in order.
	Explain(key []byte) ([]Part, error)
}

// Options name a layout.
type Options struct {
	Layout    string   // "ordered", "composite" or "rowkey"
	Fields    []string // name:type…, in the notation of the layout
	Delimiter string   // of composite keys; "" means UNIT_SEPARATOR
	Shard     string   // of composite keys; "" means none
	// Read returns the bytes that the text of a string or of bytes stands for; nil means that
	// texts are as they are rendered. Values of other types are always text.
	Read func(text string) ([]byte, error)
}

// Layouts are the names of the layouts.
var Layouts = []string{"ordered", "composite", "rowkey"}

// New returns the form that the options describe.
func New(o Options) (Form, error) {
	if o.Layout != "composite" && (o.Delimiter != "" || o.Shard != "") {
		return nil, errors.New("only composite keys have a delimiter and shards")
	}
	if len(o.Fields) == 0 && o.Layout != "rowkey" {
		return nil, fmt.Errorf("%s keys need --fields", o.Layout)
	}
	var f Form
	var err error
	reads := false
	switch o.Layout {
	case "ordered":
		f, reads, err = newOrdered(o)
	case "composite":
		f, reads, err = newComposite(o)
	case "rowkey":
		f, reads, err = newRowKey(o)
	default:
		return nil, fmt.Errorf("--layout is %s, not %q", strings.Join(Layouts, ", "), o.Layout)
	}
	if err == nil && o.Read != nil && !reads {
		return nil, errors.New("no field is a string or bytes, so that -i has no meaning")
	}
	return f, err
}

// ordered is the layout of package keycodec.
type ordered struct {
	schema keycodec.Schema
	read   func(text string) ([]byte, error)
}

// newOrdered, like its siblings, also reports whether a field is a string or bytes.
func newOrdered(o Options) (f Form, reads bool, err error) {
	s, err := layout.ParseFields(o.Fields)
	for _, f := range s.Fields() {
		reads = reads || isText(f)
	}
	return ordered{s, o.Read}, reads, err
}

func isText(f keycodec.Field) bool {
	return f.Type == keycodec.TypeString || f.Type == keycodec.TypeBytes
}

func (o ordered) Fields() int { return o.schema.Len() }

func (o ordered) Encode(texts []string) ([]byte, error) {
	values := make([]any, len(texts))
	for i, f := range o.schema.Fields()[:len(texts)] {
		var err error
		if values[i], err = o.parse(f, texts[i]); err != nil {
			return nil, err
		}
	}
	return o.schema.Append(nil, values...)
}

func (o ordered) parse(f keycodec.Field, text string) (any, error) {
	null, err := f.ParseValue(text)
	if o.read == nil || !isText(f) || err == nil && null == nil {
		return null, err
	}
	b, err := o.read(text)
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", f.Name, err)
	}
	if f.Type == keycodec.TypeString {
		return string(b), nil
	}
	return b, nil
}

func (o ordered) Explain(key []byte) ([]Part, error) {
	if _, err := o.schema.Decode(key); err != nil {
		return nil, err
	}
	var parts []Part
	start := 0
	for i, f := range o.schema.Fields() {
		end, err := o.schema.PrefixLen(key, i+1)
		if err != nil {
			return nil, err
		}
		one, err := keycodec.NewSchema(f)
		if err != nil {
			return nil, err
		}
		text, err := one.Format(key[start:end])
		if err != nil {
			return nil, err
		}
		what := strings.TrimPrefix(f.String(), f.Name+" ")
		parts = append(parts, Part{start, end, f.Name, what, text})
		start = end
	}
	return parts, nil
}

// compositeForm is the layout of package composite.
type compositeForm struct {
	schema *composite.Schema
	read   func(text string) ([]byte, error)
}

func newComposite(o Options) (f Form, reads bool, err error) {
	var co composite.Options
	if o.Delimiter != "" {
		name := strings.ToUpper(strings.ReplaceAll(o.Delimiter, "-", "_"))
		if co.Delimiter, err = composite.ParseDelimiter(name); err != nil {
			return nil, false, err
		}
	}
	if o.Shard != "" {
		spec, err := shard.ParseSpec(o.Shard)
		if err != nil {
			return nil, false, err
		}
		co.Shard = &spec
	}
	fields := make([]composite.Field, len(o.Fields))
	for i, text := range o.Fields {
		if fields[i], err = composite.ParseField(text); err != nil {
			return nil, false, err
		}
		reads = reads || fields[i].Type == composite.String
	}
	s, err := composite.NewSchema(co, fields...)
	return compositeForm{s, o.Read}, reads, err
}

func (c compositeForm) Fields() int { return c.schema.Len() }

func (c compositeForm) Encode(texts []string) ([]byte, error) {
	values := make([]any, len(texts))
	for i, f := range c.schema.Fields()[:len(texts)] {
		var err error
		if values[i], err = c.parse(f, texts[i]); err != nil {
			return nil, err
		}
	}
	return c.schema.Append(nil, values...)
}

// parsers read the text of a value as the ordered layout does.
var parsers = map[composite.Type]keycodec.Field{
	composite.Integer:   {Type: keycodec.TypeInt64},
	composite.Timestamp: {Type: keycodec.TypeTime, Unit: keycodec.Millisecond},
	composite.UUID:      {Type: keycodec.TypeUUID},
	composite.Decimal:   {Type: keycodec.TypeDecimal},
}

func (c compositeForm) parse(f composite.Field, text string) (any, error) {
	p, ok := parsers[f.Type]
	if !ok && c.read == nil {
		return text, nil
	}
	if !ok {
		b, err := c.read(text)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		return string(b), nil
	}
	p.Name = f.Name
	return p.ParseValue(text)
}

func (c compositeForm) Explain(key []byte) ([]Part, error) {
	fields, err := c.schema.Parts(key)
	if err != nil {
		return nil, err
	}
	o := c.schema.Options()
	var parts []Part
	at := 0
	if o.Shard != nil {
		bucket := int(key[0])<<8 | int(key[1])
		at = 2
		parts = append(parts, Part{0, at, "", "shard " + o.Shard.String(), fmt.Sprint(bucket)})
	}
	for _, f := range fields {
		if f.Start > at {
			parts = append(parts, Part{at, f.Start, "", "delimiter", o.Delimiter.String()})
		}
		at = f.End
		one, err := keycodec.NewSchema(shown(f.Field))
		if err != nil {
			return nil, err
		}
		encoded, err := one.Append(nil, f.Value)
		if err != nil {
			return nil, err
		}
		text, err := one.Format(encoded)
		if err != nil {
			return nil, err
		}
		what := strings.TrimPrefix(f.Field.String(), f.Field.Name+" ")
		parts = append(parts, Part{f.Start, f.End, f.Field.Name, what, text})
	}
	return parts, nil
}

// shown is the field of the ordered layout that renders values of a composite field.
func shown(f composite.Field) keycodec.Field {
	p, ok := parsers[f.Type]
	if !ok {
		p.Type = keycodec.TypeString
	}
	p.Name = f.Name
	return p
}
