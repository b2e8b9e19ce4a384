package layout

import (
	"bytes"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// Records stand for items in one of two ways.
//
// With a schema, a record has the fields of the PK, those of the SK, then those of the
// value, which is stored as a JSON object of just these fields:
//
//	{"country":"IT","region":"Lombardy","city":"Brescia","lat":45.5}
//
// An expiry stands in "$expires". What does not fit this form, for example a value that
// is no JSON object, stands whole in "$item".
//
// Without a schema, and inside of "$item", a record is
//
//	{"pk":"user#1","sk":"post#1","value":"text","expires":"2026-01-02T03:04:05.678Z"}
//
// where sk and expires may be missing. A value that is a JSON object or array in
// canonical form stands as it is, any other as a string or {"$b64":"…"}.
const (
	itemField    = "$item"
	expiresField = "$expires"
)

// maxExpiryYear is the last year an item may expire in. Why: the engine is given a time
// to live, which a time.Duration holds for 292 years at most.
const maxExpiryYear = 2300

// ExpiryLayout is the form of expiry times: RFC 3339 to the millisecond.
const ExpiryLayout = "2006-01-02T15:04:05.000Z07:00"

// ReadRow sets item from a record. The slices of the item are valid until the next
// call with the same item.
func (s *Schema) ReadRow(row *record.Row, item *engine.Item) error {
	item.Expiry = 0
	if whole := row.Find(itemField); whole != nil && !record.IsBytes(whole) {
		return readPlain(whole, item)
	}
	if s == nil {
		return readPlainFields(row, item)
	}
	var err error
	if item.Key.PK, err = readKey(item.Key.PK[:0], s.pk, row); err != nil {
		return err
	}
	if len(s.sk.fields) == 0 {
		item.Key.SK = nil
	} else if item.Key.SK, err = readKey(item.Key.SK[:0], s.sk, row); err != nil {
		return err
	}
	item.Value = append(item.Value[:0], '{')
	for _, f := range row.Fields {
		switch {
		case string(f.Name) == expiresField:
			if item.Expiry, err = readExpiry(f.JSON); err != nil {
				return err
			}
			continue
		case s.hasField(f.Name):
			continue
		}
		if len(item.Value) > 1 {
			item.Value = append(item.Value, ',')
		}
		item.Value = append(record.AppendString(item.Value, f.Name), ':')
		item.Value = append(item.Value, f.JSON...)
	}
	item.Value = append(item.Value, '}')
	return item.Key.Validate()
}

// readKey appends the key that the record's fields make up.
func readKey(dst []byte, p part, row *record.Row) ([]byte, error) {
	if dst == nil {
		dst = []byte{} // an empty key is not the same as none
	}
	values := make([]any, 0, 8)
	for _, f := range p.fields {
		text := row.Find(f.Name)
		if text == nil {
			return dst, fmt.Errorf("the field %q is missing", f.Name)
		}
		if row.Typed {
			if err := checkTyped(f, text); err != nil {
				return dst, err
			}
		}
		v, err := valueOfJSON(f, text)
		if err != nil {
			return dst, err
		}
		values = append(values, v)
	}
	if p.raw {
		return append(dst, values[0].(string)...), nil
	}
	return p.Append(dst, values...)
}

func readPlain(text []byte, item *engine.Item) error {
	var row record.Row
	if err := record.ParseObject(text, &row); err != nil {
		return fmt.Errorf("%s: %w", itemField, err)
	}
	return readPlainFields(&row, item)
}

func readPlainFields(row *record.Row, item *engine.Item) (err error) {
	item.Key.SK = nil
	var hasPK, hasValue bool
	for _, f := range row.Fields {
		switch string(f.Name) {
		case "pk":
			hasPK = true
			item.Key.PK, err = record.Unquote(item.Key.PK[:0], f.JSON)
		case "sk":
			if text := string(f.JSON); text != "null" && (text != `""` || !row.Untyped) {
				item.Key.SK, err = record.Unquote([]byte{}, f.JSON)
			}
		case "value":
			hasValue = true
			item.Value, err = readValue(item.Value[:0], f.JSON)
		case "expires":
			item.Expiry, err = readExpiry(f.JSON)
		default:
			return fmt.Errorf("unknown field %s; an item has pk, sk, value and expires"+
				" (name the key fields with --pk and --sk if these are other records)", f.Name)
		}
		if err != nil {
			return fmt.Errorf("the field %q: %w", f.Name, err)
		}
	}
	switch {
	case !hasPK:
		return fmt.Errorf(`the field "pk" is missing` +
			" (name the key fields with --pk and --sk if these are not exported items)")
	case !hasValue:
		return fmt.Errorf(`the field "value" is missing`)
	}
	return item.Key.Validate()
}

// readValue returns the bytes of a value: those a string stands for, or the JSON text
// itself.
func readValue(dst, text []byte) ([]byte, error) {
	if text[0] == '"' || record.IsBytes(text) {
		return record.Unquote(dst, text)
	}
	return append(dst, text...), nil
}

func readExpiry(text []byte) (int64, error) {
	if string(text) == "null" || string(text) == `""` {
		return 0, nil
	}
	b, err := record.Unquote(nil, text)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || t.UnixMilli() <= 0 {
		return 0, fmt.Errorf("%q is not a time in RFC 3339 form after 1970", b)
	}
	if t.Year() > maxExpiryYear {
		return 0, fmt.Errorf("the item expires after the year %d, which is not possible",
			maxExpiryYear)
	}
	return t.UnixMilli(), nil
}

// Record is an item taken apart for showing. Slices are valid until the next call of
// Split with the same record, and only as long as the item's.
type Record struct {
	// Typed says that the key and the value fit the schema. Keys and Fields are set
	// only then.
	Typed  bool
	PK, SK []any // typed values of the key fields
	// KeysOnly, which the caller sets, says that items have no values, and their records neither.
	KeysOnly bool
	Fields   []record.Field

	row       record.Row
	canonical []byte
}

// Split takes an item apart.
func (s *Schema) Split(item *engine.Item, r *Record) {
	r.Typed, r.Fields = false, nil
	if s == nil || (item.Key.SK == nil) != (len(s.sk.fields) == 0) {
		return
	}
	var ok bool
	if r.PK, ok = splitKey(s.pk, item.Key.PK); !ok {
		return
	}
	if r.SK, ok = splitKey(s.sk, item.Key.SK); !ok {
		return
	}
	if r.KeysOnly {
		r.Typed = true
	} else if s.isOwnForm(item.Value, r) {
		r.Typed, r.Fields = true, r.row.Fields
	}
}

func splitKey(p part, key []byte) ([]any, bool) {
	if p.raw {
		return []any{string(key)}, true
	}
	values, err := p.Decode(key)
	return values, err == nil
}

// isOwnForm reports whether the value is an object exactly as ReadRow would store it.
func (s *Schema) isOwnForm(value []byte, r *Record) bool {
	if len(value) < 2 || value[0] != '{' || record.ParseObject(value, &r.row) != nil {
		return false
	}
	for _, f := range r.row.Fields {
		if name := string(f.Name); name == "" || name == itemField || name == expiresField ||
			s.hasField(f.Name) {
			return false
		}
	}
	var err error
	r.canonical, err = record.AppendCanonical(r.canonical[:0], value)
	return err == nil && bytes.Equal(r.canonical, value)
}

// AppendJSON appends the item as one JSON object, in the form described above, without
// a line feed.
func (s *Schema) AppendJSON(dst []byte, item *engine.Item, r *Record) []byte {
	s.Split(item, r)
	if !r.Typed {
		if s == nil {
			return appendPlain(dst, item, r.KeysOnly)
		}
		dst = append(dst, `{"`+itemField+`":`...)
		return append(appendPlain(dst, item, r.KeysOnly), '}')
	}
	return s.appendMembers(dst, item, r, appendValueJSON, func(dst, json []byte) []byte {
		return append(dst, json...)
	})
}

// appendMembers appends a typed item: the fields of the key by key, all others, whose values are
// JSON, by other.
func (s *Schema) appendMembers(dst []byte, item *engine.Item, r *Record,
	key func(dst []byte, f keycodec.Field, v any) []byte, other func(dst, json []byte) []byte,
) []byte {
	dst = append(dst, '{')
	for i, f := range s.pk.fields {
		dst = append(record.AppendString(dst, []byte(f.Name)), ':')
		dst = append(key(dst, f, r.PK[i]), ',')
	}
	for i, f := range s.sk.fields {
		dst = append(record.AppendString(dst, []byte(f.Name)), ':')
		dst = append(key(dst, f, r.SK[i]), ',')
	}
	for _, f := range r.Fields {
		dst = append(record.AppendString(dst, f.Name), ':')
		dst = append(other(dst, f.JSON), ',')
	}
	if item.Expiry != 0 {
		at := append(appendExpiry([]byte{'"'}, item.Expiry), '"')
		dst = append(other(append(dst, `"`+expiresField+`":`...), at), ',')
	}
	dst[len(dst)-1] = '}'
	return dst
}

func appendPlain(dst []byte, item *engine.Item, keysOnly bool) []byte {
	dst = record.AppendBytes(append(dst, `{"pk":`...), item.Key.PK)
	if item.Key.SK != nil {
		dst = record.AppendBytes(append(dst, `,"sk":`...), item.Key.SK)
	}
	if !keysOnly {
		dst = AppendValueJSON(append(dst, `,"value":`...), item.Value)
	}
	if item.Expiry != 0 {
		dst = append(appendExpiry(append(dst, `,"expires":"`...), item.Expiry), '"')
	}
	return append(dst, '}')
}

// AppendValueJSON appends a value: a canonical JSON object or array as it is, anything
// else as a string or {"$b64":"…"}.
func AppendValueJSON(dst, value []byte) []byte {
	if len(value) >= 2 && (value[0] == '{' || value[0] == '[') && !record.IsBytes(value) {
		canonical, err := record.AppendCanonical(nil, value)
		if err == nil && bytes.Equal(canonical, value) {
			return append(dst, value...)
		}
	}
	return record.AppendBytes(dst, value)
}

func appendExpiry(dst []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(dst, ExpiryLayout)
}
