package schema_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
)

func jsonOf(t testing.TB, table *schema.Table) []byte {
	t.Helper()
	b, err := json.Marshal(table)
	ok(t, err)
	return b
}

func TestJSONRoundTrip(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds(2000) {
		table := randomTable(t, rng)
		text := jsonOf(t, table)
		var back schema.Table
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("seed %d round %d: %v\n%s", seed, round, err, text)
		}
		if again := jsonOf(t, &back); !bytes.Equal(again, text) {
			t.Fatalf("seed %d round %d:\n%s\nis read as\n%s", seed, round, text, again)
		}
		row := randomRow(rng, table)
		if !bytes.Equal(valueOf(t, &back, row), valueOf(t, table, row)) {
			t.Fatalf("seed %d round %d: rows of the read table are others", seed, round)
		}
		for i, x := range back.Indexes {
			a, b := entriesOf(t, x, row), entriesOf(t, table.Indexes[i], row)
			if len(a) != len(b) || len(a) > 0 && !bytes.Equal(a[0].SK, b[0].SK) {
				t.Fatalf("seed %d round %d: entries of the read table are others", seed, round)
			}
		}
	}
}

// TestJSONGolden compares with the form that is on disk. The file is never generated again.
func TestJSONGolden(t *testing.T) {
	path := filepath.Join("testdata", "cities.json")
	want, err := os.ReadFile(path)
	ok(t, err)
	var got bytes.Buffer
	ok(t, json.Indent(&got, jsonOf(t, parse(t, cities)), "", "  "))
	if got.WriteByte('\n'); got.String() != string(want) {
		t.Errorf("the form of a table is\n%s", got.String())
	}
	if again := jsonOf(t, parse(t, string(want))); !bytes.Equal(again, jsonOf(t, parse(t,
		cities))) {
		t.Error("the stored form is read as another table")
	}
}

func TestRefusedDefinitions(t *testing.T) {
	const columns = `"columns":[{"name":"id","type":"int64"},{"name":"a","type":"string"},
		{"name":"n","type":"int64","nullable":true},{"name":"l","type":"int8","list":true}]`
	index := func(s string) string {
		return `{"name":"t",` + columns + `,"primary_key":["id"],"indexes":[` + s + `]}`
	}
	column := func(s string) string {
		return `{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a",` + s +
			`}],"primary_key":["id"]}`
	}
	for _, c := range []struct{ text, want string }{
		{`{`, "unexpected EOF"},
		{`{"name":"t"}{}`, "more than one JSON value"},
		{`{"name":"t","colums":[]}`, "unknown field"},
		{`{"name":"",` + columns + `,"primary_key":["id"]}`, "has no name"},
		{`{"name":"t","columns":[],"primary_key":["id"]}`, "no column"},
		{`{"name":"t",` + columns + `}`, "no primary key"},
		{`{"name":"t",` + columns + `,"primary_key":["x"]}`, `no column "x"`},
		{`{"name":"t",` + columns + `,"primary_key":["n"]}`, "is nullable"},
		{`{"name":"t",` + columns + `,"primary_key":["l"]}`, "is a list"},
		{`{"name":"t",` + columns + `,"primary_key":["id"],"sort_key":["id"]}`,
			"twice in the primary"},
		{`{"name":"t",` + columns + `,"primary_key":["id"],"ttl":{"column":"a","after":"1h"}}`,
			"is not a time"},
		{`{"name":"t","columns":[{"name":"a","type":"text"}],"primary_key":["a"]}`, "unknown type"},
		{`{"name":"t","columns":[{"name":"a","type":"time"}],"primary_key":["a"]}`, "unit of time"},
		{`{"name":"t","columns":[{"name":"a","type":"bool"},{"name":"A","type":"bool"}],
			"primary_key":["a"]}`, "two columns are named"},
		{`{"name":"t","columns":[{"name":"a","type":"int8","default":300}],"primary_key":["a"]}`,
			"out of range"},
		{index(`{"name":"x","columns":[]}`), "no columns"},
		{index(`{"name":"x","columns":["a","a"]}`), "twice"},
		{index(`{"name":"x","columns":["q"]}`), `no column "q"`},
		{index(`{"name":"x","columns":["a"],"include":["q"]}`), `no column "q"`},
		{index(`{"name":"x","columns":["l"]}`), "is a list"},
		{index(`{"name":"x","columns":[{"column":"a","each":true}]}`), "not a list"},
		{index(`{"name":"x","columns":[{"column":"a","nulls":"last"}]}`), "orders NULLs"},
		{index(`{"name":"x","columns":[{"column":"n","nulls":"sideways"}]}`), "first or last"},
		{index(`{"name":"x","columns":["a"],"include":["a"]}`), "part of the entry's key"},
		{index(`{"name":"x","columns":["a"],"include":["n","n"]}`), "included twice"},
		{index(`{"name":"x","columns":["a"],"shard":"mix64:1"}`), "2 buckets"},
		{index(`{"name":"x","columns":["a"],"shard":"mix64:70000"}`), "outside 1 to"},
		{index(`{"name":"x","columns":["a"],"shard":"tidb:256"}`), "one integer column"},
		{index(`{"name":"x","columns":["n"],"shard":"mix64:4","local":true}`), "local index cannot"},
		{index(`{"name":"x","columns":["a"],"local":true,"unique":true}`), "all columns that choose"},
		{index(`{"name":"x","columns":["a"],"shard_columns":2,"shard":"mix64:4"}`), "cannot follow"},
		{index(`{"name":"x","columns":["a"],"state":"gone"}`), "unknown state"},
		{index(`{"name":"x","columns":["a"],"where":1}`), "cannot unmarshal"},
		{index(`{"name":"x","columns":["a"],"where":{"op":"param"}}`), "the condition has"},
		{index(`{"name":"x","columns":["a"],"where":{"op":"column","at":9}}`), "the condition has"},
		{index(`{"name":"x","columns":["a"],"where":{"op":"column","name":"q"}}`), `no column "q"`},
		{index(`{"name":"x","columns":["a"]},{"name":"X","columns":["n"]}`), "two indexes are named"},
		{index(`{"name":"x","columns":["a"],"id":1},{"name":"y","columns":["a"],"id":1}`),
			"have the id"},
		{column(`"type":"string","generated":"identity"`), "not an integer"},
		{column(`"type":"int64","generated":"uuid"`), "no UUID"},
		{column(`"type":"int64","generated":"identity","nullable":true`), "NULLs"},
		{column(`"type":"int64","generated":"identity","default":1`), "default"},
		{column(`"type":"int64","generated":"random"`), "unknown generator"},
		{column(`"type":"int64","generated":"identity"},
			{"name":"b","type":"int8","generated":"identity"`), "two columns"},
	} {
		if _, err := schema.Parse([]byte(c.text)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v, want %q", c.text, err, c.want)
		}
	}
}
