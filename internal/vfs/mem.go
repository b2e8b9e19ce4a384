package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// MemFS is a file system in memory with the semantics of a POSIX one: names and
// files are separate things, so an open file survives its removal, and Link gives
// one file two names. Its files do not implement Mapper.
//
// A MemFS is safe for concurrent use. Nothing is lost at Close; Sync and SyncDir
// only check their arguments.
type MemFS struct {
	mu       sync.RWMutex
	files    map[string]*MemNode // Guarded by mu; by cleaned path
	dirs     map[string][]string // Guarded by mu; the sorted names in each, roots are implied
	locks    map[string]*memLock // Guarded by mu
	capacity int64               // Guarded by mu; 0 means no limit
	used     int64               // Guarded by mu; bytes of all nodes
	open     int                 // Guarded by mu; open handles
}

// NewMem returns an empty MemFS without a capacity limit.
func NewMem() *MemFS {
	return &MemFS{
		files: map[string]*MemNode{},
		dirs:  map[string][]string{},
		locks: map[string]*memLock{},
	}
}

var (
	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
	errReadOnly = errors.New("file is open for reading only")
)

func pathErr(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// SetCapacity limits the sum of all file sizes; 0 lifts the limit. Content that
// exceeds a new limit stays.
func (m *MemFS) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// UsedBytes returns the sum of all file sizes, removed but open files included.
func (m *MemFS) UsedBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.used
}

// OpenFiles returns the number of files that are open; tests find leaks with it.
func (m *MemFS) OpenFiles() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.open
}

// Create implements FS. An existing file loses the name, not its content.
func (m *MemFS) Create(name string) (File, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkParentLocked("create", path); err != nil {
		return nil, err
	}
	if m.isDirLocked(path) {
		return nil, pathErr("create", name, errIsDir)
	}
	if old := m.files[path]; old != nil {
		m.unlinkLocked(path, old)
	}
	n := &MemNode{names: 1}
	m.linkLocked(path, n)
	return m.handleLocked(name, n, true), nil
}

// Open implements FS.
func (m *MemFS) Open(name string) (File, error) { return m.openExisting(name, false) }

// OpenReadWrite implements FS.
func (m *MemFS) OpenReadWrite(name string) (File, error) { return m.openExisting(name, true) }

func (m *MemFS) openExisting(name string, writable bool) (File, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files[path]
	if n == nil {
		if m.isDirLocked(path) {
			return nil, pathErr("open", name, errIsDir)
		}
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	return m.handleLocked(name, n, writable), nil
}

func (m *MemFS) handleLocked(name string, n *MemNode, writable bool) *memFile {
	n.opens++
	m.open++
	return &memFile{fs: m, node: n, name: name, writable: writable}
}

// Remove implements FS; it also removes an empty directory.
func (m *MemFS) Remove(name string) error {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.files[path]; n != nil {
		m.unlinkLocked(path, n)
		return nil
	}
	names, ok := m.dirs[path]
	switch {
	case !ok || isRoot(path):
		return pathErr("remove", name, fs.ErrNotExist)
	case len(names) > 0:
		return pathErr("remove", name, errNotEmpty)
	}
	delete(m.dirs, path)
	m.dropLocked(path)
	return nil
}

// Rename implements FS. It moves directories too; the target of a directory must
// not exist.
func (m *MemFS) Rename(oldName, newName string) error {
	from, to := filepath.Clean(oldName), filepath.Clean(newName)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkParentLocked("rename", to); err != nil {
		return err
	}
	n := m.files[from]
	switch {
	case n == nil && !isRoot(from) && m.isDirLocked(from):
		return m.renameDirLocked(from, to)
	case n == nil:
		return pathErr("rename", oldName, fs.ErrNotExist)
	case m.isDirLocked(to):
		return pathErr("rename", newName, errIsDir)
	}
	if old := m.files[to]; old == n {
		return nil // two names of one file: POSIX does nothing
	} else if old != nil {
		m.unlinkLocked(to, old)
	}
	delete(m.files, from)
	m.dropLocked(from)
	m.linkLocked(to, n)
	return nil
}

func (m *MemFS) renameDirLocked(from, to string) error {
	if m.isDirLocked(to) || m.files[to] != nil {
		return pathErr("rename", to, fs.ErrExist)
	}
	sep := string(filepath.Separator)
	if strings.HasPrefix(to+sep, from+sep) {
		return pathErr("rename", to, fs.ErrInvalid)
	}
	for path, n := range m.files {
		if rest, ok := strings.CutPrefix(path, from+sep); ok {
			delete(m.files, path)
			m.files[to+sep+rest] = n
		}
	}
	for path, names := range m.dirs {
		if rest, ok := strings.CutPrefix(path+sep, from+sep); ok {
			delete(m.dirs, path)
			m.dirs[filepath.Clean(to+sep+rest)] = names
		}
	}
	m.dropLocked(from)
	m.nameLocked(to)
	return nil
}

// Link implements FS.
func (m *MemFS) Link(oldName, newName string) error {
	from, to := filepath.Clean(oldName), filepath.Clean(newName)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkParentLocked("link", to); err != nil {
		return err
	}
	n := m.files[from]
	if n == nil {
		return pathErr("link", oldName, fs.ErrNotExist)
	}
	if m.files[to] != nil || m.isDirLocked(to) {
		return pathErr("link", newName, fs.ErrExist)
	}
	n.names++
	m.linkLocked(to, n)
	return nil
}

// MkdirAll implements FS.
func (m *MemFS) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := filepath.Clean(dir); !isRoot(path); path = filepath.Dir(path) {
		if m.files[path] != nil {
			return pathErr("mkdir", dir, errNotDir)
		}
	}
	m.mkdirLocked(filepath.Clean(dir))
	return nil
}

