package wal

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// segment is one file of the log, from its preparation to its removal.
//
// Ownership: the preparer owns it until it becomes Log.next; then Log.mu guards it.
// The current segment's bytes are stored under Log.mu; a closed segment's bytes never
// change, and the syncer alone unmaps and closes it.
type segment struct {
	num   SegmentNum
	path  string
	size  int64
	useID uint64
	tag   uint32

	file    vfs.File    // nil once closed and synced
	mapping vfs.Mapping // nil if records are written
	mem     []byte      // the mapping's bytes

	writable int64 // up to where pages are writable, as far as makeWritable knows
	kept     int64 // from where on they have not been let go; both guarded by Log.mu

	base    base.SeqNum // set when it becomes the current segment
	last    base.SeqNum // set when it is closed; base-1 if it has no record
	end     int64       // likewise; where its records end
	durable bool        // its name and header are on disk
	ready   int64       // up to where blocks have been written, or are with the next sync
	firsts  int         // syncs that went beyond; these two are the syncer's
	dirty   bool        // it has, or may get, bytes that are not
	pins    int         // how many Pinned have it; guarded by Log.mu

	released time.Time // when it was retained, or the log opened
}

// release unmaps and closes the file, which must not be in use by an appender.
func (s *segment) release() error {
	err := s.unmap()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
		s.file = nil
	}
	return err
}

func (s *segment) unmap() error {
	if s.mapping == nil {
		return nil
	}
	err := s.mapping.Unmap()
	s.mapping, s.mem = nil, nil
	return err
}

// sync makes the content durable. It fails if the file has been removed: its records would
// be acknowledged, and no recovery would find them.
func (s *segment) sync() error {
	if err := vfs.SyncNamed(s.file); err != nil {
		return fmt.Errorf("sync log segment %s: %w", s.path, err)
	}
	return nil
}

const (
	// aheadBytes is how much of a segment is made ready at once for records that are synced one
	// by one: so many that a journal is rarely written, and so few that the sync which writes
	// them is not much slower.
	aheadBytes = 256 << 10

	// aheadAfter is how many syncs have to reach blocks for the first time before any are
	// made ready: a log that is rarely synced does without.
	aheadAfter = 4
)

// populate makes blocks after the records ready, so that the next sync writes them: if syncs
// are frequent. Why: the blocks of a new file are reserved, but the file system does not count
// them as written. A sync that writes some for the first time makes it commit its journal too,
// which takes about as long as the sync itself.
//
// Requires: it is the caller's turn to sync. end is where the records end.
func (s *segment) populate(end int64) {
	p, ok := s.mapping.(vfs.Pager)
	if !ok || end <= s.ready {
		return
	}
	if end-s.ready > aheadBytes { // the records themselves are as many blocks
		s.ready, s.firsts = end, 0
		return
	}
	if s.firsts++; s.firsts < aheadAfter {
		return
	}
	n := min(aheadBytes, s.size-end)
	if err := p.Populate(end, n); err != nil {
		n = s.size - end // it is a hint: never mind, and never again
	}
	s.ready = end + n
}

const (
	// writableBytes is how much of a mapping becomes writable at once in a log that streams, that
	// is, gets as much between two syncs. Others would sync as many zeros.
	writableBytes = 64 << 10
	// letGoBytes is how much a sync lets go at least: for less the call takes longer.
	letGoBytes = 16 << 10
	// keptBytes is how much of what a log that streams has written stays in the mapping.
	keptBytes = 1 << 20
)

// makeWritable makes the pages writable that a record at [off, end) and some more after it take.
// Why: the first store to a page faults, and 16 faults take twice as long as one call for 16 pages.
// It lets go what was written before, which would be resident for nothing until the next sync.
func (s *segment) makeWritable(off, end int64) {
	s.writable = min(end+writableBytes, s.size)
	if p, ok := s.mapping.(vfs.Pager); ok {
		_ = p.Populate(off, s.writable-off) // a hint
	}
	if n := off - s.kept; n >= keptBytes {
		s.letGo(s.kept, n)
		s.kept = off
	}
}

// storedLocked returns the part of the mapping that a sync should let go, n bytes, if all up to end
// is stored.
func (s *segment) storedLocked(end int64) (from, n int64) {
	from, n = s.kept, max(end, s.writable)-s.kept
	if n < letGoBytes {
		return 0, 0
	}
	s.kept, s.writable = end, 0
	return from, n
}

// letGo takes a part out of the mapping. Why before a sync: to write a mapped page, the kernel
// takes it from all processors that run the process, which interrupts the appender for
// microseconds, page by page.
func (s *segment) letGo(from, n int64) {
	if p, ok := s.mapping.(vfs.Pager); ok && n > 0 {
		_ = p.LetGo(from, n) // a hint
	}
}

// storeRecord encodes a record into a mapping. If the disk cannot take a store (the
// file was truncated by someone, the device is gone, a copy-on-write file system is
// full), the processor faults; that becomes an error here instead of the end of the
// process.
func storeRecord(dst []byte, payloadCRC, length, tag, lag uint32, seq base.SeqNum,
	payload []byte) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = faultError(p)
		}
	}()
	encodeRecord(dst, payloadCRC, length, tag, lag, seq, payload)
	return nil
}

// storeBytes is copy(dst, b) for a mapping, guarded like storeRecord.
func storeBytes(dst, b []byte) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = faultError(p)
		}
	}()
	copy(dst, b)
	return nil
}

// faultError turns a memory fault into an error; every other panic goes on.
func faultError(p any) error {
	if e, ok := p.(runtime.Error); ok {
		if fault, ok := p.(interface{ Addr() uintptr }); ok {
			return fmt.Errorf("store to the log mapping faulted at %#x: %w", fault.Addr(), e)
		}
	}
	panic(p)
}

// rewriteCopyBytes is the piece in which a segment is written again.
const rewriteCopyBytes = 1 << 20

// rewrite writes the first s.end bytes of a recovered segment again, unchanged, and
// syncs them.
//
// Why: the records came from the page cache. If an earlier fsync of theirs failed,
// the kernel may hold them as clean although the disk never got them, and a sync
// alone would report a false success. A crash in between is harmless: every sector
// is overwritten with what it has.
func (s *segment) rewrite(fsys vfs.FS) (err error) {
	f, err := fsys.OpenReadWrite(s.path)
	if err != nil {
		return fmt.Errorf("open log segment: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, min(s.end, rewriteCopyBytes))
	for off := int64(0); off < s.end; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), s.end-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read log segment %s: %w", s.path, err)
		}
		if n == 0 {
			break // a copy may lack the padding of its last record
		}
		if _, err := f.WriteAt(buf[:n], off); err != nil {
			return fmt.Errorf("rewrite log segment %s: %w", s.path, err)
		}
		off += int64(n)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync log segment %s: %w", s.path, err)
	}
	return nil
}
