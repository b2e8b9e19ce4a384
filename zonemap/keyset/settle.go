package keyset

import (
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// A hit says that the first plane of a candidate's filter has let a key pass.
type hit struct {
	candidate *candidate
	key       uint16
}

// maxHits is how many are settled together.
const maxHits = 256

// settle finds out which hits are answers, and empties hits: for 16 bits the second
// plane is asked, for exact answers the key is looked up.
func (sc *scratch) settle() error {
	hits := sc.hits
	sc.hits = sc.hits[:0]
	for len(hits) > 0 {
		n := min(len(hits), maxHits)
		left, err := sc.secondPlanes(hits[:n])
		if err != nil {
			return err
		}
		sc.positives += int64(left)
		if sc.set.opts.Exact {
			err = sc.lookUp(hits[:left])
		} else {
			for _, h := range hits[:left] {
				sc.found[h.key>>6] |= 1 << (h.key & 63)
			}
		}
		if err != nil {
			return err
		}
		hits = hits[n:]
	}
	return nil
}

// secondPlanes keeps the hits that the second plane lets pass, too, in front, and
// returns their number. Hits on filters of one plane stay.
func (sc *scratch) secondPlanes(hits []hit) (int, error) {
	n, wide := 0, 0
	for i, h := range hits { // those of one plane first
		if !h.candidate.twoPlanes {
			hits[n], hits[i] = h, hits[n]
			n++
		}
	}
	for _, h := range hits[n:] {
		p, table, err := h.candidate.of(sc.hashes[h.key])
		if err != nil {
			return 0, err
		}
		x := base.Mix(sc.words[h.key] + p.seed)
		p0, p1, p2 := p.shape.Positions(x, x<<h.candidate.shardBits)
		t := unsafe.Add(unsafe.Pointer(table), p.shape.Slots())
		sc.want[wide] = byte(fuse.Fingerprint(x) >> 8)
		sc.addrs[3*wide] = unsafe.Add(t, p0)
		sc.addrs[3*wide+1] = unsafe.Add(t, p1)
		sc.addrs[3*wide+2] = unsafe.Add(t, p2)
		wide++
	}
	fuse.Prefetch(&sc.addrs[0], 3*wide)
	for j, h := range hits[n:] {
		a := sc.addrs[3*j : 3*j+3 : 3*j+3]
		if *(*byte)(a[0])^*(*byte)(a[1])^*(*byte)(a[2]) == sc.want[j] {
			hits[n] = h
			n++
		}
	}
	return n, nil
}

// lookUp looks the keys of the hits up and marks those that are there.
func (sc *scratch) lookUp(hits []hit) error {
	sc.checks += int64(len(hits))
	stored := 0
	for i, h := range hits {
		if h.candidate.segment.stored {
			hits[i], hits[stored] = hits[stored], h
			stored++
		}
	}
	if err := sc.searchStored(hits[:stored]); err != nil {
		return err
	}
	return sc.checkByReader(hits[stored:])
}

// search is one of many binary searches that advance together.
type search struct {
	keys     *column
	from, to uint32
	key      uint16
}

// searchStored looks keys up in the stored keys. All searches take a step at a time, so
// that what they wait for comes at the same time.
func (sc *scratch) searchStored(hits []hit) error {
	var all [maxHits]search
	n := 0
	for _, h := range hits {
		p := h.candidate.part
		if p == nil {
			p = &h.candidate.segment.parts[sc.hashes[h.key]>>(64-h.candidate.shardBits)]
		}
		head := sc.heads[h.key]
		if !p.covers(head) {
			continue
		}
		keys, err := h.candidate.segment.storedKeys(p)
		if err != nil {
			return err
		}
		all[n] = search{keys: keys, key: h.key}
		sc.addrs[n] = keys.indexAddr(head)
		n++
	}
	fuse.Prefetch(&sc.addrs[0], n)
	for i := range all[:n] {
		x := &all[i]
		x.from, x.to = x.keys.bucket(sc.heads[x.key])
		sc.addrs[i] = x.keys.headAddr(x.from + (x.to-x.from)/2)
	}
	sc.advance(all[:n])
	for i := range all[:n] {
		x := &all[i]
		var key []byte
		if sc.keys != nil {
			key = notNil(sc.keys[x.key])
		}
		head := sc.heads[x.key]
		if x.keys.has(x.keys.lowerBound(x.from, x.to, head), head, key) {
			sc.found[x.key>>6] |= 1 << (x.key & 63)
			sc.confirmed++
		}
	}
	return nil
}

// advance halves the ranges of all searches, step by step, until each is a few cache
// lines. The address of each middle is in addrs.
func (sc *scratch) advance(all []search) {
	const few = 2 * perBucket
	for again := true; again; {
		again = false
		fuse.Prefetch(&sc.addrs[0], len(all))
		for i := range all {
			x := &all[i]
			if x.to-x.from <= few {
				continue
			}
			again = true
			mid := x.from + (x.to-x.from)/2
			if x.keys.head(int(mid)) < sc.heads[x.key] {
				x.from = mid + 1
			} else {
				x.to = mid
			}
			sc.addrs[i] = x.keys.headAddr(x.from + (x.to-x.from)/2)
		}
	}
}
