// Package keyform makes keys from text and takes keys apart, in the three layouts that the
// keys commands know: ordered (package keycodec), composite (keycodec/composite) and
// rowkey (keycodec/rowkey).
package keyform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	var fs fields
	var err error
	switch o.Layout {
	case "ordered":
		f, fs, err = newOrdered(o)
	case "composite":
		f, fs, err = newComposite(o)
	case "rowkey":
		f, fs, err = newRowKey(o)
	default:
		return nil, fmt.Errorf("--layout is %s, not %q", strings.Join(Layouts, ", "), o.Layout)
	}
	if err == nil && o.Read != nil && f.Fields() >= 0 && !slices.ContainsFunc(fs.list, isText) {
		return nil, errors.New("no field is a string or bytes, so that -i has no meaning")
	}
	return f, err
}

// fields are those of a key, with the types of the ordered layout by which their values are read
// and shown.
type fields struct {
	list   []keycodec.Field
	read   func(text string) ([]byte, error)
	append func(dst []byte, values ...any) ([]byte, error) // of the layout
}

func (fs fields) Fields() int { return len(fs.list) }

func isText(f keycodec.Field) bool {
	return f.Type == keycodec.TypeString || f.Type == keycodec.TypeBytes
}

// Encode implements Form.
func (fs fields) Encode(texts []string) ([]byte, error) {
	values := make([]any, len(texts))
	for i, f := range fs.list[:len(texts)] {
		var err error
		if values[i], err = fs.value(f, texts[i]); err != nil {
			return nil, err
		}
	}
	return fs.append(nil, values...)
}

func (fs fields) value(f keycodec.Field, text string) (any, error) {
	v, err := f.ParseValue(text)
	if !isText(f) && errors.Is(err, strconv.ErrSyntax) {
		return nil, fmt.Errorf("field %q is %q, which is no %s", f.Name, text, f.Type)
	}
	if fs.read == nil || !isText(f) || err == nil && v == nil {
		return v, err
	}
	b, err := fs.read(text)
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", f.Name, err)
	}
	if f.Type == keycodec.TypeString {
		return string(b), nil
	}
	return b, nil
}

// ordered is the layout of package keycodec.
type ordered struct {
	fields
	schema keycodec.Schema
}

func newOrdered(o Options) (Form, fields, error) {
	s, err := layout.ParseFields(o.Fields)
	fs := fields{s.Fields(), o.Read, s.Append}
	return ordered{fs, s}, fs, err
}

func (o ordered) Explain(key []byte) ([]Part, error) {
	values, err := o.schema.Decode(key)
	if err != nil {
		return nil, err
	}
	var parts []Part
	start := 0
	for i, f := range o.list {
		end, err := o.schema.PrefixLen(key, i+1)
		if err != nil {
			return nil, err
		}
		text, err := layout.FormatValue(f, values[i])
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
	fields
	schema *composite.Schema
}

func newComposite(o Options) (_ Form, fs fields, err error) {
	var co composite.Options
	if o.Delimiter != "" {
		name := strings.ToUpper(strings.ReplaceAll(o.Delimiter, "-", "_"))
		if co.Delimiter, err = composite.ParseDelimiter(name); err != nil {
			return nil, fs, err
		}
	}
	if o.Shard != "" {
		spec, err := shard.ParseSpec(o.Shard)
		if err != nil {
			return nil, fs, err
		}
		co.Shard = &spec
	}
	own := make([]composite.Field, len(o.Fields))
	for i, text := range o.Fields {
		if own[i], err = composite.ParseField(text); err != nil {
			return nil, fs, err
		}
		f := shown[own[i].Type]
		f.Name = own[i].Name
		fs.list = append(fs.list, f)
	}
	s, err := composite.NewSchema(co, own...)
	fs.read, fs.append = o.Read, s.Append
	return compositeForm{fs, s}, fs, err
}

// shown are the types of the ordered layout that values are read and shown as.
var shown = map[composite.Type]keycodec.Field{
	composite.String:    {Type: keycodec.TypeString},
	composite.Integer:   {Type: keycodec.TypeInt64},
	composite.Timestamp: {Type: keycodec.TypeTime, Unit: keycodec.Millisecond},
	composite.UUID:      {Type: keycodec.TypeUUID},
	composite.Decimal:   {Type: keycodec.TypeDecimal},
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
	for i, f := range fields {
		if f.Start > at {
			parts = append(parts, Part{at, f.Start, "", "delimiter", o.Delimiter.String()})
		}
		at = f.End
		text, err := layout.FormatValue(c.list[i], f.Value)
		if err != nil {
			return nil, err
		}
		what := strings.TrimPrefix(f.Field.String(), f.Field.Name+" ")
		parts = append(parts, Part{f.Start, f.End, f.Field.Name, what, text})
	}
	return parts, nil
}
