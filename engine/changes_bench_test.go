package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// BenchmarkChanges reads changes of small commits from retained segments.
func BenchmarkChanges(b *testing.B) {
	o := retaining()
	o.RetainBytes, o.Durability = 1<<30, engine.Process
	db := openDir(b, b.TempDir(), &o)
	value := make([]byte, 100)
	const n = 200_000
	for i := range n {
		ok(b, db.Put(pk(fmt.Sprintf("user#%d", i)), value))
	}
	ok(b, db.Flush(ctx))
	b.ResetTimer()
	b.ReportAllocs()
	left := b.N
	for left > 0 {
		for _, err := range db.Changes(ctx, engine.Position{}, &engine.ChangesOptions{Stop: true}) {
			ok(b, err)
			if left--; left == 0 {
				break
			}
		}
	}
	b.StopTimer()
	mustClose(b, db)
}

// BenchmarkPutRetained writes without retained log, with it, while it grows, and with consumers
// that follow.
func BenchmarkPutRetained(b *testing.B) {
	for _, c := range []struct {
		name    string
		retain  int64
		follows int
	}{
		{"off", 0, 0}, {"on", 32 << 20, 0}, {"growing", 4 << 30, 0}, {"followed", 32 << 20, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := engine.Options{Durability: engine.Process}
			if c.retain > 0 {
				o.RetainBytes, o.RetainAge = c.retain, time.Hour
			}
			db := openDir(b, b.TempDir(), &o)
			ctx, stop := context.WithCancel(ctx)
			var followers sync.WaitGroup
			for range c.follows {
				followers.Go(func() {
					for range db.Changes(ctx, engine.Position{}, nil) { // until stop
					}
				})
			}
			value := make([]byte, 100)
			var key [16]byte
			b.ResetTimer()
			for i := range b.N {
				binary.BigEndian.PutUint64(key[:], uint64(i)*0x9e3779b97f4a7c15)
				ok(b, db.Put(engine.Key{PK: key[:]}, value))
			}
			b.StopTimer()
			stop()
			followers.Wait()
			mustClose(b, db)
		})
	}
}

// BenchmarkOverwrite writes 10,000 keys again and again, with and without versions of the past, and
// reports the size of the files when they are merged.
func BenchmarkOverwrite(b *testing.B) {
	for _, age := range []time.Duration{0, time.Hour} {
		b.Run(age.String(), func(b *testing.B) {
			db := openDir(b, b.TempDir(), &engine.Options{Durability: engine.Process,
				RetainVersions: age})
			value := make([]byte, 100)
			b.ResetTimer()
			for i := range b.N {
				binary.BigEndian.PutUint64(value, uint64(i)*0x9e3779b97f4a7c15)
				ok(b, db.Put(pk(fmt.Sprint(i%10_000)), value))
			}
			ok(b, db.Compact(ctx))
			b.StopTimer()
			b.ReportMetric(float64(db.Metrics().Total.DiskBytes)/(1<<20), "MiB")
			mustClose(b, db)
		})
	}
}

// BenchmarkChangesDelay measures from the call of a put to its change, at 1,000 puts a second. What
// is durable waits for a sync of the log; visible changes do not.
func BenchmarkChangesDelay(b *testing.B) {
	for _, c := range []struct {
		level   engine.Durability
		visible bool
	}{{engine.Process, false}, {engine.Sync, false}, {engine.Process, true}} {
		level, changes := c.level, engine.ChangesOptions{Visible: c.visible}
		b.Run(fmt.Sprintf("%s/visible=%v", level, c.visible), func(b *testing.B) {
			o := retaining()
			o.Durability = level
			db := openDir(b, b.TempDir(), &o)
			begun := time.Now()
			var delays []time.Duration
			done := make(chan struct{})
			go func() {
				defer close(done)
				for c, err := range db.Changes(ctx, engine.Position{}, &changes) {
					if err != nil || len(delays) == b.N {
						return
					}
					at := time.Duration(binary.BigEndian.Uint64(c.Value))
					delays = append(delays, time.Since(begun)-at)
					if len(delays) == b.N {
						return
					}
				}
			}()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := range b.N {
				<-tick.C
				v := binary.BigEndian.AppendUint64(nil, uint64(time.Since(begun)))
				ok(b, db.Put(pk(fmt.Sprint(i)), v))
			}
			<-done
			slices.Sort(delays)
			b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "µs-p99")
			mustClose(b, db)
		})
	}
}
