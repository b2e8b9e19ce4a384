package memtable

import (
	"bytes"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/google/btree"
	"github.com/kstonedb/kstone/internal/base"
)

const (
	// MaxBytes is how much a table takes at the very least before its 16-bit chunk
	// indexes run out and Put panics. Owners freeze a table long before.
	MaxBytes = 1 << 30

	// minTrimBudget is the least number of overwrites between two trims of a chain
	// whose newest version is still above the horizon.
	minTrimBudget = 8

	// maxPrefixBytes bounds the expected prefix of an empty table. Why: there are many of
	// them, and keys may be long. Keys that share more are compared as a whole.
	maxPrefixBytes = 256

	// Bytes follows the growth of the tree in steps of this many keys.
	orderBytesStep = 32
)

// The states of a table.
const (
	stateEmpty  uint32 = iota // no key yet
	stateActive               // readers lock, but for absent keys
	stateFrozen               // nothing changes, readers do not lock
)

// Options configure a table. The zero value is valid.
type Options struct {
	// Prefix is the prefix that most keys are expected to share, typically what
	// CommonPrefix of the table before said. A wrong one costs time, nothing else,
	// and not for long: the table corrects it while it grows. New copies it, and no
	// more than maxPrefixBytes.
	Prefix []byte
	// Seed is the seed of the hashes given to Put and Get. Only builds with the
	// invariants tag look at it, to check the hashes; 0 leaves them unchecked.
	Seed uint64
}

// Table is a memtable. See the package comment for what may run concurrently.
type Table struct {
	seed uint64

	mu sync.Mutex

	// Guarded by mu until frozen, then by flattenOnce: look at them through sorted.
	fresh   []uint32            // nodes that are not in the tree yet
	tree    *btree.BTreeG[item] // nil until an ordered read, and after flatten
	prefix  []byte
	probe   []byte // key of item{node: 0} during one walk of the tree
	bound   bound
	adaptAt int // number of keys at which to check the prefix, 0 for never

	// Guarded by mu; immutable once frozen.
	arena      arena
	index      hashIndex
	ranges     []base.RangeTombstone
	rangeBytes int64
	orderBytes int64 // of fresh and tree, or of flat
	tombstones int
	minSeq     base.SeqNum
	maxSeq     base.SeqNum

	// Written once, by flatten, after freezing.
	flattenOnce sync.Once
	flat        []item

	// parts are ranges but the latest, made by reads; nil before the first.
	parts atomic.Pointer[[]rangesPart]

	// some are keys chosen at random, nil before the first CountAbout.
	some atomic.Pointer[someKeys]

	state     atomic.Uint32
	keys      atomic.Uint64 // index.taken
	hasRanges atomic.Bool
	bytes     atomic.Int64
}

// New returns an empty table. It holds less than 1 KiB until the first Put or DeleteRange,
// and Bytes is 0 until then.
func New(o Options) *Table {
	return &Table{
		seed:    o.Seed,
		prefix:  bytes.Clone(o.Prefix[:min(len(o.Prefix), maxPrefixBytes)]),
		adaptAt: firstAdapt,
		minSeq:  base.MaxSeqNum,
	}
}

// Put adds a version of key: a value, a value that expires at expiry (Unix
// milliseconds, base.KindPutTTL only), or a tombstone (base.KindDelete; value is
// ignored). It copies key and value. hash is base.Hash of key.
//
// If the key already has a version of the same seq, the new one takes its place.
// horizon is the lowest sequence number at which anyone reads now or later: versions
// that no such read can see are let go.
//
// Requires: one writer at a time; the table is not frozen; seq is at least that of
// the key's newest version; len(value) < 4 GiB; the table stays below MaxBytes.
func (t *Table) Put(
	key []byte, hash uint64, seq base.SeqNum, kind base.Kind, expiry int64, value []byte,
	horizon base.SeqNum,
) {
	v := version{seq: seq, kind: kind, expiry: expiry, value: value}
	if kind == base.KindDelete {
		v.value = nil
	}
	// A large value is copied before readers are locked out.
	var own []byte
	if n := v.sizeBytes(); n > maxSharedRecord {
		own = ownChunk(n)
		v.write(own, 0)
	}
	t.mu.Lock()
	t.checkPutLocked(key, hash)
	held := t.arena.heldBytes
	if node := t.index.find(t.arena.chunks, key, hash); node != 0 {
		t.overwriteLocked(node, &v, own, horizon)
	} else {
		t.insertLocked(key, hash, &v, own)
	}
	if kind == base.KindDelete {
		t.tombstones++
	}
	t.noteSeqLocked(seq)
	if t.arena.heldBytes != held {
		t.countOrderLocked() // readers may have made a tree since the last count
		t.updateBytesLocked()
	}
	t.mu.Unlock()
}

