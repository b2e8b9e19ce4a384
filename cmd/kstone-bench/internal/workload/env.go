package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// Plan is what the parent asks of a worker process.
type Plan struct {
	Chain, Engine    string
	Phase, Repeat    int
	Dir              string
	Records          uint64
	ValueBytes       int
	Seconds          float64 // of a workload that is limited by time
	WriteBufferBytes int64
	CacheBytes       int64
	// Profiles is a directory for one processor profile per workload, if not empty.
	Profiles string
}

// Env is a worker at work on a chain.
type Env struct {
	Plan
	// Begin is told the name of every workload that starts.
	Begin func(name string)
	// Emit takes every finished result.
	Emit func(result.Record)
	// Announce lets the parent know that the process may be killed; it does not return.
	Announce func()

	engine store.Engine
	db     store.Store
	values *dataset.Values
	order  *dataset.Permutation
	zipf   *dataset.Zipf
	pk     int // bytes of the partition key
}

// settleLimit bounds the wait for background work.
const settleLimit = 3 * time.Minute

func (e *Env) config(sync bool, writers int) store.Config {
	return store.Config{
		Dir: filepath.Join(e.Dir, "db"), Sync: sync, Writers: writers,
		WriteBufferBytes: e.WriteBufferBytes, CacheBytes: e.CacheBytes,
		DataBytes: int64(e.Records) * int64(dataset.KeyBytes+e.ValueBytes),
	}
}

