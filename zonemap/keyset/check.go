package keyset

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// A checkBuffer collects keys for one call of CheckKeys or CheckBytes.
type checkBuffer struct {
	keys    []uint64
	bytes   [][]byte
	present []bool
	who     []uint16
}

// add adds a key; bytes is nil for an integer.
func (b *checkBuffer) add(head uint64, bytes []byte) {
	if bytes == nil {
		b.keys = append(b.keys, head)
	} else {
		b.bytes = append(b.bytes, bytes)
	}
	b.present = append(b.present, false)
}

func (b *checkBuffer) reset() {
	clear(b.bytes)
	b.keys, b.bytes, b.present, b.who = b.keys[:0], b.bytes[:0], b.present[:0], b.who[:0]
}

// run asks the function of the options about the keys. Keys of one call are all integers
// or all bytes. Integers are passed as bytes where there is only a function for bytes,
// and bytes as integers the other way round: eight bytes and the number are one key.
func (b *checkBuffer) run(o *SetOptions, seg *Segment) error {
	switch {
	case len(b.bytes) > 0 && o.CheckBytes != nil:
		return o.CheckBytes(seg, b.bytes, b.present)
	case len(b.bytes) == 0 && o.CheckKeys != nil:
		return o.CheckKeys(seg, b.keys, b.present)
	case len(b.bytes) > 0:
		return b.runAsKeys(o, seg)
	}
	asBytes := make([][]byte, len(b.keys))
	for i, k := range b.keys {
		asBytes[i] = keyBytes(k)
	}
	return o.CheckBytes(seg, asBytes, b.present)
}

func (b *checkBuffer) runAsKeys(o *SetOptions, seg *Segment) error {
	var keys []uint64
	var at []int
	for i, k := range b.bytes {
		if len(k) == 8 {
			keys, at = append(keys, base.KeyHead(k)), append(at, i)
		} else if !seg.ints { // else it cannot be among the keys
			return fmt.Errorf("%w for bytes", ErrNoKeys)
		}
	}
	present := make([]bool, len(keys))
	if err := o.CheckKeys(seg, keys, present); err != nil {
		return err
	}
	for j, i := range at {
		b.present[i] = present[j]
	}
	return nil
}

// checkByReader asks the function of the options about hits on segments that store no
// keys, one call for each segment.
func (sc *scratch) checkByReader(hits []hit) error {
	b := &sc.check
	for len(hits) > 0 {
		seg := hits[0].candidate.segment
		hits = slices.DeleteFunc(hits, func(h hit) bool {
			if h.candidate.segment != seg {
				return false
			}
			var key []byte
			if sc.keys != nil {
				key = notNil(sc.keys[h.key])
			}
			b.add(sc.heads[h.key], key)
			b.who = append(b.who, h.key)
			return true
		})
		err := b.run(&sc.set.opts, seg)
		for i, yes := range b.present {
			if yes {
				sc.found[b.who[i]>>6] |= 1 << (b.who[i] & 63)
				sc.confirmed++
			}
		}
		b.reset()
		if err != nil {
			return err
		}
	}
	return nil
}