// insertLocked adds a key that the table does not have.
func (t *Table) insertLocked(key []byte, hash uint64, v *version, own []byte) {
	node := t.newNodeLocked(key, v, own)
	t.addFreshLocked(node)
	t.index.insert(hash, node)
	n := t.index.taken
	if n == 1 {
		t.state.Store(stateActive)
	}
	base.Yield()
	t.keys.Store(uint64(n)) // last: see Keys
	if n%orderBytesStep == 1 {
		t.countOrderLocked()
		t.updateBytesLocked()
	}
}

// countOrderLocked measures what the order of the keys takes. Why only writers call it:
// they alone report the growth of Bytes.
func (t *Table) countOrderLocked() {
	t.orderBytes = int64(cap(t.fresh)) * int64(unsafe.Sizeof(t.fresh[0]))
	if t.tree != nil {
		t.orderBytes += int64(t.tree.Len()) * treeKeyBytes
	}
}

// newNodeLocked makes a node with one version. Both lie side by side if they fit into
// a shared chunk: a point read then touches neighbouring cache lines.
func (t *Table) newNodeLocked(key []byte, v *version, own []byte) uint32 {
	a := &t.arena
	nodeBytes := nodeKey + len(key)
	if n := nodeBytes + v.sizeBytes(); n <= maxSharedRecord {
		node := a.alloc(n)
		a.live[node>>16]++ // two records
		b := a.chunks.at(node)
		writeNode(b, key, node+uint32(nodeBytes))
		v.write(b[nodeBytes:], 0)
		return node
	}
	ver := t.newVersionLocked(v, own, 0)
	if nodeBytes <= maxSharedRecord {
		node := a.alloc(nodeBytes)
		writeNode(a.chunks.at(node), key, ver)
		return node
	}
	chunk := ownChunk(nodeBytes)
	writeNode(chunk, key, ver)
	return a.adopt(chunk)
}

// newVersionLocked makes a version; own is its ready chunk if it has one of its own.
func (t *Table) newVersionLocked(v *version, own []byte, prev uint32) uint32 {
	if own != nil {
		ver := t.arena.adopt(own)
		t.arena.chunks.setWord(ver, versionPrev, prev)
		return ver
	}
	ver := t.arena.alloc(v.sizeBytes())
	v.write(t.arena.chunks.at(ver), prev)
	return ver
}

// overwriteLocked prepends a version to a node's chain and cuts off what no reader
// can see.
//
// Usually the version before is at or below the horizon, and everything after it
// goes. If the horizon lags (a snapshot, commits in flight) the chain is
// walked to find the cut, but only after as many overwrites as the last walk left
// versions: a constant cost per overwrite, and a chain at most about twice as long as
// it has to be.
func (t *Table) overwriteLocked(node uint32, v *version, own []byte, horizon base.SeqNum) {
	c := t.arena.chunks
	old := c.word(node, nodeHead)
	oldSeq := c.seq(old)
	checkVersion(oldSeq, v.seq)
	prev := old
	if oldSeq == v.seq {
		prev = c.word(old, versionPrev)
	}
	ver := t.newVersionLocked(v, own, prev)
	c = t.arena.chunks
	c.setWord(node, nodeHead, ver)
	if oldSeq == v.seq {
		t.dropLocked(old)
		return
	}
	if oldSeq <= horizon {
		t.cutLocked(old)
		return
	}
	budget := c.word(node, nodeBudget) - 1
	if budget == 0 {
		budget = max(minTrimBudget, t.trimLocked(old, horizon))
	}
	t.arena.chunks.setWord(node, nodeBudget, budget)
}

// trimLocked cuts the chain from ver on after its newest version at or below the
// horizon and returns how many versions it walked over.
func (t *Table) trimLocked(ver uint32, horizon base.SeqNum) uint32 {
	c := t.arena.chunks
	for n := uint32(1); ; n++ {
		if c.seq(ver) <= horizon {
			t.cutLocked(ver)
			return n
		}
		if ver = c.word(ver, versionPrev); ver == 0 {
			return n
		}
	}
}

