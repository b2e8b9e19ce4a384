package engine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// The benchmarks use records of 16-byte keys (a 6-byte partition key of 65,536, a
// 10-byte sort key) and 100-byte values that compress to about half.

func benchKey(buf []byte, n uint64) engine.Key {
	buf = append(buf[:0], "p#"...)
	buf = binary.BigEndian.AppendUint32(buf, uint32(n*0x9e3779b97f4a7c15>>48)|0x61610000)
	pk := len(buf)
	buf = append(buf, "0000000000"...)
	for i := len(buf) - 1; n > 0; i, n = i-1, n/10 {
		buf[i] = '0' + byte(n%10)
	}
	return engine.Key{PK: buf[:pk:pk], SK: buf[pk:]}
}

func benchValue(n uint64) []byte {
	v := make([]byte, 100)
	r := rand.New(rand.NewPCG(n, 1))
	for i := range 50 {
		v[i] = byte(r.Uint32())
	}
	return v
}

func openBench(b *testing.B, o engine.Options) *engine.DB {
	b.Helper()
	db := openDir(b, b.TempDir(), &o)
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

func load(b *testing.B, db *engine.DB, n int) {
	b.Helper()
	values := make([][]byte, 64)
	for i := range values {
		values[i] = benchValue(uint64(i))
	}
	batch, buf := engine.NewBatch(), make([]byte, 0, 32)
	for i := range n {
		ok(b, batch.Put(benchKey(buf, uint64(i)), values[i%64]))
		if batch.Len() == 1000 || i == n-1 {
			err := db.Apply(ctx, batch, engine.Process)
			ok(b, err)
			batch.Reset()
		}
	}
}

// run spreads b.N operations over goroutines.
func run(b *testing.B, goroutines int, op func(i uint64, buf []byte) error) {
	b.ReportAllocs()
	var next atomic.Uint64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range goroutines {
		wg.Go(func() {
			buf := make([]byte, 0, 256)
			for {
				i := next.Add(1) - 1
				if i >= uint64(b.N) {
					return
				}
				if err := op(i, buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPut(b *testing.B) {
	value := benchValue(1)
	for _, level := range []engine.Durability{engine.Process, engine.Sync} {
		for _, g := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%v/goroutines=%d", level, g), func(b *testing.B) {
				db := openBench(b, engine.Options{Durability: level})
				run(b, g, func(i uint64, buf []byte) error {
					return db.Put(benchKey(buf, i*0x9e3779b97f4a7c15%10_000_000_000), value)
				})
			})
		}
	}
}

const benchItems = 1_000_000

func BenchmarkGet(b *testing.B) {
	db := openBench(b, engine.Options{Durability: engine.Process})
	load(b, db, benchItems)
	get := func(b *testing.B, g int, offset uint64) {
		run(b, g, func(i uint64, buf []byte) error {
			key := benchKey(buf, i*0x9e3779b97f4a7c15%benchItems+offset)
			_, err := db.AppendGet(buf[32:32], key)
			if offset > 0 && err == engine.ErrNotFound {
				return nil
			}
			return err
		})
	}
	for _, state := range []string{"unsettled", "settled"} {
		if state == "settled" {
			ok(b, db.Compact(ctx))
		}
		for _, g := range []int{1, 8} {
			for what, offset := range map[string]uint64{"hit": 0, "miss": benchItems} {
				b.Run(fmt.Sprintf("%s/%s/goroutines=%d", state, what, g), func(b *testing.B) {
					get(b, g, offset)
				})
			}
		}
	}
}

func BenchmarkIterate(b *testing.B) {
	db := openBench(b, engine.Options{Durability: engine.Process})
	load(b, db, benchItems)
	ok(b, db.Compact(ctx))
	value := benchValue(3)
	batch := engine.NewBatch()
	for p := range 1000 {
		for s := range 100 {
			key := engine.Key{PK: fmt.Appendf(nil, "query#%d", p), SK: fmt.Appendf(nil, "%06d", s)}
			ok(b, batch.Put(key, value))
		}
	}
	ok(b, db.Apply(ctx, batch))
	query := func(reverse bool) func(*testing.B) {
		return func(b *testing.B) {
			buf := make([]byte, 0, 32)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				pk := fmt.Appendf(buf[:0], "query#%d", i*7919%1000)
				q := engine.Query{PK: pk, Limit: 20, Reverse: reverse}
				if !reverse {
					q.SK = engine.SKGreaterEqual([]byte("000040"))
				}
				n := 0
				for _, err := range db.Query(ctx, q) {
					ok(b, err)
					n++
				}
				if n != 20 {
					b.Fatalf("%d items", n)
				}
			}
		}
	}
	b.Run("query20/memtable", query(false))
	b.Run("latest20/memtable", query(true))
	ok(b, db.Compact(ctx))
	b.Run("query20/settled", query(false))
	b.Run("latest20/settled", query(true))
	for _, s := range []engine.Scan{{}, {Unordered: true}} {
		b.Run(fmt.Sprintf("scan/unordered=%v", s.Unordered), func(b *testing.B) {
			b.ReportAllocs()
			var items int
			for b.Loop() {
				for _, err := range db.Scan(ctx, s) {
					ok(b, err)
					items++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(items), "ns/item")
		})
	}
}

func BenchmarkReopen(b *testing.B) {
	b.Run("clean", func(b *testing.B) {
		dir := b.TempDir()
		o := engine.Options{Durability: engine.Process}
		db := openDir(b, dir, &o)
		load(b, db, benchItems)
		ok(b, db.Close())
		for b.Loop() {
			db, err := engine.Open(dir, &o)
			ok(b, err)
			ok(b, db.Close())
		}
	})
	b.Run("killed", benchKilled)
}

// benchKilled opens what a kill leaves of a database with 64 MiB in its memtables, one
// log record per item: the files as they are while it runs.
func benchKilled(b *testing.B) {
	const items = 450_000
	o := engine.Options{Durability: engine.Process, MemtableBytes: 128 << 20}
	db := openBench(b, o)
	buf, value := make([]byte, 0, 32), benchValue(1)
	for i := range items {
		key := benchKey(buf, uint64(i)*0x9e3779b97f4a7c15%1e10)
		ok(b, db.Put(key, value))
	}
	m := db.Metrics()
	if m.Flushes > 0 {
		b.Fatal("something has been flushed")
	}
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		copyFiles(b, dir, db.Dir())
		b.StartTimer()
		again, err := engine.Open(dir, &o)
		b.StopTimer()
		ok(b, err)
		if got := again.Metrics().MemtableBytes; got < m.MemtableBytes*9/10 {
			b.Fatalf("%d bytes in memtables, want %d", got, m.MemtableBytes)
		}
		ok(b, again.Close())
		ok(b, os.RemoveAll(dir))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/items, "ns/item")
	b.ReportMetric(float64(m.MemtableBytes)/(1<<20), "MiB")
}

func copyFiles(b *testing.B, to, from string) {
	b.Helper()
	ok(b, os.CopyFS(to, os.DirFS(from)))
}
