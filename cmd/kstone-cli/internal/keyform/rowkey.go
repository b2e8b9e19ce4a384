package keyform

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/rowkey"
)

// rowKeyForm is the layout of package rowkey. Without fields it takes any number of parts,
// all of them text.
type rowKeyForm struct {
	fields
	types []string
}

// rowKeyTypes are the types of parts: text, hexadecimal bytes, 8 bytes, SQLite 4 varint.
var (
	rowKeyTypes = []string{"string", "bytes", "int", "varint"}
	shownParts  = []keycodec.Type{
		keycodec.TypeString, keycodec.TypeBytes, keycodec.TypeInt64, keycodec.TypeUint64,
	}
)

func newRowKey(o Options) (Form, fields, error) {
	f := rowKeyForm{fields: fields{read: o.Read}}
	for _, text := range o.Fields {
		name, typ, ok := strings.Cut(text, ":")
		if !ok {
			typ = "string"
		}
		i := slices.Index(rowKeyTypes, typ)
		if name == "" || i < 0 {
			return nil, f.fields, fmt.Errorf("field %q is not of the form name:type with a type "+
				"of %s", text, strings.Join(rowKeyTypes, ", "))
		}
		f.list = append(f.list, keycodec.Field{Name: name, Type: shownParts[i]})
		f.types = append(f.types, typ)
	}
	return f, f.fields, nil
}

func (r rowKeyForm) Fields() int {
	if r.list == nil {
		return -1
	}
	return len(r.list)
}

// field returns the field of part i, and its type.
func (r rowKeyForm) field(i int) (keycodec.Field, string) {
	if r.list == nil {
		name := "part " + strconv.Itoa(i)
		return keycodec.Field{Name: name, Type: keycodec.TypeString}, "string"
	}
	return r.list[i], r.types[i]
}

func (r rowKeyForm) Encode(texts []string) ([]byte, error) {
	b := &rowkey.Builder{}
	for i, text := range texts {
		f, _ := r.field(i)
		if f.Type == keycodec.TypeBytes && r.read == nil {
			v, err := hex.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("field %q: %q is no bytes in hexadecimal", f.Name, text)
			}
			b.AddBytes(v)
			continue
		}
		v, err := r.value(f, text)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case int64:
			b.AddInt64(v)
		case uint64:
			b.AddVarint(v)
		case string:
			b.AddBytes([]byte(v))
		case []byte:
			b.AddBytes(v)
		}
	}
	return b.Drain()
}

func (r rowKeyForm) Explain(key []byte) ([]Part, error) {
	k, err := rowkey.Parse(key)
	if err != nil {
		return nil, err
	}
	if n := r.Fields(); n >= 0 && n != k.Len() {
		return nil, fmt.Errorf("the key has %d parts, not %d", k.Len(), n)
	}
	var parts []Part
	for i := range k.Len() {
		end := len(key)
		if i+1 < k.Len() {
			end = k.Offset(i+1) - 2
		}
		text, err := r.text(k, i)
		if err != nil {
			return nil, err
		}
		f, typ := r.field(i)
		parts = append(parts, Part{k.Offset(i), end, f.Name, typ, text})
		if end < len(key) {
			parts = append(parts, Part{end, end + 2, "", "separator", ""})
		}
	}
	return parts, nil
}

// text renders part i.
func (r rowKeyForm) text(k rowkey.Key, i int) (string, error) {
	switch f, _ := r.field(i); f.Type {
	case keycodec.TypeInt64:
		v, err := k.Int64(i)
		return strconv.FormatInt(v, 10), err
	case keycodec.TypeUint64:
		v, err := k.Varint(i)
		return strconv.FormatUint(v, 10), err
	case keycodec.TypeBytes:
		b, err := k.Bytes(i)
		return hex.EncodeToString(b), err
	}
	b, err := k.Bytes(i)
	return text(b), err
}

// text renders bytes as keys are rendered everywhere: as they are, or quoted.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return keycodec.Key{PK: b}.String()
}