// cutLocked drops all versions after ver.
func (t *Table) cutLocked(ver uint32) {
	c := t.arena.chunks
	prev := c.word(ver, versionPrev)
	if prev == 0 {
		return
	}
	c.setWord(ver, versionPrev, 0)
	for prev != 0 {
		// c is a picture taken before the first drop: it keeps chunks readable that
		// dropLocked gives back.
		next := c.word(prev, versionPrev)
		if c.kind(prev) == base.KindDelete {
			t.tombstones--
		}
		t.arena.release(prev)
		prev = next
	}
}

// dropLocked drops the single version ver, which no link leads to any more.
func (t *Table) dropLocked(ver uint32) {
	if t.arena.chunks.kind(ver) == base.KindDelete {
		t.tombstones--
	}
	t.arena.release(ver)
}

// Get finds the newest version of key with a sequence number of at most snap and
// fills *e with it, e.Key excepted. Tombstones and expired versions are found too;
// range tombstones are not applied. hash is base.Hash of key.
//
// e.Value is a view into the table: it never changes and stays valid as long as it is
// referenced. Get allocates nothing and may run concurrently with everything.
func (t *Table) Get(key []byte, hash uint64, snap base.SeqNum, e *base.Entry) bool {
	switch t.state.Load() {
	case stateEmpty:
		return false
	case stateFrozen:
		return t.get(key, hash, snap, e, false)
	}
	if t.index.absent(hash) {
		return false
	}
	t.mu.Lock()
	found := t.get(key, hash, snap, e, true)
	t.mu.Unlock()
	return found
}

// get is Get, with the table locked or frozen: see older.
func (t *Table) get(
	key []byte, hash uint64, snap base.SeqNum, e *base.Entry, locked bool,
) bool {
	c := t.arena.chunks
	node := t.index.find(c, key, hash)
	if node == 0 {
		return false
	}
	ver, ok := c.visible(c.word(node, nodeHead), snap)
	if !ok {
		ver = t.older(c, ver, snap, locked)
	}
	if ver == 0 {
		return false
	}
	c.load(ver, e)
	return true
}

// older is chunkTable.visible to the end: writers come between its steps, even if the table is
// locked.
func (t *Table) older(c chunkTable, ver uint32, snap base.SeqNum, locked bool) uint32 {
	if locked {
		t.mu.Unlock()
		defer t.mu.Lock()
	}
	for ok := false; !ok; {
		t.mu.Lock()
		ver, ok = c.visible(ver, snap)
		t.mu.Unlock()
	}
	return ver
}

// Freeze makes the table immutable: from now on no reader takes a lock. The caller
// must not write any more. Freezing twice is allowed. Bytes is from now on what the
// table holds in its final form, an array of items in place of the tree, which the first
// ordered read or Source makes.
func (t *Table) Freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Load() == stateFrozen {
		return
	}
	t.orderBytes = int64(t.index.taken) * int64(unsafe.Sizeof(item{}))
	t.updateBytesLocked()
	t.state.Store(stateFrozen) // last: readers change the order from here on, unlocked
}

// frozen reports whether Freeze was called.
func (t *Table) frozen() bool { return t.state.Load() == stateFrozen }

// Bytes returns the memory the table holds: chunks, hash index, tree (an estimate)
// and range tombstones; 0 for an empty table, whose memory no flush gives back. It changes
// with Put, DeleteRange and Freeze alone. It is one atomic load.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Len returns the number of keys.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.taken
}

// HasKeys reports whether the table may have a key. It is one atomic load.
func (t *Table) HasKeys() bool { return t.state.Load() != stateEmpty }

// Keys is Len as one atomic load. A key that was put before is counted, and one that is counted is
// found by each read that begins after: what has no key at a count gets none until that rises.
func (t *Table) Keys() uint64 { return t.keys.Load() }

// Tombstones returns how many of the versions are tombstones of one key.
func (t *Table) Tombstones() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tombstones
}

// MinSeq returns the lowest sequence number ever put into the table, whether or not
// its version has been let go since; base.MaxSeqNum if the table is empty.
func (t *Table) MinSeq() base.SeqNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.minSeq
}

// MaxSeq returns the highest sequence number put into the table, 0 if it is empty.
func (t *Table) MaxSeq() base.SeqNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.maxSeq
}

func (t *Table) noteSeqLocked(seq base.SeqNum) {
	t.minSeq = min(t.minSeq, seq)
	t.maxSeq = max(t.maxSeq, seq)
}

func (t *Table) updateBytesLocked() {
	t.bytes.Store(int64(unsafe.Sizeof(*t)) + int64(len(t.prefix)) + t.arena.heldBytes +
		t.index.heldBytes() + t.orderBytes + t.rangeBytes)
}
