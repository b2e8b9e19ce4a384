package schema_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// TestWhoNeedsAColumn: what uses a column is named; an index that is being dropped is not.
func TestWhoNeedsAColumn(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"sk","type":"int64"},{"name":"c","type":"string"},
		{"name":"free","type":"string"},{"name":"at","type":"time","unit":"ms"}],
		"primary_key":["id"],"sort_key":["sk"],"ttl":{"column":"at","after":"1h"},
		"indexes":[{"name":"x","columns":["sk"],"where":{"op":"isnull",
		"args":[{"op":"column","name":"c"}]}}]}`)
	for name, user := range map[string]string{"id": "the primary key", "sk": "the primary key",
		"c": `the index "x"`, "at": "the TTL"} {
		if _, err := table.DropColumn(name); err == nil ||
			!strings.Contains(err.Error(), "is part of "+user+" and cannot") {
			t.Errorf("drop of %q: %v", name, err)
		}
	}
	free := must(t)(table.DropColumn("free"))
	if c := free.Columns[3]; !c.Dropped || c.Removed != free.Version {
		t.Errorf("the dropped column is %+v", c)
	}
	dropping := must(t)(must(t)(table.SetIndexState("x", schema.Dropping)).DropColumn("c"))
	if x := dropping.Indexes[0]; len(x.Columns) != 0 || x.Where != nil {
		t.Errorf("the index is %+v", x)
	}
	row := []expr.Value{expr.Int(1), expr.Int(2), expr.Null(), expr.String("f"), expr.Null()}
	var c schema.Changes
	if err := dropping.Compute(&c, keycodec.Key{}, nil, row, false); err != nil || len(c.Put) != 0 {
		t.Errorf("an index that is being dropped changes: %v, %v", c.Put, err)
	}
	if got := must(t)(must(t)(table.SetTTL(nil)).DropColumn("at")); !got.HadTTL ||
		!got.MayExpire() || got.TTL != nil || !table.MayExpire() {
		t.Errorf("a table that had a TTL: %t", got.MayExpire())
	}
	if small := parse(t, six); small.MayExpire() || small.HadTTL || small.NextIndex != 2 {
		t.Errorf("a table without a TTL: %t, %d", small.MayExpire(), small.NextIndex)
	}
}

// TestNumbersOfChanges: ids and versions are given out, and defaults stay what old rows have.
func TestNumbersOfChanges(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64"}],"primary_key":["id"]}`)
	if table.NextIndex != 1 || table.Version != 1 {
		t.Errorf("the next index is %d, the version %d", table.NextIndex, table.Version)
	}
	one, two := expr.Int(1), expr.Int(2)
	added := must(t)(table.AddColumn(schema.Column{ID: 77, Name: "n", Type: keycodec.TypeInt8,
		Default: &one, Added: 9, Removed: 9, Dropped: true}))
	if c := added.Columns[1]; c.ID != 2 || c.Added != 2 || c.Removed != 0 || c.Dropped {
		t.Errorf("the column is %+v", c)
	}
	// Rows written before keep the default at that time, whatever it is later.
	for _, next := range []*expr.Value{&two, nil} {
		changed := must(t)(added.SetDefault("n", next))
		data, err := json.Marshal(changed)
		ok(t, err)
		again, err := schema.Parse(data)
		if err != nil || again.Columns[1].BeforeValue() != one {
			t.Errorf("a new default %v: %v, before %v", next, err, again)
		}
	}
	nullable := must(t)(table.AddColumn(schema.Column{Name: "m", Nullable: true,
		Type: keycodec.TypeInt8}))
	nullable = must(t)(nullable.SetDefault("m", &two))
	data, err := json.Marshal(nullable)
	ok(t, err)
	again, err := schema.Parse(data)
	if err != nil || !again.Columns[1].BeforeValue().IsNull() || *again.Columns[1].Default != two {
		t.Errorf("a default after none: %v, %s", err, data)
	}
	first := must(t)(table.SetDefault("id", &two))
	if first.Columns[0].DefaultValue() != two {
		t.Errorf("the default is %s", first.Columns[0].DefaultValue())
	}
	last := parse(t, `{"name":"t","columns":[{"name":"id","type":"int64","id":65535}],
		"primary_key":["id"]}`)
	if _, err := last.AddColumn(schema.Column{Name: "n", Nullable: true,
		Type: keycodec.TypeInt8}); err == nil || !strings.Contains(err.Error(), "no ids left") {
		t.Errorf("a column after the last id: %v", err)
	}
	x := schema.Index{ID: 5, Name: "x", Columns: []schema.IndexColumn{{}}}
	indexed := must(t)(table.AddIndex(x))
	if indexed.Indexes[0].ID != 1 || indexed.NextIndex != 2 || x.ID != 5 {
		t.Errorf("the index has the id %d, the next %d", indexed.Indexes[0].ID, indexed.NextIndex)
	}
	if got := must(t)(table.Drop()); !got.Dropping || got.Version != 2 || table.Dropping {
		t.Errorf("the table is being dropped: %t", got.Dropping)
	}
	if got := must(t)(table.Rename("u")); got.Name != "u" || got.Version != 2 || table.Name != "t" {
		t.Errorf("the table is %s", got.Name)
	}
}