func (m *MemFS) mkdirLocked(path string) {
	if m.isDirLocked(path) {
		return
	}
	m.mkdirLocked(filepath.Dir(path))
	m.nameLocked(path)
	m.dirs[path] = []string{}
}

// SyncDir implements FS.
func (m *MemFS) SyncDir(dir string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.isDirLocked(filepath.Clean(dir)) {
		return pathErr("sync", dir, fs.ErrNotExist)
	}
	return nil
}

// List implements FS.
func (m *MemFS) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.isDirLocked(filepath.Clean(dir)) {
		return nil, pathErr("list", dir, fs.ErrNotExist)
	}
	return slices.Clone(m.dirs[filepath.Clean(dir)]), nil
}

// Stat implements FS.
func (m *MemFS) Stat(name string) (Info, error) {
	path := filepath.Clean(name)
	m.mu.RLock()
	defer m.mu.RUnlock()
	if n := m.files[path]; n != nil {
		return Info{SizeBytes: n.size}, nil
	}
	if m.isDirLocked(path) {
		return Info{IsDir: true}, nil
	}
	return Info{}, pathErr("stat", name, fs.ErrNotExist)
}

// OpenShared implements FS.
func (m *MemFS) OpenShared(name string) (SharedFile, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkParentLocked("open", path); err != nil {
		return nil, err
	}
	if m.isDirLocked(path) {
		return nil, pathErr("open", name, errIsDir)
	}
	n := m.files[path]
	if n == nil {
		n = &MemNode{names: 1}
		m.linkLocked(path, n)
	}
	return m.handleLocked(name, n, true), nil
}

// memLock is the lock of one path.
type memLock struct {
	shared int // holders of a shared lock; 0 while held exclusively
	owner  string
}

// Lock implements FS.
func (m *MemFS) Lock(name, owner string, shared bool) (io.Closer, error) {
	path := filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkParentLocked("lock", path); err != nil {
		return nil, err
	}
	if m.isDirLocked(path) {
		return nil, pathErr("lock", name, errIsDir)
	}
	l := m.locks[path]
	if l != nil && (!shared || l.shared == 0) {
		return nil, &LockedError{Name: name, Owner: l.owner}
	}
	if m.files[path] == nil {
		m.linkLocked(path, &MemNode{names: 1})
	}
	if l == nil {
		l = &memLock{}
		m.locks[path] = l
	}
	if shared {
		l.shared++
	} else {
		l.owner = owner
	}
	return &memUnlock{fs: m, path: path, lock: l}, nil
}

type memUnlock struct {
	fs   *MemFS
	path string
	lock *memLock // nil after Close
}

// Close implements io.Closer.
func (u *memUnlock) Close() error {
	u.fs.mu.Lock()
	defer u.fs.mu.Unlock()
	if u.lock == nil {
		return pathErr("unlock", u.path, fs.ErrClosed)
	}
	u.lock.shared--
	if u.lock.shared <= 0 { // the last reader, or the only writer
		delete(u.fs.locks, u.path)
	}
	u.lock = nil
	return nil
}

func isRoot(path string) bool { return path == "." || path == filepath.Dir(path) }

func (m *MemFS) isDirLocked(path string) bool { return isRoot(path) || m.dirs[path] != nil }

func (m *MemFS) checkParentLocked(op, path string) error {
	parent := filepath.Dir(path)
	if m.isDirLocked(parent) {
		return nil
	}
	if m.files[parent] != nil {
		return pathErr(op, path, errNotDir)
	}
	return pathErr(op, path, fs.ErrNotExist)
}

// linkLocked makes path a name of n, and nameLocked one of its directory.
func (m *MemFS) linkLocked(path string, n *MemNode) {
	if m.files[path] == nil {
		m.nameLocked(path)
	}
	m.files[path] = n
}

func (m *MemFS) nameLocked(path string) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	i, _ := slices.BinarySearch(m.dirs[dir], name)
	m.dirs[dir] = slices.Insert(m.dirs[dir], i, name)
}

// dropLocked takes path out of its directory, and unlinkLocked removes the file there.
func (m *MemFS) dropLocked(path string) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	i, _ := slices.BinarySearch(m.dirs[dir], name)
	m.dirs[dir] = slices.Delete(m.dirs[dir], i, i+1)
}

func (m *MemFS) unlinkLocked(path string, n *MemNode) {
	delete(m.files, path)
	m.dropLocked(path)
	n.names--
	m.reapLocked(n)
}

// reapLocked frees a node that has neither a name nor an open handle.
func (m *MemFS) reapLocked(n *MemNode) {
	if n.names == 0 && n.opens == 0 {
		m.used -= n.size
		n.size, n.chunks = 0, nil
	}
}

// resizeLocked sets a node's size, within the capacity when it grows.
func (m *MemFS) resizeLocked(n *MemNode, size int64) error {
	grow := size - n.size
	if grow > 0 && m.capacity > 0 && m.used+grow > m.capacity {
		return ErrNoSpace
	}
	m.used += grow
	need := int((size + memChunkBytes - 1) / memChunkBytes)
	if grow < 0 {
		clear(n.chunks[need:])
		n.chunks = n.chunks[:need]
		if rest := size % memChunkBytes; rest != 0 && n.chunks[need-1] != nil {
			clear(n.chunks[need-1][rest:])
		}
	} else if need > len(n.chunks) {
		n.chunks = append(n.chunks, make([][]byte, need-len(n.chunks))...)
	}
	n.size = size
	return nil
}
