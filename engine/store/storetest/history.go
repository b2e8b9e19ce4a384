package storetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/elle"
)

// lists are lists of numbers in a store. Even ones are one item each, whose value is the whole
// list; odd ones are partitions with an item for each element, so that reading them is reading a
// range, and appending to them depends on what a range does not hold.
type lists struct {
	s      txStore
	faulty bool
	next   atomic.Int64
	mu     sync.Mutex
	txs    []elle.Tx    // Guarded by mu
	open   map[int]bool // of txs those with an unknown outcome; guarded by mu
}

const listCount = 6

func listKey(list int) store.Key { return key(fmt.Sprintf("list#%d", list), "") }

func elementKey(list, n int) store.Key {
	return key(string(listKey(list).PK), fmt.Sprintf("%04d", n))
}

// read reads a list.
func (l *lists) read(tx store.Reader, list int, reverse bool) (out []int, err error) {
	if list%2 == 0 {
		v, err := tx.Get(ctx, nil, listKey(list))
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil
		}
		for ; len(v) >= 4; v = v[4:] {
			out = append(out, int(binary.BigEndian.Uint32(v)))
		}
		return out, err
	}
	r := store.Partition(listKey(list).PK)
	r.Reverse = reverse
	for it, err := range tx.Scan(ctx, r) {
		if err != nil {
			return nil, err
		}
		n := int(binary.BigEndian.Uint32(it.Value))
		if reverse {
			out = append([]int{n}, out...)
		} else {
			out = append(out, n)
		}
	}
	return out, nil
}

// append appends a value to what was read. With shift set the elements of a range move by one key,
// so that the first of them is deleted.
func (l *lists) append(tx store.Tx, list, value int, read []int, first int, shift bool) error {
	var w store.WriteSet
	bytes := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	switch {
	case list%2 == 0:
		var v []byte
		for _, n := range append(read, value) {
			v = append(v, bytes(n)...)
		}
		w.Put(listKey(list), v)
	case shift:
		for i, n := range append(read, value) {
			w.Put(elementKey(list, first+i+1), bytes(n))
		}
		w.Delete(elementKey(list, first))
	default:
		w.Put(elementKey(list, first+len(read)), bytes(value))
	}
	return tx.Commit(ctx, &w)
}

// first returns the number of a list's first element.
func (l *lists) first(tx store.Reader, list int) (n int, err error) {
	r := store.Partition(listKey(list).PK)
	r.Limit = 1
	for it, err := range tx.Scan(ctx, r) {
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(it.Key.SK)) // not Sscan, to which 0008 is octal
	}
	return 0, nil
}

// run runs the operations of a plan and returns them with what they have read.
func (l *lists) run(tx store.Tx, plan []elle.Op, rnd *rand.Rand) (done []elle.Op, err error) {
	for _, o := range plan {
		read, err := l.read(tx, o.List, rnd.IntN(2) == 0)
		if err != nil {
			return nil, err
		}
		done = append(done, elle.Op{List: o.List, Read: read})
		if o.Append == 0 {
			continue
		}
		first := 0
		if o.List%2 == 1 {
			if first, err = l.first(tx, o.List); err != nil {
				return nil, err
			}
		}
		shift := rnd.IntN(4) == 0
		if err := l.append(tx, o.List, o.Append, read, first, shift); err != nil {
			return nil, err
		}
		done = append(done, o)
	}
	return done, nil
}

// transaction runs one random transaction and notes it.
func (l *lists) transaction(rnd *rand.Rand) error {
	plan := make([]elle.Op, 1+rnd.IntN(4))
	for i := range plan {
		plan[i].List = rnd.IntN(listCount)
		if rnd.IntN(2) == 0 {
			plan[i].Append = int(l.next.Add(1))
		}
	}
	var done []elle.Op
	run := func(tx store.Tx) (err error) {
		done, err = l.run(tx, plan, rnd)
		return err
	}
	var err error
	if rnd.IntN(2) == 0 {
		err = l.s.Update(ctx, run)
	} else {
		err = l.once(run)
	}
	unknown := l.faulty && errors.Is(err, store.ErrUnknown)
	if err != nil && !l.faulty && !errors.Is(err, store.ErrConflict) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[len(l.txs)] = unknown
	l.txs = append(l.txs, elle.Tx{Ops: done, Aborted: err != nil && !unknown})
	return nil
}

// resolve decides which transactions with an unknown outcome have committed: those whose
// writes the last one sees.
func (l *lists) resolve(last *elle.Tx) {
	there := map[int]bool{}
	for _, o := range last.Ops {
		for _, n := range o.Read {
			there[n] = true
		}
	}
	for i, open := range l.open {
		l.txs[i].Aborted = l.txs[i].Aborted || open &&
			!slices.ContainsFunc(l.txs[i].Ops, func(o elle.Op) bool { return there[o.Append] })
	}
}

func (l *lists) once(run func(store.Tx) error) error {
	tx, err := l.s.Begin(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := run(tx); err != nil {
		return err
	}
	return tx.End(ctx)
}

// TxHistory checks that a history of concurrent transactions that read and write items and ranges
// is serializable. With faulty set they may fail in any way: what did not commit by that has
// written nothing, and what has an unknown outcome has written everything or nothing.
func TxHistory(t T, s store.Store, seed uint64, faulty bool) {
	l := &lists{s: txStore{s, s.(store.Transactor)}, faulty: faulty, open: map[int]bool{}}
	const clients, each = 4, 15
	errs := make([]error, clients)
	race(clients, func(i int) {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		for range each {
			if errs[i] = l.transaction(rnd); errs[i] != nil {
				return
			}
		}
	})
	ok(t, errors.Join(errs...))
	var last elle.Tx
	for list := range listCount {
		read, err := l.read(s, list, false)
		ok(t, err)
		last.Ops = append(last.Ops, elle.Op{List: list, Read: read})
	}
	l.resolve(&last)
	for _, problem := range elle.Check(append(l.txs, last)) {
		t.Errorf("%.600s", problem)
	}
}
