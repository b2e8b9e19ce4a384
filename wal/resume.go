package wal

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/vfs"
)

// The segment in which Open goes on is small and grows. Most databases that are opened are
// small, or are opened to write a little: for them a segment of megabytes costs more to
// allocate, to map and to give back than everything else of Open. A segment that is not
// mapped grows in steps of a quarter, up to smallSegmentBytes; its records are written.
// Those after it have the ordinary size and are mapped.

// smallest returns the size of the smallest segment that does not grow.
func (l *Log) smallest() int64 { return min(smallSegmentBytes, l.o.SegmentBytes) }

// growable reports whether the current segment can become larger, for a record that needs a
// segment of the given size.
func (l *Log) growableLocked(need int64) bool {
	s := l.cur
	return s != nil && s.mem == nil && s.size < l.smallest() &&
		(need <= leastSegmentBytes || l.off+need <= l.smallest())
}

// growLocked makes the current segment larger. It releases mu meanwhile.
//
// Requires: it is growable, and l.next is nil, so that it stays the current one.
func (l *Log) growLocked(need int64) {
	s := l.cur
	size := s.size + max(growBytes, s.size/4)
	least := s.size + growAlign
	if need > leastSegmentBytes {
		least = l.off + need
	}
	size = min((max(size, least)+growAlign-1)/growAlign*growAlign, l.smallest())
	least = min(least, size)
	l.mu.Unlock()
	grown := s.size
	err := l.inSpace(size-grown, least-grown, func(n int64) error {
		err := s.file.Allocate(s.size + n)
		if err == nil {
			grown = s.size + n
		}
		return err
	})
	l.mu.Lock()
	l.attempts++
	if err != nil {
		l.prepareErr = fmt.Errorf("grow log segment: %w", err)
		l.failedAt, l.failedNeed = l.attempts, need
	}
	s.size = grown
	l.need = 0 // whoever still needs it asks again
	if !l.growableLocked(0) {
		kick(l.prepareKick) // the next segment, in good time
	}
	l.ready.Broadcast()
}

// resume does steps 3 and 4 of Open, and reports whether the log goes on in its last segment:
// if that is small, and has no second name in a copy of the database by hard links, which
// keeps it as it is. With Options.Retain it reports whether Open needs no segment.
func (l *Log) resume(t Tail) (bool, error) {
	n := len(l.closed) - 1
	if n < 0 {
		return false, nil
	}
	s := l.closed[n]
	if l.o.Retain {
		// A log that was closed needs no proof of its end: the first Append begins a segment.
		return t.marked() && s.size == t.Offset, nil
	}
	if t.Offset+recordHeader > l.smallest() {
		return false, nil
	}
	f, err := l.o.FS.OpenReadWrite(s.path)
	if err != nil {
		return false, fmt.Errorf("open log segment: %w", err)
	}
	if links, err := f.Links(); err != nil || links > 1 {
		return false, errors.Join(err, f.Close())
	}
	return true, l.resumeIn(f, t)
}

// marked reports whether the log ends with a marker that says that all of it is durable.
func (t *Tail) marked() bool { return t.records < t.Offset && t.synced == t.LastSeq }

// resumeIn makes the last segment the current one.
func (l *Log) resumeIn(f vfs.File, t Tail) error {
	n := len(l.closed) - 1
	s := l.closed[n]
	l.mu.Lock()
	defer l.mu.Unlock()
	s.file, s.dirty = f, true
	l.cur, l.off, l.closed, l.dirty = s, t.records, l.closed[:n], append(l.dirty, s)
	cut := s.size > t.Offset
	if cut {
		if err := f.Truncate(t.Offset); err != nil {
			return fmt.Errorf("cut log segment: %w", err)
		}
	}
	s.size = t.Offset
	if t.marked() {
		l.marked = l.last
		if !cut {
			return nil // it was closed, and nothing has come after
		}
	} else if err := l.placeMarkerLocked(); err == nil {
		s.size = max(s.size, l.off+recordHeader)
	} else if !errors.Is(err, vfs.ErrNoSpace) { // it is a proof for later
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync log segment %s: %w", s.path, err)
	}
	return nil
}
