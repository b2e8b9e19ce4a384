package wal

import (
	"fmt"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// CopyTo copies the log from segment `from` on, as it is at the time of the call,
// into dir of another file system or the same, and syncs the copies and their names.
// It returns the last sequence number in the copy. Appending goes on meanwhile; no
// segment is released before the copy is complete. The directory must exist and hold
// no log.
func (l *Log) CopyTo(fsys vfs.FS, dir string, from SegmentNum) (base.SeqNum, error) {
	type piece struct {
		num SegmentNum
		end int64
	}
	var pieces []piece
	l.mu.Lock()
	for _, s := range l.closed {
		if s.num >= from {
			pieces = append(pieces, piece{s.num, min(s.end, s.size)})
		}
	}
	if l.cur != nil {
		pieces = append(pieces, piece{l.cur.num, l.off})
	}
	last := l.last
	l.pins++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.pins--
		l.mu.Unlock()
	}()

	for _, p := range pieces {
		dst := filepath.Join(dir, p.num.FileName())
		if err := vfs.CopyFile(l.o.FS, l.o.path(p.num), fsys, dst, p.end); err != nil {
			return 0, fmt.Errorf("copy log segment: %w", err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return 0, fmt.Errorf("copy log: %w", err)
	}
	return last, nil
}

// Pin keeps segments from being released until unpin is called, once. Release leaves
// them then; call it again afterwards.
func (l *Log) Pin() (unpin func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pins--
	}
}