// open opens the store and, with fresh, deletes what is there first.
func (e *Env) open(fresh, sync bool, writers int) error {
	c := e.config(sync, writers)
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

// worker is the state of one goroutine of a workload.
type worker struct {
	env      *Env
	n        uint64 // number of the goroutine
	rng      *rand.Rand
	key, val []byte
	got      []byte
	lat      *measure.Latencies
	ops      int64
	rows     int64
}

func (w *worker) keyOf(id uint64) store.Key {
	w.key = dataset.AppendKey(w.key[:0], id)
	return store.Key{Bytes: w.key, PK: w.env.pk}
}

func (w *worker) valueOf(id uint64, version uint32) []byte {
	w.val = w.env.values.Append(w.val[:0], id, version)
	return w.val
}

// job is a workload made of many equal operations.
type job struct {
	name       string
	goroutines int
	// count is the number of operations; 0 means as many as fit the time.
	count   int64
	seconds float64 // 0 means Plan.Seconds
	// every is how many operations share one latency measurement.
	every uint64
	// op does operation i, counted from 0 over all goroutines.
	op func(w *worker, i uint64) error
	// writes: the bytes given to the engine by one operation. The job is followed by
	// a flush and a wait for background work, measured separately.
	userBytes int64
	settle    bool
	// rows: report rows, which op counts in worker.rows, instead of operations.
	rows bool
	// finish may add to the result.
	finish func(result.Figures)
}

// run does the job and emits its result. The harness does those only that write all
// they are told to.
func (e *Env) run(j job) error {
	if e.engine.Void && !j.settle {
		return nil
	}
	if j.settle {
		measure.WriteBack(e.Dir)
	}
	runtime.GC()
	debug.FreeOSMemory()
	e.Begin(fmt.Sprintf("%s ×%d", j.name, j.goroutines))
	stopProfile := e.profile(j.name, j.goroutines)
	lat, usage, f, err := e.execute(j)
	stopProfile()
	if err != nil {
		return fmt.Errorf("%s: %w", j.name, err)
	}
	latencies(f, lat)
	used(f, usage)
	if j.settle {
		f[result.SettledCPU] = float64(usage.CPU.Nanoseconds()) / f[result.Ops]
		f[result.UserBytes] = float64(j.userBytes) * f[result.Ops]
		disk, err := measure.DiskBytes(filepath.Join(e.Dir, "db"))
		if err != nil {
			return err
		}
		f[result.DiskBytes] = float64(disk)
	}
	if j.finish != nil {
		j.finish(f)
	}
	e.emit(j.name, j.goroutines, f)
	return nil
}

func (e *Env) emit(name string, goroutines int, f result.Figures) {
	e.Emit(result.Record{Table: e.Chain, Case: name, Engine: e.Engine, Goroutines: goroutines,
		Round: e.Repeat, Figures: f})
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func latencies(f result.Figures, l *measure.Latencies) {
	if l.Count() > 0 {
		f[result.P50], f[result.P99] = micros(l.Quantile(0.5)), micros(l.Quantile(0.99))
		f[result.P999], f[result.Max] = micros(l.Quantile(0.999)), micros(l.Quantile(1))
	}
}

func used(f result.Figures, u measure.Usage) {
	f[result.WrittenBytes] = float64(u.WrittenBytes)
	f[result.PeakRSSBytes] = float64(u.PeakRSSBytes)
	f[result.PeakAnonBytes] = float64(u.PeakAnonBytes)
}

func (e *Env) execute(j job) (*measure.Latencies, measure.Usage, result.Figures, error) {
	workers := make([]*worker, j.goroutines)
	for g := range workers {
		workers[g] = e.newWorker(uint64(g), j.name)
	}
	var stop atomic.Bool
	if j.count == 0 {
		s := j.seconds
		if s == 0 {
			s = e.Seconds
		}
		limit := time.Duration(s * float64(time.Second))
		defer time.AfterFunc(limit, func() { stop.Store(true) }).Stop()
	}
	errs := make([]error, j.goroutines)
	meter := measure.Start()
	var wg sync.WaitGroup
	for g, w := range workers {
		wg.Go(func() {
			if errs[g] = w.work(&j, &stop); errs[g] != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	wall, cpu := meter.Elapsed()
	err := errors.Join(errs...)
	if err == nil && j.settle {
		err = e.settle()
	}
	usage := meter.Stop()
	ops, lat := int64(0), measure.NewLatencies()
	for _, w := range workers {
		lat.Merge(w.lat)
		if ops += w.ops; j.rows {
			ops += w.rows - w.ops
		}
	}
	return lat, usage, result.Figures{
		result.Ops: float64(ops), result.Seconds: wall.Seconds(),
		result.PerSecond: float64(ops) / wall.Seconds(),
		result.CPU:       float64(cpu.Nanoseconds()) / float64(max(ops, 1)),
	}, err
}

func (e *Env) newWorker(g uint64, name string) *worker {
	seed := uint64(len(name)) + uint64(e.Repeat)*1000
	return &worker{
		env: e, n: g, rng: rand.New(rand.NewPCG(seed, g)), lat: measure.NewLatencies(),
		key: make([]byte, 0, 2*dataset.KeyBytes), val: make([]byte, 0, e.ValueBytes+16),
		got: make([]byte, 0, e.ValueBytes+16),
	}
}

// work does the operations of one goroutine: every j.goroutines-th.
func (w *worker) work(j *job, stop *atomic.Bool) error {
	if j.every > 1 {
		return w.workSampled(j, stop)
	}
	step, last := uint64(j.goroutines), measure.Clock()
	for i := w.n; (j.count == 0 || i < uint64(j.count)) && !stop.Load(); i += step {
		if err := j.op(w, i); err != nil {
			return err
		}
		// One look at the clock ends an operation and begins the next, so a latency
		// contains the making of key and value.
		now := measure.Clock()
		w.lat.Record(now - last)
		last = now
		w.ops++
	}
	return nil
}

// workSampled takes the time of one operation in j.every.
func (w *worker) workSampled(j *job, stop *atomic.Bool) error {
	step := uint64(j.goroutines)
	for i := w.n; (j.count == 0 || i < uint64(j.count)) && !stop.Load(); i += step {
		timed := uint64(w.ops)%j.every == 0
		var start time.Duration
		if timed {
			start = measure.Clock()
		}
		if err := j.op(w, i); err != nil {
			return err
		}
		if timed {
			w.lat.Record(measure.Clock() - start)
		}
		w.ops++
	}
	return nil
}

// settle flushes and waits for background work.
func (e *Env) settle() error {
	if err := e.db.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	measure.AwaitIdle(settleLimit)
	return nil
}

// profile starts a processor profile, if wanted, and returns what ends it.
func (e *Env) profile(name string, goroutines int) func() {
	if e.Profiles == "" {
		return func() {}
	}
	file := fmt.Sprintf("%s-%s-%s-%d.pprof", e.Engine, e.Chain, name, goroutines)
	f, err := os.Create(filepath.Join(e.Profiles, file))
	if err != nil || pprof.StartCPUProfile(f) != nil {
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
}
