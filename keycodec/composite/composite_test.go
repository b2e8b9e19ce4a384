package composite_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func md5(count int) *shard.Spec { return &shard.Spec{Function: shard.MD5, Count: count} }

// orders is the schema of the order-management example.
func orders() *composite.Schema {
	return must(composite.NewSchema(composite.Options{Shard: md5(256)},
		composite.Field{Name: "user_id", Type: composite.String, Width: composite.DefaultWidth},
		composite.Field{Name: "order_date", Type: composite.Timestamp},
		composite.Field{Name: "order_id", Type: composite.UUID}))
}

const (
	orderMs = int64(1737100800000)
	orderID = "550e8400-e29b-41d4-a716-446655440001"
)

// The example of the specification, bit for bit.
//
// Promise (keys): Composite keys of version 1 are those of the specification, bit for bit. Also
// `TestPageExamples` in `keycodec/composite`.
func TestOrderManagementKey(t *testing.T) {
	want := "0010" + "1f" + "5553525f3132333435" + strings.Repeat("00", 23) + "1f" +
		"000001947346b000" + "1f" + "550e8400e29b41d4a716446655440001"
	s := orders()
	key, err := s.CreateCompositeKey(composite.Value{Field: "user_id", Value: "USR_12345"},
		composite.Value{Field: "order_date", Value: orderMs},
		composite.Value{Field: "order_id", Value: orderID})
	if got := hex.EncodeToString(key); got != want || len(key) != 61 || err != nil {
		t.Fatalf("key %s, error %v, want %s", got, err, want)
	}
	if s.Size() != 61 {
		t.Errorf("the schema says %d bytes", s.Size())
	}
	values, err := s.Decode(key)
	testutil.OK(t, err)
	at := time.Date(2025, 1, 17, 8, 0, 0, 0, time.UTC)
	id := must(keycodec.ParseUUID(orderID))
	if values[0] != "USR_12345" || values[1] != at || values[2] != id {
		t.Errorf("the key reads as %v", values)
	}
	again := must(s.Append(nil, "USR_12345", at, id))
	if !bytes.Equal(again, key) {
		t.Errorf("with Go types the key is %x", again)
	}
}

func TestSchemaOrderIsChecked(t *testing.T) {
	v := func(field string, value any) composite.Value { return composite.Value{field, value} }
	s := orders()
	for _, values := range [][]composite.Value{
		nil,
		{v("user_id", "u"), v("order_date", 1)},
		{v("order_date", 1), v("user_id", "u"), v("order_id", orderID)},
		{v("user_id", "u"), v("order_date", 1), v("order", orderID)},
		{v("user_id", "u"), v("order_date", 1), v("order_id", orderID), v("x", 1)},
	} {
		if key, err := s.CreateCompositeKey(values...); err == nil {
			t.Errorf("%v has the key %x", values, key)
		}
	}
}

// one returns a schema of one field, and one where a timestamp follows it.
func one(d composite.Delimiter, f composite.Field) (last, before *composite.Schema) {
	o := composite.Options{Delimiter: d}
	f.Name = "f"
	last = must(composite.NewSchema(o, f))
	before, _ = composite.NewSchema(o, f, composite.Field{Name: "at", Type: composite.Timestamp})
	return last, before
}

