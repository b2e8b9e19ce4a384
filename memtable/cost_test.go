package memtable_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/memtable"
)

// heapBytes returns the live heap.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryOfEmptyTables(t *testing.T) {
	for _, c := range []struct {
		keys  int
		limit int64 // bytes a table
		what  string
	}{
		{keys: 0, limit: 1 << 10, what: "empty"},
		{keys: 1, limit: 7 << 10, what: "with one key"},
	} {
		before := heapBytes()
		tabs := make([]*memtable.Table, 256)
		for i := range tabs {
			tabs[i] = memtable.New(memtable.Options{})
			if c.keys > 0 {
				put(tabs[i], "key", 1, "value")
			}
		}
		if held := (heapBytes() - before) / 256; held > c.limit {
			t.Errorf("a table %s holds %d bytes, limit %d", c.what, held, c.limit)
		}
		if got := tabs[0].Bytes(); got > c.limit {
			t.Errorf("a table %s says it holds %d bytes, limit %d", c.what, got, c.limit)
		}
		runtime.KeepAlive(tabs)
	}
}

// TestBytes compares Bytes with what the heap says.
func TestBytes(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, c := range []struct {
		name   string
		keys   int
		random bool
		value  int
	}{
		{"random keys, small values", 50_000, true, 10},
		{"rising keys, small values", 50_000, false, 10},
		{"some values of their own chunk", 2_000, true, 17_000},
		{"few keys", 1_000, true, 100},
	} {
		rnd := rand.New(rand.NewPCG(1, 1))
		value := make([]byte, c.value)
		before := heapBytes()
		tab := memtable.New(memtable.Options{})
		for i := range c.keys {
			key := fmt.Appendf(nil, "user%012d", i)
			if c.random {
				key = fmt.Appendf(nil, "user%020d", rnd.Uint64())
			}
			tab.Put(key, hashOf(key), base.SeqNum(i+1), base.KindPut, 0, value, 0)
		}
		for _, state := range []string{"active", "flattened"} {
			held := heapBytes() - before
			if got := tab.Bytes(); got < held*85/100 || got > held*115/100 {
				t.Errorf("%s, %s: Bytes says %d, the heap %d (%.1f bytes a key)",
					c.name, state, got, held, float64(got-held)/float64(c.keys))
			}
			tab.Freeze()
			tab.NewSource()
		}
		runtime.KeepAlive(tab)
	}
}

// An empty table counts as nothing, and is small however long the keys before it were.
func TestEmptyTableIsSmall(t *testing.T) {
	key := bytes.Repeat([]byte{'k'}, 64<<10)
	tab := memtable.New(memtable.Options{})
	if n := tab.Bytes(); n != 0 {
		t.Errorf("an empty table counts as %d bytes", n)
	}
	tab.Put(key, hashOf(key), 1, base.KindPut, 0, nil, 0)
	if n := tab.Bytes(); n < int64(len(key)) {
		t.Errorf("a table with a key of %d bytes counts as %d", len(key), n)
	}
	tab.Freeze()
	prefix := tab.CommonPrefix()
	if len(prefix) > 256 || !bytes.HasPrefix(key, prefix) {
		t.Errorf("the common prefix has %d bytes", len(prefix))
	}
	const tables = 100
	all := make([]*memtable.Table, tables)
	before := heapBytes()
	for i := range all {
		all[i] = memtable.New(memtable.Options{Prefix: key})
		if n := all[i].Bytes(); n != 0 {
			t.Fatalf("an empty table counts as %d bytes", n)
		}
	}
	if n := (heapBytes() - before) / tables; n > 1<<10 {
		t.Errorf("an empty table takes %d bytes, want at most 1 KiB", n)
	}
	runtime.KeepAlive(all)
	next := all[0]
	next.DeleteRange(base.RangeTombstone{Start: key, End: append(key, 0), Seq: 2})
	if n := next.Bytes(); n < int64(2*len(key)) {
		t.Errorf("a table with a range tombstone counts as %d bytes", n)
	}
}

func TestAllocations(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const n = 20_000
	keys, hashes := testKeys(n)
	value := make([]byte, 100)
	tab := memtable.New(memtable.Options{})
	seq := base.SeqNum(0)
	next := 0
	measure := func(what string, limit float64, f func()) {
		t.Helper()
		if got := testing.AllocsPerRun(n-1, f); got > limit {
			t.Errorf("%s: %v allocations, limit %v", what, got, limit)
		}
	}
	// AllocsPerRun rounds down; exact does not.
	exact := func(what string, limit float64, f func()) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			f()
		}
		runtime.ReadMemStats(&after)
		if got := float64(after.Mallocs-before.Mallocs) / n; got > limit {
			t.Errorf("%s: %.3f allocations a call, limit %v", what, got, limit)
		}
	}
	exact("put of a new key", 0.1, func() {
		seq++
		tab.Put(keys[next], hashes[next], seq, base.KindPut, 0, value, seq-1)
		next++
	})
	exact("overwrite", 0.02, func() {
		seq, next = seq+1, (next+1)%n
		tab.Put(keys[next], hashes[next], seq, base.KindPut, 0, value, seq-1)
	})
	c := tab.NewCursor(seq)
	for _, state := range []string{"active", "frozen"} {
		var e base.Entry
		measure(state+" get", 0, func() {
			next = (next + 1) % n
			tab.Get(keys[next], hashes[next], seq, &e)
		})
		tab.InitCursor(c, seq)
		measure(state+" next", 0, func() {
			if !c.Next() {
				c.First()
			}
		})
		measure(state+" prev", 0, func() {
			if !c.Prev() {
				c.Last()
			}
		})
		measure(state+" seeks of a reused cursor", 0, func() {
			next = (next + 1) % n
			tab.InitCursor(c, seq)
			c.SeekGE(keys[next])
			c.SeekLT(keys[next])
		})
		tab.Freeze()
		tab.NewSource()
	}
	src := tab.NewSource()
	src.Rows() // makes room for the others
	measure("source", 0, func() { src.Rows() })
}
