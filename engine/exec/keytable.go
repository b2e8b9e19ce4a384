package exec

import (
	"hash/maphash"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// keyTable numbers the distinct keys of a fixed number of values that it is shown. Values
// are equal as in a comparison: 1 and 1.0 are, and texts that a collation folds to the
// same; NULL is equal to itself.
type keyTable struct {
	width int
	seed  maphash.Seed
	heads map[uint64]int32
	next  []int32 // per key: the next one of the same hash, -1 at the end
	keys  []expr.Value
	text  []byte // of keys
}

func newKeyTable(width int) *keyTable {
	return &keyTable{width: width, seed: maphash.MakeSeed(), heads: map[uint64]int32{}}
}

func (t *keyTable) hash(key []expr.Value) uint64 { return hashKey(t.seed, key) }

func hashKey(seed maphash.Seed, key []expr.Value) uint64 {
	h := uint64(len(key))
	for i := range key {
		h = (h ^ key[i].Hash(seed)) * 0x9e3779b97f4a7c15
	}
	return h
}

// find returns the number of a canonical key, -1 if it was not added.
func (t *keyTable) find(key []expr.Value) int {
	if i, ok := t.heads[t.hash(key)]; ok {
		return t.follow(int(i), key)
	}
	return -1
}

// follow walks the keys of one hash.
func (t *keyTable) follow(i int, key []expr.Value) int {
	for i >= 0 && !equalValues(t.keys[i*t.width:][:t.width], key) {
		i = int(t.next[i])
	}
	return i
}

// add returns the number of a canonical key, which it copies if it is new.
func (t *keyTable) add(key []expr.Value) (i int, added bool) {
	h := t.hash(key)
	head, ok := t.heads[h]
	if !ok {
		head = -1
	} else if i := t.follow(int(head), key); i >= 0 {
		return i, false
	}
	i = len(t.next)
	t.next = append(t.next, head)
	t.heads[h] = int32(i)
	for _, v := range key {
		v, t.text = v.CloneInto(t.text)
		t.keys = append(t.keys, v)
	}
	return i, true
}

// bytes estimates the memory of the last key that was added.
func (t *keyTable) bytes() int64 {
	return 32 + rowBytes(t.keys[len(t.keys)-t.width:])
}

func equalValues(a, b []expr.Value) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// keyMaker evaluates the expressions of a key into canonical values.
type keyMaker struct {
	programs   []expr.Program
	collations []keycodec.Collation
	key        []expr.Value
}

func (r *runner) keyMaker(exprs []expr.Expr) (*keyMaker, error) {
	m := &keyMaker{key: make([]expr.Value, len(exprs))}
	for _, e := range exprs {
		p, err := r.program(e)
		if err != nil {
			return nil, err
		}
		m.programs = append(m.programs, p)
		m.collations = append(m.collations, expr.CollationOf(e))
	}
	return m, nil
}

// values evaluates the key as it is. The result is valid until the next call.
func (m *keyMaker) values(row, params []expr.Value) ([]expr.Value, error) {
	for i, p := range m.programs {
		v, err := p.Value(row, params)
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
	if _, err := m.values(row, params); err != nil {
		return nil, false, err
	}
	for i := range m.key {
		null = null || m.key[i].IsNull()
		m.key[i] = canonical(m.key[i], m.collations[i])
	}
	return m.key, null, nil
}

// canonical returns the value that stands for all values equal to v.
func canonical(v expr.Value, c keycodec.Collation) expr.Value {
	if c != keycodec.CollateBytes {
		if s, ok := v.AsString(); ok {
			return expr.String(c.Fold(s))
		}
	}
	return v.Canonical()
}
