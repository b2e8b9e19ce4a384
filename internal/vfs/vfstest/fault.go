package vfstest

import (
	"errors"
	"fmt"
	"io"

	"github.com/kstonedb/kstone/internal/vfs"
)

// OpKind names an operation of FS, File or Mapper.
type OpKind uint8

// The operations that a fault hook sees. Size, Links and Name are not among them.
const (
	OpCreate OpKind = iota + 1
	OpOpen
	OpOpenReadWrite
	OpRemove
	OpRename
	OpLink
	OpMkdirAll
	OpSyncDir
	OpList
	OpStat
	OpLock
	OpReadAt
	OpWriteAt
	OpWrite
	OpSync
	OpTruncate
	OpAllocate
	OpMap
	OpStartWriteback
	OpClose
)

var opNames = [...]string{
	OpCreate: "create", OpOpen: "open", OpOpenReadWrite: "open-rw", OpRemove: "remove",
	OpRename: "rename", OpLink: "link", OpMkdirAll: "mkdir", OpSyncDir: "sync-dir",
	OpList: "list", OpStat: "stat", OpLock: "lock", OpReadAt: "read-at",
	OpWriteAt: "write-at", OpWrite: "write", OpSync: "sync", OpTruncate: "truncate",
	OpAllocate: "allocate", OpMap: "map", OpStartWriteback: "start-writeback", OpClose: "close",
}

// String returns the operation's name.
func (k OpKind) String() string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return fmt.Sprintf("op-%d", uint8(k))
}

// Op describes one operation that is about to happen.
type Op struct {
	Kind    OpKind
	Name    string // the path given to FS, or under which the file was opened
	NewName string // rename and link
	Offset  int64  // read-at, write-at, start-writeback
	Len     int64  // bytes; the size of truncate, allocate and map
}

// ShortWriteError, returned by a fault hook for OpWrite or OpWriteAt, lets the
// first N bytes through before the operation fails with Err.
type ShortWriteError struct {
	N   int
	Err error
}

// Error implements error.
func (e *ShortWriteError) Error() string { return fmt.Sprintf("short write of %d: %v", e.N, e.Err) }

// Unwrap returns Err.
func (e *ShortWriteError) Unwrap() error { return e.Err }

// NewFault returns an FS for tests that asks hook before every operation on inner
// and on its files. If hook returns an error, the operation is not done and fails
// with it, except that Close still closes. Hook is called concurrently and without
// locks held, and may itself use inner. Files implement Mapper if inner's do.
func NewFault(inner vfs.FS, hook func(Op) error) vfs.FS { return &faultFS{inner, hook} }

type faultFS struct {
	inner vfs.FS
	hook  func(Op) error
}

func (f *faultFS) open(
	kind OpKind, name string, fn func(string) (vfs.File, error),
) (vfs.File, error) {
	if err := f.hook(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	inner, err := fn(name)
	if err != nil {
		return nil, err
	}
	file := &faultFile{inner, f.hook}
	if m, ok := inner.(vfs.Mapper); ok {
		return &faultMapFile{file, m}, nil
	}
	return file, nil
}

func (f *faultFS) Create(name string) (vfs.File, error) {
	return f.open(OpCreate, name, f.inner.Create)
}

func (f *faultFS) Open(name string) (vfs.File, error) {
	return f.open(OpOpen, name, f.inner.Open)
}

func (f *faultFS) OpenReadWrite(name string) (vfs.File, error) {
	return f.open(OpOpenReadWrite, name, f.inner.OpenReadWrite)
}

func (f *faultFS) Remove(name string) error {
	if err := f.hook(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

func (f *faultFS) Rename(oldName, newName string) error {
	if err := f.hook(Op{Kind: OpRename, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

func (f *faultFS) Link(oldName, newName string) error {
	if err := f.hook(Op{Kind: OpLink, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	return f.inner.Link(oldName, newName)
}

func (f *faultFS) MkdirAll(dir string) error {
	if err := f.hook(Op{Kind: OpMkdirAll, Name: dir}); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.hook(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

func (f *faultFS) List(dir string) ([]string, error) {
	if err := f.hook(Op{Kind: OpList, Name: dir}); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

func (f *faultFS) Stat(name string) (vfs.Info, error) {
	if err := f.hook(Op{Kind: OpStat, Name: name}); err != nil {
		return vfs.Info{}, err
	}
	return f.inner.Stat(name)
}

func (f *faultFS) Lock(name, owner string, shared bool) (io.Closer, error) {
	if err := f.hook(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.Lock(name, owner, shared)
}

// OpenShared is an OpOpenReadWrite to the hook. What is done to the file and to its locks is not
// shown to it.
func (f *faultFS) OpenShared(name string) (vfs.SharedFile, error) {
	if err := f.hook(Op{Kind: OpOpenReadWrite, Name: name}); err != nil {
		return nil, err
	}
	return f.inner.OpenShared(name)
}

// faultFile asks the hook before each operation of a file.
type faultFile struct {
	vfs.File
	hook func(Op) error
}

func (f *faultFile) op(kind OpKind, off, n int64) error {
	return f.hook(Op{Kind: kind, Name: f.Name(), Offset: off, Len: n})
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.op(OpReadAt, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.op(OpWriteAt, off, int64(len(p))); err != nil {
		return shortWrite(err, p, func(b []byte) (int, error) { return f.File.WriteAt(b, off) })
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.op(OpWrite, 0, int64(len(p))); err != nil {
		return shortWrite(err, p, f.File.Write)
	}
	return f.File.Write(p)
}

func shortWrite(err error, p []byte, write func([]byte) (int, error)) (int, error) {
	var short *ShortWriteError
	if !errors.As(err, &short) {
		return 0, err
	}
	n, werr := write(p[:min(short.N, len(p))])
	if werr != nil {
		return n, werr
	}
	return n, err
}

func (f *faultFile) Sync() error {
	if err := f.op(OpSync, 0, 0); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.op(OpTruncate, 0, size); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Allocate(size int64) error {
	if err := f.op(OpAllocate, 0, size); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

func (f *faultFile) Close() error {
	return errors.Join(f.op(OpClose, 0, 0), f.File.Close())
}

// StartWriteback implements Writebacker; it does nothing if the file does not.
func (f *faultFile) StartWriteback(off, n int64) error {
	if err := f.op(OpStartWriteback, off, n); err != nil {
		return err
	}
	if w, ok := f.File.(vfs.Writebacker); ok {
		return w.StartWriteback(off, n)
	}
	return nil
}

// faultMapFile is a faultFile over a file that can be mapped.
type faultMapFile struct {
	*faultFile
	mapper vfs.Mapper
}

func (f *faultMapFile) Map(size int64) (vfs.Mapping, error) {
	if err := f.op(OpMap, 0, size); err != nil {
		return nil, err
	}
	return f.mapper.Map(size)
}
