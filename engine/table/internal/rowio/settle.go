package rowio

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// SameKey reports whether keys are equal.
func SameKey(a, b store.Key) bool { return bytes.Equal(a.PK, b.PK) && bytes.Equal(a.SK, b.SK) }

// keySet finds operations of equal keys: a hash table with open addressing of positions in
// a list of operations. Its memory is used again.
type keySet struct{ slots []int32 }

var keySeed = maphash.MakeSeed()

func (s *keySet) reset(n int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	if cap(s.slots) < size {
		s.slots = make([]int32, size)
	}
	s.slots = s.slots[:size]
	clear(s.slots)
}

// find returns the place for the key of operation i, and the earlier operation with this
// key, or -1.
func (s *keySet) find(ops []store.Op, i int) (slot *int32, earlier int) {
	key := &ops[i].Key
	h := maphash.Bytes(keySeed, key.SK) ^ 31*maphash.Bytes(keySeed, key.PK)
	for mask := uint64(len(s.slots) - 1); ; h++ {
		at := &s.slots[h&mask]
		if *at == 0 {
			return at, -1
		}
		if j := int(*at - 1); SameKey(ops[j].Key, *key) {
			return at, j
		}
	}
}

// settle sees to what the rows of one commit have to do with each other. All conditions
// of a commit are about the state before it, so two rows that want one unique key have to
// be found here, and a row that takes over what another one gives up must not require that
// it is free.
func (w *Writer) settle() error {
	if w.rows < 2 {
		return nil
	}
	w.same.reset(len(w.set.Ops))
	kept := 0
	for i := range w.set.Ops {
		w.set.Ops[kept], w.ops[kept] = w.set.Ops[i], w.ops[i]
		if !w.ops[kept].unique && !w.deletes {
			kept++
			continue
		}
		slot, earlier := w.same.find(w.set.Ops, kept)
		if earlier < 0 {
			kept++
			*slot = int32(kept)
			continue
		}
		if err := w.merge(earlier, kept); err != nil {
			return err
		}
	}
	clear(w.set.Ops[kept:])
	clear(w.ops[kept:])
	w.set.Ops, w.ops = w.set.Ops[:kept], w.ops[:kept]
	return nil
}

// merge makes one operation, i, of two with the same key: one puts what the other deletes.
func (w *Writer) merge(i, j int) error {
	a, b := &w.set.Ops[i], &w.set.Ops[j]
	switch {
	case a.Kind == store.OpPut && b.Kind == store.OpPut:
		return w.notUnique(&w.ops[j], w.ops[i].key)
	case a.Kind == store.OpDelete && b.Kind == store.OpDelete:
		w.ops[i].from = append(w.ops[i].from, w.ops[j].key)
		return nil
	}
	put, gone := *a, *b
	info, from := w.ops[i], w.ops[j].key
	if b.Kind == store.OpPut {
		put, gone = *b, *a
		info, from = w.ops[j], w.ops[i].key
		info.from = w.ops[i].from
	}
	put.Cond = gone.Cond
	info.from = append(info.from, from)
	*a, w.ops[i] = put, info
	return nil
}

// owns reports whether an entry of the row owner is one that the operation is about.
func (o *opInfo) owns(owner store.Key) bool {
	return SameKey(owner, o.key) ||
		slices.ContainsFunc(o.from, func(k store.Key) bool { return SameKey(owner, k) })
}

// guard makes the operations on a unique index that is being built exact. Rows from before
// need not have their entries yet, and two of them may have the same columns: an entry
// that a row should have may be missing, or be another row's.
func (w *Writer) guard(ctx context.Context) error {
	for i := range w.set.Ops {
		op, info := &w.set.Ops[i], &w.ops[i]
		if info.index == nil || !info.unique || info.index.State != schema.Building ||
			op.Cond.Kind == store.CondAbsent {
			continue
		}
		it, err := store.GetItem(ctx, w.r, op.Key)
		if errors.Is(err, store.ErrNotFound) {
			op.Cond = store.Absent()
			if op.Kind == store.OpDelete {
				op.Kind = store.OpRequire
			}
			continue
		}
		if err != nil {
			return err
		}
		owner, _, err := info.index.RowKey(nil, it.Key.SK, it.Value)
		if err != nil {
			return err
		}
		op.Cond = store.ValueIs(it.Value)
		switch {
		case info.owns(owner):
		case op.Kind == store.OpPut:
			return w.notUnique(info, owner)
		default:
			op.Kind = store.OpRequire // the entry is that of another row, and stays
		}
	}
	return nil
}
