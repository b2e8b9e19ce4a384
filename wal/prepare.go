package wal

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/vfs"
)

// # Reused log segments
//
// A sync that writes the blocks of a new file for the first time also makes the file system commit
// its journal. The blocks of a released segment are written. So it becomes the next one: a new
// name, a new header, records over the old ones.
//
// The naive way: when a flush has written what a segment holds, rename the file to its new number
// and append to it.
//
// Why it fails: recovery may still need the old records, or does not find the new ones.
//
//	F: writes SSTs of commits 1 to 100 (wal-1); their edit is not synced
//	P: renames wal-1 to wal-3
//	A: appends commit 201 to wal-3, over commit 1
//	   the power fails: the manifest wants the log from commit 1 on, which is gone
//
// If the edit is durable and the rename is not, the file is wal-1 again after a power cut, with a
// header that says 3. Commit 201 is in it, synced and acknowledged, and recovery skips the file.
// And beyond the new records old bytes follow. An old value may itself hold log records, say of
// another database: aligned, with a valid checksum, and with the next number. Recovery reads on.
//
// The way taken: Release takes a segment only when its last number is below what the synced edit
// needs, when it is synced itself, and when the header of the next one is durable, since recovery
// begins at a header. A segment that a checkpoint copies waits until Unpin. reuse renames the
// file, and takes it only while it has one name: a copy by hard links keeps its content.
// prepareSegment syncs the directory before the segment becomes Log.next, so its name is durable
// before its first record. Each use draws a random id. Database, number and id give the tag, which
// every record carries under its checksum: bytes of an earlier use, or of anything else, do not
// pass.
//
// Invariants: nothing is written to a file whose old content recovery needs. A record that a Sync
// covers lies in a file whose name is durable. A record belongs to one use of one numbered file.
//
// What a crash leaves:
//
//   - before the rename is durable: a segment under its old number, not needed, skipped or removed;
//   - before the new header: a file whose header has another number. Open removes it;
//   - after the header: new records up to the first with a wrong checksum, and old bytes after.
//     A valid record there that claims a sync above the last good number is damage (rule 7).

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
// needs count as one, so that their callers need not wait for each other.
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
			l.need = 0 // no caller leaves the segment to this one: one that needs it asks again
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
// A failure leaves nothing but, at worst, an unused file of that number,
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
