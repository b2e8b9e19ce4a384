package layout

import (
	"fmt"
	"unicode/utf8"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// AppendDynamoDB is AppendJSON in DynamoDB's export format, with a type for each value. A field of
// the key has the type of the field: S for text, B for bytes, N for numbers.
func (s *Schema) AppendDynamoDB(dst []byte, item *engine.Item, r *Record) []byte {
	s.Split(item, r)
	dst = append(dst, `{"Item":`...)
	if !r.Typed {
		plain := (*Schema)(nil).AppendJSON(nil, item, r)
		if s == nil {
			return append(record.AppendDynamoItem(dst, plain), '}')
		}
		dst = append(dst, `{"`+itemField+`":`...)
		return append(record.AppendDynamoMap(dst, plain), `}}`...)
	}
	return append(s.appendMembers(dst, item, r, appendTyped, record.AppendDynamoDB), '}')
}

// appendTyped appends a value of a key so that checkTyped and valueOfJSON read it back.
func appendTyped(dst []byte, f keycodec.Field, v any) []byte {
	var plain []byte
	switch v := v.(type) {
	case string:
		plain = record.AppendBase64(nil, []byte(v))
		if utf8.ValidString(v) {
			plain = record.AppendString(nil, []byte(v))
		}
	case []byte:
		plain = record.AppendBase64(nil, v)
	case keycodec.Decimal:
		plain = []byte(v.String())
	default:
		plain = appendValueJSON(nil, f, v)
	}
	return record.AppendDynamoDB(dst, plain)
}

// checkTyped refuses a value of another type than its field of the key has, which would be written
// with the type of the field.
func checkTyped(f keycodec.Field, text []byte) error {
	number := text[0] == '-' || '0' <= text[0] && text[0] <= '9'
	ok, remedy := true, ""
	switch f.Type {
	case keycodec.TypeString:
		b, err := record.Unquote(nil, text)
		ok = !record.IsBytes(text) || err == nil && !utf8.Valid(b)
		remedy = "bytes"
		if number {
			ok, remedy = false, "decimal"
		}
	case keycodec.TypeBytes:
		ok, remedy = record.IsBytes(text), "string"
	case keycodec.TypeInt64, keycodec.TypeUint64, keycodec.TypeDecimal, keycodec.TypeFixed:
		ok, remedy = number, "string"
	case keycodec.TypeFloat64:
		remedy = "string"
		b, err := record.Unquote(nil, text)
		n, parseErr := f.ParseValue(string(b))
		v, _ := n.(float64)
		ok = number || err == nil && parseErr == nil && v-v != 0
	}
	if ok || string(text) == "null" {
		return nil
	}
	return fmt.Errorf("field %q is %s, which is no %s; name it as %s:%s", f.Name,
		record.Short(record.AppendDynamoDB(nil, text)), f.Type, f.Name, remedy)
}
