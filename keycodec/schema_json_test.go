package keycodec_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestSchemaJSON(t *testing.T) {
	// Format: stored by tools; this text must stay readable and stay the same.
	const text = `[{"name":"a","type":"string"},{"name":"b","type":"bytes","desc":true},` +
		`{"name":"c","type":"int64","nullable":true},` +
		`{"name":"d","type":"uint64","nullable":true,"nulls":"last"},` +
		`{"name":"e","type":"bool"},{"name":"f","type":"float64"},` +
		`{"name":"g","type":"time","unit":"s"},{"name":"h","type":"time","unit":"ms"},` +
		`{"name":"i","type":"time","unit":"us"},{"name":"j","type":"time","unit":"ns"},` +
		`{"name":"k","type":"uuid"},{"name":"l","type":"decimal"}]`
	var s keycodec.Schema
	ok(t, json.Unmarshal([]byte(text), &s))
	if got := string(must(json.Marshal(s))); got != text {
		t.Errorf("written as\n%s\nwant\n%s", got, text)
	}
	const line = "a string, b bytes desc, c int64 null first, d uint64 null last, e bool, " +
		"f float64, g time(s), h time(ms), i time(us), j time(ns), k uuid, l decimal"
	if s.String() != line {
		t.Errorf("String() = %s, want %s", s, line)
	}
	if got := string(must(json.Marshal(keycodec.Schema{}))); got != "[]" {
		t.Errorf("no fields are written as %s", got)
	}
}

func TestSchemaJSONRoundTrip(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		want := schemas().Draw(t, "schema")
		var got keycodec.Schema
		if err := json.Unmarshal(must(json.Marshal(want)), &got); err != nil || !got.Equal(want) {
			t.Fatalf("%v reads back as %v, error %v", want, got, err)
		}
	})
}

func TestSchemaJSONRefuses(t *testing.T) {
	before := must(keycodec.NewSchema(keycodec.Field{Name: "a", Type: keycodec.TypeString}))
	for _, bad := range []string{
		`{}`, `[`, `[1]`, `[{"name":"a"}]`, `[{"name":"a","type":"text"}]`,
		`[{"name":"a","type":"string","collation":"de"}]`, `[{"name":"a","type":"string"}] []`,
		`[{"name":"a","type":"time","unit":"h"}]`, `[{"name":"a","type":"time"}]`,
		`[{"name":"a","type":"string","nullable":true,"nulls":"middle"}]`,
		`[{"name":"a","type":"string","collate":"de"}]`,
		`[{"name":"a","type":"string","nulls":"first"}]`, `[{"type":"string"}]`,
	} {
		s := before
		if err := s.UnmarshalJSON([]byte(bad)); err == nil || !s.Equal(before) {
			t.Errorf("%s: read as %v, error %v; want an error and no change", bad, s, err)
		}
	}
}
