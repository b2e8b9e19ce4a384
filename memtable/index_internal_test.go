package memtable

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/base"
)

func numbered(n uint64) (key []byte, hash uint64) {
	key = binary.BigEndian.AppendUint64(nil, n)
	return key, base.Hash(key, 0)
}

func (t *Table) putNumbered(n uint64) {
	key, hash := numbered(n)
	t.Put(key, hash, base.SeqNum(n+1), base.KindPut, 0, key, 0)
}

func (t *Table) hasNumbered(n uint64) bool {
	key, hash := numbered(n)
	var e base.Entry
	return t.Get(key, hash, base.MaxSeqNum, &e)
}

// Readers of absent keys do not wait for each other, nor for a writer.
func TestAbsentKeysTakeNoLock(t *testing.T) {
	tab := New(Options{})
	tab.putNumbered(1)
	tab.mu.Lock()
	defer tab.mu.Unlock()
	found := make(chan bool, 1)
	go func() { found <- tab.hasNumbered(2) }()
	select {
	case f := <-found:
		if f {
			t.Error("an absent key is found")
		}
	case <-time.After(10 * time.Second):
		t.Error("a lookup of an absent key waits for the lock")
	}
}

// A key is found from the moment its Put has returned, also while the index grows.
func TestKeysAreFoundWhileTheIndexGrows(t *testing.T) {
	const keys = 20_000
	tab := New(Options{})
	var done atomic.Uint64
	var wg sync.WaitGroup
	for r := range uint64(2) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(r, 1))
			for n := uint64(0); n < keys && !t.Failed(); {
				if n = done.Load(); n == 0 {
					continue
				}
				tab.hasNumbered(n) // it is being put
				if i := max(1, n-rnd.Uint64N(min(n, 8))) - 1; !tab.hasNumbered(i) {
					t.Errorf("key %d of %d is missing", i, n)
				}
				if i := rnd.Uint64N(n); !tab.hasNumbered(i) {
					t.Errorf("key %d of %d is missing", i, n)
				}
			}
		})
	}
	for n := range uint64(keys) {
		tab.putNumbered(n)
		done.Store(n + 1)
	}
	wg.Wait()
	if tab.hasNumbered(keys) {
		t.Error("an absent key is found")
	}
}
