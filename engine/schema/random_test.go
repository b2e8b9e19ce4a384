package schema_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// randomColumn returns a column of any type.
func randomColumn(rng *rand.Rand, name string) schema.Column {
	c := schema.Column{Name: name, Nullable: rng.IntN(2) == 0, List: rng.IntN(6) == 0,
		Type: keycodec.TypeString + keycodec.Type(rng.IntN(int(keycodec.TypeIPPrefix)))}
	switch c.Type {
	case keycodec.TypeTime:
		c.Unit = keycodec.Second + keycodec.Unit(rng.IntN(5))
	case keycodec.TypeFixed:
		c.Scale = int32(rng.IntN(5))
	case keycodec.TypeString:
		c.Collation = keycodec.Collation(rng.IntN(3))
	}
	return c
}

// randomTable returns a table with indexes of all kinds.
func randomTable(t testing.TB, rng *rand.Rand) *schema.Table {
	def := schema.Table{ID: rng.Uint32N(3) * 1000, Name: "t"}
	for i := range 3 + rng.IntN(8) {
		def.Columns = append(def.Columns, randomColumn(rng, fmt.Sprint("c", i)))
	}
	order := rng.Perm(len(def.Columns))
	keys := 1 + rng.IntN(3)
	for i, ordinal := range order[:keys] {
		c := &def.Columns[ordinal]
		c.Nullable, c.List = false, false
		k := schema.KeyColumn{Ordinal: ordinal, Desc: rng.IntN(3) == 0}
		if i == 0 || rng.IntN(3) == 0 && len(def.SK) == 0 {
			def.PK = append(def.PK, k)
		} else {
			def.SK = append(def.SK, k)
		}
	}
	if rng.IntN(3) == 0 {
		def.Shard = shard.Spec{Function: shard.XXHash, Count: 2 + rng.IntN(300)}
		def.ShardColumns = 1 + rng.IntN(keys)
	}
	for i := range 3 {
		def.Indexes = append(def.Indexes, randomIndex(rng, &def, fmt.Sprint("x", i)))
	}
	table, err := schema.New(def)
	if err != nil {
		t.Fatalf("%v\n%+v", err, def)
	}
	return table
}

func randomIndex(rng *rand.Rand, def *schema.Table, name string) *schema.Index {
	x := &schema.Index{Name: name, State: schema.Ready, Unique: rng.IntN(3) == 0}
	order, each := rng.Perm(len(def.Columns)), false
	n := 1 + rng.IntN(3)
	for _, ordinal := range order {
		c := &def.Columns[ordinal]
		if c.List && each || len(x.Columns) == n {
			key := slices.ContainsFunc(append(def.PK, def.SK...), func(k schema.KeyColumn) bool {
				return k.Ordinal == ordinal
			})
			if !key && rng.IntN(3) == 0 {
				x.Include = append(x.Include, ordinal)
			}
			continue
		}
		each = each || c.List
		x.Columns = append(x.Columns, schema.IndexColumn{Each: c.List, KeyColumn: schema.KeyColumn{
			Ordinal: ordinal, Desc: rng.IntN(2) == 0,
			NullsLast: c.Nullable && !c.List && rng.IntN(2) == 0}})
	}
	switch rng.IntN(3) {
	case 0:
		if !x.Unique {
			x.Placement = schema.Local
		}
	case 1:
		x.Shard = shard.Spec{Function: shard.Mix64, Count: []int{2, 16, 300, 65536}[rng.IntN(4)]}
		x.ShardColumns = 1 + rng.IntN(len(x.Columns))
	}
	if rng.IntN(4) == 0 {
		x.Where = expr.IsNull{X: expr.Column{Ordinal: rng.IntN(len(def.Columns))},
			Not: rng.IntN(2) == 0}
	}
	return x
}

// randomElement returns one value for a column, of a small set so that many are equal.
func randomElement(rng *rand.Rand, c *schema.Column) expr.Value {
	ints := []int64{0, 1, -1, 7, 100, math.MinInt64, math.MaxInt64, math.MinInt8, math.MaxInt8}
	i := ints[rng.IntN(len(ints))]
	texts := []string{"", "a", "A", "ab", "a\x00b", "\x00", "\xff", "É", "é", "ß", "long " +
		"text that does not fit in a word or two"}
	s := texts[rng.IntN(len(texts))]
	var v expr.Value
	switch c.Type {
	case keycodec.TypeString:
		v = expr.String(s)
	case keycodec.TypeBytes:
		v = expr.Bytes([]byte(s))
	case keycodec.TypeBool:
		v = expr.Bool(i&1 == 0)
	case keycodec.TypeFloat32, keycodec.TypeFloat64:
		floats := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 0.5,
			-2.25}
		v = expr.Float(floats[rng.IntN(len(floats))])
	case keycodec.TypeTime:
		v = expr.Time(time.Unix(i%1e9, int64(rng.IntN(2))*999_999_999))
	case keycodec.TypeUUID:
		v = expr.UUID([16]byte{0: byte(i), 15: s2b(s)})
	case keycodec.TypeDecimal:
		v = expr.Decimal(keycodec.NewDecimal(i, int32(rng.IntN(50)-20)))
	case keycodec.TypeFixed:
		v = expr.Scaled(i, c.Scale)
	case keycodec.TypeIP:
		v = expr.IP(netip.MustParseAddr([]string{"::", "1.2.3.4", "255.0.0.0"}[rng.IntN(3)]))
	case keycodec.TypeIPPrefix:
		v = expr.Prefix(netip.MustParsePrefix([]string{"::/0", "1.2.0.0/16",
			"1.0.0.0/8"}[rng.IntN(3)]))
	default:
		v = expr.Int(i)
	}
	v, err := c.Convert(v)
	if err != nil { // out of the range of a small integer
		v, _ = c.Convert(expr.Int(1))
	}
	return v
}

func s2b(s string) byte { return byte(len(s)) }

// randomValue returns a value as the column stores it.
func randomValue(rng *rand.Rand, c *schema.Column) expr.Value {
	if c.Nullable && rng.IntN(4) == 0 {
		return expr.Null()
	}
	if !c.List {
		return randomElement(rng, c)
	}
	element := *c
	element.List = false
	var list []expr.Value
	for range rng.IntN(4) {
		list = append(list, randomElement(rng, &element))
	}
	return expr.List(list)
}

func randomRow(rng *rand.Rand, t *schema.Table) []expr.Value {
	row := t.Row()
	for i := range row {
		if !t.Columns[i].Dropped {
			row[i] = randomValue(rng, &t.Columns[i])
		}
	}
	return row
}

func keyOf(t testing.TB, table *schema.Table, row []expr.Value) keycodec.Key {
	t.Helper()
	pk, sk, err := table.AppendRowKey(nil, nil, row)
	ok(t, err)
	return keycodec.Key{PK: pk, SK: sk}
}

func valueOf(t testing.TB, table *schema.Table, row []expr.Value) []byte {
	t.Helper()
	value, err := table.AppendRow(nil, row)
	ok(t, err)
	return value
}

func entriesOf(t testing.TB, x *schema.Index, row []expr.Value) []schema.Entry {
	t.Helper()
	var set schema.Entries
	ok(t, x.AppendEntries(&set, keyOf(t, x.Table(), row), row))
	return set.List
}

// rounds is the number of random tables of a test.
func rounds(n int) int {
	return testutil.Effort(n/5, n)
}
