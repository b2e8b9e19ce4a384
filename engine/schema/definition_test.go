package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// small is a table with a column of each kind that a rule is about.
const small = `{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a","type":"string"},
	{"name":"n","type":"int64","nullable":true},{"name":"l","type":"int8","list":true},
	{"name":"m","type":"int8","list":true},{"name":"at","type":"time","unit":"s"}],
	"primary_key":["id"],"ttl":{"column":"at","after":"1h"},
	"indexes":[{"name":"x","columns":["a","n"],"include":["at"]}]}`

// TestRefusedTables has a spoiled table for each rule that the JSON form cannot break.
func TestRefusedTables(t *testing.T) {
	for want, spoil := range spoiledTables() {
		def := *parse(t, small)
		def.Version = 5
		def.Columns, def.PK = slices.Clone(def.Columns), slices.Clone(def.PK)
		ttl, x := *def.TTL, *def.Indexes[0]
		x.Columns, x.Include = slices.Clone(x.Columns), slices.Clone(x.Include)
		def.TTL, def.Indexes = &ttl, []*schema.Index{&x}
		if _, err := schema.New(def); err != nil {
			t.Fatal(err)
		}
		spoil(&def)
		if got, err := schema.New(def); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
}

// spoiledTables are ways to spoil small, by what is said about it.
func spoiledTables() map[string]func(t *schema.Table) {
	each := func(ordinal int) schema.IndexColumn {
		return schema.IndexColumn{KeyColumn: schema.KeyColumn{Ordinal: ordinal}, Each: true}
	}
	return map[string]func(t *schema.Table){
		"not valid UTF-8":        func(t *schema.Table) { t.Name = "\xff" },
		`"\xff", is not valid`:   func(t *schema.Table) { t.Columns[1].Name = "\xff" },
		"an index has no name":   func(t *schema.Table) { t.Indexes[0].Name = "" },
		`column "a" has no id`:   func(t *schema.Table) { t.Columns[1].ID = 0 },
		"two columns have the":   func(t *schema.Table) { t.Columns[1].ID = 1 },
		"without a version":      func(t *schema.Table) { t.Columns[4].Dropped = true },
		"or the reverse":         func(t *schema.Table) { t.Columns[4].Removed = 2 },
		"added in version 6 and": func(t *schema.Table) { t.Columns[2].Added = 6 },
		"dropped in 6 of 5": func(t *schema.Table) {
			t.Columns[4].Dropped, t.Columns[4].Removed = true, 6
		},
		"in version 3 and dropped in 3": func(t *schema.Table) {
			c := &t.Columns[4]
			c.Dropped, c.Added, c.Removed = true, 3, 3
		},
		`"m" was added and needs`:  func(t *schema.Table) { t.Columns[4].Added = 2 },
		"key orders NULLs":         func(t *schema.Table) { t.PK[0].NullsLast = true },
		"primary key: there is no": func(t *schema.Table) { t.PK[0].Ordinal = 6 },
		"there is no column -1":    func(t *schema.Table) { t.PK[0].Ordinal = -1 },
		"key was added later": func(t *schema.Table) {
			t.Columns[0].Added, t.Columns[0].Default = 2, new(expr.Int(1))
		},
		"TTL: there is no": func(t *schema.Table) { t.TTL.Ordinal = 6 },
		"TTL: -1h0m0s is":  func(t *schema.Table) { t.TTL.After = -time.Hour },
		"an index is nil":  func(t *schema.Table) { t.Indexes[0] = nil },
		"the next one is 2": func(t *schema.Table) {
			t.NextIndex, t.Indexes[0].ID = 2, math.MaxUint32
		},
		`index "x": there is no`: func(t *schema.Table) { t.Indexes[0].Columns[0].Ordinal = 6 },
		"included: there is no":  func(t *schema.Table) { t.Indexes[0].Include[0] = 6 },
		"an entry for each element": func(t *schema.Table) {
			t.Indexes[0].Columns = []schema.IndexColumn{each(3), each(4)}
		},
		`"id" is included but part`: func(t *schema.Table) { t.Indexes[0].Include[0] = 0 },
		"unknown state 4":           func(t *schema.Table) { t.Indexes[0].State = 4 },
		"unknown placement 2":       func(t *schema.Table) { t.Indexes[0].Placement = 2 },
		"follow from 3 of 2":        func(t *schema.Table) { t.Indexes[0].ShardColumns = 3 },
		"shard": func(t *schema.Table) {
			t.Indexes[0].Shard = shard.Spec{Function: 99, Count: 4}
		},
		"one integer column": func(t *schema.Table) {
			t.Indexes[0].Columns = slices.Clone(t.Indexes[0].Columns)
			slices.Reverse(t.Indexes[0].Columns)
			t.Indexes[0].ShardColumns = 2
			t.Indexes[0].Shard = shard.Spec{Function: shard.Tidb, Count: 4}
		},
		"a column u that the table does not have": func(t *schema.Table) {
			t.Indexes[0].Where = expr.IsNull{X: expr.Column{Source: 1, Ordinal: 1, Name: "u"}}
		},
		`index "x": `: func(t *schema.Table) {
			t.Indexes[0].Where = expr.Func{Name: "nosuch"}
		},
	}
}

// TestKeysOfManyColumns has as many columns in keys as there may be, and one more.
func TestKeysOfManyColumns(t *testing.T) {
	table := func(pk, sk, index int) error {
		var columns, first, second, third []string
		for i := range pk + sk + index {
			columns = append(columns, fmt.Sprintf(`{"name":"c%d","type":"bool"}`, i))
			name := fmt.Sprintf(`"c%d"`, i)
			switch {
			case i < pk:
				first = append(first, name)
			case i < pk+sk:
				second = append(second, name)
			default:
				third = append(third, name)
			}
		}
		text := fmt.Sprintf(`{"name":"t","columns":[%s],"primary_key":[%s],"sort_key":[%s]`,
			strings.Join(columns, ","), strings.Join(first, ","), strings.Join(second, ","))
		if index > 0 {
			text += `,"indexes":[{"name":"x","columns":[` + strings.Join(third, ",") + `]}]`
		}
		_, err := schema.Parse([]byte(text + "}"))
		return err
	}
	for _, fits := range [][3]int{{keycodec.MaxFields - 1, 1, 0}, {1, 1, keycodec.MaxFields - 2}} {
		if err := table(fits[0], fits[1], fits[2]); err != nil {
			t.Errorf("%v: %v", fits, err)
		}
		for i := range fits {
			if more := fits; more[2] > 0 || i < 2 {
				more[i]++
				if err := table(more[0], more[1], more[2]); err == nil ||
					!strings.Contains(err.Error(), "65 columns") &&
						!strings.Contains(err.Error(), "key of 65") {
					t.Errorf("%v: %v", more, err)
				}
			}
		}
	}
}

// TestFieldsOfKeys lists the columns and fields of keys.
func TestFieldsOfKeys(t *testing.T) {
	table := parse(t, mixed)
	names := func(fields []keycodec.Field) (out []string) {
		for _, f := range fields {
			out = append(out, f.String())
		}
		return out
	}
	x := table.Index("unique")
	got := fmt.Sprint(names(table.SearchKey(nil).Fields), names(table.SearchKey(x).Fields),
		table.KeyOrdinals(), names(x.Fields()), x.Ordinals(), x.Each(), table.Index("each").Each(),
		table.Index("each").Buckets(), x.Buckets(), x.Sharded(), table.Column("none"))
	want := "[s string n int16 desc f float64 d decimal desc] " +
		"[flag bool null last d decimal desc] [0 1 2 3] " +
		"[flag bool null last d decimal desc] [5 3] -1 0 256 1 false -1"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i, want := range []string{"s TEXT", "n INT16", "f FLOAT", "d DECIMAL",
		"full TIMESTAMP(full)", "flag BOOL nullable", "at TIMESTAMP(s)",
		"fold TEXT COLLATE NOCASE nullable", "net IPPREFIX nullable", "list INT8[]",
		"late INT32"} {
		if got := table.Columns[i].String(); got != want {
			t.Errorf("column %d is %s, want %s", i, got, want)
		}
	}
	if k := table.Columns[9].Kind(); k != expr.KindList {
		t.Errorf("a list is of kind %s", k)
	}
	if k := table.Columns[6].Kind(); k != expr.KindTime {
		t.Errorf("a time is of kind %s", k)
	}
}

// TestConditionsOfIndexes: a condition has to be one, over columns of the right types.
func TestConditionsOfIndexes(t *testing.T) {
	table := parse(t, small)
	a, l := table.Ref(0, 1), table.Ref(0, 3)
	one := expr.Const{Value: expr.Int(1)}
	for _, c := range []struct {
		where expr.Expr
		want  string
	}{
		{expr.IsNull{X: a}, ""}, {expr.Contains{X: l, Item: one}, ""},
		{expr.Const{Value: expr.Null()}, ""}, {a, "this is not a condition"},
		{one, "not a condition"},
		{expr.Cmp{Op: expr.Eq, L: a, R: one}, " "},
		{expr.Contains{X: l, Item: expr.Const{Value: expr.String("x")}}, " "},
	} {
		err := table.CheckWhere(c.where)
		var typed *expr.TypeError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &typed) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.where, err, c.want)
		}
	}
}

