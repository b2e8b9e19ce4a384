package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/kstonedb/kstone/internal/base"
)

// SegmentState is what a segment file is used for.
type SegmentState uint8

// The states of a segment, in the order of its life.
const (
	SegmentPrepared SegmentState = iota + 1 // waits to become active
	SegmentActive                           // gets the records
	SegmentClosed                           // has records that may be needed
	SegmentSpare                            // released; will be prepared under a new number
	SegmentRetained                         // released, and kept for those that read the past
)

// String returns the state's name.
func (s SegmentState) String() string {
	switch s {
	case SegmentPrepared:
		return "prepared"
	case SegmentActive:
		return "active"
	case SegmentClosed:
		return "closed"
	case SegmentSpare:
		return "spare"
	case SegmentRetained:
		return "retained"
	}
	return "unknown"
}

// SegmentInfo describes a segment file.
type SegmentInfo struct {
	Num       SegmentNum
	State     SegmentState
	SizeBytes int64 // of the file
	UsedBytes int64 // header and records; 0 for prepared and spare segments
	FirstSeq  base.SeqNum
	LastSeq   base.SeqNum // FirstSeq-1 if it has no record
	Released  time.Time   // when a retained one was retained, or the log opened
}

// Segments describes all files of the log: retained and closed ones by age, those that are
// released and pinned among them, the active one, the prepared one, the spares.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := infosOf(nil, l.pinned, SegmentClosed)
	infos = infosOf(infos, l.retained, SegmentRetained)
	infos = infosOf(infos, l.closed, SegmentClosed)
	if s := l.cur; s != nil {
		infos = append(infos, SegmentInfo{Num: s.num, State: SegmentActive, SizeBytes: s.size,
			UsedBytes: l.off, FirstSeq: s.base, LastSeq: l.last})
	}
	if s := l.next; s != nil {
		infos = append(infos, SegmentInfo{Num: s.num, State: SegmentPrepared, SizeBytes: s.size})
	}
	for _, s := range append(l.spares[:len(l.spares):len(l.spares)], l.obsolete...) {
		infos = append(infos, SegmentInfo{Num: s.num, State: SegmentSpare, SizeBytes: s.size})
	}
	return infos
}

// HasNext reports whether the log can go on in a further segment without new space: one is
// prepared, or a released one waits.
func (l *Log) HasNext() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil || len(l.spares) > 0
}

// SizeBytes returns the disk space of all files of the log.
func (l *Log) SizeBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sizeOf(l.closed, l.spares, l.obsolete, l.pinned, l.retained,
		[]*segment{l.cur, l.next})
}

func sizeOf(lists ...[]*segment) (n int64) {
	for _, list := range lists {
		for _, s := range list {
			if s != nil {
				n += s.size
			}
		}
	}
	return n
}

// HeldBytes is SizeBytes without what no flush gives back, for the budget that writers wait
// for. Files whose removal has failed do not count, nor do released segments that are pinned or
// retained.
// The active and the prepared segment count as of ordinary size: a giant one, made for one
// giant record, cannot be released before a later record starts the next one.
func (l *Log) HeldBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := sizeOf(l.closed, l.spares)
	for _, s := range []*segment{l.cur, l.next} {
		if s != nil {
			n += min(s.size, l.o.SegmentBytes)
		}
	}
	return n
}

// Oldest returns the oldest closed segment and its last sequence number; ok is false
// if there is none. Releasing everything up to lastSeq frees it.
func (l *Log) Oldest() (seg SegmentNum, lastSeq base.SeqNum, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.closed) == 0 {
		return 0, 0, false
	}
	return l.closed[0].num, l.closed[0].last, true
}

// FirstSegment returns the segment at which a recovery that needs seq and all later
// records must start. The segment's name and header are durable, so that a manifest
// may rely on it. 0 means that there is no such segment.
func (l *Log) FirstSegment(seq base.SeqNum) SegmentNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.cur; s != nil && s.durable && s.base <= seq {
		return s.num
	}
	for i := len(l.closed) - 1; i >= 0; i-- {
		if s := l.closed[i]; s.durable && (s.base <= seq || i == 0) {
			return s.num
		}
	}
	if s := l.cur; s != nil && s.durable {
		return s.num
	}
	return 0
}

