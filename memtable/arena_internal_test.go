package memtable

import (
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestChunksComeBack checks that chunk indexes and memory of dead chunks are used
// again: otherwise overwrites of large values would run out of the 65,535 indexes.
func TestChunksComeBack(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	tab := New(Options{})
	value := make([]byte, maxSharedRecord)
	for seq := base.SeqNum(1); seq <= 2*maxChunks; seq++ {
		tab.Put([]byte("k"), 1<<40, seq, base.KindPut, 0, value, seq-1)
	}
	if n := len(tab.arena.chunks); n > 20 {
		t.Errorf("%d chunk indexes for one key of two versions", n)
	}
}

// TestMixedSizes overwrites a key with small and large values in turn, so that the
// chunk being filled has no live record for a while.
func TestMixedSizes(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	tab := New(Options{})
	small, large := make([]byte, 5000), make([]byte, 2*maxSharedRecord)
	tab.Put([]byte("k"), 0, 1, base.KindPut, 0, large, 0)
	for i := range base.SeqNum(30_000) {
		value := large
		if i%3 == 0 {
			value = small
			value[0] = byte(i)
		}
		tab.Put([]byte("k"), 0, i+2, base.KindPut, 0, value, i+1)
		var e base.Entry
		tab.Get([]byte("k"), 0, i+2, &e)
		if len(e.Value) != len(value) || e.Value[0] != value[0] {
			t.Fatalf("overwrite %d: wrong value", i)
		}
	}
	if tab.Bytes() > 500<<10 {
		t.Errorf("%d bytes held for two versions", tab.Bytes())
	}
}

// TestTrimCost checks that overwrites under a held snapshot walk the chain, which they
// cannot cut, ever more rarely.
func TestTrimCost(t *testing.T) {
	tab := New(Options{})
	walks := 0
	last := uint32(0)
	for seq := base.SeqNum(1); seq <= 10_000; seq++ {
		tab.Put([]byte("k"), 0, seq, base.KindPut, 0, nil, 0)
		node := tab.index.find(tab.arena.chunks, []byte("k"), 0)
		budget := tab.arena.chunks.word(node, nodeBudget)
		if budget > last {
			walks++
		}
		last = budget
	}
	if walks > 20 {
		t.Errorf("the chain was walked %d times in 10,000 overwrites", walks)
	}
}
