// Package lease is how processes that read a database say to the process that writes it which
// files they need: see docs/format/leases.md.
//
// # Leases
//
// A reader in another process opens files that the writer renames, overwrites and removes. Nothing
// of what a process shares with itself (references, pins) is there.
//
// The naive way: the reader opens all files of a state at once; what is open stays readable.
//
// Why it fails: files are recycled (docs/decisions/0008). The writer gives an open file another
// name and writes over it. And a database has more files than a process may have open.
//
// The naive way, second: the reader writes down which state it has loaded, and the writer looks
// there before it lets go of a file. It looks once in a while, as that is cheaper.
//
// Why it fails: the reader comes between the look and the removal.
//
//	W: looks: no lease
//	R: loads the state, which names file 12; writes its lease
//	W: commits an edit that replaces file 12; removes the file
//
// The way taken: the reader publishes a lease on everything first, and loads the state then. The
// writer looks after the edit that makes the files needless is committed, and before it lets go of
// the files. If the look does not find the lease, the lease was published after the look, hence
// after the edit, and the state that the reader loads afterwards does not name the file. The reader
// then narrows its lease to that state. With each newer state that it takes it moves on.
//
// A lease is a slot in the file READERS, with a lock on its bytes that ends with the process. A
// killed reader leaves bytes without a lock: no lease. The next reader takes the slot over.
//
// Invariants: a reader publishes before it loads. A writer looks between the edit and the removal,
// each time. A slot that is locked and not empty counts, also if it is torn: then as a lease on
// everything. A reader writes to no other file of the database, and removes none.
//
// What a crash leaves: of a reader, an unlocked slot. Of a writer, files that no state names and a
// reader may read: the next Open looks at the leases before it removes them.
package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// Format: READERS is an array of slots. Integers are little-endian. A slot of zeros is free.
//
//	offset  size  field
//	0       4     CRC-32C of bytes 4 to 64
//	4       4     format version, 1
//	8       8     manifest number   } of the state that is needed; 0, 0: all
//	16      8     record number     }
//	24      8     first log segment that is needed; 0: all
//	32      8     process id        } for people
//	40      8     Unix milliseconds } when the slot was written
//	48      16    zeros
const (
	slotBytes   = 64
	slotVersion = 1
	// maxSlots bounds the readers of a database.
	maxSlots = 1 << 14
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Held is what a lease keeps: what the state at Edit names, and the log from Segment on. The zero
// Held is everything.
type Held struct {
	Edit    manifest.Position
	Segment wal.SegmentNum
}

func (h *Held) encode(pid int, now time.Time) []byte {
	b := make([]byte, slotBytes)
	le := binary.LittleEndian
	le.PutUint32(b[4:], slotVersion)
	le.PutUint64(b[8:], h.Edit.Manifest)
	le.PutUint64(b[16:], h.Edit.Record)
	le.PutUint64(b[24:], uint64(h.Segment))
	le.PutUint64(b[32:], uint64(pid))
	le.PutUint64(b[40:], uint64(now.UnixMilli()))
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// decode returns what a slot holds; used is false if it is free. What cannot be read holds all.
func decode(b []byte) (h Held, used bool) {
	if [slotBytes]byte(b) == [slotBytes]byte{} {
		return h, false
	}
	le := binary.LittleEndian
	sum := crc32.Checksum(b[4:slotBytes], castagnoli)
	if le.Uint32(b) != sum || le.Uint32(b[4:]) != slotVersion {
		return h, true
	}
	h.Edit = manifest.Position{Manifest: le.Uint64(b[8:]), Record: le.Uint64(b[16:])}
	h.Segment = wal.SegmentNum(le.Uint64(b[24:]))
	return h, true
}

// ErrNone is matched by the error of Take where no lease can be had: the process may not write to
// the directory, it is full, or its file system has no locks.
var ErrNone = errors.New("no lease")

// none returns the error of Take for that of the file system.
func none(err error) error {
	if special := (*vfs.NotRegularError)(nil); errors.As(err, &special) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNone, err)
}

// Lease is a reader's. Its methods are not called concurrently.
type Lease struct {
	file vfs.SharedFile
	off  int64
	held Held
}

// Take publishes a lease on everything. The caller loads the state of the database afterwards, and
// releases the lease.
func Take(fsys vfs.FS, dir string) (*Lease, error) {
	f, err := fsys.OpenShared(filepath.Join(dir, manifest.ReadersName))
	if err != nil {
		return nil, none(err)
	}
	for off := int64(0); off < maxSlots*slotBytes; off += slotBytes {
		ok, err := f.TryLock(off, slotBytes)
		if err != nil {
			return nil, none(errors.Join(err, f.Close()))
		}
		if !ok {
			continue
		}
		l := &Lease{file: f, off: off}
		if err := l.Hold(Held{}); err != nil {
			return nil, none(errors.Join(err, f.Close()))
		}
		return l, nil
	}
	return nil, errors.Join(fmt.Errorf("%w: there are %d readers", ErrNone, maxSlots), f.Close())
}

// Hold makes h all that the lease keeps.
func (l *Lease) Hold(h Held) error {
	if _, err := l.file.WriteAt(h.encode(os.Getpid(), time.Now()), l.off); err != nil {
		return fmt.Errorf("write lease: %w", err)
	}
	l.held = h
	return nil
}

// Held returns what the lease keeps.
func (l *Lease) Held() Held { return l.held }

// Release ends the lease.
func (l *Lease) Release() error {
	_, err := l.file.WriteAt(make([]byte, slotBytes), l.off)
	return errors.Join(err, l.file.Close())
}

// Table is the leases on a database, as its writer sees them. Its methods may be called
// concurrently.
type Table struct {
	fs   vfs.FS
	name string

	mu   sync.Mutex
	file vfs.SharedFile // guarded by mu; nil: there was no reader yet
	buf  []byte         // guarded by mu
}

// Open returns the leases on the database in dir. The caller closes them.
func Open(fsys vfs.FS, dir string) (*Table, error) {
	t := &Table{fs: fsys, name: filepath.Join(dir, manifest.ReadersName)}
	_, err := t.readLocked()
	return t, err
}

// Floor returns what at least one lease keeps, and whether there is any: files that edits up to
// Edit have replaced, and segments below Segment, can go. A caller that lets go of something looks
// after the edit that made it needless is committed.
func (t *Table) Floor() (floor Held, any bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.readLocked()
	if err != nil {
		return Held{}, true // who knows
	}
	for off := 0; off+slotBytes <= n; off += slotBytes {
		h, used := decode(t.buf[off:])
		if !used {
			continue
		}
		if held, err := t.file.Locked(int64(off), slotBytes); err == nil && !held {
			continue
		}
		if !any {
			floor, any = h, true
			continue
		}
		if h.Edit.Before(floor.Edit) {
			floor.Edit = h.Edit
		}
		floor.Segment = min(floor.Segment, h.Segment)
	}
	return floor, any
}

// readLocked reads the slots into buf.
func (t *Table) readLocked() (int, error) {
	if t.file == nil {
		if _, err := t.fs.Stat(t.name); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return 0, nil
			}
			return 0, err
		}
		f, err := t.fs.OpenShared(t.name)
		if err != nil {
			return 0, err
		}
		t.file, t.buf = f, make([]byte, 16*slotBytes)
	}
	for {
		n, err := t.file.ReadAt(t.buf, 0)
		if err == nil && len(t.buf) < maxSlots*slotBytes {
			t.buf = make([]byte, 2*len(t.buf)) // there may be more
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
}

// Close closes what the table has open.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}
