package wal

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// # Views
//
// A View is a log for readers of the retained log in a process that does not write it. That of a
// Follower grows with it: Grow adds the segments that the follower has gone on to, and moves the
// end. What the writing process lets go of shows when a Reader comes there: the file is gone, and
// the view forgets it and what is older.
//
// Invariants: a view never shows a record that its follower has not read. Where the records of the
// last segment end is never beyond a marker, since the next record takes its place.

// View is a log for reading alone: what Recover has found, with the segments that lead up to it. It
// changes nothing. It takes no records, and need not be closed.
func View(o Options, t Tail) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, last: t.LastSeq, done: true, closed: t.keep}
	l.o.Retain = true
	l.lastSeq.Store(uint64(t.LastSeq))
	l.synced.Store(uint64(t.LastSeq))
	t.drop = slices.Clone(t.drop)
	return l, l.keepRetained(&t)
}

// Grow makes a view show the records that a Follower has read, up to one of them. The first call is
// with a follower from the Tail of the view on; after that WaitAppend waits for further ones.
func (l *Log) Grow(f *Follower, upTo base.SeqNum) {
	if len(f.walked) > 0 {
		l.forgetGone()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grows = true
	l.continueLocked()
	for _, w := range f.walked {
		if l.cur != nil {
			l.cur.last, l.cur.end = w.s.base-1, w.before
			l.closed = append(l.closed, l.cur)
		}
		l.cur = w.s
	}
	f.walked = nil
	l.off = f.off
	if upTo > l.last {
		l.last = upTo
		l.lastSeq.Store(uint64(upTo))
		l.synced.Store(uint64(upTo))
		l.wakeLocked()
	}
}

// continueLocked makes the last segment the current one, which may get more records.
func (l *Log) continueLocked() {
	if n := len(l.closed); l.cur == nil && n > 0 {
		l.cur, l.closed = l.closed[n-1], l.closed[:n-1:n-1]
	}
}

// forgetGone makes a view forget the youngest segment whose file is not there any more, and what is
// older: some of that may be there still, to be used again.
func (l *Log) forgetGone() {
	l.mu.Lock()
	chain := l.chainLocked()
	l.mu.Unlock()
	for i := len(chain) - 2; i >= 0; i-- {
		_, err := l.o.FS.Stat(chain[i].path)
		if errors.Is(l.gone(chain[i], err), ErrGone) {
			return
		}
	}
}

// Renew makes a view that of another Tail, since its follower has begun again.
func (l *Log) Renew(t Tail) error {
	v, err := View(l.o, t)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != nil { // of readers that are in it
		l.cur.last, l.cur.end = l.last, l.off
	}
	l.closed, l.retained, l.cur, l.off = v.closed, v.retained, nil, t.records
	l.continueLocked() // at once: a Reader that comes first does not take the segment for complete
	return nil
}

// Pinned returns the oldest segment that a Reader has open, or the given one if there is none.
func (l *Log) Pinned(or SegmentNum) SegmentNum {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.chainLocked() {
		if s.pins > 0 {
			return min(s.num, or)
		}
	}
	return or
}

// gone makes a view forget a segment whose file is not there, and those before it.
func (l *Log) gone(s *segment, err error) error {
	if !l.done || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	after := func(list []*segment) []*segment {
		return slices.DeleteFunc(slices.Clone(list), func(c *segment) bool {
			return c.num <= s.num
		})
	}
	l.retained, l.closed = after(l.retained), after(l.closed)
	return errors.Join(ErrGone, err)
}
