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
	whole bool   // they are the partition key, and from is the sort key
}

// init makes it the prefix of ordered keys that begin with b. It takes over the memory of the one
// before.
func (p *keyPrefix) init(b []byte) {
	p.pk, p.from, p.whole = p.pk[:0], 0, false
	last := 0 // where the byte before from begins
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
		last, p.from = p.from, p.from+n
	}
	if n := len(p.pk); n > 0 && !p.whole {
		p.pk, p.from = p.pk[:n-1], last // what is left of a partition key has a byte
	}
	p.known = len(p.pk)
}

// plainKey reports whether what is left of an ordered key has no zeros before its end, and no sort
// key: most are numbers.
func plainKey(rest []byte) bool {
	n := len(rest) - 2
	for i, c := range rest {
		if c == 0 {
			return i == n && i > 0 && rest[n+1] == 0
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
	switch rest := b[min(p.from, len(b)):]; {
	case !p.whole && plainKey(rest):
		p.pk = append(p.pk[:p.known], rest[:len(rest)-2]...)
	case !p.whole:
		k, scratch, err = keycodec.DecodeOrdered(b[p.from:], scratch)
		p.pk = append(p.pk[:p.known], k.PK...)
	case len(rest) > 0:
		k.SK = rest
	}
	k.PK = p.pk[:len(p.pk):len(p.pk)]
	if err != nil || len(k.PK) > keycodec.MaxKeyBytes || len(k.SK) > keycodec.MaxKeyBytes {
		return keycodec.DecodeOrdered(b, scratch) // for the place in the whole key
	}
	return k, scratch, nil
}