// Release says that records with sequence numbers below `below` are needed no more:
// they are in SST files, and a manifest that no longer refers to their segments is
// durable. Whole segments of such records are kept for recycling or removed. It may
// wait for a sync, and releases nothing that is not synced.
//
// If files cannot be removed, the error says so, once. Later calls try again, after a pause
// that doubles from removeAgain to removeAgainMost, and say so again.
func (l *Log) Release(below base.SeqNum) error {
	if l.wantsSync(below) {
		if err := l.barrier(); err != nil {
			return err
		}
	}
	floor := SegmentNum(math.MaxUint64)
	if l.o.Floor != nil {
		floor = l.o.Floor()
	}
	l.mu.Lock()
	var remove []*segment
	again := l.removalDueLocked()
	if again {
		remove, l.obsolete = l.obsolete, nil
	}
	for l.releasableLocked(below) {
		s := l.closed[0]
		l.closed[0] = nil
		l.closed = l.closed[1:]
		if l.o.Retain || s.num >= floor {
			s.released = time.Now()
			l.retained = append(l.retained, s)
		} else if s.pins > 0 {
			l.pinned = append(l.pinned, s)
		} else {
			remove = l.retireLocked(s, remove)
		}
	}
	if l.next == nil {
		kick(l.prepareKick) // there may be space now
	}
	l.mu.Unlock()
	return l.remove(remove, again)
}

// retireLocked keeps a released segment for recycling, or adds it to those to be removed.
func (l *Log) retireLocked(s *segment, remove []*segment) []*segment {
	if s.size == l.o.SegmentBytes && len(l.spares) < l.o.RecycleSegments {
		l.spares = append(l.spares, s)
		return remove
	}
	return append(remove, s)
}

// removeAgain is the pause before what could not be removed is tried again. It doubles with
// each failure, up to removeAgainMost.
const (
	removeAgain     = 100 * time.Millisecond
	removeAgainMost = time.Minute
)

// RemovalDue reports whether files are left that a Release would try to remove again.
func (l *Log) RemovalDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.removalDueLocked()
}

func (l *Log) removalDueLocked() bool {
	return len(l.obsolete) > 0 && !time.Now().Before(l.removeAt)
}

// remove removes released segments. Those that stay become obsolete; there is an error if
// they are the first, or again if the list is of those that have stayed.
func (l *Log) remove(list []*segment, again bool) error {
	var failed []*segment
	var cause error
	for _, s := range list {
		err := l.o.FS.Remove(s.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed, cause = append(failed, s), err
		}
	}
	if len(list) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.obsolete = append(l.obsolete, failed...)
	if len(l.obsolete) == 0 {
		l.removePause = 0
	}
	if len(failed) == 0 || l.removePause > 0 && !again {
		return nil
	}
	l.removePause = min(max(2*l.removePause, removeAgain), removeAgainMost)
	l.removeAt = time.Now().Add(l.removePause)
	return fmt.Errorf("remove %d log segments, tried again in %v: %w", len(l.obsolete),
		l.removePause, cause)
}

// DropSpares removes released segments that wait for their next use, all but keep, to give
// their space back, and those that could not be removed so far, without a pause: on a full
// disk their space is wanted. What stays is tried again by Release.
func (l *Log) DropSpares(keep int) {
	l.mu.Lock()
	drop := l.obsolete
	l.obsolete = nil
	if len(l.spares) > keep {
		drop = append(drop, l.spares[keep:]...)
		l.spares = l.spares[:keep]
	}
	l.mu.Unlock()
	_ = l.remove(drop, false)
}

// releasableLocked reports whether the oldest closed segment can go. Why the segment
// after it must be durable: recovery needs one that starts at or below what it needs.
func (l *Log) releasableLocked(below base.SeqNum) bool {
	if len(l.closed) == 0 {
		return false
	}
	s, after := l.closed[0], l.cur
	if len(l.closed) > 1 {
		after = l.closed[1]
	}
	return s.last < below && !s.dirty && after != nil && after.durable
}

// wantsSync reports whether a sync would allow a segment to be released.
func (l *Log) wantsSync(below base.SeqNum) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.closed {
		after := l.cur
		if i+1 < len(l.closed) {
			after = l.closed[i+1]
		}
		if s.last < below && after != nil && (s.dirty || !after.durable) {
			return true
		}
	}
	return false
}
