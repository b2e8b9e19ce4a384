package schema_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/schema"
)

// migration is a table before and after, and the changes in between or the error.
var migrations = []struct{ name, have, want, changes string }{
	{"TTL is added", `{}`, `{"ttl":{"column":"at","after":"1h"}}`, "set TTL to 1h0m0s after at"},
	{"TTL is dropped", `{"ttl":{"column":"at","after":"1h"}}`, `{}`, "drop TTL"},
	{"TTL is longer", `{"ttl":{"column":"at","after":"1h"}}`,
		`{"ttl":{"column":"at","after":"2h"}}`, "set TTL to 2h0m0s after at"},
	{"TTL of another column", `{"ttl":{"column":"at","after":"1h"}}`,
		`{"ttl":{"column":"by","after":"1h"}}`, "set TTL to 1h0m0s after by"},
	{"the same TTL", `{"ttl":{"column":"at","after":"1h"}}`,
		`{"ttl":{"column":"at","after":"1h"}}`, ""},
	{"zones are chosen", `{}`, `{"zones":["at","by"]}`, "set zones to (at, by)"},
	{"no zones", `{"zones":["at"]}`, `{"zones":[]}`, "set zones to ()"},
	{"zones of the default", `{"zones":[]}`, `{}`, "set zones to the default"},
	{"the same zones", `{"zones":["at"]}`, `{"zones":["at"]}`, ""},
	{"unique", `{"indexes":[{"name":"x","columns":["a"]}]}`,
		`{"indexes":[{"name":"x","columns":["a"],"unique":true}]}`, "drop index x"},
	{"order", `{"indexes":[{"name":"x","columns":["a"]}]}`,
		`{"indexes":[{"name":"x","columns":[{"column":"a","desc":true}]}]}`, "drop index x"},
	{"columns and unique", `{"indexes":[{"name":"x","columns":["a"]}]}`,
		`{"indexes":[{"name":"x","columns":["by"],"unique":true}]}`, "drop index x"},
	{"included", `{"indexes":[{"name":"x","columns":["a"],"include":["at"]}]}`,
		`{"indexes":[{"name":"x","columns":["a"],"include":["by"]}]}`, "drop index x"},
	{"placement", `{"indexes":[{"name":"x","columns":["a"]}]}`,
		`{"indexes":[{"name":"x","columns":["a"],"local":true}]}`, "drop index x"},
	{"shard", `{"indexes":[{"name":"x","columns":["a"],"shard":"mix64:4"}]}`,
		`{"indexes":[{"name":"x","columns":["a"],"shard":"mix64:8"}]}`, "drop index x"},
	{"columns of the shard", `{"indexes":[{"name":"x","columns":["a","by"],"shard":"mix64:4"}]}`,
		`{"indexes":[{"name":"x","columns":["a","by"],"shard":"mix64:4","shard_columns":2}]}`,
		"drop index x"},
	{"condition", `{"indexes":[{"name":"x","columns":["a"],"where":{"op":"isnull",
		"args":[{"op":"column","name":"at"}]}}]}`, `{"indexes":[{"name":"x","columns":["a"],
		"where":{"op":"isnull","args":[{"op":"column","name":"by"}]}}]}`, "drop index x"},
	{"the same index", `{"indexes":[{"name":"x","columns":["a"],"include":["at"],
		"where":{"op":"isnull","args":[{"op":"column","name":"by"}]}}]}`,
		`{"indexes":[{"name":"x","columns":["a"],"include":["at"],
		"where":{"op":"isnull","args":[{"op":"column","name":"by"}]}}]}`, ""},
	{"an index is added", `{}`, `{"indexes":[{"name":"x","columns":["a"],"include":["at"],
		"where":{"op":"isnull","args":[{"op":"column","name":"by"}]}}]}`, "add index x"},
}

// TestMigrations applies the changes from one table to another, whose columns have other
// ordinals, and sees that nothing is left to do then.
func TestMigrations(t *testing.T) {
	const first = `{"name":"id","type":"int64"},{"name":"a","type":"string"},
		{"name":"at","type":"time","unit":"s"},{"name":"by","type":"time","unit":"s"}`
	const other = `{"name":"by","type":"time","unit":"s"},{"name":"at","type":"time","unit":"s"},
		{"name":"a","type":"string"},{"name":"id","type":"int64"}`
	table := func(columns, rest string) *schema.Table {
		rest = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
		if rest != "" {
			rest = "," + rest
		}
		return parse(t, `{"name":"t","columns":[`+columns+`],"primary_key":["id"]`+rest+`}`)
	}
	for _, m := range migrations {
		got, want := table(first, m.have), table(other, m.want)
		var log []string
		for range 3 {
			changes, err := schema.Migrate(got, want)
			if err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			for _, c := range changes {
				log = append(log, c.String())
				got = must(t)(c.Apply(got))
			}
			for _, x := range got.Indexes {
				switch x.State {
				case schema.Dropping:
					got = must(t)(got.RemoveIndex(x.Name))
				case schema.Building:
					got = must(t)(got.SetIndexState(x.Name, schema.Ready))
				}
			}
		}
		steps := m.changes
		if steps == "drop index x" {
			steps = "drop index x, add index x"
		}
		if text := strings.Join(log, ", "); text != steps {
			t.Errorf("%s: the changes are %s, want %s", m.name, text, steps)
		}
		if (got.TTL == nil) != (want.TTL == nil) || got.TTL != nil && (got.TTL.After !=
			want.TTL.After || got.Columns[got.TTL.Ordinal].Name !=
			want.Columns[want.TTL.Ordinal].Name) {
			t.Errorf("%s: the TTL is %v", m.name, got.TTL)
		}
	}
}

// TestMigrationsRefuse has the tables that rows written before do not fit, and changes that a
// table does not take.
func TestMigrationsRefuse(t *testing.T) {
	have := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"string"},{"name":"sk","type":"int8"}],"primary_key":["id"],
		"sort_key":["sk"]}`)
	seven := have.Columns[0].DefaultValue()
	added := must(t)(have.AddColumn(schema.Column{Name: "n", Type: have.Columns[0].Type,
		Nullable: true, Default: &seven}))
	for text, want := range map[string]string{
		`{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a","type":"string"}],
			"primary_key":["id"]}`: `column "sk" of the primary key is missing`,
		`{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a","type":"string"},
			{"name":"sk","type":"int8"}],"primary_key":["id"],
			"sort_key":[{"column":"sk","desc":true}]}`: "the primary key differs",
	} {
		if changes, err := schema.Migrate(added, parse(t, text)); changes != nil || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, error %v, want %s", changes, err, want)
		}
	}
	dropped := must(t)(added.DropColumn("a"))
	if changes, err := schema.Migrate(dropped, dropped); len(changes) != 0 || err != nil {
		t.Errorf("to itself: %v, %v", changes, err)
	}
	want := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"string"},{"name":"sk","type":"int8"}],"primary_key":["id"],
		"sort_key":["sk"],"indexes":[{"name":"x","columns":["a"]}]}`)
	changes, err := schema.Migrate(have, want)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	if got, err := changes[0].Apply(dropped); got != nil || err == nil ||
		!strings.Contains(err.Error(), `no column "a"`) {
		t.Errorf("an index of a column that was dropped meanwhile: %v, %v", got, err)
	}
	applied := must(t)(changes[0].Apply(added))
	if x := applied.Indexes[0]; x.State != schema.Building || x.ID != 1 {
		t.Errorf("the index is %s, with the id %d", x.State, x.ID)
	}
}
