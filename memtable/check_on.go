//go:build invariants

package memtable

import "github.com/kstonedb/kstone/internal/base"

// checkPutLocked panics where a Put breaks what Put requires.
func (t *Table) checkPutLocked(key []byte, hash uint64) {
	t.checkWriteLocked()
	if t.seed != 0 && hash != base.Hash(key, t.seed) {
		panic("memtable: hash does not belong to the key")
	}
}

// checkWriteLocked panics if the table is frozen.
func (t *Table) checkWriteLocked() {
	if t.frozen() {
		panic("memtable: write to a frozen table")
	}
}

// checkVersion panics if a version of a key is older than the newest one.
func checkVersion(newest, next base.SeqNum) {
	if newest > next {
		panic("memtable: sequence number of a key goes back")
	}
}
