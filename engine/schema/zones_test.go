package schema_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// TestDescribedRows compares the zones of random rows of random tables with their values.
func TestDescribedRows(t *testing.T) {
	seed := testutil.Seed(t)
	for i := range uint64(testutil.Effort(300, 5_000)) {
		rng := rand.New(rand.NewPCG(seed, i))
		tab := chosenZones(t, rng, randomTable(t, rng))
		rows := make([][]expr.Value, 1+rng.IntN(100))
		for i := range rows {
			rows[i] = randomRow(rng, tab)
			// Few partitions of many rows, or many.
			for _, k := range tab.PK {
				if i > 0 && rng.IntN(4) > 0 {
					rows[i][k.Ordinal] = rows[i-1][k.Ordinal]
				}
			}
		}
		checkDescribed(t, tab, rows)
	}
}

// chosenZones returns the table, or one that names the columns of its zones. It reads back from
// its JSON.
func chosenZones(t *testing.T, rng *rand.Rand, tab *schema.Table) *schema.Table {
	if rng.IntN(2) == 0 {
		return tab
	}
	def := *tab
	def.Zones = []int{}
	for o := range def.Columns {
		if def.Columns[o].Zoned() && o != def.KeyOrdinals()[0] && rng.IntN(2) == 0 {
			def.Zones = append(def.Zones, o)
		}
	}
	out, err := schema.New(def)
	ok(t, err)
	text, err := json.Marshal(out)
	ok(t, err)
	var back schema.Table
	if err := json.Unmarshal(text, &back); err != nil || back.Zones == nil ||
		!slices.Equal(back.Zones, out.Zones) {
		t.Fatalf("zones %v of %s, %v", back.Zones, text, err)
	}
	return &back
}

// TestRefusedZones: zones are of columns that can have them.
func TestRefusedZones(t *testing.T) {
	for o, want := range []string{"which needs none", "is a list", "is a list", "", "named twice"} {
		def := schema.Table{Name: "t", PK: []schema.KeyColumn{{Ordinal: 0}}}
		def.Zones = []int{min(o, 3)}
		def.Columns = []schema.Column{{Name: "a", Type: keycodec.TypeInt64},
			{Name: "b", Type: keycodec.TypeInt64, List: true},
			{Name: "c", Type: keycodec.TypeString, Collation: keycodec.CollateASCII},
			{Name: "d", Type: keycodec.TypeInt64}}
		if o == 4 {
			def.Zones = append(def.Zones, 3)
		}
		_, err := schema.New(def)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%v: %v, want %q", def.Zones, err, want)
		}
	}
}

func checkDescribed(t *testing.T, tab *schema.Table, rows [][]expr.Value) {
	type item struct{ key, value []byte }
	var all []item
	for _, row := range rows {
		all = append(all, item{keycodec.AppendOrdered(nil, keyOf(t, tab, row)),
			valueOf(t, tab, row)})
	}
	slices.SortFunc(all, func(a, b item) int {
		return cmp.Or(bytes.Compare(a.key, b.key), bytes.Compare(a.value, b.value))
	})
	var keys, values []byte
	for _, it := range all {
		keys, values = append(keys, it.key...), append(values, it.value...)
	}
	var items zone.Items
	items.Reset(keys, values)
	key, value := 0, 0
	for _, it := range all {
		items.Add(key, key+len(it.key), value, value+len(it.value))
		key, value = key+len(it.key), value+len(it.value)
	}
	if id, row, to := schema.RowRun(&items, 0); id != tab.ID || !row || to != len(all) {
		t.Fatalf("rows %v of table %d end at %d of %d", row, id, to, len(all))
	}
	var b zone.ColumnsBuilder
	tab.DescribeRows(&b, &items, 0, len(all))
	b.FinishBlock(len(all))
	f, err := zone.OpenColumns(b.FinishFile(nil))
	ok(t, err)
	for o := range tab.Columns {
		if c := &tab.Columns[o]; c.Zoned() && o != tab.KeyOrdinals()[0] {
			z, known := f.Columns().Column(tab.ZoneGroup(), uint64(c.ID))
			if !tab.HasZone(o) {
				if known {
					t.Fatalf("column %q is described, the zones are %v", c.Name, tab.Zones)
				}
				continue
			}
			checkColumn(t, c, o, rows, &z, known)
		}
	}
}

// checkColumn compares the zone of a column with its values in rows.
func checkColumn(t *testing.T, c *schema.Column, o int, rows [][]expr.Value, z *zone.Column,
	known bool,
) {
	field, nulls := *c, false
	field.Nullable = false
	var least, greatest []byte
	for _, row := range rows {
		if row[o].IsNull() {
			nulls = true
			continue
		}
		if text, ok := row[o].AsString(); ok && len(text) > 64 && !known {
			return
		}
		v, err := field.AppendField(nil, schema.KeyColumn{}, row[o])
		ok(t, err)
		if known && !z.Between(v, append(bytes.Clone(v), 0)) {
			t.Fatalf("%v: %x to %x denies %v, %x", c.Type, z.Min(), z.Max(), row[o], v)
		}
		if least == nil || bytes.Compare(v, least) < 0 {
			least = v
		}
		if bytes.Compare(v, greatest) > 0 {
			greatest = v
		}
	}
	if !known || z.Nulls != nulls || z.Values != (least != nil) ||
		!bytes.HasPrefix(least, z.Min()) || !bytes.HasPrefix(greatest, z.Max()) {
		t.Fatalf("%v: %x to %x, NULLs %v, known %v of values from %x to %x", c.Type, z.Min(),
			z.Max(), z.Nulls, known, least, greatest)
	}
}
