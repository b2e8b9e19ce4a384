package table_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// randomTable returns the definition of a table with a random key and no indexes.
func randomTable(rng *rand.Rand, name string) string {
	keys := []string{
		`"primary_key":["id"]`, `"primary_key":["id"]`, `"primary_key":["id"]`,
		`"primary_key":["s"],"sort_key":["id"]`,
		`"primary_key":["id"],"sort_key":[{"column":"s","desc":true}]`,
		`"primary_key":["s","id"]`,
		`"primary_key":["name"],"sort_key":["id",{"column":"s","desc":true}]`,
		`"primary_key":["id"],"shard":"tidb:256"`,
		`"primary_key":["name"],"sort_key":[{"column":"id","desc":true}],"shard":"mix64:8",
		 "shard_columns":2`,
		`"primary_key":["s","id"],"shard":"md5:3"`,
	}
	made := []string{"", `,"generated":"identity"`}[rng.IntN(2)]
	return fmt.Sprintf(`{"name":%q,"columns":[
	 {"name":"id","type":"int32"%s},{"name":"s","type":"string"},
	 {"name":"name","type":"string","collate":"ascii"},
	 {"name":"a","type":"int64","nullable":true},{"name":"b","type":"string","nullable":true},
	 {"name":"f","type":"float64","nullable":true},{"name":"flag","type":"bool"},
	 {"name":"tags","type":"string","list":true,"nullable":true},
	 {"name":"at","type":"time","unit":"ms","nullable":true}],
	 %s}`, name, made, keys[rng.IntN(len(keys))])
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
	var usable []int
	for i, c := range t.Columns {
		if !c.List && !c.Dropped {
			usable = append(usable, i)
		}
	}
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
		switch c := &t.Columns[i]; {
		case c.Type == keycodec.TypeString:
			r[i] = null(expr.String(word()))
		case c.Type == keycodec.TypeFloat64:
			r[i] = null(expr.Float(float64(rng.IntN(9)) / 4))
		case c.Nullable:
			r[i] = null(expr.Int(rng.Int64N(5)))
		default:
			r[i] = expr.Int(rng.Int64N(5))
		}
	}
	for i := range r {
		if t.Columns[i].Dropped {
			r[i] = expr.Null()
		}
	}
	return r
}
