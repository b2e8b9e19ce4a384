// Package vfs is the only door between kstone and the file system. OS returns the
// real one, NewMem one in memory with the same semantics; tests wrap either (package vfstest).
//
// All names are paths as package path/filepath makes them. Methods are safe for
// concurrent use. Errors wrap the io/fs sentinels (fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission); a full disk matches ErrNoSpace.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// ErrNoSpace is matched by errors of a full disk or an exceeded quota.
var ErrNoSpace = errors.New("no space left on device")

// Unreadable reports whether an error of opening or reading a file says that the medium
// does not give its content, or a part of it, back. It is false for what another attempt or
// another user could read, and for files that are not there.
func Unreadable(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrClosed) &&
		!IsTooManyFiles(err) && !errors.Is(err, corrupt.ErrCorrupt)
}

// FS is a file system.
type FS interface {
	// Create makes an empty file for reading and writing, replacing an existing one.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	Remove(name string) error
	// Rename replaces newName atomically if it exists.
	Rename(oldName, newName string) error
	// Link makes newName a second name of oldName; newName must not exist.
	Link(oldName, newName string) error
	MkdirAll(dir string) error
	// SyncDir makes creations, renames and removals in dir durable. A no-op on
	// systems that have no such operation (Windows).
	SyncDir(dir string) error
	// List returns the names (not paths) in dir, sorted.
	List(dir string) ([]string, error)
	Stat(name string) (Info, error)
	// Lock takes the advisory lock of the file name, creating it if needed. An
	// exclusive lock stores owner in the file for others to read. If another
	// process or another Lock call of this process holds a conflicting lock the
	// error is a *LockedError. Closing the result unlocks; the file stays.
	Lock(name, owner string, shared bool) (io.Closer, error)
	// OpenShared opens a file for reading and writing that other processes have open as well,
	// creating it if there is none. It never replaces one.
	OpenShared(name string) (SharedFile, error)
}

// SharedFile is a file with locks on ranges of bytes. They are advisory, belong to the open file
// (two of one process conflict), and end with Close and with the process.
type SharedFile interface {
	File
	// TryLock locks bytes [off, off+n), and reports whether it could: no other open file has a lock
	// on any of them.
	TryLock(off, n int64) (bool, error)
	// Locked reports whether another open file has a lock on any of bytes [off, off+n).
	Locked(off, n int64) (bool, error)
}

// Info is the result of Stat.
type Info struct {
	SizeBytes int64
	IsDir     bool

	os fs.FileInfo // nil if the file is not one of the operating system
}

// Modified returns when the file was written to last, the zero time if that is not known.
func (i *Info) Modified() time.Time {
	if i.os == nil {
		return time.Time{}
	}
	return i.os.ModTime()
}

// LockedError names the process that holds a lock.
type LockedError struct {
	Name  string
	Owner string // what the holder stored, "" if unreadable
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.Owner == "" {
		return e.Name + " is locked by another process"
	}
	return e.Name + " is locked by " + e.Owner
}

// File is an open file. ReadAt and WriteAt may run concurrently with each other
// and with Sync. ReadAt on a closed file returns an error that wraps fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Writer // appends at the file's write position, which starts at 0
	io.Closer
	// Sync makes content and size durable (fdatasync where there is one).
	Sync() error
	Truncate(size int64) error
	// Allocate reserves disk blocks for [0, size) and extends the file to size; a
	// full disk shows here rather than later. Where the system cannot reserve, it
	// only extends the file.
	Allocate(size int64) error
	Size() (int64, error)
	// Links returns the number of names that the file has, 0 if it has been removed.
	Links() (int, error)
	Name() string
}

// Mapper is implemented by files that can be mapped into memory for writing.
type Mapper interface {
	// Map maps [0, size) shared and writable. Sync of the file also makes stores
	// to the mapping durable. A store that the disk cannot take faults; callers
	// guard stores with debug.SetPanicOnFault.
	Map(size int64) (Mapping, error)
}

// Mapping is a shared, writable mapping of a file.
type Mapping interface {
	Bytes() []byte
	Unmap() error
}

// Pager is implemented by mappings whose pages can be made ready for stores, and be let go. Both
// are hints, change no byte and may run concurrently with stores.
type Pager interface {
	// Populate does what a store into every page of [off, off+n) would do: the next Sync of
	// the file writes them. After an error some pages may be ready.
	Populate(off, n int64) error

	// LetGo takes the pages of [off, off+n) out of the mapping until the next access. A Sync
	// has to take them from the processors otherwise, one by one.
	LetGo(off, n int64) error
}

// Writebacker is implemented by files that can start writing dirty pages to the
// disk without waiting for them.
type Writebacker interface {
	StartWriteback(off, n int64) error
}
