package exec

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// keyTable numbers the distinct keys of a fixed number of values that it is shown. Values
// are equal as in a comparison: 1 and 1.0 are, and texts that a collation folds to the
// same; NULL is equal to itself.
type keyTable struct {
	width int
	seed  expr.HashSeed
	// slots is a table with linear probing. Its length is a power of two and at least 4/3 of the
	// number of keys.
	slots []keySlot
	ints  []int64      // the keys, if each is one integer
	mixed bool         // they are not:
	keys  []expr.Value // then the keys
	count int
	text  []byte // of keys
	// near, if not nil, has at a key less low one more than its number, 0 for none.
	near []int32
	low  int64
}

// keySlot is a place of a keyTable.
type keySlot struct {
	hash uint32
	key  int32 // one more than the number of the key; 0: none
}

// minSlots is the length of the first table.
const minSlots = 16

func newKeyTable(width int) *keyTable {
	return &keyTable{width: width, mixed: width != 1, seed: expr.NewHashSeed()}
}

// newKeyTableFor is newKeyTable with room for the keys that are expected, up to a limit. Why: to
// grow from nothing takes twice the memory, and a fifth of the time of some thousand keys.
func newKeyTableFor(width int, expected float64) *keyTable {
	t := newKeyTable(width)
	n := roomFor(expected)
	if t.mixed {
		t.keys = make([]expr.Value, 0, n*width)
	} else {
		t.ints = make([]int64, 0, n)
	}
	t.resize(1 << bits.Len(uint(max(minSlots/2, 4*n/3))))
	return t
}

// mostExpected bounds for how many rows there is room before there are any.
const mostExpected = 4096

// roomFor returns for how many rows there is room if so many are expected: for some more.
func roomFor(expected float64) int {
	return int(max(0, min(expected+expected/8+1, mostExpected)))
}

// slot returns the place of a key: the one that has it, or the free one where it would be.
// Requires: there are slots, and the table is mixed.
func (t *keyTable) slot(h uint32, key []expr.Value) *keySlot {
	for i, mask := int(h), len(t.slots)-1; ; i++ {
		s := &t.slots[i&mask]
		if s.key == 0 || s.hash == h && slices.Equal(t.key(int(s.key)-1), key) {
			return s
		}
	}
}

// key returns the key of a number.
func (t *keyTable) key(i int) []expr.Value {
	if !t.mixed {
		return []expr.Value{expr.Int(t.ints[i])}
	}
	return t.keys[i*t.width:][:t.width]
}

// mix keeps keys that are not integers from now on.
func (t *keyTable) mix() {
	if t.mixed {
		return
	}
	t.mixed = true
	t.keys = make([]expr.Value, len(t.ints), max(cap(t.ints), 1))
	for i, n := range t.ints {
		t.keys[i].SetInt(n)
	}
	t.ints = nil
}

// find returns the number of a canonical key, -1 if it was not added.
func (t *keyTable) find(key []expr.Value) int {
	if t.count == 0 {
		return -1
	}
	if t.mixed {
		return int(t.slot(uint32(t.seed.Hash(key)), key).key) - 1
	}
	n, ok := key[0].Integer()
	if !ok {
		return -1
	}
	return int(t.slotOfInt(uint32(t.seed.HashInt(n)), n).key) - 1
}

// complete says that no key is added any more. Integers near each other are then found by their
// place.
func (t *keyTable) complete() {
	if len(t.ints) == 0 {
		return
	}
	t.low = slices.Min(t.ints)
	n := uint64(slices.Max(t.ints)) - uint64(t.low)
	if n >= uint64(nearSlots*len(t.ints)) {
		return
	}
	t.near = make([]int32, n+1)
	for i, key := range t.ints {
		t.near[key-t.low] = int32(i + 1)
	}
}

// nearSlots is how many places there are at most for each key, of half of the size of a keySlot.
const nearSlots = 4

// findInts sets those of the numbers that are wanted to the numbers of keys of one integer, -1 if
// they were not added.
func (t *keyTable) findInts(numbers []int, keys []int64, wanted []bool) {
	for i, n := range keys {
		switch {
		case !wanted[i]:
		case t.near != nil:
			numbers[i] = -1
			if at := uint64(n) - uint64(t.low); at < uint64(len(t.near)) {
				numbers[i] = int(t.near[at]) - 1
			}
		case t.mixed || t.count == 0:
			numbers[i] = t.find([]expr.Value{expr.Int(n)})
		default:
			numbers[i] = int(t.slotOfInt(uint32(t.seed.HashInt(n)), n).key) - 1
		}
	}
}

// slotOfInt is slot of a table that is not mixed.
func (t *keyTable) slotOfInt(h uint32, n int64) *keySlot {
	slots, keys := t.slots, t.ints
	for i, mask := int(h), len(slots)-1; ; i++ {
		s := &slots[i&mask]
		if s.key == 0 || s.hash == h && keys[s.key-1] == n {
			return s
		}
	}
}

