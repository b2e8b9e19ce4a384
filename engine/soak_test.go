package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"go.uber.org/goleak"
)

// soakEnv is how long TestSoak runs, as time.ParseDuration reads it.
const soakEnv = "KSTONE_SOAK"

const (
	soakParts, soakSorts = 400, 500 // the keys
	soakValueMost        = 1200
	soakWriters          = 4
	soakReaders          = 3
)

var soakOptions = engine.Options{
	MemtableBytes: 16 << 20, CacheBytes: 16 << 20, MaxOpenFiles: 300, FileBytes: 1 << 20,
	Durability: engine.Process, CompactionWorkers: 2,
}

// soak is a database under load, and the worst that was seen.
type soak struct {
	t      *testing.T
	dir    string
	db     *engine.DB
	ctx    context.Context //nolint:containedctx // ends a round
	rnd    atomic.Uint64
	ops    atomic.Int64
	copies int

	baseHeap           uint64
	baseFiles          int
	live, resident     uint64
	goroutines, files  int
	runs               int
	log, memory, disk  int64
	stall              time.Duration
	slowWrite, slowGet time.Duration
}

// Goal: under full load for a long time nothing grows that should not: live memory, resident
// memory, goroutines, descriptors, runs of a stripe, log, disk; writers are not held up for
// long; and there is no error. Method: writers and readers use the whole API on a bounded
// set of keys, whose values prove themselves, while a checkpoint is taken now and then and
// the database is closed and opened every few minutes. KSTONE_SOAK=30m runs it.
//
// Promise (manners): Under full load for long nothing grows that should not. Also (`make soak`).
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv(soakEnv))
	if err != nil {
		t.Skipf("%s is not a duration: make soak sets it", soakEnv)
	}
	before := goleak.IgnoreCurrent()
	s := &soak{t: t, dir: t.TempDir()}
	// The first file that a process opens makes it keep some descriptors.
	db := openDir(t, filepath.Join(s.dir, "db"), nil)
	mustClose(t, db)
	s.baseHeap, s.baseFiles = liveHeap(), descriptors()
	end := time.Now().Add(d)
	for rounds := 0; time.Now().Before(end) && !t.Failed(); rounds++ {
		s.round(min(time.Until(end), max(d/6, 20*time.Second)))
	}
	if n := descriptors(); n > s.baseFiles {
		t.Errorf("%d descriptors are open, %d were at the beginning", n, s.baseFiles)
	}
	if live := liveHeap(); live > s.baseHeap+8<<20 {
		t.Errorf("%.1f MiB are live after Close, %.1f were before Open", mib(live),
			mib(s.baseHeap))
	}
	goleak.VerifyNone(t, before)
	t.Logf("%d operations in %v; at most %.0f MiB live, %.0f MiB resident, %d goroutines, "+
		"%d descriptors, %d runs in a stripe, %d MiB log, %d MiB write buffers, %d MiB on disk",
		s.ops.Load(), d, mib(s.live), mib(s.resident), s.goroutines, s.files, s.runs, s.log>>20,
		s.memory>>20, s.disk>>20)
	t.Logf("longest stall %v, slowest write seen %v, slowest get seen %v", s.stall, s.slowWrite,
		s.slowGet)
}

// descriptors returns the number of open ones, 0 where the system does not report it.
func descriptors() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

// round opens the database, loads it for a time and closes it.
func (s *soak) round(d time.Duration) {
	o := soakOptions
	o.Events = &engine.Events{ReadOnly: func(err error) { s.t.Errorf("read-only: %v", err) }}
	db := openDir(s.t, filepath.Join(s.dir, "db"), &o)
	s.db = db
	var stop context.CancelFunc
	s.ctx, stop = context.WithTimeout(ctx, d)
	defer stop()
	var wg sync.WaitGroup
	loop := func(f func(*rand.Rand) error) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(s.rnd.Add(1), 0))
			for s.ctx.Err() == nil && !s.t.Failed() {
				if err := f(rnd); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					s.t.Errorf("%v", err)
				}
				s.ops.Add(1)
			}
		})
	}
	for range soakWriters {
		loop(s.write)
	}
	for range soakReaders {
		loop(s.read)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; s.ctx.Err() == nil && !s.t.Failed(); n++ {
		select {
		case <-tick.C:
			s.measure(n)
		case <-s.ctx.Done():
		}
	}
	wg.Wait()
	s.measure(0)
	mustClose(s.t, s.db)
}

