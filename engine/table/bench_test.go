package table_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

// tableWith returns the text of a table with so many indexes.
func tableWith(indexes int) string {
	text := `{"name":"t","columns":[{"name":"id","type":"int64"},{"name":"a","type":"int64"},
	 {"name":"b","type":"string"},{"name":"c","type":"int32"}],"primary_key":["id"],"indexes":[`
	for i, c := range []string{"a", "b", "c"}[:indexes] {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"name":"by_%s","columns":[%q]}`, c, c)
	}
	return text + "]}"
}

func BenchmarkInsert(b *testing.B) {
	for _, indexes := range []int{0, 1, 3} {
		for _, rows := range []int{1, 100} {
			b.Run(fmt.Sprintf("indexes=%d/rows=%d", indexes, rows), func(b *testing.B) {
				tab := create(b, open(b, nil), tableWith(indexes))
				batch := make([][]expr.Value, rows)
				for i := range batch {
					batch[i] = []expr.Value{{}, {}, expr.String("some text"), expr.Int(5)}
				}
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; n += rows {
					for i := range batch {
						id := int64(n + i)
						batch[i][0], batch[i][1] = expr.Int(id), expr.Int(id*7919%100_003)
					}
					ok(b, insert(tab, batch))
				}
			})
		}
	}
}

func insert(tab *table.Table, batch [][]expr.Value) error {
	if len(batch) == 1 {
		return tab.Insert(ctx, batch[0])
	}
	_, err := tab.InsertMany(ctx, slices.Values(batch))
	return err
}

// BenchmarkGet compares a prepared query by the primary key with what it comes down to.
func BenchmarkGet(b *testing.B) {
	db := open(b, nil)
	tab := create(b, db, tableWith(1))
	const rows = 10_000
	for i := range int64(rows) {
		r := []expr.Value{expr.Int(i), expr.Int(i * 7), expr.String("some text"), expr.Int(5)}
		ok(b, tab.Insert(ctx, r))
	}
	t := tab.Schema()
	b.Run("engine and decode", func(b *testing.B) {
		row, value := t.Row(), []byte(nil)
		var key engine.Key
		var err error
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			row[0] = expr.Int(int64(n*7919) % rows)
			if key.PK, _, err = t.AppendRowKey(key.PK[:0], nil, row); err == nil {
				value, err = local.Engine(db).AppendGet(value[:0], key)
			}
			if err == nil {
				err = t.Decode(row, key, value, nil)
			}
			ok(b, err)
		}
	})
	q, err := db.Prepare(from(tab, expr.Cmp{Op: expr.Eq, L: col(tab, "id"),
		R: expr.Param{Index: 0}}))
	ok(b, err)
	b.Run("prepared", func(b *testing.B) {
		key := make([]expr.Value, 1)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			key[0] = expr.Int(int64(n*7919) % rows)
			r, err := q.Query(ctx, db, key...)
			ok(b, err)
			found := 0
			for _, err := range r.All() {
				ok(b, err)
				found++
			}
			if found != 1 {
				b.Fatal(found)
			}
		}
	})
}
