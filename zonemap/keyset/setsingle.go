package keyset

import (
	"runtime"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// Contains reports whether key is in a segment; without Exact it may also be true for a
// key that is not. The error is that of reading a filter or checking a positive.
func (s *Set) Contains(key uint64) (bool, error) {
	v := s.view.Load()
	if key-v.reach.lo > v.reach.hi-v.reach.lo {
		return false, nil
	}
	if c := v.index.sole[v.index.find(key)]; c != nil {
		yes := c.pass(base.Mix(key + v.seed))
		runtime.KeepAlive(v)
		return yes, nil
	}
	return v.single(s, key, key, nil)
}

// ContainsBytes is Contains for a key of bytes.
func (s *Set) ContainsBytes(key []byte) (bool, error) {
	v := s.view.Load()
	if len(v.segments) == 0 {
		return false, nil
	}
	return v.single(s, base.KeyHead(key), v.segments[0].hash.word(key), notNil(key))
}

// notNil distinguishes the empty key from none, where nil says that the key is an integer.
func notNil(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

// single asks about one key. Key is nil for an integer.
func (v *view) single(s *Set, head, word uint64, key []byte) (bool, error) {
	index := v.index
	at := index.find(head)
	if c := index.sole[at]; c != nil && (key == nil || !c.segment.ints) {
		yes := c.pass(base.Mix(word + v.seed))
		runtime.KeepAlive(v)
		return yes, nil
	}
	list := index.list(at)
	if len(list) == 0 {
		return false, nil
	}
	hash := base.Mix(word + v.seed)
	if pl := v.planes.Load(); pl != nil && len(list) > 1 {
		if yes, err := pl.single(s, v, head, word, hash, key); yes || err != nil {
			return yes, err
		}
		list = pl.rest.list(pl.rest.find(head))
	}
	for _, at := range list {
		if yes, err := v.askOne(s, &v.candidates[at], head, word, hash, key); yes || err != nil {
			return yes, err
		}
	}
	runtime.KeepAlive(v)
	return false, nil
}

// pass asks the filter of a simple candidate.
func (c *candidate) pass(hash uint64) bool {
	p0, p1, p2 := c.shape.Positions(hash, hash)
	t := unsafe.Pointer(c.table)
	return *(*byte)(unsafe.Add(t, p0))^*(*byte)(unsafe.Add(t, p1))^*(*byte)(unsafe.Add(t, p2)) ==
		byte(fuse.Fingerprint(hash))
}

// askOne asks one candidate, and checks a positive if the Set is exact.
func (v *view) askOne(s *Set, c *candidate, head, word, hash uint64, key []byte) (bool, error) {
	if head-c.zone.lo > c.zone.hi-c.zone.lo || key != nil && c.segment.ints && len(key) != 8 {
		return false, nil
	}
	p, table, err := c.of(hash)
	if err != nil {
		return false, err
	}
	if p.exact() {
		return p.dense(table, head), nil
	}
	if !p.probe(table, word, c.shardBits, p.wide(c.segment.bits)) {
		return false, nil
	}
	if !s.opts.Exact {
		return true, nil
	}
	return v.checkOne(s, c, p, head, key)
}

// checkOne looks a positive up.
func (v *view) checkOne(s *Set, c *candidate, p *part, head uint64, key []byte) (bool, error) {
	if c.segment.stored {
		if !p.covers(head) {
			return false, nil
		}
		keys, err := c.segment.storedKeys(p)
		if err != nil {
			return false, err
		}
		return keys.contains(head, key), nil
	}
	var b checkBuffer
	b.add(head, key)
	err := b.run(&s.opts, c.segment)
	return err == nil && b.present[0], err
}
