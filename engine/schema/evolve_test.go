package schema_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

func must(t testing.TB) func(*schema.Table, error) *schema.Table {
	return func(table *schema.Table, err error) *schema.Table {
		t.Helper()
		ok(t, err)
		return table
	}
}

// TestOldRowsStayReadable writes rows under every version of a table and reads them under
// every later one.
func TestOldRowsStayReadable(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"string"},{"name":"b","type":"int32","nullable":true}],
		"primary_key":["id"]}`)
	seven, dash := expr.Int(7), expr.String("-")
	versions := []*schema.Table{table}
	step := func(next *schema.Table, err error) {
		t.Helper()
		if next = must(t)(next, err); next.Version != table.Version+1 {
			t.Fatalf("version %d follows %d", next.Version, table.Version)
		}
		table = next
		versions = append(versions, next)
	}
	step(table.AddColumn(schema.Column{Name: "c", Type: keycodec.TypeInt64, Default: &seven}))
	step(table.DropColumn("a"))
	step(table.AddIndex(schema.Index{Name: "x", State: schema.Ready,
		Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 2}}}}))
	step(table.AddColumn(schema.Column{Name: "a", Type: keycodec.TypeString, Default: &dash}))
	step(table.RenameColumn("b", "bb"))
	step(table.AddColumn(schema.Column{Name: "d", Type: keycodec.TypeFloat64, Nullable: true}))

	rng := rand.New(rand.NewPCG(1, 1))
	for i, writer := range versions {
		row := randomRow(rng, writer)
		key, value := keyOf(t, writer, row), valueOf(t, writer, row)
		for j, reader := range versions {
			got := reader.Row()
			err := reader.Decode(got, key, value, nil)
			if j < i && reader.Layout().Version < writer.Layout().Version {
				if !errors.Is(err, corrupt.ErrVersion) {
					t.Fatalf("version %d reads a row of %d: %v", reader.Version, writer.Version,
						err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("version %d reads a row of %d: %v", reader.Version, writer.Version, err)
			}
			for k := range got {
				c := &reader.Columns[k]
				want := c.BeforeValue()
				if k < len(row) {
					want = row[k]
				}
				if c.Dropped {
					want = expr.Null()
				}
				if got[k] != want {
					t.Errorf("version %d reads column %q of %d as %s, want %s", reader.Version,
						c.Name,
						writer.Version, got[k], want)
				}
			}
		}
	}
}

func TestEvolutionRules(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"string"},{"name":"b","type":"string"},{"name":"c","type":"string"},
		{"name":"at","type":"time","unit":"ms"}],"primary_key":["id"],
		"ttl":{"column":"at","after":"1h"},
		"indexes":[{"name":"x","columns":["a"],"include":["b"],"where":{"op":"isnull","not":true,
		"args":[{"op":"column","name":"c"}]}}]}`)
	for name, user := range map[string]string{"id": "primary key", "a": `index "x"`,
		"b": `index "x"`,
		"c": `index "x"`, "at": "TTL", "nobody": "no column"} {
		if _, err := table.DropColumn(name); err == nil || !strings.Contains(err.Error(), user) {
			t.Errorf("drop of %q: %v", name, err)
		}
	}
	if _, err := table.AddColumn(schema.Column{Name: "n", Type: keycodec.TypeBool}); err == nil {
		t.Error("a column without default and NULLs is added")
	}
	if _, err := table.AddColumn(schema.Column{Name: "A", Type: keycodec.TypeBool,
		Nullable: true}); err == nil {
		t.Error("names that differ in case only are added")
	}
	one := expr.String("1")
	added := must(t)(table.AddColumn(schema.Column{Name: "n", Type: keycodec.TypeString,
		Default: &one}))
	if got := must(t)(added.SetDefault("n", nil)); got.Columns[len(got.Columns)-1].BeforeValue() !=
		one {
		t.Error("old rows lose the default of an added column")
	}
	dropping := must(t)(table.SetIndexState("x", schema.Dropping))
	dropped := must(t)(dropping.DropColumn("a"))
	if got := must(t)(schema.Parse(jsonOf(t, dropped))); got.Indexes[0].State != schema.Dropping {
		t.Errorf("state %s", got.Indexes[0].State)
	}
	removed := must(t)(dropped.RemoveIndex("x"))
	again := must(t)(removed.AddIndex(schema.Index{Name: "x",
		Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 2}}}}))
	if again.Indexes[0].ID == table.Indexes[0].ID {
		t.Error("the id of an index is used again")
	}
	renamed := must(t)(table.RenameColumn("c", "cc"))
	if got := renamed.Indexes[0].Where.String(); got != "cc IS NOT NULL" {
		t.Errorf("the condition is %s", got)
	}
}

