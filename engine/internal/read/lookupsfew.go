package read

import (
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// fewKeys is how many keys are looked up in the order in which they are given, each a group
// of its own for the stripes. Why: to order them by stripe takes walks over all stripes,
// which only many keys make up for.
const fewKeys = 32

// MaxAlone is how many keys are looked up one by one, as Lookup does it: a group costs more
// than it saves them.
const MaxAlone = 4

// take takes keys; their numbers are their indexes. Of a few it makes the list at once, of
// more it does what set does.
func (l *lookups) take(keys []keycodec.Key) error {
	if len(keys) > fewKeys {
		return l.set(keys)
	}
	l.takeFew(len(keys))
	l.keys = l.keys[:0]
	for i := range keys {
		if err := keys[i].Validate(); err != nil {
			return &KeyError{err}
		}
		l.ids[i] = keycodec.Stripe(keys[i].PK)
		from := len(l.keys)
		l.keys = keycodec.AppendOrdered(l.keys, keys[i])
		// If it has moved, those before it still lie where they were.
		l.list[i] = base.Lookup{Key: l.keys[from:len(l.keys):len(l.keys)], Index: uint32(i)}
	}
	return nil
}

// takeFew makes room for n keys in list.
func (l *lookups) takeFew(n int) {
	l.few = true
	l.ids = slices.Grow(l.ids[:0], n)[:n]
	l.list = slices.Grow(l.list[:0], n)[:n]
	l.most = max(l.most, n)
}

// takeOrdered is take for keys in ordered form, which stay where they are: in text, at the
// places that at returns.
func (l *lookups) takeOrdered(n int, text []byte, at func(i int) (id uint8, from, to uint32)) {
	if n <= fewKeys {
		l.takeFew(n)
		for i := range n {
			id, from, to := at(i)
			l.ids[i] = id
			l.list[i] = base.Lookup{Key: text[from:to:to], Index: uint32(i)}
		}
		return
	}
	l.text = text
	l.slots = slices.Grow(l.slots[:0], n)[:n]
	clear(l.start[:])
	for i := range n {
		id, _, _ := at(i)
		l.start[int(id)+1]++
	}
	for id := range base.NumStripes {
		l.start[id+1] += l.start[id]
	}
	free := l.start
	for i := range n {
		id, from, to := at(i)
		l.slots[free[id]] = slot{int(from), to - from, uint32(i)}
		free[id]++
	}
}

// askFew looks up all keys at snap.
func (l *lookups) askFew(snap base.SeqNum) error {
	s := l.state
	alone := len(l.list) <= MaxAlone
	for i := range l.list {
		f := &l.list[i]
		f.Hash = s.Hash(f.Key)
		if !alone {
			l.batch.Add(&l.stripes[l.ids[i]], i, i+1)
			continue
		}
		var e base.Entry
		found, err := lookUp(&l.stripes[l.ids[i]], f.Key, f.Hash, snap, !l.batch.NoValues, &e)
		if err != nil {
			return s.Error(err)
		}
		if e.Large {
			e.Value = nil
		}
		f.Set(&e)
		f.Found = found
	}
	if alone {
		return nil
	}
	return s.read(&l.batch, l.list, snap)
}
