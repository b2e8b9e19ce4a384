package memtable

import "github.com/kstonedb/kstone/internal/base"

// checkPutLocked panics where a Put breaks what Put requires. Builds with the
// invariants tag call it.
func (t *Table) checkPutLocked(key []byte, hash uint64) {
	if t.state.Load() == stateFrozen {
		panic("memtable: write to a frozen table")
	}
	if t.seed != 0 && hash != base.Hash(key, t.seed) {
		panic("memtable: hash does not belong to the key")
	}
}