// Every value that the layout cannot order or tell apart. Each row says why it would be
// wrong; docs/format/composite.md has the same rows.
//
// Promise (keys): What the layout cannot order or distinguish is refused. Also
// `TestRefusedSchemas` in `keycodec/composite`; `TestRefused` in `keycodec/rowkey`.
func TestRefusedValues(t *testing.T) {
	padded := composite.Field{Type: composite.String, Width: 4}
	free := composite.Field{Type: composite.String}
	stamp := composite.Field{Type: composite.Timestamp}
	cents := composite.Field{Type: composite.Decimal, Scale: 2}
	id := composite.Field{Type: composite.UUID}
	number := composite.Field{Type: composite.Integer}
	dec := func(s string) any { return must(keycodec.ParseDecimal(s)) }
	for _, c := range []struct {
		why   string
		d     composite.Delimiter
		field composite.Field
		value any
	}{
		{"a and a+00 are one padded string", 0, padded, "a\x00"},
		{"cut off, two strings are one", 0, padded, "abcde"},
		{"counted in bytes", 0, padded, "aéé"},
		{"not UTF-8", 0, padded, "\xff"},
		{"not UTF-8", 0, free, "\xff"},
		{"the delimiter itself", composite.UnitSeparator, free, "b\x1fc"},
		{"below the delimiter", composite.UnitSeparator, free, "a\t"},
		{"the delimiter itself", composite.NullByte, free, "a\x00"},
		{"the delimiter's first byte", composite.DoubleByte, free, "a\x00\x00"},
		{"1969 after 2025", 0, stamp, time.UnixMilli(-1)},
		{"1969 after 2025", 0, stamp, int64(-1)},
		{"two times are one", 0, stamp, time.UnixMicro(1)},
		{"beyond the range", 0, stamp, time.Unix(math.MaxInt64/1000, 999e6)},
		{"beyond the range", 0, stamp, time.Unix(math.MaxInt64/900, 0)},
		{"two amounts are one", 0, cents, dec("0.001")},
		{"two amounts are one", 0, cents, dec("1E-100")},
		{"too large", 0, cents, dec("92233720368547758.08")},
		{"too small", 0, cents, dec("-92233720368547758.09")},
		{"too large", 0, cents, dec("1E+1000")},
		{"no UUID", 0, id, "550e8400"},
		{"no NULL", 0, padded, nil},
		{"no NULL", 0, number, nil},
		{"no NULL", 0, id, nil},
		{"wrong type", 0, padded, 1},
		{"wrong type", 0, number, "1"},
		{"wrong type", 0, number, uint64(1)},
		{"wrong type", 0, stamp, "2025"},
		{"wrong type", 0, cents, 1.5},
		{"wrong type", 0, id, 1},
	} {
		last, before := one(c.d, c.field)
		s, values := before, []any{c.value, 0}
		if s == nil {
			s, values = last, values[:1]
		}
		key, err := s.Append([]byte("x"), values...)
		if !errors.Is(err, composite.ErrValue) || string(key) != "x" {
			t.Errorf("%s: %#v is accepted in %s: %x, %v", c.why, c.value, s, key, err)
			continue
		}
		if !strings.Contains(err.Error(), `"f"`) {
			t.Errorf("the error does not name the field: %v", err)
		}
	}
}

// The same values where nothing can go wrong.
func TestAcceptedValues(t *testing.T) {
	for _, c := range []struct {
		d     composite.Delimiter
		value string
	}{
		{composite.NullByte, "a\x01\x1fb"}, {composite.DoubleByte, "a\x01"},
		{composite.UnitSeparator, "a b"}, {composite.UnitSeparator, ""},
	} {
		_, before := one(c.d, composite.Field{Type: composite.String})
		if _, err := before.Append(nil, c.value, 0); err != nil {
			t.Errorf("%q before %s: %v", c.value, c.d, err)
		}
	}
	for d := composite.UnitSeparator; d <= composite.DoubleByte; d++ {
		last, _ := one(d, composite.Field{Type: composite.String})
		if _, err := last.Append(nil, "a\x00\x1f"); err != nil {
			t.Errorf("as the last field, with %s: %v", d, err)
		}
	}
}

