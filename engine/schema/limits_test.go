package schema_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// TestManyNulls writes rows with more nullable columns than a byte of the bitmap has bits,
// and reads each column of them.
func TestManyNulls(t *testing.T) {
	var columns []string
	for i := range 20 {
		typ := []string{"int16", "string"}[i%2]
		columns = append(columns, fmt.Sprintf(`{"name":"c%d","type":"%s","nullable":true,"id":%d}`,
			i, typ, 40-i))
	}
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"bool","id":1},`+
		strings.Join(columns, ",")+`],"primary_key":["id"]}`)
	for null := range 21 {
		row := table.Row()
		row[0] = expr.Bool(true)
		for i := 1; i < len(row); i++ {
			if row[i] = expr.Int(int64(i)); i%2 == 0 {
				row[i] = expr.String(fmt.Sprint(i))
			}
		}
		row[null] = expr.Bool(true)
		if null > 0 {
			row[null] = expr.Null()
		}
		key, value, back := keyOf(t, table, row), valueOf(t, table, row), table.Row()
		if err := table.Decode(back, key, value, nil); err != nil || !slices.Equal(back, row) {
			t.Fatalf("%v is read back as %v, %v", row, back, err)
		}
		// The fixed columns come first, both kinds from the lowest id on: from the last column.
		bit := 10 - null/2 // of a text 10 more
		if null%2 == 1 {
			bit = 9 - null/2
		} else if null > 0 {
			bit += 10
		}
		want := []byte{0, 0, 0}
		if null > 0 {
			want[bit/8] = 1 << (bit % 8)
		}
		if got := value[2:5]; !bytes.Equal(got, want) {
			t.Fatalf("the bitmap with column %d NULL is %x, want %x", null, got, want)
		}
	}
}

// TestEndsAtTheirWidths writes texts around the sizes from which ends take more bytes.
func TestEndsAtTheirWidths(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"bool"},
		{"name":"a","type":"bytes"},{"name":"b","type":"decimal","nullable":true}],
		"primary_key":["id"]}`)
	for size, format := range map[int]byte{0: 1, math.MaxUint8: 1, math.MaxUint8 + 1: 2,
		math.MaxUint16: 2, math.MaxUint16 + 1: 4} {
		row := []expr.Value{expr.Bool(true), expr.Bytes(make([]byte, size)), expr.Null()}
		value, back := valueOf(t, table, row), table.Row()
		if value[0] != format || len(value) != 3+int(format)+size {
			t.Errorf("%d bytes have the format %d and take %d", size, value[0], len(value))
		}
		if err := table.Decode(back, keyOf(t, table, row), value, nil); err != nil ||
			back[1] != row[1] {
			t.Errorf("%d bytes are read back as %d: %v", size, back[1].Len(), err)
		}
		w := table.Writer(nil, 0)
		w.Text(table.Layout().Slot(1), strings.Repeat("\x00", size))
		w.Null(table.Layout().Slot(2))
		if out, n, ok := w.Finish(); n != size || ok != (format == 1) ||
			ok && !bytes.Equal(out, value) {
			t.Errorf("a writer of %d bytes finishes with %d, %t", size, n, ok)
		}
	}
	none := parse(t, `{"name":"t","columns":[{"name":"id","type":"bool"},
		{"name":"n","type":"int8"}],"primary_key":["id"]}`)
	w := none.Writer(nil, 1000)
	if out, size, ok := w.Finish(); !ok || size != 0 || len(out) != 3 {
		t.Errorf("a row without texts is %x, %d, %t", out, size, ok)
	}
}

// TestRowsRefuse gives rows and entries values that a column does not take, one at a time.
func TestRowsRefuse(t *testing.T) {
	table, row := parse(t, mixed), mixedRow()
	key := keyOf(t, table, row)
	dst := func(what string, b []byte, err, want error) {
		t.Helper()
		if string(b) != "dst" || !errors.Is(err, want) {
			t.Errorf("%s: %q, error %v, want %v", what, b, err, want)
		}
	}
	for i := range row {
		for _, c := range []struct {
			v    expr.Value
			want error
		}{
			{expr.List([]expr.Value{expr.List(nil)}), schema.ErrType},
			{expr.Null(), schema.ErrNull},
		} {
			if c.want == schema.ErrNull && table.Columns[i].Nullable {
				continue
			}
			bad := slices.Clone(row)
			bad[i] = c.v
			if inKey := table.Key(); inKey.Has(i) {
				pk, sk, err := table.AppendRowKey([]byte("dst"), []byte("dst"), bad)
				dst(table.Columns[i].Name, pk, err, c.want)
				dst(table.Columns[i].Name, sk, err, c.want)
			} else {
				b, err := table.AppendRow([]byte("dst"), bad)
				dst(table.Columns[i].Name, b, err, c.want)
			}
			if err := table.Convert(bad); !errors.Is(err, c.want) {
				t.Errorf("%s: converted with error %v", table.Columns[i].Name, err)
			}
			indexesRefuse(t, table, key, bad, i, c.want)
		}
	}
}

