package wal

import (
	"fmt"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Pinned is a part of the log as it was at one moment: its files stay until Unpin, whatever
// is released meanwhile.
//
// Why released segments that are pinned do not count in HeldBytes: only the copy needs them,
// however long it takes, and no flush could make them go. Writers would wait for the copy.
type Pinned struct {
	log   *Log
	parts []part // oldest first
	last  base.SeqNum
}

// part is the beginning of a segment.
type part struct {
	segment *segment
	end     int64
}

// Pin returns the log from segment `from` on, as it is at the time of the call. The caller
// makes sure that segment `from` is not released before Pin returns, and calls Unpin once.
// Appending and releasing go on meanwhile.
func (l *Log) Pin(from SegmentNum) *Pinned {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &Pinned{log: l, last: l.last}
	for _, s := range l.closed {
		if s.num >= from {
			p.parts = append(p.parts, part{s, min(s.end, s.size)})
		}
	}
	if l.cur != nil {
		p.parts = append(p.parts, part{l.cur, l.off})
	}
	for _, pt := range p.parts {
		pt.segment.pins++
	}
	return p
}

// LastSeq returns the sequence number of the last record in p.
func (p *Pinned) LastSeq() base.SeqNum { return p.last }

// Files returns the number of segments.
func (p *Pinned) Files() int { return len(p.parts) }

// Bytes returns what CopyTo will copy.
func (p *Pinned) Bytes() (n int64) {
	for _, pt := range p.parts {
		n += pt.end
	}
	return n
}

// CopyTo copies the records into dir of another file system or the same, and syncs the copies
// and their names. The directory must exist and hold no log. Pace, if not nil, is called as
// by vfs.CopyFile.
func (p *Pinned) CopyTo(fsys vfs.FS, dir string, pace func(n int64) error) error {
	o := &p.log.o
	for _, pt := range p.parts {
		num := pt.segment.num
		dst := filepath.Join(dir, num.FileName())
		if err := vfs.CopyFile(o.FS, o.path(num), fsys, dst, pt.end, pace); err != nil {
			return fmt.Errorf("copy log segment: %w", err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("copy log: %w", err)
	}
	return nil
}

// Unpin lets the segments go that have been released meanwhile. If files cannot be removed
// the error says so, as that of Release. Requires: the log is not closed.
func (p *Pinned) Unpin() error {
	l := p.log
	l.mu.Lock()
	for _, pt := range p.parts {
		pt.segment.pins--
	}
	remove := l.dropUnpinnedLocked()
	l.mu.Unlock()
	return l.remove(remove, false)
}

// dropUnpinnedLocked retires the segments that were released while they were pinned, and returns
// those that are to be removed.
func (l *Log) dropUnpinnedLocked() (remove []*segment) {
	var kept []*segment
	for _, s := range l.pinned {
		if s.pins > 0 {
			kept = append(kept, s)
		} else {
			remove = l.retireLocked(s, remove)
		}
	}
	l.pinned = kept
	return remove
}
