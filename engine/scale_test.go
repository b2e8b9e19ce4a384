package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// The scale tests need minutes and 4 GB of disk. `make scale` runs them; their
// output is what docs/limits.md quotes. KSTONE_SCALE is the number of items.
const scaleEnv = "KSTONE_SCALE"

// scale is a database under measurement.
type scale struct {
	t     *testing.T
	dir   string
	o     engine.Options
	db    *engine.DB
	items int
	base  uint64 // live heap before Open
}

func newScale(t *testing.T, o engine.Options) *scale {
	items, err := strconv.Atoi(os.Getenv(scaleEnv))
	if err != nil {
		t.Skip("takes minutes; make scale runs it")
	}
	s := &scale{t: t, dir: t.TempDir(), o: o, items: items}
	s.o.Durability = engine.Process
	s.base = liveHeap()
	s.open()
	t.Cleanup(func() { mustClose(t, s.db) })
	return s
}

func (s *scale) open() {
	db := openDir(s.t, s.dir, &s.o)
	s.db = db
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what pools held is gone after the second
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// step runs f and logs its time and memory: the live heap of the database afterwards,
// and the highest resident set of the process meanwhile (Linux only).
func (s *scale) step(name string, f func()) (live uint64) {
	s.t.Helper()
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // a new high-water mark
	start := time.Now()
	f()
	took := time.Since(start)
	peak := residentPeak()
	live = liveHeap()
	live -= min(live, s.base)
	m := s.db.Metrics()
	s.t.Logf("%-34s %9.2f s  live %6.1f MiB  peak RSS %6.1f MiB  %d files, %d MiB",
		name, took.Seconds(), mib(live), mib(peak), m.Total.Files, m.Total.DiskBytes>>20)
	return live
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// residentPeak returns VmHWM, 0 where there is none.
func residentPeak() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(status, []byte("VmHWM:"))
	if !found {
		return 0
	}
	fields := bytes.Fields(rest)
	kib, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return kib << 10
}

// load writes the items [from, to) in batches of 1,000.
func (s *scale) load(from, to int, item func(i int, key *engine.Key, value []byte) []byte) {
	s.t.Helper()
	b := engine.NewBatch()
	key, value := engine.Key{PK: make([]byte, 0, 16), SK: nil}, make([]byte, 0, 64)
	for i := from; i < to; i++ {
		value = item(i, &key, value[:0])
		ok(s.t, b.Put(key, value))
		if b.Len() == 1000 || i == to-1 {
			ok(s.t, s.db.Apply(ctx, b))
			b.Reset()
		}
	}
}

// within fails the test if memory exceeds what docs/limits.md states.
func (s *scale) within(what string, live uint64, items int) {
	s.t.Helper()
	const constant = 24 << 20
	limit := 2*uint64(s.o.MemtableBytes) + uint64(s.o.CacheBytes) + constant + uint64(items)/10
	if live > limit {
		s.t.Errorf("%s: %0.1f MiB of live memory, want at most %0.1f", what, mib(live), mib(limit))
	}
}

func oneKey(i int) engine.Key {
	return engine.Key{PK: []byte("one"), SK: binary.BigEndian.AppendUint64(nil, uint64(i))}
}

// expect reads a query and checks first sort key, last sort key and count.
func (s *scale) expect(q engine.Query, first, last, count int) {
	s.t.Helper()
	n, at := 0, -1
	for it, err := range s.db.Query(ctx, q) {
		ok(s.t, err)
		at = int(binary.BigEndian.Uint64(it.Key.SK))
		if n == 0 && at != first {
			s.t.Fatalf("query starts at %d, want %d", at, first)
		}
		n++
	}
	if n != count || at != last {
		s.t.Fatalf("query gives %d items up to %d, want %d up to %d", n, at, count, last)
	}
}

func (s *scale) count(want int) {
	s.t.Helper()
	n, err := s.db.Count(ctx, engine.Query{PK: []byte("one")})
	ok(s.t, err)
	if n != int64(want) {
		s.t.Fatalf("%d items, want %d", n, want)
	}
}

// One partition with ten million items: one stripe, many files in a run.
//
// Promise (manners): Memory keeps to the budgets and the constants of [limits](limits.md) with
// ten million items. Also `TestScaleTinyItems` (`make scale`).
func TestScaleOnePartition(t *testing.T) {
	s := newScale(t, engine.Options{
		MemtableBytes: 64 << 20, CacheBytes: 64 << 20, FileBytes: 8 << 20,
	})
	n := s.items
	pk, mid := []byte("one"), n/2
	live := s.step("load", func() {
		s.load(0, n, func(i int, key *engine.Key, value []byte) []byte {
			// A full cycle in a scattered order.
			at := uint64(i) * 7_368_787 % uint64(n)
			key.PK, key.SK = pk, binary.BigEndian.AppendUint64(key.SK[:0], at)
			return binary.BigEndian.AppendUint64(append(value, "payload of an item "...), at)
		})
	})
	s.within("load", live, n)
	live = s.step("count", func() { s.count(n) })
	s.within("count", live, n)
	middle := engine.SKGreaterEqual(oneKey(mid).SK)
	s.step("100 from the middle, 1000 times", func() {
		for range 1000 {
			s.expect(engine.Query{PK: pk, SK: middle, Limit: 100}, mid, mid+99, 100)
		}
	})
	below := engine.SKLess(oneKey(mid).SK)
	s.step("100 backward, 1000 times", func() {
		for range 1000 {
			q := engine.Query{PK: pk, SK: below, Limit: 100, Reverse: true}
			s.expect(q, mid-1, mid-100, 100)
		}
	})
	s.step("last 100,000 backward", func() {
		s.expect(engine.Query{PK: pk, Limit: n / 100, Reverse: true}, n-1, n-n/100, n/100)
	})
	s.deleteMiddle(n, mid)
	s.step("close and open", func() {
		mustClose(t, s.db)
		s.open()
	})
	live = s.step("count after reopening", func() { s.count(n - n/10) })
	s.within("count after reopening", live, n)
	live = s.step("compact", func() { ok(t, s.db.Compact(ctx)) })
	s.within("compact", live, n)
	s.step("count when compact", func() { s.count(n - n/10) })
	if m := s.db.Metrics().Total; m.Records != uint64(n-n/10) {
		t.Errorf("%d records after Compact, want %d", m.Records, n-n/10)
	}
}

// deleteMiddle deletes a tenth of the partition in one range and reads across it.
func (s *scale) deleteMiddle(n, mid int) {
	lo, hi := mid-n/20, mid+n/20
	s.step("delete a tenth in the middle", func() {
		// SKBetween includes its end.
		ok(s.t, s.db.DeleteRange([]byte("one"),
			engine.SKBetween(oneKey(lo).SK, oneKey(hi-1).SK)))
	})
	across := func() {
		for range 1000 {
			q := engine.Query{
				PK: []byte("one"), SK: engine.SKGreaterEqual(oneKey(lo - 10).SK), Limit: 20,
			}
			s.expect(q, lo-10, hi+9, 20)
			q.SK, q.Reverse = engine.SKLess(oneKey(hi+10).SK), true
			s.expect(q, hi+9, lo-10, 20)
		}
	}
	s.step("20 across it both ways, 1000 times", across)
	s.step("flush", func() { ok(s.t, s.db.Flush(ctx)) })
	s.step("the same, flushed", across)
}

// Ten million of the smallest items worth storing, over all stripes, under budgets of
// 8 MiB: what remains in memory per item is what limits the number of items.
func TestScaleTinyItems(t *testing.T) {
	s := newScale(t, engine.Options{MemtableBytes: 8 << 20, CacheBytes: 8 << 20})
	n := s.items
	key := func(i int) engine.Key {
		return engine.Key{PK: binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)}
	}
	empty := s.step("empty", func() {})
	live := s.step("load", func() {
		s.load(0, n, func(i int, k *engine.Key, value []byte) []byte {
			k.PK = binary.BigEndian.AppendUint64(k.PK[:0], uint64(i)*0x9e3779b97f4a7c15)
			return append(value, byte(i))
		})
	})
	s.within("load", live, n)
	s.step("close and open", func() {
		mustClose(t, s.db)
		s.open()
	})
	get := func(from int, found bool) func() {
		return func() {
			r := rand.New(rand.NewPCG(1, uint64(from)))
			for range n / 20 {
				i := from + r.IntN(n)
				v, err := s.db.Get(key(i))
				if found != (err == nil) || (found && (len(v) != 1 || v[0] != byte(i))) {
					t.Fatalf("get of item %d: %x, %v", i, v, err)
				}
			}
		}
	}
	live = s.step(fmt.Sprintf("%d gets", n/20), get(0, true))
	s.within("gets", live, n)
	live = s.step(fmt.Sprintf("%d gets of absent keys", n/20), get(n, false))
	s.within("gets of absent keys", live, n)
	for _, unordered := range []bool{false, true} {
		live = s.step(fmt.Sprintf("scan, unordered %v", unordered), func() {
			rows := 0
			for it, err := range s.db.Scan(ctx, engine.Scan{Unordered: unordered}) {
				ok(t, err)
				if rows++; len(it.Value) != 1 {
					t.Fatalf("item %x has %d bytes", it.Key.PK, len(it.Value))
				}
			}
			if rows != n {
				t.Fatalf("%d items, want %d", rows, n)
			}
		})
		s.within("scan", live, n)
	}
	live = s.step("compact", func() { ok(t, s.db.Compact(ctx)) })
	s.within("compact", live, n)
	s.o.CacheBytes = 1 // nothing is cached: what is left is what open files cost
	s.step("close and open without a cache", func() {
		mustClose(t, s.db)
		s.open()
	})
	live = s.step("gets without a cache", get(0, true))
	files := s.db.Metrics().Total.Files
	t.Logf("live beside the budgets: %d bytes, %.2f an item, %d a file; %d when empty", live,
		float64(live)/float64(n), live/uint64(files), empty)
}

