package cache_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/cache"
)

type block struct{ data []byte }

func newBlock(n int) block { return block{data: make([]byte, n)} }

// TestBudget: the charge never passes the budget, whatever is inserted.
//
// Promise (manners): The cache keeps to its budget, files to their number. Also `TestFilesLimit`
// in `internal/cache`.
func TestBudget(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	c := cache.New(10_000)
	slots := make([]cache.Slot[block], 300)
	g := c.NewGroup(0)
	for i := range 5000 {
		s := &slots[rnd.IntN(len(slots))]
		if s.Get() == nil {
			n := rnd.IntN(2000)
			cache.Insert(g, s, newBlock(n), int64(n), 1+rnd.IntN(3))
		}
		if m := c.Metrics(); m.UsedBytes > m.BudgetBytes {
			t.Fatalf("step %d: %+v", i, m)
		}
		if i == 2500 {
			c.SetBudget(3000)
		}
	}
	cached := 0
	for i := range slots {
		if slots[i].Peek() != nil {
			cached++
		}
	}
	m := c.Metrics()
	if m.Entries != cached || m.Evictions == 0 || m.Inserts != m.Evictions+uint64(cached) {
		t.Errorf("%d slots are filled, %+v", cached, m)
	}
	g.Drop()
	if m := c.Metrics(); m.UsedBytes != 0 || m.Entries != 0 {
		t.Errorf("after Drop: %+v", m)
	}
}

// TestOwedBytes: what files have outside of the cache takes room from their values, down to a
// quarter of the budget, and gives it back.
func TestOwedBytes(t *testing.T) {
	const budget = 100_000
	c := cache.New(budget)
	slots := make([]cache.Slot[block], 300)
	fill := func() int64 {
		g := c.NewGroup(0)
		defer g.Drop()
		for i := range slots {
			if g.Admits(1000, false) {
				cache.Insert(g, &slots[i], newBlock(1000), 1000, 1)
			}
		}
		return c.Metrics().UsedBytes
	}
	var groups []*cache.Group
	for owed := int64(0); owed <= 2*budget; owed += 10_000 {
		room := max(budget-owed, budget/4)
		if used := fill(); used > room || used < room-2000 {
			t.Errorf("%d bytes are owed: the cache has %d, want about %d", owed, used, room)
		}
		groups = append(groups, c.NewGroup(10_000))
	}
	first := c.NewGroup(0)
	cache.Insert(first, &slots[0], newBlock(budget/5), budget/5, 1)
	for _, g := range groups {
		g.Drop()
		g.Drop()
	}
	if used := fill(); used < budget-2000 || used > budget {
		t.Errorf("nothing is owed any more: the cache has %d", used)
	}
}

// TestEvictedIsGarbage: evicted bytes make the runtime collect. The values claim what they do not
// have, so that it does not do so by itself.
func TestEvictedIsGarbage(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	before := forced()
	g := cache.New(16 << 20).NewGroup(0)
	slots := make([]cache.Slot[block], 1000)
	for i := range slots {
		cache.Insert(g, &slots[i], newBlock(1), 1<<20, 1)
	}
	for range 100_000 {
		if forced() > before {
			return
		}
		runtime.Gosched()
	}
	t.Error("no collection is asked for")
}

// TestReplace: a value takes the place of another, whose bytes are given back.
func TestReplace(t *testing.T) {
	c := cache.New(10_000)
	g := c.NewGroup(0)
	var s cache.Slot[block]
	for _, n := range []int{3000, 5000, 4000} {
		cache.Replace(g, &s, newBlock(n), int64(n), 1)
		if b := s.Get(); b == nil || len(b.data) != n {
			t.Errorf("%d bytes are not there", n)
		}
		if m := c.Metrics(); m.Entries != 1 || m.UsedBytes > int64(n)+200 {
			t.Errorf("%d bytes: %+v", n, m)
		}
	}
	g.Drop()
	cache.Replace(g, &s, newBlock(1), 1, 1)
	if m := c.Metrics(); s.Get() != nil || m.UsedBytes != 0 {
		t.Errorf("after Drop: %+v", m)
	}
}

// TestRoot: what a root has the slots of goes with it, and nothing else, also if it is the root of
// A value whose root gives way to it is not cached: nobody would find it, nor drop it.
func TestRootGivesWayToItsValue(t *testing.T) {
	c := cache.New(1000)
	g := c.NewGroup(0)
	of := g.Part()
	var root, value cache.Slot[block]
	cache.InsertRoot(g, &root, block{}, 600, 1, of)
	cache.Insert(of, &value, block{}, 600, 1)
	if m := c.Metrics(); root.Peek() != nil || m.Entries != 0 || m.UsedBytes != 0 {
		t.Errorf("%d entries, %d bytes of a root that has gone", m.Entries, m.UsedBytes)
	}
}