// Changes of what is not there are refused, and so is what makes a table impossible.
func TestImpossibleChanges(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"string"}],"primary_key":["id"],
		"indexes":[{"name":"x","columns":["a"]},{"name":"y","columns":["a"]}]}`)
	type change func() (*schema.Table, error)
	for what, do := range map[string]change{
		"drop column": func() (*schema.Table, error) {
			return table.DropColumn("no")
		},
		"rename column": func() (*schema.Table, error) {
			return table.RenameColumn("no", "b")
		},
		"rename to a column": func() (*schema.Table, error) {
			return table.RenameColumn("a", "id")
		},
		"rename to nothing": func() (*schema.Table, error) {
			return table.RenameColumn("a", "")
		},
		"default": func() (*schema.Table, error) {
			return table.SetDefault("no", nil)
		},
		"rename": func() (*schema.Table, error) {
			return table.Rename("")
		},
		"index state": func() (*schema.Table, error) {
			return table.SetIndexState("no", schema.Dropping)
		},
		"rename index": func() (*schema.Table, error) {
			return table.RenameIndex("no", "z")
		},
		"rename to an index": func() (*schema.Table, error) {
			return table.RenameIndex("x", "y")
		},
		"remove index": func() (*schema.Table, error) {
			return table.RemoveIndex("no")
		},
		"add an index again": func() (*schema.Table, error) {
			return table.AddIndex(*table.Indexes[0])
		},
		"TTL": func() (*schema.Table, error) {
			return table.SetTTL(&schema.TTL{Ordinal: 1})
		},
	} {
		before := string(jsonOf(t, table))
		if got, err := do(); err == nil || got != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
		if string(jsonOf(t, table)) != before {
			t.Errorf("%s changes the table that it is asked for", what)
		}
	}
}

func TestMigrate(t *testing.T) {
	have := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"old","type":"string"},{"name":"a","type":"string"}],"primary_key":["id"],
		"indexes":[{"name":"x","columns":["old"]},{"name":"y","columns":["a"]},
		{"name":"z","columns":["a"],"include":["old"]}]}`)
	want := parse(t, `{"name":"t","columns":[{"name":"a","type":"string","default":"q"},
		{"name":"id","type":"int64"},{"name":"new","type":"int8","default":3}],
		"primary_key":["id"],"indexes":[{"name":"y","columns":["a"]},
		{"name":"z","columns":["a"]},{"name":"w","columns":["new","id"],"unique":true}]}`)
	got := have
	var log []string
	for range 3 { // the index z is dropped, removed, and added
		changes, err := schema.Migrate(got, want)
		ok(t, err)
		for _, c := range changes {
			log = append(log, c.String())
			got = must(t)(c.Apply(got))
		}
		for _, x := range got.Indexes {
			if x.State == schema.Dropping {
				log = append(log, "gone: "+x.Name)
				got = must(t)(got.RemoveIndex(x.Name))
			} else {
				got = must(t)(got.SetIndexState(x.Name, schema.Ready))
			}
		}
	}
	if text := strings.Join(log, "\n"); text != `drop index x
drop index z
set default of column a to 'q'
add column new INT8
drop column old
add index w
gone: x
gone: z
add index z` {
		t.Errorf("the changes are\n%s", text)
	}
	if again, err := schema.Migrate(got, want); err != nil || len(again) != 0 {
		t.Errorf("left to do: %v, %v", again, err)
	}
	// A default that the wanted table had once is not that of rows that lack the column.
	three, seven := expr.Int(3), expr.Int(7)
	want = must(t)(want.AddColumn(schema.Column{Name: "late", Type: keycodec.TypeInt64,
		Default: &three}))
	want = must(t)(want.SetDefault("late", &seven))
	changes, err := schema.Migrate(got, want)
	ok(t, err)
	for _, c := range changes {
		got = must(t)(c.Apply(got))
	}
	if v := got.Columns[got.Column("late")].BeforeValue(); v != seven {
		t.Errorf("rows from before have %v", v)
	}
	for _, bad := range []struct{ table, want string }{
		{`{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a","type":"bytes"}],
			"primary_key":["id"]}`, `column "a" is now a BYTES, before a TEXT`},
		{`{"name":"t","columns":[{"name":"id","type":"int64"},
			{"name":"a","type":"string","nullable":true}],"primary_key":["id"]}`, `nullable`},
		{`{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a","type":"string"}],
			"primary_key":["a"]}`, `primary key differs`},
		{`{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"n","type":"string"}],
			"primary_key":["id"]}`, `column "n" is new`},
	} {
		if _, err := schema.Migrate(have, parse(t, bad.table)); err == nil ||
			!strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v", bad.table, err)
		}
	}
}