// indexesRefuse gives the indexes a row whose column i does not fit.
func indexesRefuse(t *testing.T, table *schema.Table, key keycodec.Key, bad []expr.Value, i int,
	want error) {
	t.Helper()
	for _, x := range table.Indexes {
		var set schema.Entries
		in := x.OwnColumns()
		each := x.Each() >= 0 && x.Columns[x.Each()].Ordinal == i
		err := x.AppendEntries(&set, key, bad)
		if (in.Has(i) || each) && (!errors.Is(err, want) || len(set.List) > 1) {
			t.Errorf("%s, %s: %d entries, error %v", x.Name, table.Columns[i].Name,
				len(set.List), err)
		}
		var changes schema.Changes
		for _, side := range [][2][]expr.Value{{bad, nil}, {nil, bad}} {
			if got := table.Compute(&changes, key, side[0], side[1], false); in.Has(i) &&
				!errors.Is(got, want) {
				t.Errorf("%s: changes with error %v", table.Columns[i].Name, got)
			}
		}
	}
}

// TestShortRowsRefuse gives rows with a value too few wherever a row is taken.
func TestShortRowsRefuse(t *testing.T) {
	table, row := parse(t, mixed), mixedRow()
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	short := row[1:]
	pk, sk, err := table.AppendRowKey([]byte("dst"), []byte("dst"), short)
	b, rowErr := table.AppendRow(nil, short)
	if err == nil || rowErr == nil || string(pk) != "dst" || string(sk) != "dst" || b != nil ||
		table.Decode(short, key, value, nil) == nil || table.Convert(short) == nil {
		t.Errorf("a short row: %v, %v", err, rowErr)
	}
	if pk, err := table.AppendPK([]byte("dst"), row[0], expr.Null()); string(pk) != "dst" ||
		!errors.Is(err, schema.ErrNull) {
		t.Errorf("NULL in a partition key: %q, %v", pk, err)
	}
	for _, x := range table.Indexes {
		var set schema.Entries
		want := schema.Columns()
		_, buf, err := x.DecodeEntry(short, []byte("dst"), nil, nil, nil)
		if x.AppendEntries(&set, key, short) == nil || err == nil || string(buf) != "dst" ||
			x.DecodeOwn(short, nil, nil, &want) == nil {
			t.Errorf("%s: a short row is taken", x.Name)
		}
	}
	if _, err := table.View(nil); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("an empty row: %v", err)
	}
	if at, ok := table.Expiry(short); ok || !at.IsZero() {
		t.Errorf("a short row expires at %v", at)
	}
}

