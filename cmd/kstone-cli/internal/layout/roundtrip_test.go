package layout_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// schemas are those of the round trip: without fields, raw keys, composite ones, and
// every type.
var schemas = [][2][]string{
	{},
	{{"pk"}, nil},
	{{"a"}, {"b"}},
	{{"a"}, {"b", "c", "d"}},
	{{"a", "b:int"}, {"c:float:desc", "d:bool"}},
	{{"a:bytes"}, {"t:time-ms:desc", "n:decimal:null", "u:uint", "i:uuid"}},
}

func parseSchema(t testing.TB, flags [2][]string) *layout.Schema {
	if flags[0] == nil {
		return nil
	}
	s, err := layout.ParseSchema(flags[0], flags[1])
	ok(t, err)
	return s
}

// anyBytes draws bytes of every kind that layouts treat differently.
func anyBytes(min int) *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), min, 12),
		rapid.Map(rapid.StringN(min, 12, -1), func(s string) []byte { return []byte(s) }),
		rapid.Map(rapid.SampledFrom([]string{
			`{"$b64":"AA=="}`, `{"$b64":"!"}`, `{"x":1}`, `{"x": 1}`,
			`{"x":"a,b\n\"q\"","y":[null]}`,
			`{"y":[],"x":1.0}`, `{"a":"shadows"}`, `{"$item":1}`,
			`{"$expires":"x"}`, `{}`, `[1,"2"]`,
			`"text"`, `{"x":{"$b64":"AA=="}}`,
			`{"x":"{\"$b64\":\"AA==\"}"}`, `{"x:json":1}`, `{"":1}`,
			"null", "-1", "\n", " ", ",", "\ufeff",
		}), func(s string) []byte { return []byte(s) }),
	)
}

func drawItems(t *rapid.T) []engine.Item {
	var items []engine.Item
	for range rapid.IntRange(0, 8).Draw(t, "items") {
		item := engine.Item{
			Key:   engine.Key{PK: anyBytes(1).Draw(t, "pk")},
			Value: anyBytes(0).Draw(t, "value"),
		}
		if rapid.Bool().Draw(t, "has sk") {
			item.Key.SK = anyBytes(1).Draw(t, "sk")
		}
		if rapid.Bool().Draw(t, "expires") {
			item.Expiry = rapid.Int64Range(1, 9_000_000_000_000).Draw(t, "expiry")
		}
		items = append(items, item)
	}
	return items
}

// Whatever the items, and whether they fit the schema or not, the records written for
// them are read back as the same items, byte for byte, in JSON lines and in CSV.
func TestRecordsRoundTrip(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		flags := rapid.SampledFrom(schemas).Draw(t, "schema")
		s := (*layout.Schema)(nil)
		if flags[0] != nil {
			s, _ = layout.ParseSchema(flags[0], flags[1])
		}
		items := drawItems(t)
		if s != nil && rapid.Bool().Draw(t, "imported") {
			items = append(items, fitting(t, s, flags)...)
		}
		for _, format := range []present.Format{present.JSONL, present.CSV, present.DynamoDB} {
			var out bytes.Buffer
			n, err := present.Write(&out, func(yield func(engine.Item, error) bool) {
				for _, item := range items {
					if !yield(item, nil) {
						return
					}
				}
			}, present.Options{Format: format, Schema: s})
			if err != nil || n != len(items) {
				t.Fatalf("%d items written, %v", n, err)
			}
			check(t, s, format, out.Bytes(), items)
		}
	})
}

// fitting returns an item made from a record, if the record makes one.
func fitting(t *rapid.T, s *layout.Schema, flags [2][]string) []engine.Item {
	line := rapid.SampledFrom([]string{
		`{"pk":"x","a":"é","b":"y","c":"","d":"z","v":1,"w":"text"}`,
		`{"w":"other","a":"k","b":-5,"c":-1.5e300,"d":true,"v":null}`,
		`{"a":"k","t":"2026-01-02T03:04:05.678Z","n":null,"u":18446744073709551615,` +
			`"i":"550e8400-e29b-41d4-a716-446655440001"}`,
		`{"a":"k","t":-5,"n":"123456789012345678901234567890.5","u":0,` +
			`"i":"550e8400-e29b-41d4-a716-446655440001","$expires":"2100-01-01T00:00:00.001Z"}`,
	}).Draw(t, "record")
	var row record.Row
	var item engine.Item
	ok(t, record.ParseObject([]byte(line), &row))
	if err := s.ReadRow(&row, &item); err != nil {
		return nil
	}
	return []engine.Item{item.Clone()}
}

func check(t *rapid.T, s *layout.Schema, format present.Format, file []byte, want []engine.Item) {
	reader := record.NewJSONL(bytes.NewReader(file))
	if format == present.CSV {
		var err error
		if reader, err = record.NewCSV(bytes.NewReader(file), ','); err != nil {
			t.Fatalf("%v in\n%s", err, file)
		}
	}
	if format == present.DynamoDB {
		reader = record.NewDynamoDB(bytes.NewReader(file), false)
	}
	var row record.Row
	var item engine.Item
	for i, w := range want {
		if err := reader.Next(&row); err != nil {
			t.Fatalf("item %d: %v in\n%s", i, err, file)
		}
		if err := s.ReadRow(&row, &item); err != nil {
			t.Fatalf("item %d: %v in\n%s", i, err, file)
		}
		same := bytes.Equal(item.Key.PK, w.Key.PK) && bytes.Equal(item.Key.SK, w.Key.SK) &&
			(item.Key.SK == nil) == (w.Key.SK == nil) && bytes.Equal(item.Value, w.Value) &&
			item.Expiry == w.Expiry
		if !same {
			t.Fatalf("item %d: %+v came back as %+v in\n%s", i, w, item, file)
		}
	}
	if err := reader.Next(&row); err == nil {
		t.Fatalf("more than %d records in\n%s", len(want), file)
	}
}

// FuzzReadRow: no record makes ReadRow panic, and an item it makes comes back.
func FuzzReadRow(f *testing.F) {
	f.Add(uint8(0),
		[]byte(`{"pk":"a","sk":"b","value":{"$b64":"AA=="},"expires":"2026-01-01T00:00:00Z"}`))
	f.Add(uint8(3), []byte(`{"a":"x","b":"1","c":"2","d":"3","v":1}`))
	f.Add(uint8(4), []byte(`{"a":"x","b":-1,"c":1.5,"d":true}`))
	f.Add(uint8(5),
		[]byte(`{"a":{"$b64":"AA=="},"t":1,"n":1.50,"u":1,"i":"550e8400-e29b-41d4-a716-446655440001"}`))
	f.Add(uint8(1), []byte(`{"$item":{"pk":"a","value":1}}`))
	f.Fuzz(func(t *testing.T, which uint8, line []byte) {
		defer testutil.Watch(which, line)()
		s := parseSchema(t, schemas[int(which)%len(schemas)])
		var row record.Row
		var item, again engine.Item
		if record.ParseObject(line, &row) != nil || s.ReadRow(&row, &item) != nil {
			return
		}
		var r layout.Record
		text := s.AppendJSON(nil, &item, &r)
		if err := record.ParseObject(text, &row); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := s.ReadRow(&row, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !bytes.Equal(again.Key.PK, item.Key.PK) || !bytes.Equal(again.Key.SK, item.Key.SK) ||
			!bytes.Equal(again.Value, item.Value) || again.Expiry != item.Expiry {
			t.Fatalf("%+v became %s became %+v", item, text, again)
		}
	})
}
