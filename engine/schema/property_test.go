package schema_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestRowsReadBack(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds(2000) {
		table := randomTable(t, rng)
		for range 10 {
			row := randomRow(rng, table)
			key, value := keyOf(t, table, row), valueOf(t, table, row)
			if err := key.Validate(); err != nil {
				t.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			back := table.Row()
			if err := table.Decode(back, key, value, nil); err != nil {
				t.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			if !slices.Equal(back, row) {
				t.Fatalf("seed %d round %d:\n%v\nis read back as\n%v", seed, round, row, back)
			}
			checkProjection(t, rng, table, key, value, row)
			checkDamage(t, rng, table, key, value)
		}
	}
}

// checkProjection reads some columns and sees that exactly these are set.
func checkProjection(t *testing.T, rng *rand.Rand, table *schema.Table, key keycodec.Key,
	value []byte, row []expr.Value) {
	t.Helper()
	marker := expr.String("untouched")
	got := slices.Repeat([]expr.Value{marker}, len(row))
	var want schema.ColumnSet
	for i := range row {
		if rng.IntN(2) == 0 {
			want.Add(i)
		}
	}
	ok(t, table.Decode(got, key, value, &want))
	for i := range row {
		expected := marker
		if want.Has(i) {
			expected = row[i]
		}
		if got[i] != expected {
			t.Fatalf("column %d of the projection is %s, want %s", i, got[i], expected)
		}
	}
}

// checkDamage decodes cut and changed values: they are errors of the right type, or rows.
func checkDamage(t *testing.T, rng *rand.Rand, table *schema.Table, key keycodec.Key,
	value []byte) {
	t.Helper()
	for range 5 {
		bad := bytes.Clone(value)
		if rng.IntN(2) == 0 {
			bad = bad[:rng.IntN(len(bad))]
		} else {
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
		}
		row := table.Row()
		if err := table.Decode(row, key, bad, nil); err != nil && !errors.Is(err,
			corrupt.ErrCorrupt) {
			t.Fatalf("%x: %v", bad, err)
		}
	}
	if err := table.Decode(table.Row(), key, append(value, 0), nil); err == nil &&
		table.Layout().Vars == 0 {
		t.Fatal("a byte after the row is not noticed")
	}
}

func TestEntriesReadBack(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds(2000) {
		table := randomTable(t, rng)
		for range 5 {
			row := randomRow(rng, table)
			key := keyOf(t, table, row)
			for _, x := range table.Indexes {
				entries := entriesOf(t, x, row)
				if got, want := len(entries), expectedEntries(t, x, row); got != want {
					t.Fatalf("seed %d round %d: %d entries of %v, want %d", seed, round, got,
						row, want)
				}
				for _, e := range entries {
					checkEntry(t, x, &e, key, row)
				}
			}
		}
	}
}

// expectedEntries counts the entries of a row from its values alone.
func expectedEntries(t *testing.T, x *schema.Index, row []expr.Value) int {
	t.Helper()
	if x.Where != nil {
		truth, err := expr.Test(x.Where, func(_, i int) expr.Value { return row[i] }, nil)
		ok(t, err)
		if truth != expr.True {
			return 0
		}
	}
	if x.Each() < 0 {
		return 1
	}
	ordinal := x.Columns[x.Each()].Ordinal
	seen := map[expr.Value]bool{}
	for e := range row[ordinal].Elements() {
		if s, ok := e.AsString(); ok {
			e = expr.String(x.Table().Columns[ordinal].Collation.Fold(s))
		}
		seen[e] = true
	}
	return len(seen)
}

func checkEntry(t *testing.T, x *schema.Index, e *schema.Entry, key keycodec.Key,
	row []expr.Value) {
	t.Helper()
	ok(t, (keycodec.Key{PK: e.PK, SK: e.SK}).Validate())
	marker := expr.String("untouched")
	got := slices.Repeat([]expr.Value{marker}, len(row))
	rowKey, _, err := x.DecodeEntry(got, nil, e.SK, e.Value, nil)
	if err != nil || rowKey.Compare(key) != 0 {
		t.Fatalf("the entry %x %x gives the row %s, %v", e.SK, e.Value, rowKey, err)
	}
	covers := x.Covers()
	for i, v := range got {
		want := marker
		if covers.Has(i) {
			want = row[i]
		}
		if v != want {
			t.Fatalf("column %d of the entry is %s, want %s", i, v, want)
		}
	}
	own := x.OwnColumns()
	short := slices.Repeat([]expr.Value{marker}, len(row))
	ok(t, x.DecodeOwn(short, e.SK, e.Value, &own))
	for i, v := range short {
		if v != marker && v != row[i] || (v == marker) == own.Has(i) {
			t.Fatalf("DecodeOwn: column %d is %s, want %s of %t", i, v, row[i], own.Has(i))
		}
	}
	again, _, err := x.RowKey(nil, e.SK, e.Value)
	if err != nil || again.Compare(key) != 0 {
		t.Fatalf("RowKey: %s, %v", again, err)
	}
	unique := x.Unique
	for _, k := range x.Columns {
		unique = unique && (k.Each || !row[k.Ordinal].IsNull())
	}
	if e.Unique != unique {
		t.Fatalf("the entry of %v is unique: %t", row, e.Unique)
	}
	bucket := int(binary.BigEndian.Uint16(e.PK[9:]))
	if !bytes.Equal(e.PK, x.BucketPK(nil, bucket)) || bucket >= x.Buckets() ||
		keycodec.Stripe(e.PK) != x.Stripe(bucket) {
		t.Fatalf("partition key %x: bucket %d", e.PK, bucket)
	}
	if x.Placement == schema.Local {
		if keycodec.Stripe(e.PK) != keycodec.Stripe(key.PK) {
			t.Fatal("a local entry is not in the stripe of its row")
		}
	} else if again, err := x.BucketOf(e.SK); err != nil || again != bucket {
		t.Fatalf("bucket %d of the entry's key, want %d: %v", again, bucket, err)
	}
	if x.Placement == schema.Global && x.Each() < 0 {
		var values []expr.Value
		for _, k := range x.Columns {
			values = append(values, row[k.Ordinal])
		}
		if again, err := bucketOf(x, values...); err != nil || again != bucket {
			t.Fatalf("bucket %d of the values, want %d: %v", again, bucket, err)
		}
	}
}

// compareFields compares two rows by columns, as a definition describes the order.
func compareFields(table *schema.Table, keys []schema.KeyColumn, a, b []expr.Value) int {
	for _, k := range keys {
		v, w := a[k.Ordinal], b[k.Ordinal]
		var c int
		switch {
		case v.IsNull() && w.IsNull():
		case v.IsNull():
			c = -1
			if k.NullsLast {
				c = 1
			}
		case w.IsNull():
			c = 1
			if k.NullsLast {
				c = -1
			}
		default:
			if s, ok := v.AsString(); ok {
				r, _ := w.AsString()
				fold := table.Columns[k.Ordinal].Collation.Fold
				v, w = expr.String(fold(s)), expr.String(fold(r))
			}
			if c = expr.Order(v, w); k.Desc {
				c = -c
			}
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func TestEntriesSortAsDeclared(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds(1000) {
		table := randomTable(t, rng)
		var rows [][]expr.Value
		for range 8 {
			rows = append(rows, randomRow(rng, table))
		}
		for _, x := range table.Indexes {
			if x.Each() >= 0 || x.Where != nil {
				continue
			}
			var keys []schema.KeyColumn
			for _, k := range x.Columns {
				keys = append(keys, k.KeyColumn)
			}
			all := slices.Concat(keys, table.PK, table.SK)
			for _, a := range rows {
				for _, b := range rows {
					ea, eb := entriesOf(t, x, a)[0], entriesOf(t, x, b)[0]
					want := compareFields(table, all, a, b)
					if ea.Unique && eb.Unique {
						want = compareFields(table, keys, a, b)
					}
					if got := bytes.Compare(ea.SK, eb.SK); got != want {
						t.Fatalf("seed %d round %d: index %v orders\n%v and\n%v as %d, want %d",
							seed,
							round, x.Columns, a, b, got, want)
					}
				}
			}
		}
	}
}

// TestChangesAreMinimal applies changes to the entries of the old row and compares with
// those of the new one.
func TestChangesAreMinimal(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var c schema.Changes
	for round := range rounds(2000) {
		table := randomTable(t, rng)
		old := randomRow(rng, table)
		new := slices.Clone(old)
		for i := range new { // the key stays
			if key := table.Key(); !key.Has(i) && rng.IntN(3) == 0 {
				new[i] = randomValue(rng, &table.Columns[i])
			}
		}
		key, rewrite := keyOf(t, table, old), rng.IntN(4) == 0
		switch rng.IntN(5) {
		case 0:
			old = nil
		case 1:
			new = nil
		}
		ok(t, table.Compute(&c, key, old, new, rewrite))
		have, want := entryMap(t, table, old), entryMap(t, table, new)
		for _, e := range c.Delete {
			name := string(e.PK) + "/" + string(e.SK)
			_, there := have[name]
			if _, stays := want[name]; !there || stays {
				t.Fatalf("seed %d round %d: %x is deleted", seed, round, name)
			}
			delete(have, name)
		}
		for _, e := range c.Put {
			name := string(e.PK) + "/" + string(e.SK)
			if v, there := have[name]; there && v == string(e.Value) && !rewrite {
				t.Fatalf("seed %d round %d: %x is written again", seed, round, name)
			}
			have[name] = string(e.Value)
		}
		if len(have) != len(want) || rewrite && len(c.Put) != len(want) {
			t.Fatalf("seed %d round %d: %d entries, want %d", seed, round, len(have), len(want))
		}
		for name, v := range want {
			if have[name] != v {
				t.Fatalf("seed %d round %d: %x is %x, want %x", seed, round, name, have[name], v)
			}
		}
	}
}

func entryMap(t *testing.T, table *schema.Table, row []expr.Value) map[string]string {
	t.Helper()
	m := map[string]string{}
	if row == nil {
		return m
	}
	for _, x := range table.Indexes {
		for _, e := range entriesOf(t, x, row) {
			m[string(e.PK)+"/"+string(e.SK)] = string(e.Value)
		}
	}
	return m
}
