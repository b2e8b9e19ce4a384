package kv

import "github.com/kstonedb/kstone/keycodec"

// keyPrefix is what several ordered keys begin with, decoded once for all of them. Why: most bytes
// of the keys of a block are the same, and numbers in them are full of zeros, which are decoded one
// by one.
//
// Format: esc(PK) 00 00 SK, where esc replaces 00 by 00 01: see package keycodec.
type keyPrefix struct {
	pk    []byte // decoded, and memory for the rest
	known int    // bytes of pk that are the same in all keys
	from  int    // what follows them in the ordered form
	back  int    // how far before it the last of them begins
	whole bool   // they are the partition key, and from is the sort key
}

// init makes it the prefix of ordered keys that begin with b. It takes over the memory of the one
// before.
func (p *keyPrefix) init(b []byte) {
	p.pk, p.from, p.back, p.whole = p.pk[:0], 0, 0, false
	for p.from < len(b) {
		c, n := b[p.from], 1
		if c == 0 {
			if n = 2; p.from+1 == len(b) || b[p.from+1] > 1 {
				break // it goes on in the keys, or is damaged
			}
			if b[p.from+1] == 0 {
				if p.whole = len(p.pk) > 0; p.whole {
					p.from += n
				}
				break
			}
		}
		p.pk = append(p.pk, c)
		p.from, p.back = p.from+n, n
	}
	p.known = len(p.pk)
}

// plainKey reports whether what is left of an ordered key has no zeros before its end, and no sort
// key: most are numbers.
func plainKey(rest []byte) bool {
	n := len(rest) - 2
	for i, c := range rest {
		if c == 0 {
			return i == n && rest[n+1] == 0
		}
	}
	return false
}

// decode is keycodec.DecodeOrdered of a key that begins with the prefix.
//
// Ownership: the SK is a view into b; the PK is valid until the next call, and not to be changed.
func (p *keyPrefix) decode(b, scratch []byte) (k Key, scratch2 []byte, err error) {
	if p.known == 0 {
		return keycodec.DecodeOrdered(b, scratch)
	}
	switch rest := b[p.from:]; {
	case p.whole:
		if len(rest) > 0 {
			k.SK = rest
		}
	case plainKey(rest):
		p.pk = append(p.pk[:p.known], rest[:len(rest)-2]...)
	default: // a partition key has a byte
		k, scratch, err = keycodec.DecodeOrdered(b[p.from-p.back:], scratch)
		p.pk = append(p.pk[:p.known-1], k.PK...)
	}
	k.PK = p.pk[:len(p.pk):len(p.pk)]
	if err != nil || len(k.PK) > keycodec.MaxKeyBytes || len(k.SK) > keycodec.MaxKeyBytes {
		return keycodec.DecodeOrdered(b, scratch) // for the place in the whole key
	}
	return k, scratch, nil
}

// PKOf returns the PK of an ordered key, or of the start of a range in one partition, that this
// program has encoded. Why it looks at the partition key alone: the range after a sort key of
// MaxKeyBytes starts at a sort key that is a byte longer, which is not a key.
func PKOf(ordered []byte) []byte {
	n, _ := keycodec.OrderedPKLen(ordered)
	k, _, err := keycodec.DecodeOrdered(ordered[:n], nil)
	if err != nil {
		return nil // not reachable
	}
	return k.PK
}
