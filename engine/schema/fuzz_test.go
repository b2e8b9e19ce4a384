package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// FuzzDecodeRow reads any bytes as a row of three versions of a table with all types. What
// is read can be written, and is then read as the same.
func FuzzDecodeRow(f *testing.F) {
	versions := goldenVersions(f)
	for _, table := range versions {
		for _, text := range goldenValues {
			row := goldenRow(f, table, text)
			if table.Version > 1 {
				row[len(row)-1] = row[4]
			}
			key := keyOf(f, table, row)
			f.Add(key.PK, key.SK, valueOf(f, table, row))
		}
	}
	table := versions[len(versions)-1]
	f.Fuzz(func(t *testing.T, pk, sk, value []byte) {
		defer testutil.Watch(pk, sk, value)()
		row := table.Row()
		if err := table.Decode(row, keycodec.Key{PK: pk, SK: sk}, value, nil); err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%v", err)
			}
			return
		}
		again := table.Row()
		ok(t, table.Decode(again, keyOf(t, table, row), valueOf(t, table, row),
			nil))
		for i := range row {
			if again[i] != row[i] && table.Columns[i].Name != "folded" {
				t.Fatalf("column %d is %s, then %s", i, row[i], again[i])
			}
		}
	})
}

// FuzzDecodeEntry reads any bytes as entries of three indexes.
func FuzzDecodeEntry(f *testing.F) {
	table := parse(f, allTypes)
	for _, text := range goldenValues {
		row := goldenRow(f, table, text)
		for i, x := range table.Indexes {
			for _, e := range entriesOf(f, x, row) {
				f.Add(uint8(i), e.SK, e.Value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, sk, value []byte) {
		defer testutil.Watch(i, sk, value)()
		x := table.Indexes[int(i)%len(table.Indexes)]
		row := table.Row()
		key, _, err := x.DecodeEntry(row, nil, sk, value, nil)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, _, err := x.RowKey(nil, sk, value)
		if err != nil || again.Compare(key) != 0 {
			t.Fatalf("%s, then %s: %v", key, again, err)
		}
		ok(t, table.DecodeKey(row, key, nil))
	})
}

// FuzzParse reads any text as the definition of a table.
func FuzzParse(f *testing.F) {
	f.Add([]byte(cities))
	f.Add([]byte(allTypes))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer testutil.Watch(text)()
		table, err := schema.Parse(text)
		if err != nil {
			return
		}
		first, err := json.Marshal(table)
		ok(t, err)
		back, err := schema.Parse(first)
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if second := jsonOf(t, back); !bytes.Equal(first, second) {
			t.Fatalf("%s\nis read as\n%s", first, second)
		}
	})
}