// more itself; what is put there later is not kept.
func TestRoot(t *testing.T) {
	c := cache.New(10_000)
	g, other := c.NewGroup(0), c.NewGroup(0)
	var root, part cache.Slot[[]cache.Slot[block]]
	ofRoot := g.Part()
	ofPart := ofRoot.Part()
	slots := cache.InsertRoot(g, &root, make([]cache.Slot[block], 3), 100, 1, ofRoot)
	of := cache.InsertRoot(ofRoot, &part, make([]cache.Slot[block], 1), 10, 1, ofPart)
	cache.Insert(ofRoot, &(*slots)[0], newBlock(1000), 1000, 1)
	cache.Insert(ofPart, &(*of)[0], newBlock(10), 10, 1)
	var beside cache.Slot[block]
	cache.Insert(other, &beside, newBlock(1000), 1000, 1)
	beside.Get()
	cache.Insert(ofRoot, &(*slots)[1], newBlock(1000), 1000, 1)
	for _, s := range []*cache.Slot[block]{&(*slots)[0], &(*slots)[1], &(*of)[0]} {
		s.Get()
	}
	part.Get()
	c.SetBudget(3800)
	var last cache.Slot[block]
	cache.Insert(other, &last, newBlock(1000), 1000, 1) // the hand is at the root
	if root.Peek() != nil || (*slots)[0].Peek() != nil || (*slots)[1].Peek() != nil ||
		part.Peek() != nil || (*of)[0].Peek() != nil || beside.Peek() == nil || last.Peek() == nil {
		t.Errorf("the root is there: %t", root.Peek() != nil)
	}
	if m := c.Metrics(); m.Entries != 2 || m.Evictions != 5 {
		t.Errorf("%+v", m)
	}
	cache.Insert(ofRoot, &(*slots)[2], newBlock(10), 10, 1) // by a reader that has the slots
	cache.InsertRoot(ofRoot, &part, make([]cache.Slot[block], 1), 10, 1, ofPart)
	if (*slots)[2].Peek() != nil || part.Peek() != nil || ofPart.Admits(1, false) {
		t.Errorf("something of the group stays: %+v", c.Metrics())
	}
	g.Drop()
	other.Drop()
	if m := c.Metrics(); m.UsedBytes != 0 || m.Entries != 0 {
		t.Errorf("after Drop: %+v", m)
	}
}

// TestTooLarge: a value beyond the budget is usable and not cached, and pushes
// nothing out.
func TestTooLarge(t *testing.T) {
	c := cache.New(1000)
	g := c.NewGroup(0)
	var small, large cache.Slot[block]
	cache.Insert(g, &small, newBlock(10), 10, 1)
	if b := cache.Insert(g, &large, newBlock(5000), 5000, 1); len(b.data) != 5000 {
		t.Error("the value is not returned")
	}
	if large.Get() != nil || small.Get() == nil || c.Metrics().Rejects != 1 {
		t.Errorf("%+v", c.Metrics())
	}
}

// TestUsedEntriesStay: what is read between insertions survives those that are not.
func TestUsedEntriesStay(t *testing.T) {
	c := cache.New(100 * 1024)
	g := c.NewGroup(0)
	hot := make([]cache.Slot[block], 20)
	cold := make([]cache.Slot[block], 2000)
	for i := range hot {
		cache.Insert(g, &hot[i], newBlock(800), 800, 1)
	}
	for i := range cold {
		for j := range hot {
			if hot[j].Get() == nil {
				t.Fatalf("hot entry %d is gone after %d insertions", j, i)
			}
		}
		cache.Insert(g, &cold[i], newBlock(800), 800, 1)
	}
}

// TestWeight: of two entries used once, the heavier one stays longer.
func TestWeight(t *testing.T) {
	c := cache.New(50 * 1024)
	g := c.NewGroup(0)
	var light, heavy cache.Slot[block]
	cache.Insert(g, &light, newBlock(800), 800, 1)
	cache.Insert(g, &heavy, newBlock(800), 800, 3)
	light.Get()
	heavy.Get()
	cold := make([]cache.Slot[block], 1000)
	lightGone := 0
	for i := range cold {
		cache.Insert(g, &cold[i], newBlock(800), 800, 1)
		if light.Peek() == nil && lightGone == 0 {
			lightGone = i
		}
		if heavy.Peek() == nil {
			if lightGone == 0 || i < 2*lightGone {
				t.Fatalf("the heavy entry went after %d insertions, the light one after %d", i,
					lightGone)
			}
			return
		}
	}
	t.Error("the heavy entry stays for ever")
}

// TestDropRefuses: after Drop nothing is cached any more, so nothing can leak.
func TestDropRefuses(t *testing.T) {
	c := cache.New(10_000)
	g, other := c.NewGroup(0), c.NewGroup(0)
	var a, b, kept cache.Slot[block]
	cache.Insert(g, &a, newBlock(100), 100, 1)
	cache.Insert(other, &kept, newBlock(100), 100, 1)
	held := a.Get()
	g.Drop()
	g.Drop()
	if a.Get() != nil || len(held.data) != 100 || kept.Get() == nil {
		t.Error("Drop took too little or too much")
	}
	if v := cache.Insert(g, &b, newBlock(7), 7, 1); len(v.data) != 7 || b.Get() != nil {
		t.Error("an insertion after Drop is cached or lost")
	}
	if m := c.Metrics(); m.Entries != 1 {
		t.Errorf("%+v", m)
	}
}

