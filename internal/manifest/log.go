package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/vfs"
)

// A manifest is rewritten when it is longer than minRewriteBytes and than
// rewriteFactor times its snapshot: replay then stays within a small multiple of
// the state, and a snapshot is paid for by the edits since the last one. Why no more than
// 8 KiB: each Close adds an edit of about 25 bytes, and a small database stays small.
const (
	minRewriteBytes = 8 << 10
	rewriteFactor   = 4
)

// Log is the open manifest of one database. Its methods may be called
// concurrently; commits run one after the other.
type Log struct {
	fs  vfs.FS
	dir string

	state    atomic.Pointer[State]    // the last committed one
	position atomic.Pointer[Position] // of that

	mu       sync.Mutex
	file     vfs.File
	id       identity
	end      int64  // where the next record goes; a seal may lie there
	next     uint64 // number of the next record
	snapshot int64  // size of record 0
	lastNum  uint64 // highest manifest number tried
	mustMove bool   // the file has a doubtful tail, or another name: go on in a new one
	unsynced bool   // the seal is not known to be durable
	err      error  // sticky
	buf      []byte
}

// Create makes a database in dir, which must exist (MakeDir), with the given
// initial state (identity, seed, settings; counters that are zero become 1). The
// database exists from the moment CURRENT does; after a crash before that, Create
// can be called again. If dir already holds a database the error is fs.ErrExist,
// for anything else in it see Exists.
func Create(fsys vfs.FS, dir string, init *State) (*Log, error) {
	exists, err := Exists(fsys, dir)
	if err != nil {
		return nil, err
	}
	if exists {
		return nil, fmt.Errorf("create database in %s: %w", dir, fs.ErrExist)
	}
	s := *init
	s.Settings = slices.Clone(init.Settings)
	s.NextFile, s.NextRun = max(s.NextFile, 1), max(s.NextRun, 1)
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("create database in %s: %w", dir, err)
	}
	l := &Log{fs: fsys, dir: dir, lastNum: firstManifest - 1}
	if err := l.move(&s); err != nil {
		return nil, fmt.Errorf("create database in %s: %w", dir, err)
	}
	l.publish(&s)
	return l, nil
}

