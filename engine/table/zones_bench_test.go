package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

const benchTable = `{"name":"t","columns":[{"name":"src","type":"string"},
 {"name":"id","type":"int64"},{"name":"at","type":"time","unit":"ms"},
 {"name":"user","type":"uuid"},{"name":"amount","type":"int64"},
 {"name":"text","type":"string"}],"primary_key":["src"],"sort_key":["id"]}`

// benchOpen opens tables with zones, or without.
func benchOpen(b *testing.B, zones bool) (*engine.DB, *table.DB) {
	e, err := engine.Open(b.TempDir(), &engine.Options{InMemory: true})
	ok(b, err)
	open := func() (*table.DB, error) { return local.Open(ctx, e, nil) }
	if !zones {
		open = func() (*table.DB, error) { return table.OpenStore(ctx, unzonedOf(e), nil) }
	}
	db, err := open()
	ok(b, err)
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e, db
}

// benchLoad writes rows of about 100 bytes whose time rises with the key.
func benchLoad(b *testing.B, e *engine.DB, db *table.DB, n int) *table.Table {
	tab, err := db.CreateTable(ctx, define(b, benchTable))
	ok(b, err)
	rnd := rand.New(rand.NewPCG(1, 1))
	_, err = tab.PutMany(ctx, func(yield func([]expr.Value) bool) {
		for i := range n {
			var id [16]byte
			for j := range id {
				id[j] = byte(rnd.Uint32())
			}
			row := []expr.Value{expr.String(fmt.Sprint("src ", i>>14)), expr.Int(int64(i)),
				zoneTime(i), expr.UUID(id), expr.Int(rnd.Int64N(1e6)),
				expr.String(fmt.Sprintf("%032x", rnd.Uint64()))}
			if !yield(row) {
				return
			}
		}
	})
	if err == nil {
		err = e.Compact(ctx)
	}
	ok(b, err)
	return tab
}

// BenchmarkLoadWithZones is what describing and storing zones costs a bulk load.
func BenchmarkLoadWithZones(b *testing.B) {
	for _, zones := range []bool{false, true} {
		b.Run(fmt.Sprint("zones=", zones), func(b *testing.B) {
			for b.Loop() {
				e, db := benchOpen(b, zones)
				benchLoad(b, e, db, 200_000)
				b.ReportMetric(float64(e.Metrics().Total.DiskBytes), "file-bytes")
			}
		})
	}
}

// BenchmarkClusteredCondition reads 1 % of the rows by a column that rises with the key.
func BenchmarkClusteredCondition(b *testing.B) {
	const rows = 1_000_000
	e, db := benchOpen(b, true)
	tab := benchLoad(b, e, db, rows)
	none, err := table.OpenStore(ctx, unzonedOf(e), nil)
	ok(b, err)
	at := col(tab, "at")
	sel := from(tab, expr.Between{X: at, Lo: expr.Param{}, Hi: expr.Param{Index: 1}})
	for _, zones := range []bool{false, true} {
		b.Run(fmt.Sprint("zones=", zones), func(b *testing.B) {
			r := map[bool]table.Reader{false: none, true: db}[zones]
			for b.Loop() {
				rows, err := r.Query(ctx, sel, zoneTime(rows/2), zoneTime(rows/2+rows/100-1))
				n := 0
				if err == nil {
					for _, failed := range rows.All() {
						err = failed
						n++
					}
				}
				if err != nil || n != 10_000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
