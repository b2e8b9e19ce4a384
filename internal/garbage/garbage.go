// Package garbage asks the runtime to collect when what kstone has let go is large for what lives.
//
// The naive way leaves that to the runtime. By GOGC=100 it collects when the heap has doubled.
// Write buffers and cached blocks are most of this heap; they hold no pointers, so a collection
// costs next to nothing, and the second half of the heap costs as much memory as they.
//
// The way taken counts the bytes of flushed memtables and evicted blocks, in the whole process,
// because its databases share one heap. A collection is due when they reach a share of what lives
// and, so that programs with a large heap of their own pay little, what a collection scans for
// pointers.
package garbage

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
)

const (
	// minBytes is not worth a collection.
	minBytes = 4 << 20
	// liveShare is the part of what lives that garbage may be.
	liveShare = 8
	// off is a GOGC that never makes the runtime collect.
	off = 1 << 20
)

// Add counts n bytes that nothing but readers of the moment refers to any more. It takes less than
// a microsecond; a collection runs in a goroutine of its own. Safe for concurrent use.
func Add(n int64) { process.add(n) }

var process = counter{read: readHeap, collect: runtime.GC}

// counter counts garbage since the runtime last collected.
type counter struct {
	read    func() heap
	collect func()

	mu      sync.Mutex
	bytes   int64  // guarded by mu
	cycles  uint64 // guarded by mu; collections when bytes were last counted
	running bool   // guarded by mu
}

// heap is what the runtime reports about its heap.
type heap struct {
	cycles  uint64 // completed collections
	live    uint64 // bytes that the last one has kept
	scanned uint64 // bytes that one looks at for pointers
	percent uint64 // GOGC
}

// limit returns the bytes that are worth a collection. They grow with GOGC, which trades memory
// for processor time.
func (h heap) limit() int64 {
	if h.percent > off {
		return math.MaxInt64
	}
	return max(minBytes, int64(h.live/liveShare), int64(h.scanned)) * int64(h.percent) / 100
}

func (c *counter) add(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.read()
	if h.cycles != c.cycles {
		c.cycles, c.bytes = h.cycles, 0
	}
	c.bytes += n
	if c.running || c.bytes < h.limit() {
		return
	}
	c.running = true
	go func() {
		c.collect()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running = false
	}()
}

func readHeap() heap {
	s := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/total:bytes"}, {Name: "/gc/gogc:percent"},
	}
	metrics.Read(s)
	return heap{s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64(), s[3].Value.Uint64()}
}