// TestNewCopies: a table does not change with the definition that it was made from.
func TestNewCopies(t *testing.T) {
	def := *parse(t, small)
	def.Columns, def.PK = slices.Clone(def.Columns), slices.Clone(def.PK)
	given := expr.Float(3)
	def.Columns[2].Default = &given
	ttl, x := *def.TTL, *def.Indexes[0]
	x.Columns = slices.Clone(x.Columns)
	x.Include = []int{5, 0}[:1]
	def.TTL, def.Indexes = &ttl, []*schema.Index{&x}
	table, err := schema.New(def)
	ok(t, err)
	want := string(jsonOf(t, table))
	ttl.After, def.PK[0].Desc, x.Columns[0].Desc, x.Name = 5, true, true, "y"
	def.Columns[1].Name, x.Include[0] = "other", 2
	if got := string(jsonOf(t, table)); got != want {
		t.Errorf("the table was\n%s and is\n%s", want, got)
	}
	if table.Columns[2].BeforeValue() != expr.Int(3) || given != expr.Float(3) {
		t.Errorf("the default is %s, given %s", table.Columns[2].BeforeValue(), given)
	}
	if !strings.Contains(want, `"ttl":{"column":"at","after":"1h0m0s"}`) {
		t.Errorf("the TTL is not in %s", want)
	}
	// Included columns stay in their order, whatever the order of their values.
	order := parse(t, strings.Replace(small, `["at"]`, `["at","m","l"]`, 1))
	if !strings.Contains(string(jsonOf(t, order)), `"include":["at","m","l"]`) ||
		!slices.Equal(order.Indexes[0].Include, []int{5, 4, 3}) {
		t.Errorf("the included columns are %v", order.Indexes[0].Include)
	}
}

// TestCoveredColumns lists what entries give, without the row's key and with it.
func TestCoveredColumns(t *testing.T) {
	table := parse(t, mixed)
	for name, want := range map[string][2]schema.ColumnSet{
		"plain":  {schema.Columns(6, 8), schema.Columns(0, 1, 2, 3, 6, 8)},
		"unique": {schema.Columns(3, 5, 10), schema.Columns(0, 1, 2, 3, 5, 10)},
		"each":   {schema.Columns(7), schema.Columns(0, 1, 2, 3, 7)},
	} {
		if x := table.Index(name); x.OwnColumns() != want[0] || x.Covers() != want[1] {
			t.Errorf("%s: own %v, covered %v", name, x.OwnColumns(), x.Covers())
		}
	}
	s := schema.Columns(64)
	if s.Has(0) || !s.Has(64) || s.Has(128) {
		t.Error("the set of column 64")
	}
	// A part of the key without a wanted column is not looked at.
	key := keyOf(t, table, mixedRow())
	first, last := schema.Columns(1), schema.Columns(3)
	row := table.Row()
	if err := table.DecodeKey(row, keycodec.Key{PK: key.PK}, &first); err != nil ||
		row[1] != expr.Int(-2) {
		t.Errorf("a column of the partition key is %s: %v", row[1], err)
	}
	if err := table.DecodeKey(row, keycodec.Key{PK: key.PK[:5], SK: key.SK}, &last); err != nil ||
		row[3] != expr.Scaled(-125, 1) {
		t.Errorf("a column of the sort key is %s: %v", row[3], err)
	}
	if l := table.Layout(); l.Slot(len(table.Columns)) != nil || l.Slot(-1) != nil {
		t.Error("columns that are not there have places")
	}
}

// TestKeptEntries: an entry whose key the old row has, too, is marked.
func TestKeptEntries(t *testing.T) {
	table := parse(t, mixed)
	old, now := mixedRow(), mixedRow()
	now[10], now[6] = expr.Int(10), expr.UnixTime(61, 0)
	var c schema.Changes
	ok(t, table.Compute(&c, keyOf(t, table, old), old, now, false))
	var got []string
	for _, e := range c.Put {
		got = append(got, e.Index.Name)
		if e.Kept != (e.Index.Name == "unique") {
			t.Errorf("the entry of %s is kept: %t", e.Index.Name, e.Kept)
		}
	}
	if !slices.Equal(got, []string{"plain", "unique"}) || len(c.Delete) != 1 {
		t.Errorf("entries of %v are written, %d deleted", got, len(c.Delete))
	}
}

