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

// prepareNext makes l.next a segment that is large enough, if it is not yet.
func (l *Log) prepareNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := align(max(l.need, l.o.SegmentBytes))
	if l.usableLocked() != nil || l.next != nil && l.next.size >= size {
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
		s, err = l.prepareSegment(num, size, spare)
	}
	l.mu.Lock()
	l.attempts++
	if err != nil {
		l.prepareErr, l.failedAt, l.failedNeed = err, l.attempts, size
		l.need = 0 // whoever still needs it asks again
		l.nextNum = num
	} else {
		l.next = s
		l.nextNum = num + 1
	}
	l.ready.Broadcast()
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
	if spare == nil {
		s.file, err = l.o.FS.Create(s.path)
	} else if err = l.o.FS.Rename(spare.path, s.path); err == nil {
		s.file, err = l.o.FS.OpenReadWrite(s.path)
	} else {
		err = errors.Join(err, l.o.FS.Remove(spare.path))
	}
	if err == nil {
		if err = s.file.Allocate(size); err != nil {
			err = errors.Join(err, s.release(), l.o.FS.Remove(s.path))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prepare log segment: %w", err)
	}
	if m, ok := s.file.(vfs.Mapper); ok && l.o.Mapped {
		if mapping, err := m.Map(size); err == nil {
			s.mapping, s.mem = mapping, mapping.Bytes()
		} // else each record is written, which always works
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return nil, errors.Join(l.fail(fmt.Errorf("sync log directory: %w", err)), s.release())
	}
	return s, nil
}
