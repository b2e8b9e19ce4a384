//go:build !invariants

package memtable

import "github.com/kstonedb/kstone/internal/base"

// The checks for mistakes of the calling code; builds with the invariants tag have them.

func (t *Table) checkPutLocked([]byte, uint64) {}

func (t *Table) checkWriteLocked() {}

func checkVersion(base.SeqNum, base.SeqNum) {}