// TestEntriesRefuse has rows that can have no entry, with the name of the index.
func TestEntriesRefuse(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"s","type":"string"}],"primary_key":["id"],"indexes":[
		{"name":"long","columns":["s"]},
		{"name":"odd","columns":["id"],"where":{"op":"=","args":[
			{"op":"+","args":[{"op":"const","value":1},{"op":"column","name":"s"}]},
			{"op":"const","value":1}]}}]}`)
	row := []expr.Value{expr.Int(1), expr.String(strings.Repeat("s", keycodec.MaxKeyBytes-10))}
	key := keyOf(t, table, row)
	var set schema.Entries
	if err := table.Index("long").AppendEntries(&set, key, row); err != nil ||
		len(set.List[0].SK) != keycodec.MaxKeyBytes {
		t.Errorf("the longest entry: %v", err)
	}
	row[1] = expr.String(strings.Repeat("s", keycodec.MaxKeyBytes-9))
	err := table.Index("long").AppendEntries(&set, key, row)
	var refused *schema.EntryError
	if !errors.Is(err, keycodec.ErrKeyTooLarge) || !errors.As(err, &refused) ||
		refused.Table != "t" || refused.Index != "long" || len(set.List) != 1 {
		t.Errorf("a longer one: %v", err)
	}
	row[0], row[1] = expr.Int(0), expr.String("")
	set.Reset()
	err = table.Index("odd").AppendEntries(&set, keyOf(t, table, row), row)
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "its condition") ||
		len(set.List) != 0 {
		t.Errorf("a condition that fails: %v", err)
	}
}

// TestRowKeysAtTheLimit has the longest key of a row, and one byte more.
func TestRowKeysAtTheLimit(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"a","type":"string"},
		{"name":"b","type":"string"}],"primary_key":["a"],"sort_key":["b"]}`)
	text := func(n int) expr.Value { return expr.String(strings.Repeat("x", n)) }
	const pk, sk = keycodec.MaxKeyBytes - 7, keycodec.MaxKeyBytes - 2
	key := keyOf(t, table, []expr.Value{text(pk), text(sk)})
	if err := key.Validate(); err != nil || len(key.PK) != len(key.SK) {
		t.Errorf("the longest key: %v", err)
	}
	for _, n := range [][2]int{{pk + 1, 0}, {0, sk + 1}} {
		_, _, err := table.AppendRowKey(nil, nil, []expr.Value{text(n[0]), text(n[1])})
		if !errors.Is(err, keycodec.ErrKeyTooLarge) {
			t.Errorf("%v: %v", n, err)
		}
	}
	for _, pk := range []string{"", "t\x00\x00\x00", "i\x00\x00\x00\x00", "t\x00\x00\x00\x07"} {
		id, ok := schema.RowTable([]byte(pk))
		if fits := len(pk) == 5 && pk[0] == 't'; ok != fits || ok != (id == 7) || !ok && id != 0 {
			t.Errorf("the key %q is of table %d, %t", pk, id, ok)
		}
	}
}

// TestBucketsRefuse has values and bytes that have no bucket.
func TestBucketsRefuse(t *testing.T) {
	x := indexed(t, 1, `{"name":"x","columns":["a","s"],"shard_columns":2,"shard":"mix64:16"}`)
	for _, values := range [][]expr.Value{{expr.Int(1)}, {expr.String("x"), expr.String("x")},
		{expr.Int(1), expr.Null()}} {
		if b, err := bucketOf(x, values...); err == nil || b != 0 {
			t.Errorf("%v: bucket %d, %v", values, b, err)
		}
	}
	for _, sk := range []string{"", "\x01\x80", "\x05", "\x01\x80\x00\x00\x01s"} {
		if b, err := x.BucketOf([]byte(sk)); b != 0 || !errors.Is(err, corrupt.ErrCorrupt) ||
			!strings.Contains(err.Error(), `index "x"`) {
			t.Errorf("%q: bucket %d, %v", sk, b, err)
		}
	}
	for _, typ := range []string{"uint8", "int64", "uint64"} {
		y := parse(t, `{"name":"t","columns":[{"name":"id","type":"`+typ+`"}],"primary_key":["id"],
			"indexes":[{"name":"y","columns":["id"],"shard":"mix64:1000"}]}`).Indexes[0]
		want := y.Shard.Int64(200)
		if b, err := bucketOf(y, expr.Int(200)); err != nil || int64(b) != int64(want) {
			t.Errorf("%s: bucket %d, want %d: %v", typ, b, want, err)
		}
	}
	local := indexed(t, 1, `{"name":"x","columns":["a"],"local":true}`)
	if b, err := local.BucketOf(nil); b != 0 || err == nil {
		t.Errorf("a local index: bucket %d, %v", b, err)
	}
}

// TestSecondSpellings: what could be written in two ways is damage in one of them.
func TestSecondSpellings(t *testing.T) {
	widths := map[keycodec.Type]int{keycodec.TypeFloat32: 4, keycodec.TypeFloat64: 8}
	for typ, width := range widths {
		c := schema.Column{Name: "f", Type: typ}
		for _, nullable := range []bool{false, true} {
			nan := bytes.Repeat([]byte{0xff}, width) // there is one, with another key
			if c.Nullable = nullable; nullable {
				nan = append([]byte{1}, nan...)
			}
			if v, rest, err := c.DecodeField(nan, schema.KeyColumn{}); !errors.Is(err,
				corrupt.ErrCorrupt) {
				t.Errorf("%s: %x is read as %s, %x: %v", &c, nan, v, rest, err)
			}
		}
	}
	x := parse(t, mixed).Index("unique")
	e := entriesOf(t, x, mixedRow())[0]
	longer := append([]byte{e.Value[0] | 0x80, 0}, e.Value[1:]...)
	if key, _, err := x.RowKey(nil, e.SK, longer); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("a length of two bytes is taken: %s, %v", key, err)
	}
}
