package wal

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Record is a record of the log.
type Record struct {
	Seq     base.SeqNum
	Payload []byte // valid until the next call of the Reader
	// History is the use id of the segment, see Log.History.
	History uint64
}

// Reader reads the records of a log in order, from retained segments on to the current one, while
// others append. It keeps the segment that it reads, and no other, whatever is forgotten
// meanwhile. One goroutine uses it. The caller closes it.
type Reader struct {
	log  *Log
	next base.SeqNum // of the record that is read next

	seg      *segment // pinned; nil: to be found
	before   *segment // pinned until seg is: what follows it is kept with it
	file     *segmentReader
	off, end int64 // what is left of the known records in it
	complete bool  // it gets no more
	buf      []byte
}

// NewReader returns a reader of the records from one on, which may be the next that is appended.
func (l *Log) NewReader(from base.SeqNum) *Reader { return &Reader{log: l, next: from} }

// Next returns the next record, unless its sequence number is above limit: then ok is false, and
// a later call may return it. The error matches ErrGone if it is not retained any more.
func (r *Reader) Next(limit base.SeqNum) (rec Record, ok bool, err error) {
	for r.next <= limit {
		if r.off >= r.end {
			if more, err := r.advance(); err != nil || !more {
				return rec, false, err
			}
		}
		h, payload, ok, err := r.file.record(r.off, r.seg.tag)
		if err != nil {
			return rec, false, err
		}
		if !ok || !h.marker() && h.seq > r.next {
			return rec, false, corrupt.New(r.seg.path, r.off, "log record",
				fmt.Sprintf("commit %d", r.next), "other bytes")
		}
		r.off += recordBytes(h.payloadBytes())
		if h.marker() || h.seq < r.next {
			continue
		}
		r.next++
		return Record{Seq: h.seq, Payload: payload, History: r.seg.useID}, true, nil
	}
	return rec, false, nil
}

// advance finds more records: in the same segment or in the one that follows. More is false if
// there are none yet.
func (r *Reader) advance() (more bool, err error) {
	for {
		if r.seg == nil {
			if err := r.enter(); err != nil || r.seg == nil {
				return false, err
			}
		}
		if r.off < r.end {
			return true, nil
		}
		if r.complete {
			if r.next <= r.seg.last {
				return false, corrupt.New(r.seg.path, r.end, "log segment",
					fmt.Sprintf("commit %d", r.next), "its end")
			}
			r.before = r.seg
			if err := r.leave(); err != nil {
				return false, err
			}
			continue
		}
		before := r.end
		r.look()
		if r.end == before && !r.complete {
			return false, nil
		}
	}
}

// enter opens the segment that has the next record, if there is one.
func (r *Reader) enter() error {
	l := r.log
	l.mu.Lock()
	s := l.holderLocked(r.next)
	if s == nil {
		last, oldest := l.last, l.oldestLocked()
		l.mu.Unlock()
		if r.next > last {
			return nil
		}
		return fmt.Errorf("%w: commit %d, the oldest is %d", ErrGone, r.next, oldest)
	}
	s.pins++
	l.mu.Unlock()
	if err := r.letGo(); err != nil {
		return errors.Join(err, l.unpin(s))
	}
	file, err := openReader(l.o.FS, s.path, r.buf)
	if err != nil {
		return errors.Join(l.gone(s, err), l.unpin(s))
	}
	r.seg, r.file, r.off, r.end = s, file, segmentHeader, segmentHeader
	r.look()
	return nil
}

// look learns how far the records of the segment reach.
func (r *Reader) look() {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.complete = r.seg != l.cur; r.complete {
		r.end = r.seg.end
	} else {
		r.end = l.off
	}
	r.file.size = r.end
}

// leave lets go of the segment.
func (r *Reader) leave() (err error) {
	if r.seg == nil {
		return nil
	}
	r.buf, err = r.file.close()
	if r.before == nil {
		err = errors.Join(err, r.log.unpin(r.seg))
	}
	r.seg, r.file, r.off, r.end, r.complete = nil, nil, 0, 0, false
	return err
}

// letGo lets go of the segment before the present one.
func (r *Reader) letGo() error {
	s := r.before
	if r.before = nil; s == nil {
		return nil
	}
	return r.log.unpin(s)
}

// Close lets go of what the reader keeps.
func (r *Reader) Close() error { return errors.Join(r.letGo(), r.leave()) }

// unpin lets a segment go that has been released meanwhile.
func (l *Log) unpin(s *segment) error {
	l.mu.Lock()
	s.pins--
	remove := l.dropUnpinnedLocked()
	l.mu.Unlock()
	return l.remove(remove, false)
}
