package compaction

import (
	"bytes"
	"fmt"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/rangedel"
)

// MergeOptions say what a Merge may leave out.
type MergeOptions struct {
	// Snapshots are the sequence numbers of the registered snapshots, ascending.
	Snapshots []base.SeqNum
	// Horizon is the lowest sequence number that a snapshot taken later can get, read
	// together with Snapshots. A lower value is safe and keeps more.
	Horizon base.SeqNum
	// Bottom: nothing older than the inputs exists in the stripe.
	Bottom bool
	// NowMs is the time at which entries count as expired, Unix milliseconds. Readers
	// must never use an earlier one again.
	NowMs int64
	// RangeTombstones are those of all inputs, in any order.
	RangeTombstones []base.RangeTombstone
	// KeepSeqs keeps sequence numbers that Bottom would replace by 0.
	KeepSeqs bool
	// PrefixBytes is a length that all keys have in common, see SharedPrefix. It only
	// saves time.
	PrefixBytes int
}

// Merge merges sources and drops the versions that no snapshot, present or future,
// can see. It is a cursor.Source itself. A flush uses it too, with one source.
//
// For every key and every snapshot the output together with RangeTombstones gives
// what the inputs gave, as long as the runs behind the inputs stay where they are.
// Sequence numbers that no snapshot can tell from 0 become 0 at the bottom, where
// they take less space and no newer version can be mistaken for older: every
// version above and every kept range tombstone has a higher one.
type Merge struct {
	tree loserTree
	eras rangedel.Eras
	o    MergeOptions

	covers []cover               // by era, newest first
	ranges []base.RangeTombstone // to be written

	key    []byte      // of the current group of versions; ours
	prev   base.SeqNum // the version of key before this one; noVersion if none
	keyNum uint64      // counts keys
	moved  bool        // the tree's winner is new: not looked at yet, or the end

	// At the bottom, tombstones of key wait here until an older version that is kept
	// shows that they are needed.
	waiting []base.SeqNum
	release int  // how many of waiting are out
	held    bool // out holds that older version; it comes after waiting

	older base.Entry // the held entry
	out   base.Entry
	err   error
}

// cover finds range tombstones of one era over ascending keys.
type cover struct {
	end    base.SeqNum
	walker rangedel.Walker
	keyNum uint64 // of the key that seq is for
	seq    base.SeqNum
}

const noVersion = ^base.SeqNum(0)

// NewMerge returns a merge of sources, which are ordered newest first: of two
// entries with the same key and sequence number the one of the first source wins,
// within a source the first one.
func NewMerge(sources []cursor.Source, o MergeOptions) *Merge {
	m := &Merge{o: o, eras: rangedel.NewEras(o.Snapshots, o.Horizon), prev: noVersion}
	for _, g := range rangedel.ByEra(o.RangeTombstones, &m.eras) {
		// Above the horizon each number is an era of its own, in which nothing is
		// older than the tombstone.
		if g.End <= o.Horizon {
			m.covers = append(m.covers, cover{end: g.End, walker: g.List.Walk()})
		}
	}
	m.ranges = rangedel.Keep(o.RangeTombstones, &m.eras, o.Bottom)
	m.tree.init(sources, o.PrefixBytes)
	m.moved = true
	return m
}

// SharedPrefix returns the length of the longest prefix that all keys of the files
// have in common.
func SharedPrefix(files []*base.FileMeta) int {
	var lo, hi []byte
	for _, f := range files {
		if f.Entries == 0 {
			continue // range tombstones only
		}
		if lo == nil || bytes.Compare(f.Smallest, lo) < 0 {
			lo = f.Smallest
		}
		if bytes.Compare(f.Largest, hi) > 0 {
			hi = f.Largest
		}
	}
	n := 0
	for n < min(len(lo), len(hi)) && lo[n] == hi[n] {
		n++
	}
	return n
}

// RangeTombstones returns the range tombstones that belong to the output, in
// (start ascending, sequence descending) order. They refer to the key slices of
// the input's. A caller that cuts the output into files puts each into any one of them.
func (m *Merge) RangeTombstones() []base.RangeTombstone { return m.ranges }

// Entry implements cursor.Source.
func (m *Merge) Entry() *base.Entry { return &m.out }

// Err implements cursor.Source.
func (m *Merge) Err() error { return m.err }

// Next implements cursor.Source.
func (m *Merge) Next() bool {
	if m.release < len(m.waiting) && m.held {
		m.out = base.Entry{Key: m.key, Seq: m.waiting[m.release], Kind: base.KindDelete}
		m.release++
		return true
	}
	if m.held {
		m.out, m.held = m.older, false
		m.waiting, m.release = m.waiting[:0], 0
		return true
	}
	for m.err == nil {
		if !m.moved {
			m.tree.next()
		}
		in := m.tree.winner()
		m.moved = in == nil
		if in == nil {
			m.err = m.tree.err
			m.dropWaiting()
			return false
		}
		if !m.take(in) {
			continue
		}
		if len(m.waiting) > 0 {
			m.older, m.held = m.out, true
			return m.Next()
		}
		return true
	}
	return false
}

// take judges the next version. If it belongs to the output it is in m.out.
func (m *Merge) take(in *input) bool {
	e := in.entry
	if c := bytes.Compare(e.Key, m.key); c != 0 || m.keyNum == 0 {
		if c < 0 {
			m.err = fmt.Errorf("merge: key %x comes after %x", e.Key, m.key)
			return false
		}
		m.dropWaiting()
		m.key = append(m.key[:0], e.Key...)
		m.keyNum++
		m.prev = noVersion
	}
	if e.Seq > m.prev {
		m.err = fmt.Errorf("merge: key %x: version %d comes after %d", e.Key, e.Seq, m.prev)
		return false
	}
	end := m.eras.End(e.Seq)
	if m.prev <= end {
		m.prev = e.Seq
		return false
	}
	m.prev = e.Seq
	if len(m.covers) > 0 && m.covered(end, e.Seq) {
		return false
	}
	m.out = base.Entry{Key: m.key, Value: e.Value, Seq: e.Seq, Expiry: e.Expiry, Kind: e.Kind}
	if e.Kind == base.KindPutTTL && !e.Live(m.o.NowMs) {
		m.out.Kind, m.out.Value, m.out.Expiry = base.KindDelete, nil, 0
	}
	if !m.o.Bottom {
		return true
	}
	if m.out.Kind == base.KindDelete {
		m.waiting = append(m.waiting, e.Seq)
		return false
	}
	if e.Seq <= m.eras.Oldest() && !m.o.KeepSeqs {
		m.out.Seq = 0
	}
	return true
}

// dropWaiting forgets tombstones with nothing to hide.
func (m *Merge) dropWaiting() {
	m.waiting = m.waiting[:0]
}

// covered reports whether a range tombstone of the version's own era hides it.
func (m *Merge) covered(end, seq base.SeqNum) bool {
	for i := range m.covers {
		c := &m.covers[i]
		if c.end != end {
			continue
		}
		if c.keyNum != m.keyNum {
			c.seq, c.keyNum = c.walker.CoverSeq(m.key), m.keyNum
		}
		return c.seq > seq
	}
	return false
}
