package typed_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// reading is written by its bytes, upset over values.
type reading struct {
	Source string `kstone:"source,pk"`
	Seq    int64  `kstone:"seq,sk"`
	N      int32  `kstone:"n"`
}

type upset struct {
	Seq  int64  `kstone:"seq,pk,desc"`
	Name string `kstone:"name,sk,ascii"`
	N    int32  `kstone:"n"`
}

// TestShardedTables writes one partition of a sharded table, in all ways, and reads it back.
//
// Promise (tables): A sharded primary key spreads a partition over its buckets. Its rows are found
// by their keys and come in order, as those of other tables. Also `TestRun` (`sharded`) in
// `engine/sql`, `TestExplainPrimaryKeyShard` in `engine/plan`.
func TestShardedTables(t *testing.T) {
	readings := typed.NewTable[reading]("readings").Shard(8)
	source := typed.Col(readings, func(r *reading) *string { return &r.Source })
	seq := typed.Col(readings, func(r *reading) *int64 { return &r.Seq })
	n := typed.Col(readings, func(r *reading) *int32 { return &r.N })
	readings.Index("by_n", n.Asc())
	db := openTyped(t, readings)
	rows := make([]reading, 200)
	for i := range rows {
		rows[i] = reading{"hot", int64(i), int32(i % 10)}
	}
	for i := range 100 {
		ok(t, readings.Insert(ctx, db, &rows[i]))
	}
	ok(t, second(readings.PutMany(ctx, db, rows)))
	wantIs(t, readings.Insert(ctx, db, &rows[7]), table.ErrUnique)
	checkStripes(t, db, rows)
	for i := range rows {
		got, err := readings.Get(ctx, db, source.Eq("hot"), seq.Eq(int64(i)))
		if err != nil || got != rows[i] {
			t.Fatalf("%+v, %v, want %+v", got, err, rows[i])
		}
	}
	keys := []reading{{Source: "hot", Seq: 150}, {Source: "hot", Seq: 999}, {Source: "hot"}}
	found, err := readings.MultiGet(ctx, db, keys)
	if err != nil || !slices.Equal(found, []bool{true, false, true}) || keys[0] != rows[150] {
		t.Errorf("MultiGet: %v, %v, %v", keys, found, err)
	}
	list := func(q typed.Query[reading]) (out []reading, err error) {
		for r, err := range q.All(ctx, db) {
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		return out, nil
	}
	all, err := list(readings.Where(source.Eq("hot"), seq.Ge(50)).OrderBy(seq.Asc()))
	if err != nil || !slices.Equal(all, rows[50:]) {
		t.Errorf("ordered rows: %d, %v", len(all), err)
	}
	some, err := list(readings.Where(n.Eq(3)).OrderBy(seq.Desc()).Limit(2))
	if err != nil || !slices.Equal(some, []reading{rows[193], rows[183]}) {
		t.Errorf("rows of an index: %v, %v", some, err)
	}
	err = readings.Update(ctx, db, func(r *reading) error { r.N = 77; return nil },
		source.Eq("hot"), seq.Eq(5))
	ok(t, err)
	ok(t, readings.Delete(ctx, db, source.Eq("hot"), seq.Eq(6)))
	if c, err := readings.Where(n.Eq(77)).Count(ctx, db); c != 1 || err != nil {
		t.Errorf("%d rows were updated, %v", c, err)
	}
	if c, err := readings.Where().Count(ctx, db); c != 199 || err != nil {
		t.Errorf("%d rows are left, %v", c, err)
	}
}

// checkStripes wants the rows of one partition in as many stripes as there are buckets.
func checkStripes(t *testing.T, db *table.DB, rows []reading) {
	t.Helper()
	def, _ := db.Table("readings")
	stripes := map[uint8]bool{}
	for i := range rows {
		row := def.Schema().Row()
		row[0], row[1] = expr.String(rows[i].Source), expr.Int(rows[i].Seq)
		pk, _, err := def.Schema().AppendRowKey(nil, nil, row)
		ok(t, err)
		stripes[keycodec.Stripe(pk)] = true
	}
	if len(stripes) != 8 {
		t.Errorf("the rows of one partition lie in %d stripes, want 8", len(stripes))
	}
}

// TestShardedOverValues: rows whose keys are made of values, and a number of buckets that changes.
func TestShardedOverValues(t *testing.T) {
	upsets := func(buckets int) (*typed.Table[upset], typed.Column[upset, int64],
		typed.Column[upset, string]) {
		x := typed.NewTable[upset]("upsets").
			ShardBy(shard.Spec{Function: shard.Tidb, Count: buckets}, 1)
		return x, typed.Col(x, func(u *upset) *int64 { return &u.Seq }),
			typed.Col(x, func(u *upset) *string { return &u.Name })
	}
	table16, seq, name := upsets(16)
	db := openTyped(t, table16)
	for i := range 50 {
		ok(t, table16.Put(ctx, db, &upset{int64(i), "Ab", int32(i)}))
	}
	got, err := table16.Get(ctx, db, seq.Eq(30), name.Eq("aB"))
	if err != nil || got != (upset{30, "Ab", 30}) {
		t.Errorf("%+v, %v", got, err)
	}
	var order []int64
	for u, err := range table16.Where(seq.Lt(5)).OrderBy(seq.Desc()).Each(ctx, db) {
		ok(t, err)
		order = append(order, u.Seq)
	}
	if !slices.Equal(order, []int64{4, 3, 2, 1, 0}) {
		t.Errorf("rows in the order %v", order)
	}
	table32, _, _ := upsets(32)
	err = typed.Migrate(ctx, db, table32)
	if err == nil || !strings.Contains(err.Error(), "buckets tidb:16 of 1 columns instead of "+
		"buckets tidb:32 of 1 columns") || !strings.Contains(err.Error(), "INSERT … SELECT") {
		t.Errorf("another number of buckets: %v", err)
	}
}
