package table_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// randomTable returns the definition of a table with a random key and no indexes.
func randomTable(rng *rand.Rand, name string) string {
	keys := []string{
		`"primary_key":["id"]`,
		`"primary_key":["s"],"sort_key":["id"]`,
		`"primary_key":["id"],"sort_key":[{"column":"s","desc":true}]`,
		`"primary_key":["s","id"]`,
		`"primary_key":["name"],"sort_key":["id",{"column":"s","desc":true}]`,
		`"primary_key":["id"],"shard":"tidb:256"`,
		`"primary_key":["name"],"sort_key":[{"column":"id","desc":true}],"shard":"mix64:8",
		 "shard_columns":2`,
		`"primary_key":["s","id"],"shard":"md5:3"`,
	}
	return fmt.Sprintf(`{"name":%q,"columns":[
	 {"name":"id","type":"int32"},{"name":"s","type":"string"},
	 {"name":"name","type":"string","collate":"ascii"},
	 {"name":"a","type":"int64","nullable":true},{"name":"b","type":"string","nullable":true},
	 {"name":"f","type":"float64","nullable":true},{"name":"flag","type":"bool"},
	 {"name":"tags","type":"string","list":true,"nullable":true},
	 {"name":"at","type":"time","unit":"ms","nullable":true}],
	 %s}`, name, keys[rng.IntN(len(keys))])
}

// randomIndex returns an index over random columns.
func randomIndex(rng *rand.Rand, t *schema.Table, name string) schema.Index {
	for {
		x := anyIndex(rng, t, name)
		if _, err := t.AddIndex(x); err == nil {
			return x
		}
	}
}

func anyIndex(rng *rand.Rand, t *schema.Table, name string) schema.Index {
	x := schema.Index{Name: name}
	usable := []int{0, 1, 2, 3, 4, 5, 6, 8}
	rng.Shuffle(len(usable), func(i, j int) { usable[i], usable[j] = usable[j], usable[i] })
	for _, o := range usable[:1+rng.IntN(3)] {
		x.Columns = append(x.Columns, schema.IndexColumn{KeyColumn: schema.KeyColumn{Ordinal: o,
			Desc: rng.IntN(3) == 0, NullsLast: t.Columns[o].Nullable && rng.IntN(3) == 0}})
	}
	if rng.IntN(4) == 0 {
		at := rng.IntN(len(x.Columns))
		x.Columns[at] = schema.IndexColumn{KeyColumn: schema.KeyColumn{Ordinal: 7}, Each: true}
	}
	x.Unique = rng.IntN(3) == 0
	switch rng.IntN(3) {
	case 0:
		x.Placement = schema.Local
	case 1:
		x.Shard = shard.Spec{Function: shard.Mix64, Count: []int{2, 16, 300}[rng.IntN(3)]}
		x.ShardColumns = 1 + rng.IntN(len(x.Columns))
	}
	for _, o := range usable[4:6] {
		if rng.IntN(2) == 0 {
			x.Include = append(x.Include, o)
		}
	}
	if rng.IntN(4) == 0 {
		x.Where = expr.Cmp{Op: expr.Gt, L: t.Ref(0, 3), R: expr.Const{Value: expr.Int(3)}}
	}
	return x
}

// randomRow returns a row of a randomTable: few values, so that rows meet.
func randomRow(rng *rand.Rand, t *schema.Table, most int) []expr.Value {
	r := t.Row()
	null := func(v expr.Value) expr.Value {
		if rng.IntN(5) == 0 {
			return expr.Null()
		}
		return v
	}
	word := func() string { return strings.Repeat(string(rune('a'+rng.IntN(4))), rng.IntN(4)) }
	r[0] = expr.Int(rng.Int64N(int64(most)))
	r[1] = expr.String([]string{"x", "y\x00", "", "z"}[rng.IntN(4)])
	r[2] = expr.String([]string{"Ab", "aB", "b", "C", "c"}[rng.IntN(5)])
	r[3] = null(expr.Int(rng.Int64N(12)))
	r[4] = null(expr.String(word()))
	r[5] = null(expr.Float(float64(rng.IntN(9)) / 4))
	r[6] = expr.Bool(rng.IntN(2) == 0)
	var tags []expr.Value
	for range rng.IntN(4) {
		tags = append(tags, expr.String(word()))
	}
	r[7] = null(expr.List(tags))
	r[8] = null(expr.UnixTime(rng.Int64N(6)*1000, 0))
	for i := 9; i < len(t.Columns); i++ {
		if c := &t.Columns[i]; !c.Dropped {
			r[i] = null(expr.Int(rng.Int64N(5)))
			if !c.Nullable && r[i].IsNull() {
				r[i] = expr.Int(1)
			}
		}
	}
	return r
}

// model is a table as a map, with the unique indexes checked by comparing all rows.
type model struct {
	t    *schema.Table
	rows map[string][]expr.Value
}

// fold is a value as keys have it.
func fold(c *schema.Column, v expr.Value) string {
	if s, ok := v.AsString(); ok && !c.List {
		return fmt.Sprintf("%q", c.Collation.Fold(s))
	}
	return v.Canonical().String()
}

func (m *model) key(r []expr.Value) string {
	out := ""
	for _, o := range m.t.KeyOrdinals() {
		out += fold(&m.t.Columns[o], r[o]) + "|"
	}
	return out
}

// uniques returns what a row has to have alone.
func (m *model) uniques(r []expr.Value) (all []string) {
	for _, x := range m.t.Indexes {
		if !x.Unique || x.State == schema.Dropping {
			continue
		}
		if x.Where != nil {
			truth, err := expr.Test(x.Where, func(_, o int) expr.Value { return r[o] }, nil)
			if err != nil || truth != expr.True {
				continue
			}
		}
		texts := []string{x.Name}
		for _, k := range x.Columns {
			c, v := &m.t.Columns[k.Ordinal], r[k.Ordinal]
			var next []string
			if k.Each {
				seen := map[string]bool{}
				for e := range v.Elements() {
					if !seen[e.String()] {
						seen[e.String()] = true
						next = append(next, with(texts, e.String())...)
					}
				}
			} else if !v.IsNull() {
				next = with(texts, fold(c, v))
			}
			texts = next
		}
		all = append(all, texts...)
	}
	return all
}

func with(texts []string, more string) (out []string) {
	for _, t := range texts {
		out = append(out, t+"|"+more)
	}
	return out
}

// valid reports whether rows may be together in the table.
func (m *model) valid(rows [][]expr.Value) bool {
	seen := map[string]bool{}
	for _, r := range rows {
		for _, u := range append(m.uniques(r), "primary "+m.key(r)) {
			if seen[u] {
				return false
			}
			seen[u] = true
		}
	}
	return true
}

// with returns the rows without those with the given keys, and with others more.
func (m *model) with(without map[string]bool, more ...[]expr.Value) (rows [][]expr.Value) {
	for k, r := range m.rows {
		if !without[k] {
			rows = append(rows, r)
		}
	}
	return append(rows, more...)
}

func (m *model) set(rows [][]expr.Value) {
	m.rows = map[string][]expr.Value{}
	for _, r := range rows {
		m.rows[m.key(r)] = r
	}
}
