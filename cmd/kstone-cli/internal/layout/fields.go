package layout

import (
	"encoding/json"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Columns returns the fields of the keys as columns of conditions: pk and sk without a schema.
func (s *Schema) Columns() []schema.Column {
	if s == nil {
		return []schema.Column{column(typeNames["string"], "pk"), column(typeNames["string"], "sk")}
	}
	var out []schema.Column
	for _, p := range []part{s.pk, s.sk} {
		for _, f := range p.fields {
			out = append(out, column(f, f.Name))
		}
	}
	return out
}

func column(f keycodec.Field, name string) schema.Column {
	return schema.Column{Name: name, Type: f.Type, Unit: f.Unit, Scale: f.Scale,
		Collation: f.Collation, Nullable: true}
}

// Picker finds values of items by the names of their fields, for conditions.
type Picker struct {
	schema *Schema
	keys   int        // how many of the names are those of Columns
	names  [][]string // of the others; the members of members follow each other
	row    record.Row
	inner  record.Row
	// Seen says of each name whether an item had such a field.
	Seen   []bool
	values []expr.Value
}

// NewPicker returns a picker of the named fields, which begin with those of Columns.
func (s *Schema) NewPicker(names []string) *Picker {
	p := &Picker{schema: s, keys: len(s.Columns()), Seen: make([]bool, len(names)),
		values: make([]expr.Value, len(names))}
	for _, name := range names[p.keys:] {
		p.names = append(p.names, strings.SplitN(name, ".", 2))
	}
	return p
}

// Keys returns how many of the names are fields of the keys.
func (p *Picker) Keys() int { return p.keys }

// Values returns the values of an item, NULL for what it does not have. They are valid until the
// next call.
func (p *Picker) Values(item *engine.Item) []expr.Value {
	clear(p.values)
	p.keyValues(item)
	if len(p.names) == 0 || len(item.Value) < 2 || item.Value[0] != '{' ||
		record.ParseObject(item.Value, &p.row) != nil {
		return p.values
	}
	for i, name := range p.names {
		text := p.row.Find(strings.Join(name, "."))
		if text == nil && len(name) == 2 {
			if outer := p.row.Find(name[0]); len(outer) > 1 && outer[0] == '{' &&
				record.ParseObject(outer, &p.inner) == nil {
				text = p.inner.Find(name[1])
			}
		}
		if text != nil {
			p.Seen[p.keys+i] = true
			p.values[p.keys+i] = valueOf(text)
		}
	}
	return p.values
}

// keyValues sets the values of the fields of the keys.
func (p *Picker) keyValues(item *engine.Item) {
	set := func(i int, v any) {
		p.Seen[i] = true
		p.values[i], _ = expr.From(v)
	}
	if p.schema == nil {
		set(0, string(item.Key.PK))
		if item.Key.SK != nil {
			set(1, string(item.Key.SK))
		}
		return
	}
	at := 0
	for _, k := range []struct {
		part part
		key  []byte
	}{{p.schema.pk, item.Key.PK}, {p.schema.sk, item.Key.SK}} {
		if values, ok := splitKey(k.part, k.key); ok && len(values) == len(k.part.fields) {
			for i, v := range values {
				set(at+i, v)
			}
		}
		at += len(k.part.fields)
	}
}

// FieldNames returns the names of the members of a value that is a JSON object.
func FieldNames(value []byte) (names []string) {
	var row record.Row
	if len(value) < 2 || value[0] != '{' || record.ParseObject(value, &row) != nil {
		return nil
	}
	for _, f := range row.Fields {
		names = append(names, string(f.Name))
	}
	return names
}

// valueOf returns the value of JSON text: an array of scalars is a list, and other arrays and
// objects are their texts.
func valueOf(text []byte) expr.Value {
	switch {
	case record.IsBytes(text):
		b, _ := record.Unquote(nil, text)
		return expr.Bytes(b)
	case text[0] == '"':
		b, _ := record.Unquote(nil, text)
		return expr.String(string(b))
	case text[0] == '[':
		var elements []json.RawMessage
		if json.Unmarshal(text, &elements) == nil {
			list := make([]expr.Value, len(elements))
			for i, e := range elements {
				if e[0] == '[' || e[0] == '{' && !record.IsBytes(e) {
					return expr.String(string(text))
				}
				list[i] = valueOf(e)
			}
			return expr.List(list)
		}
	}
	switch string(text) {
	case "null":
		return expr.Null()
	case "true", "false":
		return expr.Bool(text[0] == 't')
	}
	if v, err := expr.ParseNumber(string(text)); err == nil {
		return v
	}
	return expr.String(string(text))
}
