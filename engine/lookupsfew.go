package engine

import (
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// fewKeys is how many keys are looked up in the order in which they are given, each a group
// of its own for the stripes. Why: to order them by stripe takes walks over all stripes,
// which only many keys make up for.
const fewKeys = 32

// aloneKeys is how many keys are looked up one by one, as Get does it: a group costs more
// than it saves them.
const aloneKeys = 4

// take is set, or for a few keys what has the same effect on next.
func (l *lookups) take(keys []Key) error {
	if len(keys) > fewKeys {
		return l.set(keys)
	}
	l.takeFew(len(keys))
	l.keys = l.keys[:0]
	for i := range keys {
		if err := keys[i].Validate(); err != nil {
			return keyError("", err)
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

// takeConds takes the keys of a batch's conditions, which stay where they are.
func (l *lookups) takeConds(b *Batch) {
	list := b.conds.list
	if len(list) <= fewKeys {
		l.takeFew(len(list))
		for i := range list {
			c := &list[i]
			l.ids[i] = c.stripe
			l.list[i] = base.Lookup{Key: b.keys[c.key:c.keyEnd:c.keyEnd], Index: uint32(i)}
		}
		return
	}
	l.text = b.keys
	l.slots = slices.Grow(l.slots[:0], len(list))[:len(list)]
	clear(l.start[:])
	for i := range list {
		l.start[int(list[i].stripe)+1]++
	}
	for id := range base.NumStripes {
		l.start[id+1] += l.start[id]
	}
	free := l.start
	for i := range list {
		c := &list[i]
		l.slots[free[c.stripe]] = slot{int(c.key), c.keyEnd - c.key, uint32(i)}
		free[c.stripe]++
	}
}