// TestJSONOfKeys reads the members of a column of a key one by one.
func TestJSONOfKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"column":"a","colour":1}`: "unknown field", `7`: "cannot unmarshal",
		`"no"`: "there is no column", `{"column":"a","each":true}`: "is a list",
	} {
		_, err := schema.Parse([]byte(`{"name":"t","columns":[{"name":"a","type":"bool"}],
			"primary_key":[` + text + `]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"name":"at","type":"time","unit":"h"}`:       `unknown unit "h"`,
		`{"name":"at","type":"string","collate":"de"}`: `unknown collation "de"`,
		`{"name":"at","type":"int8"},{"name":"at"}`:    "unknown type",
	} {
		_, err := schema.Parse([]byte(`{"name":"t","columns":[` + text + `],"primary_key":["at"]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for ttl, want := range map[string]string{`{"column":"no","after":"1h"}`: "TTL: there is no",
		`{"column":"id","after":"soon"}`: "TTL: time: invalid"} {
		_, err := schema.Parse([]byte(`{"name":"t","columns":[{"name":"id","type":"bool"}],
			"primary_key":["id"],"ttl":` + ttl + `}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", ttl, err, want)
		}
	}
	table := parse(t, small)
	before := *table
	if err := table.UnmarshalJSON([]byte(`{}`)); err == nil || table.Name != before.Name {
		t.Errorf("a table becomes %q, error %v", table.Name, err)
	}
	var back schema.Table
	if err := json.Unmarshal(jsonOf(t, table), &back); err != nil ||
		back.Indexes[0].Table() != &back {
		t.Errorf("the index of a table that was read is of another table: %v", err)
	}
}