// While flushes are held up the log may get more for one stripe than a memtable can
// address; after a crash all of it is there.
//
// Promise (manners): A log with more for a stripe than a memtable holds is replayed. Also (`make
// scale`).
func TestScaleReplayOfOneStripe(t *testing.T) {
	s := newScale(t, engine.Options{MemtableBytes: 4 << 30, CacheBytes: 1})
	const items, valueBytes = 75_000, 17 << 10 // each in a chunk of its own
	mustClose(t, s.db)
	full, err := engine.OpenFS(vfstest.NewFault(vfs.OS(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
			return vfs.ErrNoSpace
		}
		return nil
	}), s.dir, &s.o)
	ok(t, err)
	s.db = full
	s.step("load 1.2 GiB into the log", func() {
		value := make([]byte, valueBytes)
		for i := range items {
			binary.BigEndian.PutUint64(value, uint64(i))
			ok(t, s.db.Put(oneKey(i), value))
		}
	})
	killed := t.TempDir()
	ok(t, os.CopyFS(killed, os.DirFS(s.dir)))
	_ = full.Close() // says that the disk is full
	s.dir = killed
	s.step("replay it", s.open)
	s.step("read it", func() {
		s.expect(engine.Query{PK: []byte("one")}, 0, items-1, items)
	})
}
