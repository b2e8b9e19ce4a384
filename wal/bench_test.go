package wal_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// BenchmarkAppend appends records of 133 bytes. Segments are released as they fill,
// so that after the first few all are recycled.
func BenchmarkAppend(b *testing.B) {
	for _, mapped := range []bool{true, false} {
		name := map[bool]string{true: "mapped", false: "write"}[mapped]
		b.Run(name, func(b *testing.B) {
			l := openNew(b, wal.Options{FS: vfs.OS(), Dir: b.TempDir(), Mapped: mapped})
			p := make([]byte, 109)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := l.Append(p); err != nil {
					b.Fatal(err)
				}
				if i%50_000 == 0 {
					ok(b, l.Release(l.SyncedSeq()))
				}
			}
			ok(b, l.Close())
		})
	}
}

// BenchmarkSync appends and waits for durability from several goroutines.
func BenchmarkSync(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines-%d", goroutines), func(b *testing.B) {
			l := openNew(b, wal.Options{FS: vfs.OS(), Dir: b.TempDir(), Mapped: true})
			p := make([]byte, 109)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for i := g; i < b.N; i += goroutines {
						seq, err := l.Append(p)
						if err == nil {
							err = l.Sync(seq)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/float64(max(l.Syncs(), 1)), "records/sync")
			ok(b, l.Close())
		})
	}
}