// add returns the number of a canonical key, which it copies if it is new.
func (t *keyTable) add(key []expr.Value) (i int, added bool) {
	if 4*t.count >= 3*len(t.slots) {
		t.resize(max(minSlots, 2*len(t.slots)))
	}
	if !t.mixed {
		if n, ok := key[0].Integer(); ok {
			h := uint32(t.seed.HashInt(n))
			if i, added = t.put(t.slotOfInt(h, n), h); added {
				t.ints = append(t.ints, n)
			}
			return i, added
		}
		t.mix()
	}
	h := uint32(t.seed.Hash(key))
	if i, added = t.put(t.slot(h, key), h); !added {
		return i, false
	}
	for _, v := range key {
		v, t.text = v.CloneInto(t.text)
		t.keys = append(t.keys, v)
	}
	return i, true
}

// put numbers the key of a place that is free.
func (t *keyTable) put(s *keySlot, h uint32) (i int, added bool) {
	if s.key == 0 {
		t.count++
		*s, added = keySlot{h, int32(t.count)}, true
	}
	return int(s.key) - 1, added
}

// resize makes a table of that many slots.
func (t *keyTable) resize(slots int) {
	old := t.slots
	t.slots = make([]keySlot, slots)
	mask := len(t.slots) - 1
	for _, s := range old {
		if s.key != 0 {
			i := int(s.hash)
			for t.slots[i&mask].key != 0 {
				i++
			}
			t.slots[i&mask] = s
		}
	}
}

// bytes estimates the memory of the last key that was added.
func (t *keyTable) bytes() int64 {
	if !t.mixed {
		return 32
	}
	return 32 + rowBytes(t.keys[len(t.keys)-t.width:])
}

// term is a compiled expression.
type term struct {
	program   expr.Program // if at is negative
	at        int          // the place of the row that the expression is; -1: it is another one
	collation keycodec.Collation
}

func (r *runner) term(e expr.Expr) (term, error) {
	t := term{at: -1, collation: expr.CollationOf(e)}
	if s, ok := e.(expr.Slot); ok && s.I >= 0 {
		t.at = s.I
		return t, nil
	}
	var err error
	t.program, err = r.program(e)
	return t, err
}

func (t *term) value(row, params []expr.Value) (expr.Value, error) {
	switch {
	case uint(t.at) < uint(len(row)):
		return row[t.at], nil
	case t.at >= 0:
		return expr.Value{}, fmt.Errorf("exec: the row has no place %d", t.at)
	}
	return t.program.Value(row, params)
}

// integer returns the value if it is an integer of the row: those need not be copied as values.
func (t *term) integer(row []expr.Value) (int64, bool) {
	if uint(t.at) >= uint(len(row)) {
		return 0, false
	}
	return row[t.at].Integer()
}

// keyMaker evaluates the expressions of a key into canonical values.
type keyMaker struct {
	terms []term
	key   []expr.Value
	// Most keys have few terms.
	termRoom [2]term
	keyRoom  [2]expr.Value
}

// noKeys has no terms.
var noKeys keyMaker

func (r *runner) keyMaker(exprs []expr.Expr) (*keyMaker, error) {
	if len(exprs) == 0 {
		return &noKeys, nil
	}
	m := &keyMaker{}
	return m, m.set(r, exprs)
}

// set makes m evaluate expressions. It must not be copied after that.
func (m *keyMaker) set(r *runner, exprs []expr.Expr) (err error) {
	if n := len(exprs); n <= len(m.termRoom) {
		m.terms, m.key = m.termRoom[:n], m.keyRoom[:n]
	} else {
		m.terms, m.key = make([]term, n), make([]expr.Value, n)
	}
	for i, e := range exprs {
		if m.terms[i], err = r.term(e); err != nil {
			return err
		}
	}
	return nil
}

// values evaluates the key as it is. The result is valid until the next call.
func (m *keyMaker) values(row, params []expr.Value) ([]expr.Value, error) {
	for i := range m.terms {
		t := &m.terms[i]
		if n, ok := t.integer(row); ok {
			m.key[i].SetInt(n)
			continue
		}
		v, err := t.value(row, params)
		if err != nil {
			return nil, err
		}
		m.key[i] = v
	}
	return m.key, nil
}

// canonical evaluates the key for a keyTable; null reports whether a value is NULL. The
// result is valid until the next call.
func (m *keyMaker) canonical(row, params []expr.Value) (key []expr.Value, null bool, err error) {
	for i := range m.terms {
		t := &m.terms[i]
		if n, ok := t.integer(row); ok {
			m.key[i].SetInt(n)
			continue
		}
		v, err := t.value(row, params)
		if err != nil {
			return nil, false, err
		}
		null = null || v.IsNull()
		m.key[i] = canonical(v, t.collation)
	}
	return m.key, null, nil
}

// canonical returns the value that stands for all values equal to v.
func canonical(v expr.Value, c keycodec.Collation) expr.Value {
	if v.Kind() == expr.KindInt {
		return v
	}
	if c != keycodec.CollateBytes {
		if s, ok := v.AsString(); ok {
			return expr.String(c.Fold(s))
		}
	}
	return v.Canonical()
}
