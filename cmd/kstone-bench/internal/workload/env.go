package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// Plan is what the parent asks of a worker process.
type Plan struct {
	Chain, Engine string
	Phase, Repeat int
	Size
}

// Size is the part of a plan that is the same in a whole run.
type Size struct {
	Dir              string // for databases; each is deleted when its chain is done
	Records          uint64
	ValueBytes       int
	Seconds          float64 // of a workload that is limited by time
	WriteBufferBytes int64
	CacheBytes       int64
}

// Env is a worker at work on a chain.
type Env struct {
	Plan
	// Emit takes every finished result.
	Emit func(result.Record) error
	// Announce lets the parent know that the process may be killed; it returns an error only.
	Announce func() error

	engine store.Engine
	db     store.Store
	values *dataset.Values
	order  *dataset.Permutation
	zipf   *dataset.Zipf
	pk     int                   // bytes of the partition key
	id     func(i uint64) uint64 // the layout: what number i is called
	absent uint64                // from the number of a record to one that is not there
	live   uint64                // records in the database
	next   atomic.Uint64         // number of the next record that YCSB inserts
}

// open opens the store and, with fresh, deletes what is there first.
func (e *Env) open(fresh, sync bool, writers int) error {
	c := store.Config{
		Dir: filepath.Join(e.Dir, "db"), Sync: sync, Writers: writers,
		WriteBufferBytes: e.WriteBufferBytes, CacheBytes: e.CacheBytes,
		DataBytes: int64(e.Records) * e.recordBytes(),
	}
	if fresh {
		if err := os.RemoveAll(c.Dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	db, err := e.engine.Open(c)
	if err != nil {
		return fmt.Errorf("open %s: %w", e.Engine, err)
	}
	e.db = db
	return nil
}

func (e *Env) close() error {
	if e.db == nil {
		return nil
	}
	err := e.db.Close()
	e.db = nil
	return err
}

// zipfian returns the skewed draws, made when first needed.
func (e *Env) zipfian() *dataset.Zipf {
	if e.zipf == nil {
		e.zipf = dataset.NewZipf(e.Records, uint64(e.Repeat)+11)
	}
	return e.zipf
}

// worker is the state of one goroutine of a workload. Why the gaps: what two goroutines write in
// one cache line costs each operation as much as a fast one takes.
type worker struct {
	_        [apartBytes]byte
	env      *Env
	n        uint64 // number of the goroutine
	random   rand.PCG
	rng      *rand.Rand // of random
	key, val []byte
	got      []byte
	lat      *hdrhistogram.Histogram // of nanoseconds
	ops      int64
	rows     int64
	_        [apartBytes]byte
}

// apartBytes keeps two things out of one cache line, and out of the pair that is fetched with it.
const apartBytes = 128

func (w *worker) keyOf(id uint64) store.Key {
	w.key = dataset.AppendKey(w.key[:0], id)
	return store.Key{Bytes: w.key, PK: w.env.pk}
}

func (w *worker) valueOf(id uint64, version uint32) []byte {
	w.val = w.env.values.Append(w.val[:0], id, version)
	return w.val
}

// took records a latency, of 1 ns to 100 s.
func (w *worker) took(d time.Duration) {
	_ = w.lat.RecordValue(min(max(int64(d), 1), longestNs)) // always in range
}

const longestNs = int64(100 * time.Second)

// job is a workload made of many equal operations.
type job struct {
	name string
	// count is the number of operations; 0 means as many as fit the time.
	count uint64
	// every is how many operations share one latency measurement.
	every uint64
	// rows: report rows, which op counts in worker.rows, instead of operations.
	rows bool
	// settle: the job writes. It is followed by a flush and a wait for background work,
	// measured separately. An operation gives userBytes to the engine.
	settle    bool
	userBytes int64
	// begin, if any, comes before what is measured.
	begin func() error
	// op does operation i, counted from 0 over all goroutines.
	op func(w *worker, i uint64) error
	// beside, if any, runs in another goroutine until stop is set.
	beside func(stop *atomic.Bool) error
	// finish, if any, may add to the result, or refuse it.
	finish func(result.Figures) error
}

// run does the job and emits its result. The harness does those only that write all
// they are told to.
func (e *Env) run(j job, goroutines int) error {
	if e.engine.Void && !j.settle {
		return nil
	}
	if j.begin != nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	if j.settle {
		measure.WriteBack(e.Dir)
	}
	runtime.GC()
	debug.FreeOSMemory()
	f, err := e.execute(j, goroutines)
	if err == nil && j.settle {
		var disk int64
		disk, err = measure.DiskBytes(filepath.Join(e.Dir, "db"))
		f[result.DiskBytes] = float64(disk)
		f[result.UserBytes] = float64(j.userBytes) * f[result.Ops]
		f[result.LiveBytes] = float64(int64(e.live) * e.recordBytes())
	}
	if err == nil && j.finish != nil {
		err = j.finish(f)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", j.name, err)
	}
	return e.emit(j.name, goroutines, f)
}

func (e *Env) emit(name string, goroutines int, f result.Figures) error {
	return e.Emit(result.Record{Table: e.Chain, Case: name, Engine: e.Engine,
		Goroutines: goroutines, Round: e.Repeat, Figures: f})
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// used adds what was used, and latencies if there are any.
func used(f result.Figures, u measure.Usage, lat *hdrhistogram.Histogram) {
	f[result.WrittenBytes] = float64(u.WrittenBytes)
	f[result.PeakRSSBytes] = float64(u.PeakRSSBytes)
	if lat.TotalCount() == 0 {
		return
	}
	for name, q := range map[string]float64{result.P50: 50, result.P99: 99, result.P999: 99.9} {
		f[name] = micros(time.Duration(lat.ValueAtQuantile(q)))
	}
	f[result.Max] = micros(time.Duration(lat.Max()))
}

func (e *Env) execute(j job, goroutines int) (result.Figures, error) {
	workers := make([]*worker, goroutines)
	for g := range workers {
		workers[g] = e.newWorker(uint64(g), j.name)
	}
	var stop, stopBeside atomic.Bool
	if j.count == 0 {
		limit := time.Duration(e.Seconds * float64(time.Second))
		defer time.AfterFunc(limit, func() { stop.Store(true) }).Stop()
	}
	errs := make([]error, goroutines+1)
	meter := measure.Start()
	var wg, beside sync.WaitGroup
	if j.beside != nil {
		beside.Go(func() { errs[goroutines] = j.beside(&stopBeside) })
	}
	for g, w := range workers {
		wg.Go(func() {
			if errs[g] = w.work(&j, uint64(goroutines), &stop); errs[g] != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	worked := meter.Elapsed()
	stopBeside.Store(true)
	beside.Wait()
	err := errors.Join(errs...)
	if err == nil && j.settle {
		err = measure.Settle(e.db.Flush)
	}
	usage := meter.Elapsed()
	ops, lat := int64(0), workers[0].lat
	for i, w := range workers {
		if i > 0 {
			lat.Merge(w.lat)
		}
		if ops += w.ops; j.rows {
			ops += w.rows - w.ops
		}
	}
	f := result.Figures{
		result.Ops: float64(ops), result.Seconds: worked.Wall.Seconds(),
		result.PerSecond: float64(ops) / worked.Wall.Seconds(),
		result.CPU:       float64(worked.CPU.Nanoseconds()) / float64(max(ops, 1)),
	}
	if j.settle {
		f[result.RestSeconds] = (usage.Wall - worked.Wall).Seconds()
		f[result.RestBytes] = float64(usage.WrittenBytes - worked.WrittenBytes)
		f[result.SettledCPU] = float64(usage.CPU.Nanoseconds()) / float64(ops)
	}
	used(f, usage, lat)
	return f, err
}

func (e *Env) newWorker(g uint64, name string) *worker {
	seed := uint64(len(name)) + uint64(e.Repeat)*1000
	w := &worker{
		env: e, n: g, random: *rand.NewPCG(seed, g), lat: hdrhistogram.New(1, longestNs, 3),
		key: make([]byte, 0, apartBytes), val: make([]byte, 0, e.ValueBytes+apartBytes),
		got: make([]byte, 0, e.ValueBytes+apartBytes),
	}
	w.rng = rand.New(&w.random)
	return w
}

// work does the operations of one goroutine, every step-th, and takes the time of one in
// j.every. If that is all of them, one look at the clock ends an operation and begins the
// next, so a latency contains the making of key and value.
func (w *worker) work(j *job, step uint64, stop *atomic.Bool) error {
	last := measure.Clock()
	more := func(i uint64) bool { return i < j.count && !stop.Load() }
	if j.count == 0 { // once at least
		more = func(uint64) bool { return w.ops == 0 || !stop.Load() }
	}
	for i := w.n; more(i); i += step {
		timed := j.every <= 1 || uint64(w.ops)%j.every == 0
		if timed && j.every > 1 {
			last = measure.Clock()
		}
		if err := j.op(w, i); err != nil {
			return err
		}
		if timed {
			now := measure.Clock()
			w.took(now - last)
			last = now
		}
		w.ops++
	}
	return nil
}