func TestRefusedSchemas(t *testing.T) {
	text := composite.Field{Name: "s", Type: composite.String}
	at := composite.Field{Name: "at", Type: composite.Timestamp}
	for why, make := range map[string]func() (*composite.Schema, error){
		"no fields": func() (*composite.Schema, error) {
			return composite.NewSchema(composite.Options{})
		},
		"two of one name": func() (*composite.Schema, error) {
			return composite.NewSchema(composite.Options{}, at, at)
		},
		"FF puts a after ab": func() (*composite.Schema, error) {
			return composite.NewSchema(composite.Options{Delimiter: composite.HighByte}, text, at)
		},
		"unknown delimiter": func() (*composite.Schema, error) {
			return composite.NewSchema(composite.Options{Delimiter: 9}, at)
		},
		"another hash": func() (*composite.Schema, error) {
			spec := shard.Spec{Function: shard.Mix64, Count: 16}
			return composite.NewSchema(composite.Options{Shard: &spec}, at)
		},
		"no shards": func() (*composite.Schema, error) {
			return composite.NewSchema(composite.Options{Shard: md5(0)}, at)
		},
		"65,537 shards": func() (*composite.Schema, error) {
			return composite.NewSchema(composite.Options{Shard: md5(1<<16 + 1)}, at)
		},
	} {
		if s, err := make(); err == nil {
			t.Errorf("%s: %s is accepted", why, s)
		}
	}
	for _, f := range []composite.Field{{}, {Name: "f"}, {Name: "f", Type: 9},
		{Name: "f", Type: composite.UUID, Width: 1}, {Name: "f", Type: composite.String, Width: -1},
		{Name: "f", Type: composite.String, Width: keycodec.MaxKeyBytes + 1},
		{Name: "f", Type: composite.Integer, Scale: 1},
		{Name: "f", Type: composite.Decimal, Scale: 19},
		{Name: "f", Type: composite.Decimal, Scale: -1}} {
		if _, err := composite.NewSchema(composite.Options{}, f); err == nil {
			t.Errorf("the field %+v is accepted", f)
		}
	}
	s := must(composite.NewSchema(composite.Options{Shard: md5(1 << 16)}, at))
	if _, err := s.Append(nil, 1); err != nil {
		t.Errorf("65,536 shards: %v", err)
	}
}

// Shards hash text without padding, and everything else as it is encoded.
func TestShardOfFirstField(t *testing.T) {
	for f := shard.MD5; f <= shard.Murmur3; f++ {
		spec := shard.Spec{Function: f, Count: 1000}
		for _, c := range []struct {
			field  composite.Field
			value  any
			hashed string
		}{
			{composite.Field{Type: composite.String, Width: 8}, "abc", "abc"},
			{composite.Field{Type: composite.String, Width: 8}, "", ""},
			{composite.Field{Type: composite.String}, "abc", "abc"},
			{composite.Field{Type: composite.Integer}, 1, "\x80\x00\x00\x00\x00\x00\x00\x01"},
			{composite.Field{Type: composite.Timestamp}, 1, "\x00\x00\x00\x00\x00\x00\x00\x01"},
			{composite.Field{Type: composite.UUID}, [16]byte{9},
				"\x09" + strings.Repeat("\x00", 15)},
		} {
			c.field.Name = "f"
			want := must(spec.Bytes([]byte(c.hashed)))
			o := composite.Options{Shard: &spec}
			after := composite.Field{Name: "g", Type: composite.Integer}
			alone := must(composite.NewSchema(o, c.field))
			more := must(composite.NewSchema(o, c.field, after))
			for _, key := range [][]byte{must(alone.Append(nil, c.value)),
				must(more.Append(nil, c.value, 7))} {
				if got := fmt.Sprintf("%x", key[:2]); got != fmt.Sprintf("%04x", want) {
					t.Errorf("%s of %v: shard %s, want %04x", f, c.field, got, want)
				}
			}
		}
	}
}

func TestDecodeDamage(t *testing.T) {
	s := orders()
	key := must(s.Append(nil, "USR_12345", orderMs, orderID))
	for n := range key {
		if _, err := s.Decode(key[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("the first %d bytes are accepted: %v", n, err)
		}
	}
	for _, c := range []struct {
		why    string
		at     int
		b      byte
		offset int64
	}{
		{"another shard", 1, 0x11, 0}, {"another delimiter", 2, 0x1e, 2},
		{"text after the padding", 34, 'x', 12}, {"not UTF-8", 3, 0xff, 3},
		{"a delimiter inside", 35, 0, 35}, {"a time before 1970", 36, 0x80, 36},
	} {
		bad := bytes.Clone(key)
		bad[c.at] = c.b
		_, err := s.Decode(bad)
		var damage *corrupt.Error
		if !errors.As(err, &damage) || damage.Offset != c.offset {
			t.Errorf("%s: error %v, want one at offset %d", c.why, err, c.offset)
		}
	}
	if _, err := s.Decode(append(key, 0)); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("a byte after the key is accepted: %v", err)
	}
}

