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
	fields []rowKeyField
	read   func(text string) ([]byte, error)
}

type rowKeyField struct{ name, typ string }

// rowKeyTypes are the types of parts: text, hexadecimal bytes, 8 bytes, SQLite 4 varint.
var rowKeyTypes = []string{"string", "bytes", "int", "varint"}

func newRowKey(o Options) (form Form, reads bool, err error) {
	f := rowKeyForm{read: o.Read}
	reads = len(o.Fields) == 0
	for _, text := range o.Fields {
		name, typ, ok := strings.Cut(text, ":")
		if !ok {
			typ = "string"
		}
		if name == "" || !slices.Contains(rowKeyTypes, typ) {
			return nil, false, fmt.Errorf("field %q is not of the form name:type with a type of %s",
				text, strings.Join(rowKeyTypes, ", "))
		}
		reads = reads || typ == "string" || typ == "bytes"
		f.fields = append(f.fields, rowKeyField{name, typ})
	}
	return f, reads, nil
}

func (r rowKeyForm) Fields() int {
	if r.fields == nil {
		return -1
	}
	return len(r.fields)
}

// field returns the field of part i.
func (r rowKeyForm) field(i int) rowKeyField {
	if r.fields == nil {
		return rowKeyField{"part " + strconv.Itoa(i), "string"}
	}
	return r.fields[i]
}

func (r rowKeyForm) Encode(texts []string) ([]byte, error) {
	b := &rowkey.Builder{}
	for i, text := range texts {
		f := r.field(i)
		var err error
		switch f.typ {
		case "int":
			var v int64
			v, err = strconv.ParseInt(text, 10, 64)
			b.AddInt64(v)
		case "varint":
			var v uint64
			v, err = strconv.ParseUint(text, 10, 64)
			b.AddVarint(v)
		default:
			v, err := r.bytes(f, text)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f.name, err)
			}
			b.AddBytes(v)
		}
		if err != nil {
			return nil, fmt.Errorf("field %q: %q is no %s", f.name, text, f.typ)
		}
	}
	return b.Drain()
}

// bytes returns the bytes of a string, or of bytes, which are hexadecimal unless Read says
// otherwise.
func (r rowKeyForm) bytes(f rowKeyField, text string) ([]byte, error) {
	switch {
	case r.read != nil:
		return r.read(text)
	case f.typ != "bytes":
		return []byte(text), nil
	}
	v, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no bytes in hexadecimal", text)
	}
	return v, nil
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
		f := r.field(i)
		parts = append(parts, Part{k.Offset(i), end, f.name, f.typ, text})
		if end < len(key) {
			parts = append(parts, Part{end, end + 2, "", "separator", ""})
		}
	}
	return parts, nil
}

// text renders part i.
func (r rowKeyForm) text(k rowkey.Key, i int) (string, error) {
	switch r.field(i).typ {
	case "int":
		v, err := k.Int64(i)
		return strconv.FormatInt(v, 10), err
	case "varint":
		v, err := k.Varint(i)
		return strconv.FormatUint(v, 10), err
	}
	b, err := k.Bytes(i)
	if err != nil {
		return "", err
	}
	if r.field(i).typ == "bytes" {
		return hex.EncodeToString(b), nil
	}
	return text(b), nil
}

// text renders bytes as keys are rendered everywhere: as they are, or quoted.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return keycodec.Key{PK: b}.String()
}
