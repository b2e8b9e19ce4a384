package engine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// logFileBytes returns the size of all log files on disk.
func logFileBytes(t testing.TB, fsys vfs.FS) (n int64) {
	t.Helper()
	names, err := fsys.List("db")
	ok(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "wal-") {
			if st, err := fsys.Stat("db/" + name); err == nil { // else just released
				n += st.SizeBytes
			}
		}
	}
	return n
}

// Under load the log on disk and the write buffers in memory stay within what the options
// promise, though one stripe got a single write at the very beginning and holds the oldest
// record; and reopening after a kill reads no more than that, however much was written.
func TestBudgetsHoldUnderLoad(t *testing.T) {
	total := int64(testutil.Effort(13, 64)) << 20
	mem := vfs.NewMem()
	o := engine.Options{
		MemtableBytes: 2 << 20, LogBytes: 8 << 20, Durability: engine.Process, CacheBytes: 1 << 20,
	}
	disk := &breaker{err: errDisk, match: func(op vfstest.Op) bool {

		return op.Kind != vfstest.OpReadAt && op.Kind != vfstest.OpOpen &&
			op.Kind != vfstest.OpClose
	}}
	db := openOn(t, vfstest.NewFault(mem, disk.hook), o)
	ok(t, db.Put(pk("cold"), []byte("written once")))
	done := loadUntil(t, db, total)
	var mostLog, mostMemory int64
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(time.Millisecond):
		}
		m := db.Metrics()
		mostLog = max(mostLog, m.LogBytes, logFileBytes(t, mem))
		mostMemory = max(mostMemory, m.MemtableBytes)
	}
	// Four writers may each have been let in just below the limit.
	if limit := o.LogBytes + 4*largest; mostLog > limit {
		t.Errorf("the log had %d bytes, limit %d", mostLog, limit)
	}
	if limit := 2*o.MemtableBytes + 4*largest; mostMemory > limit {
		t.Errorf("write buffers had %d bytes, limit %d", mostMemory, limit)
	}
	t.Logf("%d bytes written, log at most %d, memory at most %d", total, mostLog, mostMemory)

	want := content(t, db)
	disk.broken.Store(true) // from here on nothing is written: the process is dead
	_ = db.Close()
	var read atomic.Int64
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.Contains(op.Name, "wal-") {
			read.Add(op.Len)
		}
		return nil
	})
	db = openOn(t, fsys, o)
	// Replay, the search past the end, the rewriting of the tail: at most three times.
	if n := read.Load(); n > 3*o.LogBytes {
		t.Errorf("reopening read %d bytes of log", n)
	}
	if got := content(t, db); len(got) != len(want) || got[id(pk("cold"))] != "written once" {
		t.Errorf("%d items after the kill, want %d", len(got), len(want))
	}
	mustClose(t, db)
}

// largest is the largest value of loadUntil.
const largest = 100 << 10

// loadUntil lets four goroutines write values of random sizes and contents to 2000 keys
// until they have written so many bytes. The channel is closed then.
func loadUntil(t *testing.T, db *engine.DB, total int64) <-chan struct{} {
	var written atomic.Int64
	var wg sync.WaitGroup
	random := make([]byte, largest)
	for i, r := 0, rand.New(rand.NewPCG(1, 4)); i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for written.Load() < total {
				v := random[r.IntN(largest-3000):][:1+r.IntN(3000)]
				if r.IntN(500) == 0 {
					v = random
				}
				if err := db.Put(pk(fmt.Sprint(r.IntN(2000))), v); err != nil {
					t.Error(err)
					return
				}
				written.Add(int64(len(v)))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	return done
}

// Promise (manners): The log stays within its budget, but for what is allocated in advance, when
// writes replace one item, so that no memtable grows.
func TestBudgetOfAReplacedItem(t *testing.T) {
	mem := vfs.NewMem()
	o := engine.Options{MemtableBytes: 2 << 20, LogBytes: 8 << 20, Durability: engine.Process}
	db := openOn(t, mem, o)
	value := make([]byte, 64<<10)
	var most int64
	for i := range 500 {
		value[0] = byte(i)
		ok(t, db.Put(pk("one"), value))
		most = max(most, logFileBytes(t, mem))
	}
	const advance = 256 << 10
	if limit := o.LogBytes + advance; most > limit {
		t.Errorf("the log had %d bytes, limit %d", most, limit)
	}
	mustClose(t, db)
}

// A commit larger than all budgets passes, and those after it: no write waits for what
// cannot happen.
func TestCommitLargerThanTheBudgets(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	o := engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20, Durability: engine.Process}
	db := openOn(t, mem, o)
	within(t, 2*time.Minute, "large commits", func() {
		for round := range 3 {
			b := engine.NewBatch()
			for i := range 12 {
				ok(t, b.Put(pk(fmt.Sprint(i)), make([]byte, 1<<20)))
			}
			ok(t, db.Apply(ctx, b))
			for i := range 20 {
				ok(t, db.Put(pk(fmt.Sprint("small", i)), []byte{byte(round)}))
			}
		}
	})
	eventually(t, "the log to shrink", func() bool { return logFileBytes(t, mem) <= o.LogBytes })
	if n := len(content(t, db)); n != 32 {
		t.Errorf("%d items", n)
	}
	mustClose(t, db)
}

