package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// # Retained segments
//
// A released segment is of no use for recovery. With Options.Retain it stays, for those that read
// the commits of the past, until Forget.
//
// The naive way: a directory of their own, into which Release moves or links them.
//
// Why it fails: every move is a step at which a crash leaves a segment in two places or in none,
// and a file with two names is not recycled. And a directory that is not copied with the database
// holds segments of another history: those that were written after the copy was made.
//
// The way taken: a retained segment keeps its name. Recovery skips what lies below the first
// segment that the manifest needs. Open follows the headers from there backwards, each of which
// names the segment before it and where that ended, and removes what they do not lead to.
//
// A copy of a database and its original have one identity, and the segments in common up to the
// copy. Without Retain both may go on in the same last segment, with the same use id: a record of
// one passes for a record of the other. So with Retain Open never appends to a segment that it has
// found: the use id of the segment that holds a commit says which history it belongs to.
//
// Invariants: retained segments, closed segments and the current one have no gap in their sequence
// numbers. With Retain a segment has the records of one Open.
//
// What a crash leaves: Forget removes the oldest first. After a power cut any of the removals may
// be undone or lost: the chain ends at the youngest gap, and Open removes the rest.

// ErrGone is matched by the error of a Reader for a record that is not retained any more.
var ErrGone = errors.New("log record is not retained any more")

// ErrDone is matched by the error of WaitAppend for a log that takes no more records.
var ErrDone = errors.New("log takes no more records")

// keepRetained finds the segments below t that lead up to it, and takes them from what Open
// removes: all with Options.Retain, otherwise those that Options.Floor says are needed.
func (l *Log) keepRetained(t *Tail) error {
	if len(t.keep) == 0 {
		return nil
	}
	floor := SegmentNum(0)
	if !l.o.Retain {
		if l.o.Floor == nil {
			return nil
		}
		if floor = l.o.Floor(); floor >= t.keep[0].num {
			return nil
		}
	}
	now := time.Now()
	after, _, err := l.o.headerOf(t.keep[0].num)
	for err == nil && after.prev >= max(1, floor) && slices.Contains(t.drop, after.prev) {
		h, size, herr := l.o.headerOf(after.prev)
		if l.done && errors.Is(herr, fs.ErrNotExist) {
			break // its writer has let it go meanwhile
		}
		if herr == nil && (h.base > after.base || size < after.prevEnd) {
			herr = corrupt.New(l.o.path(after.prev), min(size, after.prevEnd), "log segment",
				fmt.Sprintf("commits up to %d, and %d bytes", after.base-1, after.prevEnd),
				fmt.Sprintf("commits from %d on, and %d bytes", h.base, size))
		}
		if errors.Is(herr, corrupt.ErrCorrupt) {
			l.broken = herr
			break
		}
		if err = herr; err != nil {
			break
		}
		l.retained = append(l.retained, &segment{num: h.num, path: l.o.path(h.num), size: size,
			useID: h.useID, tag: h.tag(), base: h.base, last: after.base - 1,
			end: after.prevEnd, durable: true, released: now})
		t.drop = slices.DeleteFunc(t.drop, func(n SegmentNum) bool { return n == h.num })
		after = h
	}
	slices.Reverse(l.retained)
	return err
}

// headerOf returns the header of a segment and the size of its file.
func (o *Options) headerOf(n SegmentNum) (h header, size int64, err error) {
	r, err := openReader(o.FS, o.path(n), nil)
	if err != nil {
		return h, 0, err
	}
	h, _, err = r.header()
	if err == nil {
		err = nameError(h.checkPlace(o.DBID, n), o.path(n))
	}
	_, cerr := r.close()
	return h, r.size, errors.Join(err, cerr)
}

// Broken returns the damage at which the retained segments began when the log was opened; nil if
// it was none. Open has removed what was older, View has left it out.
func (l *Log) Broken() error { return l.broken }

// Retained describes the retained segments by age.
func (l *Log) Retained() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return infosOf(nil, l.retained, SegmentRetained)
}

func infosOf(to []SegmentInfo, list []*segment, state SegmentState) []SegmentInfo {
	for _, s := range list {
		to = append(to, SegmentInfo{s.num, state, s.size, s.end, s.base, s.last, s.released})
	}
	return to
}

// Forget lets go of retained segments with a number below the given one. If files cannot be
// removed the error says so, as that of Release.
func (l *Log) Forget(below SegmentNum) error {
	l.mu.Lock()
	var remove []*segment
	for len(l.retained) > 0 && l.retained[0].num < below {
		s := l.retained[0]
		l.retained[0] = nil
		l.retained = l.retained[1:]
		if s.pins > 0 {
			l.pinned = append(l.pinned, s)
		} else {
			remove = l.retireLocked(s, remove)
		}
	}
	if l.next == nil && l.prepareKick != nil {
		kick(l.prepareKick) // there may be space now
	}
	l.mu.Unlock()
	return l.remove(remove, false)
}

// OldestSeq returns the sequence number of the oldest record that a Reader finds. It is that of
// the next record if there is none.
func (l *Log) OldestSeq() base.SeqNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldestLocked()
}

func (l *Log) oldestLocked() base.SeqNum {
	for _, s := range l.chainLocked() {
		return s.base
	}
	return l.last + 1
}

// chainLocked returns all segments with records that a Reader finds, oldest first.
func (l *Log) chainLocked() []*segment {
	chain := append(l.retained[:len(l.retained):len(l.retained)], l.closed...)
	if l.cur != nil {
		chain = append(chain, l.cur)
	}
	return chain
}

// History returns the use id of the segment that holds a record, which identifies the history of
// the database up to it. It is 0 if no segment has the record.
func (l *Log) History(seq base.SeqNum) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.holderLocked(seq); s != nil && seq <= l.last {
		return s.useID
	}
	return 0
}

// holderLocked returns the segment that has a record, or will have it as its next one; nil if
// there is none.
func (l *Log) holderLocked(seq base.SeqNum) *segment {
	if s := l.cur; s != nil && s.base <= seq {
		return s
	}
	for _, list := range [][]*segment{l.closed, l.retained} {
		for i := len(list) - 1; i >= 0; i-- {
			if s := list[i]; s.base <= seq {
				if seq <= s.last {
					return s
				}
				return nil
			}
		}
	}
	return nil
}

// WaitAppend returns when there is a record above the given one. It returns the cause of ctx
// when that ends, and an error that matches ErrDone or is that of the log if there will be none.
func (l *Log) WaitAppend(ctx context.Context, after base.SeqNum) error {
	for {
		l.mu.Lock()
		if l.last > after {
			l.mu.Unlock()
			return nil
		}
		if err := l.usableLocked(); err != nil && !l.grows {
			l.mu.Unlock()
			return fmt.Errorf("%w: %w", ErrDone, err)
		}
		if l.appended == nil {
			l.appended = make(chan struct{})
		}
		appended := l.appended
		l.mu.Unlock()
		select {
		case <-appended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wakeLocked wakes those that wait for a record.
func (l *Log) wakeLocked() {
	if l.appended != nil {
		close(l.appended)
		l.appended = nil
	}
}
