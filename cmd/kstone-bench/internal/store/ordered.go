package store

import (
	"bytes"
	"sync"
)

// span is a part of all records in the order of keys: those of [lo, hi), where nil means
// unbounded, at most limit, 0 for all, the highest first if reverse. All start with prefix.
type span struct {
	lo, hi, prefix []byte
	limit          int
	reverse        bool
}

// beyond reports whether a key lies after the end, in the direction of the iteration.
func (s *span) beyond(key []byte) bool {
	if s.reverse {
		return bytes.Compare(key, s.lo) < 0
	}
	return s.hi != nil && bytes.Compare(key, s.hi) >= 0
}

// engineStore is what an engine with one order of keys does in its own way.
type engineStore interface {
	Put(k Key, value []byte) error
	Get(dst []byte, k Key) (value []byte, ok bool, err error)
	iterate(s span, each func(Row) bool) error
}

// ordered has the operations that follow from those of an engine. An engine embeds it, and
// has a method of its own for what it can do better.
type ordered struct {
	of    engineStore
	locks [256]keyLock
}

type keyLock struct {
	sync.Mutex
	buf []byte // guarded by the lock
}

// Query iterates over the keys that start with the partition key.
func (o *ordered) Query(q Query, each func(Row) bool) error {
	lo := append(append(make([]byte, 0, 64), q.PK...), q.From...)
	return o.of.iterate(span{lo, prefixEnd(q.PK), q.PK, q.Limit, q.Reverse}, each)
}

// prefixEnd returns the first key after all that start with p. The keys of the benchmark are
// digits, so the last byte can be raised.
func prefixEnd(p []byte) []byte {
	p = append(make([]byte, 0, 64), p...)
	p[len(p)-1]++
	return p
}

func (o *ordered) Scan(from Key, limit int, each func(Row) bool) error {
	return o.of.iterate(span{lo: from.Bytes, limit: limit}, each)
}

func (o *ordered) ScanPart(p Part, each func(Row) bool) error {
	return o.of.iterate(span{lo: p.Lo, hi: p.Hi}, each)
}

// MultiGet reads one key after the other into one buffer.
func (o *ordered) MultiGet(keys []Key, each func(int, []byte)) error {
	return getEach(o.of.Get, keys, each)
}

// getEach is MultiGet by single reads.
func getEach(get func([]byte, Key) ([]byte, bool, error), keys []Key,
	each func(int, []byte)) error {
	var buf []byte
	for i, k := range keys {
		v, ok, err := get(buf[:0], k)
		if err != nil {
			return err
		}
		if buf = v; !ok {
			v = nil
		}
		each(i, v)
	}
	return nil
}

// PutIfAbsent makes a read and a write one step with a lock by key: what users of an engine
// without conditional writes do.
func (o *ordered) PutIfAbsent(k Key, value []byte) (bool, error) {
	l := o.lock(k)
	defer l.Unlock()
	old, present, err := o.of.Get(l.buf[:0], k)
	if l.buf = old; err != nil || present {
		return false, err
	}
	return true, o.of.Put(k, value)
}

// lock takes the lock of a key, by its folded FNV-1a.
func (o *ordered) lock(k Key) *keyLock {
	h := uint32(2166136261)
	for _, c := range k.Bytes {
		h = (h ^ uint32(c)) * 16777619
	}
	l := &o.locks[uint8(h^h>>8^h>>16)]
	l.Lock()
	return l
}

// Flush does nothing: the engine has no buffer, or no call that flushes it.
func (o *ordered) Flush() error { return nil }
