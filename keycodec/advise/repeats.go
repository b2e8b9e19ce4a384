package advise

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/kstonedb/kstone/internal/figure"
)

// Repeats counts the records whose key another record has, for the keys of a report. A key
// has to identify one record, or the later one replaces the earlier. Which keys there are is
// known after the sample has been read once, so the records are read a second time.
//
// The number is exact for up to a million different keys. Beyond, it is estimated from a
// part of the keys that is chosen by their hashes, with all records of each. Memory is
// bounded: about 40 MB for a key. A Repeats belongs to one goroutine.
type Repeats struct {
	seed maphash.Seed
	rows uint64
	keys []keyRepeats
	hash map[string]uint64 // of the fields of the present record
}

// keyRepeats is what is known of one key, and of it with one more field.
type keyRepeats struct {
	fields []string
	own    distinctKeys
	more   []string // fields that may be added, the most promising first
	with   []distinctKeys
}

const (
	// maxDistinct is how many different keys are counted exactly.
	maxDistinct = 1 << 20
	// maxMore is how many fields are tried in addition, each with a smaller bound.
	maxMore         = 4
	maxDistinctMore = 1 << 16
)

// NewRepeats returns a Repeats for the keys of a report.
func NewRepeats(r *Report) *Repeats {
	p := &Repeats{seed: maphash.MakeSeed(), hash: map[string]uint64{}}
	for _, k := range r.Keys {
		kr := keyRepeats{fields: k.Fields, own: distinctKeys{limit: maxDistinct}}
		for _, f := range promising(r.Fields) {
			if !slices.Contains(k.Fields, f.Name) && len(kr.more) < maxMore {
				kr.more = append(kr.more, f.Name)
				kr.with = append(kr.with, distinctKeys{limit: maxDistinctMore})
			}
		}
		p.keys = append(p.keys, kr)
	}
	return p
}

// promising returns the fields, those with the most values first.
func promising(fields []Field) []Field {
	fields = slices.Clone(fields)
	slices.SortStableFunc(fields, func(a, b Field) int {
		switch {
		case a.Distinct > b.Distinct:
			return -1
		case a.Distinct < b.Distinct:
			return 1
		}
		return 0
	})
	return fields
}

// Add adds a record of the sample.
//
// Ownership: the values are not kept.
func (p *Repeats) Add(record []Value) {
	p.rows++
	clear(p.hash)
	for _, v := range record {
		if v.Text != nil {
			p.hash[v.Field] = maphash.Bytes(p.seed, v.Text) | 1
		}
	}
	for i := range p.keys {
		k := &p.keys[i]
		hash := uint64(0)
		for _, name := range k.fields {
			hash = p.extend(hash, name)
		}
		k.own.add(hash)
		for j, name := range k.more {
			k.with[j].add(p.extend(hash, name))
		}
	}
}

// extend returns the hash of a key with one more field; a missing one has the hash 0.
func (p *Repeats) extend(hash uint64, name string) uint64 {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:], hash)
	binary.LittleEndian.PutUint64(both[8:], p.hash[name])
	return maphash.Bytes(p.seed, both[:])
}

// Settle writes what was counted into the keys of the report, which must be those of
// NewRepeats: how many records repeat a key, what to add, and a sentence about it.
func (p *Repeats) Settle(r *Report) {
	for i := range p.keys {
		k, key := &p.keys[i], &r.Keys[i]
		n, about := k.own.repeated()
		key.Checked, key.Repeated = true, n
		if n == 0 {
			key.why("unique: no two of the %s records of the sample have the same key%s",
				figure.Count(int64(p.rows)), k.own.compared())
			continue
		}
		key.why("not unique: %s%s of %s records of the sample repeat the key of another and would"+
			" replace it; %s", about, figure.Count(int64(n)), figure.Count(int64(p.rows)),
			k.advice(key, n))
	}
}

// advice names the field that leaves the fewest of so many repeats.
func (k *keyRepeats) advice(key *Key, repeats uint64) string {
	best, left, about, compared := "", repeats, "", ""
	for j, name := range k.more {
		if n, estimated := k.with[j].repeated(); n < left {
			best, left, about, compared = name, n, estimated, k.with[j].compared()
		}
	}
	if best == "" {
		return "no single field of the sample helps: add a number for each record"
	}
	key.Add = []string{best}
	if left == 0 {
		return fmt.Sprintf("add %s, which leaves none%s", best, compared)
	}
	return fmt.Sprintf("add %s, which leaves %s%s, and more", best, about,
		figure.Count(int64(left)))
}

// distinctKeys counts keys by their hashes: all of them up to a limit, beyond that those
// whose hash ends in ever more zero bits (distinct sampling, Gibbons).
type distinctKeys struct {
	limit  int
	zeros  uint
	counts map[uint64]uint32
}

func (d *distinctKeys) add(hash uint64) {
	if hash&(1<<d.zeros-1) != 0 {
		return
	}
	if d.counts == nil {
		d.counts = map[uint64]uint32{}
	}
	d.counts[hash]++
	for len(d.counts) > d.limit {
		d.zeros++
		for h := range d.counts {
			if h&(1<<d.zeros-1) != 0 {
				delete(d.counts, h)
			}
		}
	}
}

// repeated returns how many records had a key that came before; about is "about " if that is
// an estimate.
func (d *distinctKeys) repeated() (n uint64, about string) {
	for _, c := range d.counts {
		n += uint64(c - 1)
	}
	if d.zeros > 0 {
		about = "about "
	}
	return n << d.zeros, about
}

// compared limits a sentence about all keys to those that were compared.
func (d *distinctKeys) compared() string {
	if d.zeros == 0 {
		return ""
	}
	return fmt.Sprintf(", as far as one key in %d shows", uint64(1)<<d.zeros)
}