// TestDroppedColumnsAreNull: also in rows that held something else before.
func TestDroppedColumnsAreNull(t *testing.T) {
	table := parse(t, `{"name":"t","version":127,"columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"string"},{"name":"b","type":"string"}],"primary_key":["id"]}`)
	row := []expr.Value{expr.Int(1), expr.String("a"), expr.String("b")}
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	later := must(t)(table.DropColumn("a"))
	got := slices.Clone(row)
	if err := later.Decode(got, key, value, nil); err != nil || got[1] != expr.String("a") {
		t.Errorf("a dropped column that is not asked for becomes %s: %v", got[1], err)
	}
	all := schema.Columns(0, 1, 2)
	if err := later.Decode(got, key, value, &all); err != nil || !got[1].IsNull() {
		t.Errorf("a dropped column is %s: %v", got[1], err)
	}
	if err := later.Convert(row); err != nil || !row[1].IsNull() {
		t.Errorf("a dropped column is converted to %s: %v", row[1], err)
	}
	if later.Version != 128 {
		t.Fatalf("version %d", later.Version)
	}
	value, back := valueOf(t, later, row), later.Row()
	if err := later.Decode(back, key, value, nil); err != nil || !slices.Equal(back, row) ||
		!bytes.Equal(value[1:3], []byte{0x80, 1}) {
		t.Errorf("a row of version 128, %x, is read as %v: %v", value, back, err)
	}
	back[1] = expr.String("left")
	given := schema.Columns(0)
	if later.Complete(back, &given); back[1] != expr.String("left") || !back[2].IsNull() {
		t.Errorf("completed to %v", back)
	}
}

