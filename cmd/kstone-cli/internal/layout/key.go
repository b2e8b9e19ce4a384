package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
)

// ErrUsage is matched by errors about arguments that do not fit the keys of the
// database.
var ErrUsage = errors.New("the arguments do not fit the keys of this database")

type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == ErrUsage }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Arg is a key or a part of one as it was given on a command line.
type Arg struct {
	Bytes []byte
	// Stored says that the bytes are the key as the database stores it (given in
	// hexadecimal or base64), not the text of its fields.
	Stored bool
}

// PK returns the PK that an argument means: its text if the key is one string, the
// value of its only field, or a JSON array of the values of several.
func (s *Schema) PK(arg Arg) ([]byte, error) {
	if s == nil || arg.Stored || s.pk.raw {
		return arg.Bytes, nil
	}
	return s.pk.key("partition key", "PK", arg)
}

// SK returns the SK that an argument means, by the same rules as PK.
func (s *Schema) SK(arg Arg) ([]byte, error) {
	switch {
	case s == nil || arg.Stored || s.sk.raw:
		return notNil(arg.Bytes), nil
	case len(s.sk.fields) == 0:
		return nil, errNoSK
	}
	return s.sk.key("sort key", "--sk", arg)
}

// SKOfParts returns the SK that consists of the given parts, one for each field.
func (s *Schema) SKOfParts(parts []Arg) ([]byte, error) {
	switch {
	case s == nil && len(parts) == 1:
		return notNil(parts[0].Bytes), nil
	case s == nil:
		return nil, errPlain
	case len(s.sk.fields) == 0:
		return nil, errNoSK
	case len(parts) != len(s.sk.fields):
		return nil, usage("the sort key has %d fields (%s), %d given",
			len(s.sk.fields), strings.Join(s.SKFields(), ", "), len(parts))
	}
	values, err := s.sk.prefixValues(parts)
	if err != nil {
		return nil, err
	}
	if s.sk.raw {
		return []byte(values[0].(string)), nil
	}
	key, err := s.sk.Append([]byte{}, values...)
	if err != nil {
		return nil, usage("%v", err)
	}
	return key, nil
}

var (
	errNoSK  = usage("the keys of this database have no sort key; leave it out")
	errPlain = usage("the sort keys of this database have no fields (nothing was imported with" +
		" --sk A,B,…); give the whole sort key, or --sk-begins-with")
)

// notNil returns b, or an empty slice: a sort key that was given is there.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// key returns the whole key that an argument means.
func (p *part) key(what, flag string, arg Arg) ([]byte, error) {
	values, err := p.values(0, arg)
	if err != nil {
		return nil, err
	}
	if n := len(p.fields); len(values) != n {
		names := fieldNames(*p)
		example := make([]string, n)
		for i := range example {
			example[i] = `"` + strings.ToUpper(names[i]) + `"`
		}
		hint := ""
		if flag == "--sk" {
			hint = fmt.Sprintf(", or give --sk-part %d times", n)
		}
		return nil, usage("the %s has %d fields (%s); write %s as '[%s]'%s", what, n,
			strings.Join(names, ", "), flag, strings.Join(example, ","), hint)
	}
	return p.Append(nil, values...)
}

// values returns the typed values that an argument means for the fields from first on:
// those of a JSON array, or one.
func (p *part) values(first int, arg Arg) ([]any, error) {
	if first >= len(p.fields) {
		return nil, usage("the sort key has only %d fields: %s", len(p.fields),
			strings.Join(fieldNames(*p), ", "))
	}
	var elements []json.RawMessage
	if !isArray(arg.Bytes, &elements) {
		v, err := valueOfArg(p.fields[first], arg.Bytes)
		if err != nil {
			return nil, usage("%v", err)
		}
		return []any{v}, nil
	}
	if first+len(elements) > len(p.fields) {
		return nil, usage("%d values for the %d fields of the key (%s)", first+len(elements),
			len(p.fields), strings.Join(fieldNames(*p), ", "))
	}
	var values []any
	for i, element := range elements {
		text, err := record.AppendCanonical(nil, element)
		if err != nil {
			return nil, usage("%v", err)
		}
		v, err := valueOfJSON(p.fields[first+i], text)
		if err != nil {
			return nil, usage("%v", err)
		}
		values = append(values, v)
	}
	return values, nil
}

// isArray reports whether text is a JSON array, and parses it.
func isArray(text []byte, elements *[]json.RawMessage) bool {
	return bytes.HasPrefix(text, []byte("[")) && json.Unmarshal(text, elements) == nil
}

func (p *part) prefixValues(parts []Arg) ([]any, error) {
	if len(parts) > len(p.fields) {
		return nil, usage("%d parts of a sort key that has %d fields: %s", len(parts),
			len(p.fields), strings.Join(fieldNames(*p), ", "))
	}
	var values []any
	for i, arg := range parts {
		v, err := valueOfArg(p.fields[i], arg.Bytes)
		if err != nil {
			return nil, usage("%v", err)
		}
		values = append(values, v)
	}
	return values, nil
}

// FormatPK shows a PK on one line.
func (s *Schema) FormatPK(pk []byte) string {
	if s == nil {
		return Show(pk)
	}
	return s.pk.format(pk)
}

// FormatSK shows an SK on one line: its fields joined by " / " if it has several.
func (s *Schema) FormatSK(sk []byte) string {
	if s == nil {
		return Show(sk)
	}
	return s.sk.format(sk)
}

func (p *part) format(key []byte) string {
	if p.raw || len(p.fields) == 0 {
		return Show(key)
	}
	text, err := p.Format(key)
	if err != nil {
		return Show(key)
	}
	return text
}

// FormatKey shows a key on one line.
func (s *Schema) FormatKey(k engine.Key) string {
	if k.SK == nil {
		return s.FormatPK(k.PK)
	}
	return s.FormatPK(k.PK) + " · " + s.FormatSK(k.SK)
}

// SKParts returns the typed fields of an SK as text, one by one; nil if it has none or
// does not fit the schema.
func (s *Schema) SKParts(sk []byte) []string {
	if s == nil || s.sk.raw || len(s.sk.fields) == 0 {
		return nil
	}
	values, err := s.sk.Decode(sk)
	if err != nil {
		return nil
	}
	parts := make([]string, len(values))
	for i, v := range values {
		if text, ok := v.(string); ok {
			parts[i] = text
			continue
		}
		parts[i] = formatValue(s.sk.fields[i], v)
	}
	return parts
}

// PlainPK reports whether a PK is the bytes of its text.
func (s *Schema) PlainPK() bool { return s == nil || s.pk.raw }
