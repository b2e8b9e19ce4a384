package schema_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

func parse(t testing.TB, text string) *schema.Table {
	t.Helper()
	table, err := schema.Parse([]byte(text))
	ok(t, err)
	return table
}

const cities = `{"name":"cities","id":7,"columns":[
	{"name":"country","type":"string"},
	{"name":"city","type":"string","collate":"unicode"},
	{"name":"people","type":"int64","nullable":true},
	{"name":"founded","type":"time","unit":"s","nullable":true},
	{"name":"area","type":"fixed","scale":2,"default":12.50},
	{"name":"tags","type":"string","list":true,"nullable":true},
	{"name":"note","type":"string","default":"-"}],
	"primary_key":["country"],"sort_key":["city"],
	"indexes":[
	{"name":"by_people","columns":[{"column":"people","desc":true,"nulls":"last"}],
	 "include":["note"],"shard":"mix64:16"},
	{"name":"by_tag","columns":[{"column":"tags","each":true},"people"],"local":true},
	{"name":"by_note","columns":["note"],"unique":true,
	 "where":{"op":"<>","args":[{"op":"column","name":"note"},{"op":"const","value":"-"}]}}]}`

// A definition that numbers its indexes itself goes on after the highest of them.
func TestIndexesOfADefinitionKeepTheirNumbers(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"a","type":"int64"},
		{"name":"b","type":"int64"}],"primary_key":["a"],"indexes":[
		{"name":"x","id":3,"columns":["b"]},{"name":"y","columns":["b","a"]}]}`)
	x, y := table.Indexes[0], table.Indexes[1]
	if x.ID != 3 || y.ID != 4 || table.NextIndex != 5 {
		t.Errorf("indexes %d and %d, the next is %d", x.ID, y.ID, table.NextIndex)
	}
}

// A row key that lacks a part, or has more, is damage in either half.
func TestDamagedRowKeys(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"a","type":"string"},
		{"name":"b","type":"string"}],"primary_key":["a"],"sort_key":["b"]}`)
	row := []expr.Value{expr.String("IT"), expr.String("Brescia")}
	whole := keyOf(t, table, row)
	ok(t, table.DecodeKey(table.Row(), whole, nil))
	cut := func(b []byte) []byte { return b[: len(b)-1 : len(b)-1] }
	for name, k := range map[string]keycodec.Key{
		"less of the partition key": {PK: cut(whole.PK), SK: whole.SK},
		"more of the partition key": {PK: append(cut(whole.PK), 0, 0), SK: whole.SK},
		"less of the sort key":      {PK: whole.PK, SK: cut(whole.SK)},
		"more of the sort key":      {PK: whole.PK, SK: append(cut(whole.SK), 0, 0)},
		"no sort key":               {PK: whole.PK},
	} {
		if err := table.DecodeKey(table.Row(), k, nil); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Ends of four bytes are damage beyond the row, however large they are.
func TestDamagedWideEnds(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int8"},
		{"name":"a","type":"string"},{"name":"b","type":"string"},
		{"name":"c","type":"string"}],"primary_key":["id"]}`)
	row := []expr.Value{expr.Int(1), expr.String(strings.Repeat("a", 70_000)), expr.String("b"),
		expr.String("c")}
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	for column := 1; column <= 3; column++ {
		want := schema.Columns(column)
		at := 2 + 4*(max(column, 2)-2) // after the format and the version: its first end
		for _, end := range []uint32{70_003, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			damaged := bytes.Clone(value)
			binary.LittleEndian.PutUint32(damaged[at:], end)
			if err := table.Decode(table.Row(), key, damaged, &want); !errors.Is(err,
				corrupt.ErrCorrupt) {
				t.Errorf("column %d, an end of %d: %v", column, end, err)
			}
		}
	}
}

// An element of a list that its column cannot hold is damage, like bytes that are no list.
func TestDamagedLists(t *testing.T) {
	table := func(typ string) *schema.Table {
		return parse(t, `{"name":"t","columns":[{"name":"a","type":"int64"},
			{"name":"l","type":"`+typ+`","list":true}],"primary_key":["a"]}`)
	}
	wide, narrow := table("int64"), table("int8")
	for element, damage := range map[int64]bool{127: false, 128: true} {
		row := []expr.Value{expr.Int(1), expr.List([]expr.Value{expr.Int(5), expr.Int(element)})}
		value, err := wide.AppendRow(nil, row)
		ok(t, err)
		err = narrow.Decode(narrow.Row(), keyOf(t, narrow, row), value, nil)
		if errors.Is(err, corrupt.ErrCorrupt) != damage {
			t.Errorf("a list of int8 with %d: %v", element, err)
		}
	}
}

// TestLimitsOfTables: a table may have as many columns and indexes, and names as long, as the
// limits say, and no more.
func TestLimitsOfTables(t *testing.T) {
	table := func(columns, indexes, name int) string {
		var cols, idx []string
		for i := range columns {
			cols = append(cols, fmt.Sprintf(`{"name":"c%d","type":"int8"}`, i))
		}
		for i := range indexes {
			idx = append(idx, fmt.Sprintf(`{"name":"x%d","columns":["c0"]}`, i))
		}
		return fmt.Sprintf(`{"name":"%s","columns":[%s],"primary_key":["c0"],"indexes":[%s]}`,
			strings.Repeat("n", name), strings.Join(cols, ","), strings.Join(idx, ","))
	}
	for _, c := range [][3]int{
		{256, 0, 1}, {1, 64, 1}, {1, 0, 255}, // as docs/limits.md says
	} {
		if _, err := schema.Parse([]byte(table(c[0], c[1], c[2]))); err != nil {
			t.Errorf("%d columns, %d indexes, a name of %d bytes: %v", c[0], c[1], c[2], err)
		}
		for i, n := range c {
			if n < 2 {
				continue
			}
			c[i]++
			if _, err := schema.Parse([]byte(table(c[0], c[1], c[2]))); err == nil {
				t.Errorf("%d columns, %d indexes, a name of %d bytes", c[0], c[1], c[2])
			}
		}
	}
}
