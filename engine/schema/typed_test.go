package schema_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// TestWithoutValues writes and reads a row by its layout, as programs that know their types
// do, and compares with AppendRow.
func TestWithoutValues(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"n","type":"int32"},{"name":"s","type":"string","nullable":true},
		{"name":"b","type":"bytes"},{"name":"u","type":"uint64","nullable":true}],
		"primary_key":["id"]}`)
	l := table.Layout()
	for _, text := range []string{"", "short", strings.Repeat("long", 200), strings.Repeat("x",
		1<<17)} {
		row := []expr.Value{expr.Int(1), expr.Int(-2), expr.String(text), expr.Bytes([]byte("abc")),
			expr.Null()}
		var got []byte
		size := 0 // too low at first for long texts: Finish says so
		for {
			w := table.Writer(nil, size)
			binary.LittleEndian.PutUint32(w.Fixed(l.Slot(1)), uint32(0xfffffffe))
			w.Null(l.Slot(4))
			w.Text(l.Slot(2), text)
			w.Text(l.Slot(3), "abc")
			out, n, ok := w.Finish()
			if ok {
				got = out
				break
			}
			if n <= size {
				t.Fatalf("size %d after %d", n, size)
			}
			size = n
		}
		if want := valueOf(t, table, row); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes written as\n%.40x, want\n%.40x", len(text), got, want)
		}
		v, err := table.View(got)
		if err != nil || v.Layout != l {
			t.Fatal(err)
		}
		s, err := v.Bytes(l.Slot(2))
		if err != nil || string(s) != text || !v.Null(l.Slot(4)) || v.Null(l.Slot(2)) {
			t.Fatalf("%d bytes are read as %d: %v", len(text), len(s), err)
		}
		if b, err := v.Bytes(l.Slot(3)); err != nil || string(b) != "abc" {
			t.Fatalf("%q, %v", b, err)
		}
		if b := v.Fixed(l.Slot(1)); binary.LittleEndian.Uint32(b) != 0xfffffffe {
			t.Fatalf("%x", b)
		}
	}
	if l.Slot(0) != nil || l.Slot(99) != nil {
		t.Error("a column of the key has a place in the value")
	}
}

func TestKeysOfValues(t *testing.T) {
	table := parse(t, six)
	row := sixRow()
	key := keyOf(t, table, row)
	pk, err := table.AppendPK(nil, row[0])
	if err != nil || !bytes.Equal(pk, key.PK) {
		t.Errorf("%x, want %x: %v", pk, key.PK, err)
	}
	if id, ok := schema.RowTable(pk); !ok || id != table.ID {
		t.Errorf("the key %x is of table %d, %t", pk, id, ok)
	}
	if _, ok := schema.RowTable(table.Indexes[0].BucketPK(nil, 0)); ok {
		t.Error("an entry is taken for a row")
	}
	if _, err := table.AppendPK(nil); err == nil {
		t.Error("a key without values")
	}
	row[0] = expr.String(strings.Repeat("x", keycodec.MaxKeyBytes))
	if _, _, err := table.AppendRowKey(nil, nil, row); err != keycodec.ErrKeyTooLarge {
		t.Errorf("a key that is too long: %v", err)
	}
	// An encoding of a column by itself is what keycodec writes.
	c, k := &table.Columns[4], schema.KeyColumn{Ordinal: 4, Desc: true, NullsLast: true}
	for _, v := range []expr.Value{expr.String("a\x00b"), expr.Null()} {
		want, err := c.Field(k).Append(nil, v.Any())
		ok(t, err)
		got, err := c.AppendField(nil, k, v)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is %x, want %x: %v", v, got, want, err)
		}
		if back, rest, err := c.DecodeField(got, k); err != nil || back != v || len(rest) > 0 {
			t.Errorf("%x is %s, %x, %v", got, back, rest, err)
		}
	}
}

func TestExpiry(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"at","type":"time","unit":"s","nullable":true}],"primary_key":["id"],
		"ttl":{"column":"at","after":"90m"}}`)
	at := time.Unix(1_800_000_000, 0)
	if got, ok := table.Expiry([]expr.Value{expr.Int(1), expr.Time(at)}); !ok ||
		!got.Equal(at.Add(90*time.Minute)) {
		t.Error(got, ok)
	}
	if got, ok := table.Expiry([]expr.Value{expr.Int(1), expr.Null()}); ok {
		t.Error(got)
	}
	if got, ok := parse(t, six).Expiry(sixRow()); ok {
		t.Error(got)
	}
}

func TestDefaultsAndClones(t *testing.T) {
	table := parse(t, cities)
	row := table.Row()
	given := schema.Columns(0, 1)
	row[0], row[1] = expr.String("IT"), expr.String("Brescia")
	table.Complete(row, &given)
	if row[4].String() != "12.5" || row[6] != expr.String("-") || !row[2].IsNull() {
		t.Errorf("%v", row)
	}
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	got := table.Row()
	ok(t, table.Decode(got, key, value, nil))
	schema.CloneRow(got)
	clear(value)
	clear(key.PK)
	for i := range row {
		if got[i] != row[i] {
			t.Errorf("column %d is %s after its buffer has changed, want %s", i, got[i], row[i])
		}
	}
}

func TestColumnSet(t *testing.T) {
	s := schema.Columns(0, 63, 64, 255)
	var list []int
	for i := range s.All() {
		list = append(list, i)
	}
	if len(list) != 4 || list[3] != 255 || s.Len() != 4 || !s.Has(64) || s.Has(65) || s.Has(-1) ||
		s.Has(256) {
		t.Error(list)
	}
	other := schema.Columns(63, 255)
	if !other.Within(s) || s.Within(other) || s.Without(other) != schema.Columns(0, 64) {
		t.Error("sets")
	}
	if other.Union(s); other != s || other.Empty() {
		t.Error("union")
	}
}

// TestConvertedRowsAreWhatIsRead: also where the stored value is another one.
func TestConvertedRowsAreWhatIsRead(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"uint16"},
		{"name":"at","type":"time","unit":"ms"},{"name":"f","type":"float32"},
		{"name":"l","type":"fixed","scale":2,"list":true},{"name":"d","type":"decimal"}],
		"primary_key":["id"]}`)
	row := []expr.Value{expr.Float(3), expr.UnixTime(5, 1_234_567), expr.Float(0.1),
		expr.List([]expr.Value{expr.Int(1)}), expr.Float(0.5)}
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	got := table.Row()
	ok(t, table.Decode(got, key, value, nil))
	ok(t, table.Convert(row))
	for i := range row {
		if got[i] != row[i] {
			t.Errorf("column %d is read as %s, converted to %s", i, got[i], row[i])
		}
	}
	if err := table.Convert(row[:2]); err == nil {
		t.Error("a row with too few values is converted")
	}
	row[0] = expr.Null()
	if err := table.Convert(row); err == nil {
		t.Error("NULL in the key is converted")
	}
}
