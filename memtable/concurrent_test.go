package memtable_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/memtable"
)

// The commits of the concurrent test are a function of their number, so that a
// reader knows what it has to see at any snapshot without sharing a model: commit s
// writes every key i with s%(i+1) == 0, and the value repeats s.
const concurrentKeys = 150

func concurrentKey(i int) []byte {
	return fmt.Appendf(nil, "%s%03d", [...]string{"", "tenant/", "\xff"}[i%3], i)
}

// wantSeq returns the last commit up to snap that wrote key i.
func wantSeq(i int, snap base.SeqNum) base.SeqNum { return snap - snap%base.SeqNum(i+1) }

func checkEntry(i int, e *base.Entry, snap base.SeqNum) error {
	want := wantSeq(i, snap)
	if e.Seq != want {
		return fmt.Errorf("key %d at %d: seq %d, want %d", i, snap, e.Seq, want)
	}
	if want%5 == 0 {
		if e.Kind != base.KindDelete {
			return fmt.Errorf("key %d at %d: not deleted", i, snap)
		}
		return nil
	}
	word := binary.BigEndian.AppendUint64(nil, uint64(want))
	if !bytes.Equal(e.Value, bytes.Repeat(word, 1+int(want)%50)) {
		return fmt.Errorf("key %d at %d: wrong value", i, snap)
	}
	return nil
}

// registry hands out snapshots and knows the horizon.
type registry struct {
	mu      sync.Mutex
	visible base.SeqNum
	inUse   map[base.SeqNum]int
}

func (r *registry) acquire() base.SeqNum {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inUse[r.visible]++
	return r.visible
}

func (r *registry) release(s base.SeqNum) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inUse[s]--; r.inUse[s] == 0 {
		delete(r.inUse, s)
	}
}

func (r *registry) publish(s base.SeqNum) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visible = s
}

func (r *registry) horizon() base.SeqNum {
	r.mu.Lock()
	defer r.mu.Unlock()
	low := r.visible
	for s := range r.inUse {
		low = min(low, s)
	}
	return low
}

func TestConcurrent(t *testing.T) {
	const commits = 3000
	tab := memtable.New(memtable.Options{Prefix: []byte("tenant/")})
	reg := &registry{inUse: map[base.SeqNum]int{}}
	var frozen atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for s := base.SeqNum(1); s <= commits; s++ {
			horizon := reg.horizon()
			word := binary.BigEndian.AppendUint64(nil, uint64(s))
			for i := range concurrentKeys {
				if s%base.SeqNum(i+1) != 0 {
					continue
				}
				kind, value := base.KindPut, bytes.Repeat(word, 1+int(s)%50)
				if s%5 == 0 {
					kind = base.KindDelete
				}
				key := concurrentKey(i)
				tab.Put(key, hashOf(key), s, kind, 0, value, horizon)
			}
			if s%100 == 0 {
				tab.DeleteRange(base.RangeTombstone{Start: word, End: word[:7], Seq: s})
			}
			reg.publish(s)
		}
		tab.Freeze()
		frozen.Store(true)
	})
	for r := range 3 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(r), 7))
			var c memtable.Cursor
			for last := false; !last && !t.Failed(); {
				last = frozen.Load()
				snap := reg.acquire()
				if err := readAll(tab, &c, snap, rnd); err != nil {
					t.Error(err)
				}
				reg.release(snap)
			}
		})
	}
	wg.Wait()
}

// readAll compares everything a snapshot shows, by point reads, both scans and a
// zigzag, with what it must show.
func readAll(tab *memtable.Table, c *memtable.Cursor, snap base.SeqNum, rnd *rand.Rand) error {
	if (snap > 0 && tab.Bytes() <= 0) || (snap >= 100 && !tab.HasRanges()) {
		return fmt.Errorf("counters are wrong at %d", snap)
	}
	if n := len(tab.RangeTombstones(nil, snap)); n != int(snap/100) {
		return fmt.Errorf("%d range tombstones at %d", n, snap)
	}
	visible := map[string]int{}
	for i := range concurrentKeys {
		key := concurrentKey(i)
		var e base.Entry
		found := tab.Get(key, hashOf(key), snap, &e)
		if found != (wantSeq(i, snap) > 0) {
			return fmt.Errorf("key %d at %d: found %v", i, snap, found)
		}
		if found {
			visible[string(key)] = i
			if err := checkEntry(i, &e, snap); err != nil {
				return err
			}
		}
	}
	tab.InitCursor(c, snap)
	check := func() error {
		i, ok := visible[string(c.Entry().Key)]
		if !ok {
			return fmt.Errorf("cursor shows %q at %d", c.Entry().Key, snap)
		}
		return checkEntry(i, c.Entry(), snap)
	}
	for _, m := range []struct{ start, step func() bool }{
		{c.First, c.Next}, {c.Last, c.Prev},
	} {
		n := 0
		for ok := m.start(); ok; ok = m.step() {
			if err := check(); err != nil {
				return err
			}
			n++
		}
		if n != len(visible) {
			return fmt.Errorf("cursor shows %d keys at %d, want %d", n, snap, len(visible))
		}
	}
	ok := c.SeekGE(concurrentKey(rnd.IntN(concurrentKeys)))
	for range 40 {
		if !ok {
			ok = c.SeekLT(concurrentKey(rnd.IntN(concurrentKeys)))
			continue
		}
		if err := check(); err != nil {
			return err
		}
		if rnd.IntN(2) == 0 {
			ok = c.Next()
		} else {
			ok = c.Prev()
		}
	}
	return nil
}

// TestConcurrentFreeze reads a frozen table from several goroutines at once: the first
// of them rearranges it.
func TestConcurrentFreeze(t *testing.T) {
	for range 20 {
		tab := memtable.New(memtable.Options{})
		for i := range 300 {
			put(tab, fmt.Sprintf("k%03d", i), 1, "v")
		}
		mid := tab.NewCursor(1)
		mid.SeekGE([]byte("k100"))
		tab.Freeze()
		var wg sync.WaitGroup
		wg.Go(func() {
			n := 1
			for mid.Next() {
				n++
			}
			if n != 200 {
				t.Errorf("a cursor on its way shows %d entries, want 200", n)
			}
		})
		wg.Go(func() {
			src, n := tab.NewSource(), 0
			for range cursor.All(src) {
				n++
			}
			if n != 300 {
				t.Errorf("the source has %d entries, want 300", n)
			}
		})
		wg.Go(func() {
			c := tab.NewCursor(1)
			if !c.SeekLT([]byte("k200")) || string(c.Entry().Key) != "k199" {
				t.Errorf("seek finds %q", c.Entry().Key)
			}
			if p := tab.CommonPrefix(); string(p) != "k" {
				t.Errorf("common prefix %q", p)
			}
		})
		wg.Wait()
	}
}

// Whoever has loaded the number of keys finds them, also the first one.
func TestCountedKeysAreFound(t *testing.T) {
	keys := [][]byte{[]byte("a"), []byte("b")}
	for range testutil.Effort(20_000, 1_000_000) {
		tab := memtable.New(memtable.Options{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, key := range keys {
				put(tab, string(key), 1, "v")
			}
		})
		for counted := uint64(0); counted < 2; {
			if counted = tab.Keys(); counted == 0 {
				runtime.Gosched()
				continue
			}
			if _, found := tab.Bound(nil, keys[counted-1], false); !found {
				t.Fatalf("%d keys are counted, the last one is not found", counted)
			}
		}
		wg.Wait()
	}
}