// Snapshots that stay open cost the versions they see and nothing else: flushes, the log
// and merges go on.
func TestOpenSnapshotHoldsNothingUp(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	o := engine.Options{
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2, Durability: engine.Process,
	}
	db := openOn(t, mem, o)
	for i := range 50 {
		ok(t, db.Put(pk(fmt.Sprint(i)), []byte("seen")))
	}
	snap := snapshotOf(t, db)
	for n := range 10_000 {
		ok(t, db.Put(pk(fmt.Sprint(n%50)), make([]byte, 1000)))
	}
	if n := logFileBytes(t, mem); n > o.LogBytes {
		t.Errorf("the log has %d bytes", n)
	}
	ok(t, db.Compact(ctx))
	if m := db.Metrics(); m.Total.Records != 100 { // two versions of each
		t.Errorf("%d records after Compact", m.Total.Records)
	}
	for i := range 50 {
		if v, err := snap.Get(pk(fmt.Sprint(i))); err != nil || string(v) != "seen" {
			t.Fatalf("the snapshot sees %q, %v", v, err)
		}
	}
	ok(t, snap.Close())
	ok(t, db.Compact(ctx))
	if m := db.Metrics(); m.Total.Records != 50 {
		t.Errorf("%d records after Close and Compact", m.Total.Records)
	}
	mustClose(t, db)
}

// Goal: the live heap of a database with many small runs stays within what Memory gives it. Method:
// a load, lookups that fill the cache, and merges; the heap is measured after a collection.
//
// Promise (manners): What a database keeps in memory while it is loaded, read and merged is a
// quarter of Options.Memory. Also `TestOwedBytes` in `internal/cache`, `TestChunkSizes` in
// `memtable`, `TestMergesKeepLittleInMemory` in `sst`.
func TestMemoryBoundsTheHeap(t *testing.T) {
	testutil.SlowUnderRace(t, "measures memory")
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	const memory, items = 64 << 20, 25_000
	db := openDir(t, filepath.Join(t.TempDir(), "db"),
		&engine.Options{Memory: memory, Durability: engine.Process})
	defer mustClose(t, db)
	rng, value := rand.New(rand.NewPCG(1, 2)), make([]byte, 1<<10)
	key := func(i int) engine.Key { return pk(fmt.Sprint(i)) }
	check := func(what string) {
		t.Helper()
		if n := live() - before; n > memory/4 {
			t.Errorf("%s: %d bytes are in use", what, n)
		}
	}
	for i := range items {
		for j := 0; j < len(value); j += 8 {
			binary.LittleEndian.PutUint64(value[j:], rng.Uint64())
		}
		ok(t, db.Put(key(i), value))
		if i%5000 == 0 {
			check("load")
		}
	}
	for i := range items {
		if has, err := db.Has(key(i)); !has || err != nil {
			t.Fatal(has, err)
		}
	}
	check("lookups")
	ok(t, db.Compact(ctx))
	check("merges")
}
