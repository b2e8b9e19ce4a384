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

// ycsb runs one mix. inserted counts the records that workloads have added after the
// loaded ones.
func (e *Env) ycsb(m ycsbMix, inserted *atomic.Uint64) error {
	y := &ycsbRun{env: e, mix: m, zipf: e.zipfian()}
	y.next.Store(e.Records + inserted.Load())
	for g := range y.pending {
		y.pending[g].Store(math.MaxUint64)
	}
	err := e.run(job{name: m.name, goroutines: ycsbGoroutines, every: 1, op: y.op})
	inserted.Store(y.next.Load() - e.Records)
	return err
}

type ycsbRun struct {
	env  *Env
	mix  ycsbMix
	zipf *dataset.Zipf
	next atomic.Uint64 // number of the next record to insert
	// pending holds, for each goroutine, a bound below which its insert under way
	// does not lie, or the highest number.
	pending [ycsbGoroutines]atomic.Uint64
}

func (y *ycsbRun) insert(w *worker) error {
	y.pending[w.n].Store(y.next.Load())
	id := y.env.pointID(y.next.Add(1) - 1)
	err := y.env.db.Put(w.keyOf(id), w.valueOf(id, 0))
	y.pending[w.n].Store(math.MaxUint64)
	return err
}

func (y *ycsbRun) op(w *worker, i uint64) error {
	e, dice := y.env, w.rng.Uint64N(100)
	switch {
	case dice < y.mix.reads:
		return w.get(e.pointID(y.choose(w, i)))
	case dice < y.mix.reads+y.mix.inserts:
		return y.insert(w)
	case dice < y.mix.reads+y.mix.inserts+y.mix.scans:
		return y.scan(w, e.pointID(y.choose(w, i)))
	}
	id := e.pointID(y.choose(w, i))
	version := uint32(i)
	if y.mix.rewrite > 0 {
		if err := w.get(id); err != nil {
			return err
		}
		version = dataset.Version(w.got) + 1
	}
	return e.db.Put(w.keyOf(id), w.valueOf(id, version))
}

// choose draws the number of a record.
func (y *ycsbRun) choose(w *worker, i uint64) uint64 {
	rank := y.zipf.Rank(i + w.n*1_000_003)
	if !y.mix.latest {
		return y.env.order.At(rank)
	}
	newest := y.next.Load()
	for g := range y.pending {
		newest = min(newest, y.pending[g].Load())
	}
	newest--
	return newest - min(rank, newest)
}

// scan reads rows from record id on and verifies that they ascend.
func (y *ycsbRun) scan(w *worker, id uint64) error {
	limit := int(w.rng.Uint64N(ycsbScanMost)) + 1
	from, n := id, 0
	return y.env.rows(func(each func(store.Row) bool) error {
		return y.env.db.Scan(w.keyOf(id), limit, each)
	}, func(got uint64, _ store.Row) error {
		if got < from || n == 0 && got != id {
			return fmt.Errorf("scan from %d: row %d is record %d", id, n, got)
		}
		from = got + 1
		n++
		return nil
	})
}
