package workload

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

const (
	// writerPerSecond is the pace of the writer beside the readers: the same for all
	// engines, and one that the slowest can hold, so that what is compared is reading.
	writerPerSecond = 20_000
	writerTick      = time.Millisecond
	mixedReaders    = 2
)

// readWhileWriting reads at random in two goroutines while a third overwrites random
// records at a fixed pace. Operations are reads.
func (e *Env) readWhileWriting() error {
	var done atomic.Bool
	var wrote int64
	var slowest time.Duration
	failed := make(chan error, 1)
	start := time.Now()
	go func() {
		var err error
		wrote, slowest, err = e.pacedWriter(&done)
		failed <- err
	}()
	var writerErr error
	err := e.run(job{
		name: "readwhilewriting", goroutines: mixedReaders, every: readEvery,
		op: func(w *worker, _ uint64) error {
			return w.get(e.pointID(w.rng.Uint64N(e.Records)))
		},
		finish: func(f result.Figures) {
			done.Store(true)
			writerErr = <-failed
			f["writes_per_second"] = float64(wrote) / time.Since(start).Seconds()
			f["longest_write_us"] = micros(slowest)
		},
	})
	if err != nil {
		done.Store(true)
		return err
	}
	return writerErr
}

// pacedWriter overwrites random records until done, as many as the pace allows.
func (e *Env) pacedWriter(done *atomic.Bool) (wrote int64, slowest time.Duration, err error) {
	w := e.newWorker(99, "paced")
	start := time.Now()
	for version := uint32(2); !done.Load(); {
		due := int64(time.Since(start).Seconds() * writerPerSecond)
		for ; wrote < due && !done.Load(); wrote++ {
			id := e.pointID(w.rng.Uint64N(e.Records))
			before := time.Now()
			if err := e.db.Put(w.keyOf(id), w.valueOf(id, version)); err != nil {
				return wrote, slowest, fmt.Errorf("paced writer: %w", err)
			}
			slowest = max(slowest, time.Since(before))
		}
		time.Sleep(writerTick)
	}
	return wrote, slowest, nil
}
