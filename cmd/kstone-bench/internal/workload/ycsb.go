package workload

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// The core workloads of YCSB, on records of the benchmark's size instead of ten
// fields of 100 bytes, two goroutines. Inserted records follow the loaded ones.

// ycsbMix is how many of 100 operations are of a kind; the rest are updates.
type ycsbMix struct {
	name                           string
	reads, inserts, scans, rewrite uint64
	latest                         bool // reads prefer what was inserted last
}

var ycsbMixes = []ycsbMix{
	{name: "ycsb-a", reads: 50},
	{name: "ycsb-b", reads: 95},
	{name: "ycsb-c", reads: 100},
	{name: "ycsb-f", reads: 50, rewrite: 50},
	{name: "ycsb-d", reads: 95, inserts: 5, latest: true},
	{name: "ycsb-e", inserts: 5, scans: 95},
}

const (
	ycsbGoroutines = 2
	ycsbScanMost   = 100 // rows of a scan: 1 to this, uniform
)

// ycsbSteps are the mixes in their order.
func ycsbSteps() (steps []step) {
	for _, m := range ycsbMixes {
		steps = append(steps, do(func(e *Env, _ int) job {
			y := &ycsbRun{Env: e, mix: m, zipf: e.zipfian()}
			for g := range y.pending {
				y.pending[g].Store(math.MaxUint64)
			}
			return job{name: m.name, every: 1, op: y.op}
		}, ycsbGoroutines))
	}
	return steps
}

type ycsbRun struct {
	*Env
	mix  ycsbMix
	zipf *dataset.Zipf
	// pending holds, for each goroutine, a bound below which its insert under way
	// does not lie, or the highest number.
	pending [ycsbGoroutines]atomic.Uint64
}

func (y *ycsbRun) op(w *worker, i uint64) error {
	m, dice := y.mix, w.rng.Uint64N(100)
	switch {
	case dice < m.reads:
		return w.get(y.id(y.choose(w, i)))
	case dice < m.reads+m.inserts:
		y.pending[w.n].Store(y.next.Load())
		defer y.pending[w.n].Store(math.MaxUint64)
		return w.put(y.next.Add(1)-1, 0)
	case dice < m.reads+m.inserts+m.scans:
		return y.scan(w, y.choose(w, i))
	}
	n, version := y.choose(w, i), uint32(i)
	if m.rewrite > 0 {
		if err := w.get(y.id(n)); err != nil {
			return err
		}
		version = dataset.Version(w.got) + 1
	}
	return w.put(n, version)
}

// choose draws the number of a record.
func (y *ycsbRun) choose(w *worker, i uint64) uint64 {
	rank := y.zipf.Rank(i + w.n*1_000_003)
	if !y.mix.latest {
		return y.order.At(rank)
	}
	newest := y.next.Load()
	for g := range y.pending {
		newest = min(newest, y.pending[g].Load())
	}
	newest--
	return newest - min(rank, newest)
}

// scan reads rows from a record on. It verifies that all that were loaded are among them, and that
// those follow that are inserted meanwhile.
func (y *ycsbRun) scan(w *worker, from uint64) error {
	limit := w.rng.Uint64N(ycsbScanMost) + 1
	next, last := from, from+limit // if no row is left out
	err := y.rows(func(each func(store.Row) bool) error {
		return y.db.Scan(w.keyOf(y.id(from)), int(limit), each)
	}, func(got uint64, _ store.Row) error {
		if want := y.id(next); got < want || got > want && next < y.Records {
			return fmt.Errorf("scan from %d: record %d instead of %d", y.id(from), got, want)
		}
		next++
		return nil
	})
	if err == nil && next < min(last, y.Records) {
		err = fmt.Errorf("scan from %d: %d rows, want %d", y.id(from), next-from, limit)
	}
	return err
}