// WriteSnapshot makes dir, into which the caller has put the files of s, a
// database of its own: a checkpoint. dir must not hold a CURRENT yet
// (fs.ErrExist). After a crash dir is either complete or no database.
func WriteSnapshot(fsys vfs.FS, dir string, s *State) error {
	_, err := fsys.Stat(filepath.Join(dir, CurrentName))
	if err == nil {
		err = fs.ErrExist
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	l := &Log{fs: fsys, dir: dir, lastNum: firstManifest - 1}
	if err := l.move(s); err != nil {
		return fmt.Errorf("checkpoint into %s: %w", dir, err)
	}
	return l.Close()
}

// Open opens the manifest of the database in dir for commits. A torn tail is cut
// off. What it returns is durable: a commit that the last process wrote but could
// not sync is synced now. A seal after an edit proves that there is none: it was written
// after the edit was synced, and the edit after CURRENT was. Then Open writes nothing.
//
// Requires: the caller holds the lock of the directory.
func Open(fsys vfs.FS, dir string) (*Log, *State, error) {
	in, err := load(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	l := &Log{
		fs: fsys, dir: dir, id: in.id, end: in.end, next: in.next,
		snapshot: in.snapshot, lastNum: in.id.num,
	}
	name := Name(l.id.num)
	if l.file, err = fsys.OpenReadWrite(filepath.Join(dir, name)); err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	links, err := l.file.Links()
	l.mustMove = links > 1 // a copy by hard links has this file, too, and keeps it as it is
	if err == nil && in.sealed && in.next > 1 {
		l.publish(in.state)
		return l, in.state, nil
	}
	if err == nil && in.torn > 0 && !l.mustMove {
		err = l.file.Truncate(in.end)
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err == nil {
		// CURRENT itself may have been renamed but not synced.
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		l.file.Close()
		return nil, nil, fmt.Errorf("repair the tail of %s: %w", name, err)
	}
	if !l.mustMove {
		l.seal()
	}
	l.publish(in.state)
	return l, in.state, nil
}

// publish makes s the state.
func (l *Log) publish(s *State) {
	l.state.Store(s)
	l.position.Store(&Position{l.id.num, l.next - 1})
}

// Position returns that of the last committed state, or of one before.
func (l *Log) Position() Position { return *l.position.Load() }

// State returns the last committed state.
func (l *Log) State() *State { return l.state.Load() }

// Manifest returns the number of the manifest file in use.
func (l *Log) Manifest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id.num
}

// Commit applies e to the last state and makes the result durable before it
// returns it. If e does not fit, nothing changes.
//
// After an I/O error the old state stays in force, see ErrUncertain. A failed
// write is followed by another attempt, in a new file, at the next Commit. A
// failed sync is final: every later Commit returns its cause.
func (l *Log) Commit(e *Edit) (*State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	s, err := Apply(l.state.Load(), e)
	if err != nil {
		return nil, fmt.Errorf("manifest edit: %w", err)
	}
	if l.mustMove || l.isLong() || e.values() && !l.id.values {
		err = l.move(s)
		if err == nil {
			l.publish(s)
			return s, nil
		}
		if l.mustMove || l.err != nil || e.values() && !l.id.values {
			return nil, err
		}
		// A full disk may have room for one record though not for a snapshot.
	}
	if err := l.append(e); err != nil {
		return nil, err
	}
	l.publish(s)
	return s, nil
}

// Err returns why every later Commit will fail, nil if they may succeed.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Log) isLong() bool {
	return l.end > min(max(minRewriteBytes, rewriteFactor*l.snapshot), maxManifestBytes/2)
}

// append writes e after the last record and syncs it.
func (l *Log) append(e *Edit) error {
	name := Name(l.id.num)
	l.buf = appendRecord(l.buf[:0], l.id, l.next, typeEdit,
		func(b []byte) []byte { return appendEdit(b, e, l.id.values) })
	if end := l.end + int64(len(l.buf)) + sealBytes; end > maxManifestBytes {
		return tooLarge("append to "+name, end)
	}
	if _, err := l.file.WriteAt(l.buf, l.end); err != nil {
		return l.undo(fmt.Errorf("append to %s: %w", name, err))
	}
	if err := vfs.SyncNamed(l.file); err != nil {
		return l.fail(fmt.Errorf("sync %s: %w", name, err))
	}
	l.end += int64(len(l.buf))
	l.next++
	l.seal()
	return nil
}

// undo takes back what a failed write may have left of a record. If that works,
// the record is certainly not in the manifest.
func (l *Log) undo(cause error) error {
	if err := l.file.Truncate(l.end); err != nil {
		l.mustMove = true
		return fmt.Errorf("%w (%w; %w)", cause, ErrUncertain, err)
	}
	if err := l.file.Sync(); err != nil {
		return l.fail(errors.Join(cause, err))
	}
	// Why: a disk that is full says nothing about this file, while after another
	// error the blocks after its end are not to be trusted.
	l.mustMove = !errors.Is(cause, vfs.ErrNoSpace)
	l.seal()
	return cause
}

// fail makes cause sticky. Only the edit at hand is uncertain, later ones never
// reach the file.
func (l *Log) fail(cause error) error {
	l.err = fmt.Errorf("manifest is closed for writing: %w", cause)
	return fmt.Errorf("%w (%w)", cause, ErrUncertain)
}

// seal writes the seal after the last record, which is durable. Why errors do not
// matter: without a seal the manifest is as good as after a crash, and the next
// append meets the same disk.
func (l *Log) seal() {
	l.buf = appendSeal(l.buf[:0], l.id, l.next)
	_, _ = l.file.WriteAt(l.buf, l.end)
	l.unsynced = true
}

// Close syncs the seal and closes the file. Commits must have ended.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	var err error
	if l.err == nil {
		if l.unsynced {
			err = l.file.Sync()
		}
		l.err = fmt.Errorf("manifest: %w", fs.ErrClosed)
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	if err != nil {
		return fmt.Errorf("close %s: %w", Name(l.id.num), err)
	}
	return nil
}
