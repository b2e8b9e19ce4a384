package typed_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// BenchmarkHotPartition writes rows to one partition and reads it, over different numbers of
// buckets; 0 is a key that is not sharded.
func BenchmarkHotPartition(b *testing.B) {
	for _, buckets := range []int{0, 8, 64} {
		readings := typed.NewTable[reading]("readings")
		if buckets > 0 {
			readings.Shard(buckets)
		}
		source := typed.Col(readings, func(r *reading) *string { return &r.Source })
		seq := typed.Col(readings, func(r *reading) *int64 { return &r.Seq })
		open := func(b *testing.B) *table.DB {
			db, err := local.OpenDir(ctx, b.TempDir(), nil)
			if err == nil {
				err = typed.Migrate(ctx, db, readings)
			}
			ok(b, err)
			b.Cleanup(func() { db.Close() })
			return db
		}
		b.Run(fmt.Sprint("insert/", buckets), func(b *testing.B) {
			db := open(b)
			var next atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					row := reading{"hot", next.Add(1), 1}
					if err := readings.Insert(ctx, db, &row); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
		db := open(b)
		rows := make([]reading, 100_000)
		for i := range rows {
			rows[i] = reading{"hot", int64(i), 1}
		}
		ok(b, second(readings.InsertMany(ctx, db, rows)))
		ok(b, local.Engine(db).Flush(ctx))
		b.Run(fmt.Sprint("get/", buckets), func(b *testing.B) {
			for i := range b.N {
				ok(b, readings.Load(ctx, db, &rows[i*7919%len(rows)]))
			}
		})
		for _, n := range []int{10, 1000} {
			b.Run(fmt.Sprint("read", n, "/", buckets), func(b *testing.B) {
				q := readings.Where(source.Eq("hot")).OrderBy(seq.Asc()).Limit(n)
				for i := range b.N {
					q := q.Where(seq.Ge(int64(i * 7919 % (len(rows) - n))))
					for _, err := range q.Each(ctx, db) {
						ok(b, err)
					}
				}
			})
		}
	}
}
