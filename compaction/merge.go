package compaction

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/merge"
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
	// Done, once it is closed, ends the merge with ErrStopped after 64 KiB at most, and one that
	// begins later at once. Nil is allowed.
	Done <-chan struct{}
}

// ErrStopped is the error of a merge that was ended by MergeOptions.Done.
var ErrStopped = errors.New("merge: stopped")

// Merge merges sources and drops the versions that no snapshot, present or future,
// can see. A flush uses it too, with one source.
//
// For every key and every snapshot the output together with RangeTombstones gives
// what the inputs gave, as long as the runs after the inputs stay where they are.
type Merge struct {
	versions merge.Merge  // every version of the sources, in order
	rows     []base.Entry // of versions, rows[0] is the last one taken
	eras     rangedel.Eras
	o        MergeOptions

	covers []cover               // by era, newest first
	ranges []base.RangeTombstone // to be written

	key    []byte      // of the current group of versions; ours
	prev   base.SeqNum // the version of key before this one; noVersion if none
	keyNum uint64      // counts keys

	// At the bottom, tombstones of key wait here until an older version that is kept
	// shows that they are needed.
	waiting []base.SeqNum
	release int  // how many of waiting are out
	held    bool // out holds that older version; it comes after waiting

	older base.Entry // the held entry
	out   base.Entry
	err   error

	sinceOK int // bytes read since the last look at Done
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
	m := &Merge{o: o, eras: rangedel.NewEras(o.Snapshots, o.Horizon), prev: noVersion,
		sinceOK: stopBytes}
	for _, g := range rangedel.ByEra(o.RangeTombstones, &m.eras) {
		// Above the horizon each number is an era of its own, in which nothing is
		// older than the tombstone.
		if g.End <= o.Horizon {
			m.covers = append(m.covers, cover{end: g.End, walker: g.List.Walk()})
		}
	}
	m.ranges = rangedel.Keep(o.RangeTombstones, &m.eras, o.Bottom)
	m.versions.Init(merge.Options{Versions: true})
	for i, s := range sources {
		*m.versions.Add() = merge.Input{Source: s, Age: int32(i)}
	}
	return m
}

// RangeTombstones returns the range tombstones that belong to the output, in
// (start ascending, sequence descending) order. They refer to the key slices of
// the input's. A caller that cuts the output into files puts each into any one of them.
func (m *Merge) RangeTombstones() []base.RangeTombstone { return m.ranges }

// Entry returns the entry that Next has moved to, valid until the next call of Next.
func (m *Merge) Entry() *base.Entry { return &m.out }

// Err returns the error that ended the merge, nil at an ordinary end.
func (m *Merge) Err() error { return m.err }

// Next moves to the next entry of the output; false at the end or on an error.
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
		if m.rows = m.rows[min(1, len(m.rows)):]; len(m.rows) == 0 && !m.refill() {
			return false
		}
		if m.stopped(&m.rows[0]) {
			return false
		}
		if !m.take(&m.rows[0]) {
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

// stopBytes is how much a merge reads between two looks at Done.
const stopBytes = 64 << 10

// stopped reports whether the merge ends before the next version, which is read.
func (m *Merge) stopped(e *base.Entry) bool {
	if m.sinceOK += len(e.Key) + len(e.Value); m.sinceOK < stopBytes {
		return false
	}
	m.sinceOK = 0
	select {
	case <-m.o.Done:
		m.err = ErrStopped
		return true
	default:
		return false
	}
}

// refill reads the next versions, and reports whether there are any.
func (m *Merge) refill() bool {
	if m.rows = m.versions.Rows(); len(m.rows) == 0 {
		m.err = m.versions.Err()
	}
	return len(m.rows) > 0
}

// take judges the next version. If it belongs to the output it is in m.out.
func (m *Merge) take(e *base.Entry) bool {
	if c := bytes.Compare(e.Key, m.key); c != 0 || m.keyNum == 0 {
		if c < 0 {
			m.err = fmt.Errorf("merge: key %x comes after %x", e.Key, m.key)
			return false
		}
		m.waiting = m.waiting[:0] // they hide nothing
		m.key = append(m.key[:0], e.Key...)
		m.keyNum++
		m.prev = noVersion
	}
	if e.Seq > m.prev {
		m.err = fmt.Errorf("merge: key %x: version %d comes after %d", e.Key, e.Seq, m.prev)
		return false
	}
	end := m.eras.End(e.Seq)
	hidden := m.prev <= end || m.covered(end, e.Seq)
	m.prev = e.Seq
	if hidden {
		return false
	}
	m.out = *e
	m.out.Key = m.key
	if e.Kind == base.KindPutTTL && !e.Live(m.o.NowMs) {
		m.out = base.Entry{Key: m.key, Seq: e.Seq, Kind: base.KindDelete}
	}
	if !m.o.Bottom {
		return true
	}
	if m.out.Kind == base.KindDelete {
		m.waiting = append(m.waiting, e.Seq)
		return false
	}
	return true
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