// A 1F inside a number, a UUID or a shard is no delimiter.
func TestDelimiterBytesInsideFields(t *testing.T) {
	o := composite.Options{Shard: &shard.Spec{Function: shard.XXHash, Count: 32}}
	s := must(composite.NewSchema(o, composite.Field{Name: "at", Type: composite.Timestamp},
		composite.Field{Name: "id", Type: composite.UUID}))
	id := keycodec.UUID(bytes.Repeat([]byte{0x1f}, 16))
	for ms := int64(0x1f1f1f1f00); ms < 0x1f1f1f1f00+256; ms++ {
		key := must(s.Append(nil, ms, id))
		values, err := s.Decode(key)
		if err != nil || values[0] != time.UnixMilli(ms).UTC() || values[1] != id {
			t.Fatalf("%x reads as %v, error %v", key, values, err)
		}
	}
}

func TestSchemaJSON(t *testing.T) {
	const stored = `{"version":1,"delimiter":"UNIT_SEPARATOR",` +
		`"shard":"AQIAAAEAAAAAAAAAAACrInDT","fields":[{"name":"user_id","type":"string",` +
		`"width":32},{"name":"order_date","type":"timestamp"},{"name":"order_id","type":"uuid"}]}`
	got := must(json.Marshal(orders()))
	if string(got) != stored {
		t.Errorf("stored as %s", got)
	}
	for _, s := range append(schemas(), orders()) {
		data := must(json.Marshal(s))
		var back composite.Schema
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if again := must(json.Marshal(&back)); !bytes.Equal(again, data) ||
			back.String() != s.String() {
			t.Errorf("%s came back as %s", data, again)
		}
	}
	for _, change := range [][2]string{{`"version":1`, `"version":2`}, {"UNIT_", "UNIX_"},
		{`"uuid"`, `"uid"`}, {`"width"`, `"breadth"`}, {"AQIAAAEA", "AQIAAAIA"},
		{`"timestamp"}`, `"timestamp","scale":2}`}, {`"order_id"`, `"user_id"`}, {"]}", "]}{}"}} {
		var s composite.Schema
		changed := strings.Replace(stored, change[0], change[1], 1)
		if err := s.UnmarshalJSON([]byte(changed)); err == nil {
			t.Errorf("with %s in place of %s it is accepted", change[1], change[0])
		}
	}
}

func TestParseField(t *testing.T) {
	for text, want := range map[string]string{
		"user": "user string(32)", "user:string": "user string(32)",
		"user:string:8": "user string(8)",
		"user:string:0": "user string", "at:timestamp": "at timestamp", "id:uuid": "id uuid",
		"n:integer": "n integer", "amount:decimal:2": "amount decimal(2)",
		"amount:decimal": "amount decimal(0)",
	} {
		if f, err := composite.ParseField(text); err != nil || f.String() != want {
			t.Errorf("%s is %s, error %v, want %s", text, f, err, want)
		}
	}
	for _, text := range []string{"", ":uuid", "a:text", "a:uuid:3", "a:string:x", "a:string:-1",
		"a:decimal:19", "a:decimal:2:3"} {
		if f, err := composite.ParseField(text); err == nil {
			t.Errorf("%q is %s", text, f)
		}
	}
	for d := composite.UnitSeparator; d <= composite.DoubleByte; d++ {
		if got, err := composite.ParseDelimiter(d.String()); got != d || err != nil {
			t.Errorf("%s was read as %s, error %v", d, got, err)
		}
	}
	if _, err := composite.ParseDelimiter("COMMA"); err == nil {
		t.Error("COMMA is a delimiter")
	}
}