// TestDropReleasesMemory: dropped and evicted values are garbage.
func TestDropReleasesMemory(t *testing.T) {
	c := cache.New(64 << 20)
	g := c.NewGroup(0)
	slots := make([]cache.Slot[block], 32)
	before := heapBytes()
	for i := range slots {
		cache.Insert(g, &slots[i], newBlock(1<<20), 1<<20, 1)
	}
	if full := heapBytes(); full < before+30<<20 {
		t.Fatalf("only %d bytes are held", full-before)
	}
	g.Drop()
	if after := heapBytes(); after > before+4<<20 {
		t.Errorf("%d bytes are still held", after-before)
	}
	runtime.KeepAlive(slots)
	runtime.KeepAlive(c)
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestConcurrent: readers, inserters and droppers at once; values never mix.
func TestConcurrent(t *testing.T) {
	c := cache.New(40_000)
	type file struct {
		g     *cache.Group
		slots []cache.Slot[block]
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	newFile := func() *file { return &file{g: c.NewGroup(0), slots: make([]cache.Slot[block], 64)} }
	current := newFile()
	for w := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for range 4000 {
				mu.Lock()
				f := current
				mu.Unlock()
				i := rnd.IntN(len(f.slots))
				b := f.slots[i].Get()
				if b == nil {
					b = cache.Insert(f.g, &f.slots[i], newBlock(100*i), int64(100*i), 1)
				}
				if len(b.data) != 100*i {
					t.Errorf("slot %d holds %d bytes", i, len(b.data))
					return
				}
				if rnd.IntN(1000) == 0 {
					mu.Lock()
					current = newFile()
					mu.Unlock()
					f.g.Drop()
				}
			}
		})
	}
	wg.Wait()
	current.g.Drop()
	if m := c.Metrics(); m.UsedBytes != 0 || m.Entries != 0 {
		t.Errorf("after dropping everything: %+v", m)
	}
}

// TestHitAllocates: a hit allocates nothing.
func TestHitAllocates(t *testing.T) {
	c := cache.New(10_000)
	var s cache.Slot[block]
	cache.Insert(c.NewGroup(0), &s, newBlock(10), 10, 1)
	if n := testing.AllocsPerRun(100, func() { s.Get() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestStriped: additions of all goroutines are counted.
func TestStriped(t *testing.T) {
	var s cache.Striped
	var wg sync.WaitGroup
	var tenths atomic.Int64
	for range 50 {
		wg.Go(func() {
			for range 100 {
				s.Add(3, 2)
				if s.Add(4, 1)%10 == 0 {
					tenths.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if s.Load(3) != 10_000 || s.Load(2) != 0 {
		t.Errorf("%d, %d", s.Load(3), s.Load(2))
	}
	if n := tenths.Load(); n > 500 || n <= 500-32 {
		t.Errorf("%d of 5000 additions were tenth ones", n)
	}
}

func BenchmarkHit(b *testing.B) {
	c := cache.New(1 << 30)
	g := c.NewGroup(0)
	slots := make([]cache.Slot[block], 16384)
	for i := range slots {
		cache.Insert(g, &slots[i], block{}, 16, 1)
	}
	b.ReportAllocs()
	i := uint32(1)
	for b.Loop() {
		i = i*1664525 + 1013904223
		slots[i>>18].Get()
	}
}

func BenchmarkInsertEvict(b *testing.B) {
	c := cache.New(1 << 20)
	g := c.NewGroup(0)
	slots := make([]cache.Slot[block], 16384)
	b.ReportAllocs()
	i := uint32(1)
	for b.Loop() {
		i = i*1664525 + 1013904223
		if s := &slots[i>>18]; s.Get() == nil {
			cache.Insert(g, s, block{}, 4096, 1)
		}
	}
}

// TestAdmits: while there is room everything is admitted; then every fourth value, and
// none that is read only once.
func TestAdmits(t *testing.T) {
	c := cache.New(1000)
	g := c.NewGroup(0)
	if !g.Admits(500, true) || g.Admits(1001, false) {
		t.Error("room for 500 bytes of 1000, not for 1001")
	}
	var s cache.Slot[block]
	cache.Insert(g, &s, newBlock(700), 700, 1)
	admitted := 0
	for range 100 {
		if g.Admits(500, true) {
			t.Fatal("what is read once pushes something out")
		}
		if g.Admits(500, false) {
			admitted++
		}
	}
	if admitted != 25 {
		t.Errorf("%d of 100 admitted", admitted)
	}
	if g.Drop(); g.Admits(1, false) {
		t.Error("a dropped group admits")
	}
}
