package wal

import (
	"fmt"
	"hash/crc32"

	"github.com/kstonedb/kstone/internal/base"
)

// Append adds a record and returns its sequence number. It does not wait for the
// disk, see Sync, except that it may wait for a segment to be prepared. The order of
// sequence numbers is the order of records in the log.
//
// An error that matches vfs.ErrNoSpace or ErrRecordTooLarge leaves the log as it was,
// and a later Append can succeed. Every other error is final.
//
// Ownership: payload is copied.
func (l *Log) Append(payload []byte) (base.SeqNum, error) {
	n := int64(len(payload))
	if n > l.o.MaxRecordBytes {
		return 0, fmt.Errorf("%w: %d bytes, limit %d", ErrRecordTooLarge, n, l.o.MaxRecordBytes)
	}
	crc := crc32.Checksum(payload, castagnoli)
	size := recordBytes(n)

	l.mu.Lock()
	if l.failure.Load() != nil || l.done || !l.fitsLocked(size) {
		if err := l.makeRoomLocked(size); err != nil {
			l.mu.Unlock()
			l.report()
			return 0, err
		}
	}
	seq := l.last + 1
	if err := l.putLocked(size, crc, uint32(n), seq, payload); err != nil {
		err = l.fail(err)
		l.mu.Unlock()
		l.report()
		return 0, err
	}
	l.last = seq
	l.recordBytes += uint64(n)
	l.lastSeq.Store(uint64(seq))
	if l.appended != nil {
		l.wakeLocked()
	}
	l.mu.Unlock()
	return seq, nil
}

// fitsLocked reports whether the current segment has room for a record of the given
// size and, after it, for the marker of Close.
func (l *Log) fitsLocked(size int64) bool {
	return l.cur != nil && l.off+size+recordHeader <= l.cur.size
}

// putLocked places a record of the given size at the end of the current segment.
func (l *Log) putLocked(size int64, crc, length uint32, seq base.SeqNum, payload []byte) error {
	s := l.cur
	lag := lagOf(seq, base.SeqNum(l.synced.Load()))
	if s.mem != nil {
		if l.off+size > s.writable && l.streamed >= writableBytes {
			s.makeWritable(l.off, l.off+size)
		}
		dst := s.mem[l.off : l.off+size : l.off+size]
		if err := storeRecord(dst, crc, length, s.tag, lag, seq, payload); err != nil {
			return fmt.Errorf("%s at offset %d: %w", s.path, l.off, err)
		}
	} else {
		if int64(cap(l.encoded)) < size {
			l.encoded = make([]byte, max(size, 4<<10))
		}
		b := l.encoded[:size]
		encodeRecord(b, crc, length, s.tag, lag, seq, payload)
		if _, err := s.file.WriteAt(b, l.off); err != nil {
			return fmt.Errorf("write log record: %w", err)
		}
		if size > l.o.SegmentBytes {
			l.encoded = nil // do not keep the buffer of a rare giant
		}
	}
	l.off += size
	l.streamed += size
	return nil
}

// makeRoomLocked changes to the next segment if a record of the given size does not
// fit the current one, and waits until one has been prepared. It releases mu while it
// waits.
func (l *Log) makeRoomLocked(size int64) error {
	need := align(l.needFor(size))
	attempts := l.attempts
	for {
		if err := l.usableLocked(); err != nil {
			return err
		}
		switch {
		case l.fitsLocked(size):
			return nil
		case l.next != nil && l.next.size >= need && need >= l.need:
			if err := l.switchLocked(); err != nil {
				return err
			}
			continue
		case l.failedAt > attempts && need >= l.failedNeed:
			return l.prepareErr
		}
		// The second case leaves a large prepared segment to the Append that asked
		// for it: small ones that took it would make it wait for ever.
		l.need = max(l.need, need)
		kick(l.prepareKick)
		l.ready.Wait()
	}
}

// switchLocked makes the prepared segment the current one.
//
// Requires: l.next is not nil.
func (l *Log) switchLocked() error {
	s, old := l.next, l.cur
	if old != nil {
		l.linkNum, l.linkEnd = old.num, l.off
	}
	h := header{dbid: l.o.DBID, num: s.num, useID: s.useID, base: l.last + 1,
		prev: l.linkNum, prevEnd: l.linkEnd}
	var b [segmentHeader]byte
	h.encode(b[:])
	var err error
	if s.mem != nil {
		err = storeBytes(s.mem, b[:])
	} else {
		_, err = s.file.WriteAt(b[:], 0)
	}
	if err != nil {
		return l.fail(fmt.Errorf("start log segment %s: %w", s.path, err))
	}
	if old != nil {
		old.last, old.end = l.last, l.off
		l.closed = append(l.closed, old)
	}
	s.tag, s.base, s.dirty = h.tag(), h.base, true
	l.cur, l.off, l.next, l.need = s, segmentHeader, nil, 0
	l.begun.Add(1)
	l.marked = base.MaxSeqNum // a marker that the old segment ends in is not part of its records
	l.dirty = append(l.dirty, s)
	l.ready.Broadcast()
	if old != nil {
		kick(l.prepareKick)
		kick(l.sy.kick) // bounds what is unsynced, and unmaps the old segment
	}
	return nil
}
