package store

import "sync"

// keyLocks make a read and a write of one key one step, for engines that have no
// conditional write: what their users do.
type keyLocks [256]sync.Mutex

// lock takes the lock of a key and returns what gives it back.
func (l *keyLocks) lock(key []byte) (unlock func()) {
	h := uint32(2166136261) // FNV-1a
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	mu := &l[uint8(h^h>>8^h>>16)]
	mu.Lock()
	return mu.Unlock
}