// TestValuesThatNeedConversion writes values that are not of the kind that is stored.
func TestValuesThatNeedConversion(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"uint64"},
		{"name":"u","type":"uuid"},{"name":"f","type":"fixed","scale":1},
		{"name":"at","type":"time","unit":"ms"},{"name":"ip","type":"ip"}],"primary_key":["id"]}`)
	row := []expr.Value{number(t, "18446744073709551615"),
		expr.String("00000000-0000-0000-0000-0000000000ff"), expr.Float(0.5),
		expr.String("1970-01-01 00:01"), expr.String("::1")}
	key, value, back := keyOf(t, table, row), valueOf(t, table, row), table.Row()
	ok(t, table.Decode(back, key, value, nil))
	if err := table.Convert(row); err != nil || !slices.Equal(back, row) ||
		row[2] != expr.Scaled(5, 1) || row[3] != expr.UnixTime(60, 0) {
		t.Errorf("%v is read as %v: %v", row, back, err)
	}
	for _, bad := range []expr.Value{expr.Float(0.25), expr.Float(math.Inf(1))} {
		row[2] = bad
		if _, err := table.AppendRow(nil, row); !errors.Is(err, schema.ErrRange) {
			t.Errorf("%s as a fixed(1): %v", bad, err)
		}
	}
	narrow := schema.Column{Name: "f", Type: keycodec.TypeFloat32}
	if v, err := narrow.Convert(expr.Float(-1e39)); !errors.Is(err, schema.ErrRange) {
		t.Errorf("-1e39 as a float32: %s, %v", v, err)
	}
	if x := parse(t, `{"name":"t","columns":[{"name":"id","type":"uint64"}],"primary_key":["id"],
		"indexes":[{"name":"y","columns":["id"],"shard":"mix64:1000"}]}`).Indexes[0]; true {
		b, err := bucketOf(x, expr.Uint(math.MaxUint64))
		if err != nil || int64(b) != int64(x.Shard.Int64(-1)) {
			t.Errorf("the bucket of the largest integer is %d: %v", b, err)
		}
	}
}

// TestTimesOutOfRange: the bytes of a time that no time has are damage, in keys and rows.
func TestTimesOutOfRange(t *testing.T) {
	for _, c := range []struct {
		unit keycodec.Unit
		key  string
		fits bool
	}{
		{keycodec.Second, "\xff\xff\xff\xf1\x88\x6e\x08\xff", true},
		{keycodec.Second, "\xff\xff\xff\xf1\x88\x6e\x09\x00", false},
		{keycodec.Millisecond, "\xff\xff\xff\xf1\x88\x6e\x09\x00", true},
		{keycodec.FullRange, "\xff\xff\xff\xf1\x88\x6e\x08\xff\x3b\x9a\xc9\xff", true},
		{keycodec.FullRange, "\xff\xff\xff\xf1\x88\x6e\x09\x00\x00\x00\x00\x00", false},
		{keycodec.FullRange, "\x80\x00\x00\x00\x00\x00\x00\x00\x3b\x9a\xca\x00", false},
	} {
		col := schema.Column{Name: "at", Type: keycodec.TypeTime, Unit: c.unit}
		v, rest, err := col.DecodeField([]byte(c.key), schema.KeyColumn{})
		damage := errors.Is(err, corrupt.ErrCorrupt) && v.IsNull()
		if c.fits != (err == nil) || !c.fits && !damage {
			t.Errorf("%s %x: %s, %x, %v", c.unit, c.key, v, rest, err)
		}
		table, tableErr := schema.New(schema.Table{Name: "t", PK: []schema.KeyColumn{{}},
			Columns: []schema.Column{{Name: "id", Type: keycodec.TypeBool}, col}})
		ok(t, tableErr)
		row := []expr.Value{expr.Bool(true), expr.Time(time.Unix(0, 0))}
		value := valueOf(t, table, row)
		seconds := binary.BigEndian.Uint64([]byte(c.key)) ^ 1<<63
		binary.LittleEndian.PutUint64(value[2:], seconds)
		if c.unit == keycodec.FullRange {
			binary.LittleEndian.PutUint32(value[10:], binary.BigEndian.Uint32([]byte(c.key)[8:]))
		}
		err = table.Decode(row, keyOf(t, table, row), value, nil)
		if c.fits != (err == nil) || c.fits && row[1] != v {
			t.Errorf("%s %x in a row: %s, %v", c.unit, value, row[1], err)
		}
	}
}

// TestLongEntries: entries whose value begins with a long key of the row, whose included
// columns need wide ends, or whose row has no sort key.
func TestLongEntries(t *testing.T) {
	table := parse(t, `{"name":"t","columns":[{"name":"id","type":"string"},
		{"name":"n","type":"int8"},{"name":"s","type":"string"},{"name":"b","type":"bool"},
		{"name":"d","type":"decimal"}],"primary_key":["id"],"indexes":[
		{"name":"u","columns":["n"],"unique":true,"include":["s","b","d"]},
		{"name":"p","columns":["n"]}]}`)
	row := []expr.Value{expr.String(strings.Repeat("k", 198)), expr.Int(1),
		expr.String(strings.Repeat("s", 300)), expr.Bool(true), expr.Scaled(5, 0)}
	u, p := table.Index("u"), table.Index("p")
	e := entriesOf(t, u, row)[0]
	head := []byte{200, 1} // the length of the key
	if !bytes.HasPrefix(e.Value, head) {
		t.Fatalf("the value begins with %x", e.Value[:4])
	}
	got := table.Row()
	if _, _, err := u.DecodeEntry(got, nil, e.SK, e.Value, nil); err != nil ||
		!slices.Equal(got, row) {
		t.Errorf("%v is read as %v: %v", row, got, err)
	}
	tail, boolAt := e.Value[2:], 2+200+1
	for name, bad := range map[string][]byte{
		"a length of three bytes": append([]byte{200, 0x81, 0}, tail...),
		"a longer key":            append([]byte{200, 0x7f}, tail...),
		"a length without end":    {0x80},
		"an endless length":       bytes.Repeat([]byte{0xff}, 11),
		"no bool":                 slices.Replace(bytes.Clone(e.Value), boolAt, boolAt+1, 2),
		"no decimal":              append(bytes.Clone(e.Value), 0),
		"a decimal cut":           e.Value[:len(e.Value)-1],
	} {
		own := u.OwnColumns()
		_, _, err := u.DecodeEntry(table.Row(), nil, e.SK, bad, nil)
		ownErr := u.DecodeOwn(table.Row(), e.SK, bad, &own)
		if !errors.Is(err, corrupt.ErrCorrupt) || !errors.Is(ownErr, corrupt.ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, err, ownErr)
		}
	}
	e = entriesOf(t, p, row)[0]
	_, _, err := p.RowKey(nil, append(bytes.Clone(e.SK), 0), nil)
	if err == nil || !strings.Contains(err.Error(), "at offset 0: want the end of the row's key") {
		t.Errorf("a byte after the key of the row: %v", err)
	}
	if key, _, err := p.RowKey(nil, e.SK, nil); err != nil || key.SK != nil {
		t.Errorf("the key of a row without a sort key is %s: %v", key, err)
	}
}
