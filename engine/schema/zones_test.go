package schema_test

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap"
)

// TestDescribedRows compares the zones of random rows of random tables with their values.
func TestDescribedRows(t *testing.T) {
	seed := testutil.Seed(t)
	for i := range uint64(testutil.Effort(300, 5_000)) {
		rng := rand.New(rand.NewPCG(seed, i))
		tab := randomTable(t, rng)
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
	var items zonemap.Items
	items.Reset(keys, values)
	key, value := 0, 0
	for _, it := range all {
		items.Add(key, key+len(it.key), value, value+len(it.value))
		key, value = key+len(it.key), value+len(it.value)
	}
	if id, row, to := schema.RowRun(&items, 0); id != tab.ID || !row || to != len(all) {
		t.Fatalf("rows %v of table %d end at %d of %d", row, id, to, len(all))
	}
	var b zonemap.ColumnsBuilder
	tab.DescribeRows(&b, &items, 0, len(all))
	b.FinishBlock(len(all))
	f, err := zonemap.OpenColumns(b.FinishFile(nil))
	if err != nil {
		t.Fatal(err)
	}
	for o := range tab.Columns {
		if c := &tab.Columns[o]; c.Zoned() && o != tab.PK[0].Ordinal {
			z, known := f.Columns().Column(tab.ZoneGroup(), uint64(c.ID))
			checkColumn(t, c, o, rows, &z, known)
		}
	}
}

// checkColumn compares the zone of a column with its values in rows.
func checkColumn(t *testing.T, c *schema.Column, o int, rows [][]expr.Value, z *zonemap.Column,
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
		if text, ok := row[o].AsString(); ok && len(text) > 64 {
			return
		}
		v, err := field.AppendField(nil, schema.KeyColumn{}, row[o])
		if err != nil {
			t.Fatal(err)
		}
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