// soakValue makes a value that names its key and checks itself.
func soakValue(k engine.Key, rnd *rand.Rand) []byte {
	v := make([]byte, 4, soakValueMost)
	v = append(append(v, k.PK...), k.SK...)
	half := make([]byte, rnd.IntN(soakValueMost/2-50))
	for i := range half {
		half[i] = byte(rnd.Uint32())
	}
	v = append(append(v, half...), half...) // half of it can be compressed away
	binary.BigEndian.PutUint32(v, crc32.ChecksumIEEE(v[4:]))
	return v
}

func soakProof(k engine.Key, v []byte) error {
	if len(v) < 4 || binary.BigEndian.Uint32(v) != crc32.ChecksumIEEE(v[4:]) ||
		!bytes.HasPrefix(v[4:], append(bytes.Clone(k.PK), k.SK...)) {
		return fmt.Errorf("%v has the value of another key, or none: %.40q", k, v)
	}
	return nil
}

func soakKey(rnd *rand.Rand) engine.Key {
	return pksk(fmt.Sprintf("part/%04d", rnd.IntN(soakParts)),
		fmt.Sprintf("%05d", rnd.IntN(soakSorts)))
}

func (s *soak) write(rnd *rand.Rand) error {
	k := soakKey(rnd)
	o := engine.DefaultDurability
	if rnd.IntN(200) == 0 {
		o = engine.Sync
	}
	switch n := rnd.IntN(1000); {
	case n < 600:
		var ttl time.Duration
		if rnd.IntN(10) == 0 {
			ttl = time.Duration(1+rnd.IntN(30)) * time.Second
		}
		return s.db.Put(k, soakValue(k, rnd), engine.TTL(ttl), o)
	case n < 720:
		return s.db.Delete(k, o)
	case n < 770:
		err := s.db.PutIf(k, soakValue(k, rnd), engine.IfAbsent(), o)
		if errors.Is(err, engine.ErrConditionFailed) {
			return nil
		}
		return err
	case n < 772:
		return s.db.DeleteRange(k.PK, engine.SKBeginsWith(k.SK[:3]), o)
	case n < 850:
		return s.db.UpdateRetry(s.ctx, func(tx *engine.Tx) error {
			for range 3 {
				k := soakKey(rnd)
				if _, err := tx.Get(k); err != nil && !errors.Is(err, engine.ErrNotFound) {
					return err
				}
				if err := tx.Put(k, soakValue(k, rnd)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b := engine.NewBatch()
	for range 1 + rnd.IntN(30) {
		k := soakKey(rnd)
		if err := b.Put(k, soakValue(k, rnd)); err != nil {
			return err
		}
	}
	return s.db.Apply(s.ctx, b, o)
}

func (s *soak) read(rnd *rand.Rand) error {
	k := soakKey(rnd)
	q := engine.Query{PK: k.PK, Reverse: rnd.IntN(2) == 0, Limit: rnd.IntN(100)}
	prove := func(seq func(func(engine.Item, error) bool)) (err error) {
		seq(func(it engine.Item, e error) bool {
			if err = e; err == nil {
				err = soakProof(it.Key, it.Value)
			}
			return err == nil
		})
		return err
	}
	switch n := rnd.IntN(1000); {
	case n < 700:
		v, err := s.db.Get(k)
		if errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return errors.Join(err, soakProof(k, v))
	case n < 985:
		return prove(s.db.Query(s.ctx, q))
	case n < 990:
		snap, err := s.db.Snapshot()
		if err != nil {
			return err
		}
		err = errors.Join(prove(snap.Query(s.ctx, q)), prove(snap.Query(s.ctx, q)))
		return errors.Join(err, snap.Close())
	case n < 992:
		return second(s.db.Count(s.ctx, engine.Query{PK: k.PK}))
	}
	return prove(s.db.Scan(s.ctx, engine.Scan{
		StartAfter: k, Limit: 2000, Reverse: rnd.IntN(2) == 0,
	}))
}

// measure looks at everything that has a limit; now and then it makes a checkpoint.
func (s *soak) measure(n int) {
	m := s.db.Metrics()
	s.goroutines = max(s.goroutines, runtime.NumGoroutine())
	s.files = max(s.files, descriptors()-s.baseFiles)
	s.log, s.memory = max(s.log, m.LogBytes), max(s.memory, m.MemtableBytes)
	s.disk = max(s.disk, m.Total.DiskBytes)
	s.stall = max(s.stall, m.LongestStall)
	s.slowWrite, s.slowGet = max(s.slowWrite, m.WriteLatency.Max), max(s.slowGet, m.ReadLatency.Max)
	for i := range m.Stripes {
		s.runs = max(s.runs, m.Stripes[i].Runs)
	}
	s.resident = max(s.resident, residentPeak())
	if n%5 == 0 {
		live := liveHeap()
		s.live = max(s.live, live-min(live, s.baseHeap))
	}
	if n%60 == 59 {
		s.checkpoint()
	}
	s.judge()
}

// judge compares with the limits. The constants are those of docs/limits.md: what the
// running flushes, merges, scans (8 MiB) and queries of deep stripes (a quarter of a MiB a
// run) need beside the budgets.
func (s *soak) judge() {
	o := soakOptions
	const mega = 1 << 20
	limit := 2*uint64(o.MemtableBytes) + uint64(o.CacheBytes) + 24*mega +
		15*mega*uint64(1+o.CompactionWorkers) + soakReaders*(8*mega+24*mega/4)
	most := func(what string, got, limit int64) {
		if got > limit {
			s.t.Errorf("%s: %d, at most %d is right", what, got, limit)
		}
	}
	most("live memory", int64(s.live), int64(limit))
	most("resident memory", int64(s.resident), int64(s.baseHeap+2*limit+64*mega))
	// A flush writes up to 64 files before it syncs them, a merge some more.
	most("goroutines", int64(s.goroutines), soakWriters+soakReaders+64+20)
	most("descriptors", int64(s.files), int64(o.MaxOpenFiles+64+60))
	most("runs of a stripe", int64(s.runs), 6*4)
	most("log", s.log, 3*o.MemtableBytes+2*mega)
	most("write buffers", s.memory, 2*o.MemtableBytes+mega)
	// All keys with their average size, twice for merges, and the buffers on their way.
	most("files", s.disk, 3*soakParts*soakSorts*soakValueMost/2+4*o.MemtableBytes)
	most("longest stall in ms", s.stall.Milliseconds(), 5000)
}

// checkpoint copies the database while it is in use, verifies the copy, and removes it.
func (s *soak) checkpoint() {
	s.copies++
	dir := filepath.Join(s.dir, fmt.Sprintf("copy-%d", s.copies))
	if err := s.db.Checkpoint(s.ctx, dir, nil); err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			s.t.Errorf("checkpoint: %v", err)
		}
		return
	}
	db, err := engine.Open(dir, &engine.Options{ReadOnly: true, CacheBytes: 1 << 20})
	if err != nil {
		s.t.Errorf("open the checkpoint: %v", err)
		return
	}
	if _, err := db.Verify(s.ctx, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("verify the checkpoint: %v", err)
	}
	if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
		s.t.Errorf("%v", err)
	}
}
