package wal

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/vfs"
)

// prepareLoop keeps a segment ready, so that writers rarely wait for files to be
// allocated and named.
func (l *Log) prepareLoop() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.prepareKick:
			l.prepareNext()
			l.report()
		}
	}
}

// needFor returns how large a segment must be to take a record of the given size. Small
// needs count as one, so that those who have them need not wait for each other.
func (l *Log) needFor(size int64) int64 {
	return max(segmentHeader+size+recordHeader, min(leastSegmentBytes, l.o.SegmentBytes))
}

// prepareNext makes l.next a segment that is large enough, if it is not yet.
func (l *Log) prepareNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	need := align(max(l.need, l.needFor(0)))
	size := max(need, l.o.SegmentBytes)
	if l.usableLocked() != nil || l.next != nil && l.next.size >= need {
		return
	}
	if l.next == nil && l.growableLocked(need) {
		if l.need > 0 {
			l.growLocked(need)
		}
		return
	}
	tooSmall := l.next
	l.next = nil
	num := l.nextNum
	if tooSmall != nil {
		num = tooSmall.num // its file is replaced
	}
	var spare *segment
	if n := len(l.spares); n > 0 && size == l.o.SegmentBytes {
		spare = l.spares[n-1]
		l.spares = l.spares[:n-1]
	}
	l.mu.Unlock()
	var err error
	if tooSmall != nil {
		err = tooSmall.release()
	}
	var s *segment
	if err == nil {
		s, err = l.makeSegment(num, size, need, spare)
	}
	l.mu.Lock()
	l.attempts++
	if err != nil {
		l.prepareErr, l.failedAt, l.failedNeed = err, l.attempts, need
		l.need = 0 // whoever still needs it asks again
		l.nextNum = num
	} else {
		l.next = s
		l.nextNum = num + 1
	}
	l.ready.Broadcast()
}

// makeSegment is prepareSegment. If the disk has no room for that it tries smaller ones, of
// at least need bytes, in the space that Options.MoreSpace gives up.
func (l *Log) makeSegment(num SegmentNum, size, need int64, spare *segment,
) (s *segment, err error) {
	err = l.inSpace(size, need, func(n int64) (err error) {
		s, err = l.prepareSegment(num, n, spare)
		spare = nil
		return err
	})
	return s, err
}

// inSpace calls allocate for size bytes, and for fewer, but at least need, in the space that
// Options.MoreSpace gives up if the disk has no room.
func (l *Log) inSpace(size, need int64, allocate func(n int64) error) error {
	err := allocate(size)
	for _, n := range []int64{smallSegmentBytes, leastSegmentBytes} {
		n = max(min(n, size), need)
		if err == nil || !errors.Is(err, vfs.ErrNoSpace) || l.Err() != nil {
			break
		}
		if l.o.MoreSpace != nil && l.o.MoreSpace(n) {
			err = allocate(n)
		}
	}
	return err
}

// MakeRoom returns when there is room for a record with n bytes of payload, or why there
// is none. Other records may come first.
func (l *Log) MakeRoom(n int64) error {
	size := recordBytes(n)
	need := align(l.needFor(size))
	l.mu.Lock()
	defer l.mu.Unlock()
	attempts := l.attempts
	for {
		if err := l.usableLocked(); err != nil {
			return err
		}
		if l.fitsLocked(size) {
			return nil
		}
		if l.next != nil && l.next.size >= need {
			l.need = 0 // nobody must leave the segment to this caller: who needs it asks again
			l.ready.Broadcast()
			return nil
		}
		if l.failedAt > attempts && need >= l.failedNeed {
			return l.prepareErr
		}
		l.need = max(l.need, need)
		kick(l.prepareKick)
		l.ready.Wait()
	}
}

// Prepare asks for the next segment to be prepared, if it is not: after space has been
// made for it.
func (l *Log) Prepare() { kick(l.prepareKick) }

// reuse makes the file of a released segment that of s, unless it has other names: a copy
// of the database by hard links keeps its content.
func (l *Log) reuse(s, spare *segment) error {
	if err := l.o.FS.Rename(spare.path, s.path); err != nil {
		return errors.Join(err, l.o.FS.Remove(spare.path))
	}
	f, err := l.o.FS.OpenReadWrite(s.path)
	if err != nil {
		return err
	}
	if n, err := f.Links(); err != nil || n > 1 {
		return errors.Join(err, f.Close())
	}
	s.file, s.ready = f, s.size // its blocks were written in its former life
	return nil
}

// prepareSegment makes a file for segment num: a released one under a new name, or a
// new one with its blocks allocated. When it returns the name is durable.
//
// A failure leaves nothing behind but, at worst, an unused file of that number,
// which the next attempt replaces and which recovery does not mind. A failed
// directory sync is final: a second one could report success for a name that was
// lost.
func (l *Log) prepareSegment(num SegmentNum, size int64, spare *segment) (*segment, error) {
	s := &segment{num: num, path: l.o.path(num), size: size, useID: l.o.UseID()}
	var err error
	if spare != nil {
		err = l.reuse(s, spare)
	}
	if err == nil && s.file == nil {
		s.file, err = l.o.FS.Create(s.path)
	}
	if err == nil {
		if err = s.file.Allocate(size); err != nil {
			err = errors.Join(err, s.release(), l.o.FS.Remove(s.path))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prepare log segment: %w", err)
	}
	if m, ok := s.file.(vfs.Mapper); ok && l.o.Mapped && size >= l.smallest() {
		if mapping, err := m.Map(size); err == nil {
			s.mapping, s.mem = mapping, mapping.Bytes()
		} // else each record is written, which always works
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return nil, errors.Join(l.fail(fmt.Errorf("sync log directory: %w", err)), s.release())
	}
	return s, nil
}
