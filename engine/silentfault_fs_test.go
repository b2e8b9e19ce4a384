package engine_test

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/vfs"
)

// faultSector is the piece in which a silentFaultFS remembers what was there before.
const faultSector = 512

// silentFaultFS is a file system with one silent fault: a read returns something else than was
// written, or a write reports success and was not made, or in another place.
// It may be used concurrently.
type silentFaultFS struct {
	vfs.FS
	kind string // see silentReads and silentWrites

	mu     sync.Mutex
	old    map[string]map[int64][]byte // file and sector → content before its last write
	reads  int                         // so far
	writes int
	at     int    // the faulty read or write, from 1; 0 for none
	done   string // what the fault has changed, "" if nothing
}

var (
	silentReads  = []string{"old", "torn", "zeros", "shifted", "flipped"}
	silentWrites = []string{"lost", "half", "displaced"}
)

func newSilentFaultFS(fsys vfs.FS) *silentFaultFS {
	return &silentFaultFS{FS: fsys, old: map[string]map[int64][]byte{}}
}

// over returns a silentFaultFS that remembers the same about the copy of the files.
func (l *silentFaultFS) over(fsys vfs.FS, kind string, at int) *silentFaultFS {
	c := newSilentFaultFS(fsys)
	for name, sectors := range l.old {
		c.old[name] = maps.Clone(sectors)
	}
	c.kind, c.at = kind, at
	return c
}

func (l *silentFaultFS) open(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &silentFaultFile{File: f, fs: l}, nil
}

func (l *silentFaultFS) Create(name string) (vfs.File, error) { return l.open(l.FS.Create(name)) }

func (l *silentFaultFS) Open(name string) (vfs.File, error) { return l.open(l.FS.Open(name)) }

func (l *silentFaultFS) OpenReadWrite(name string) (vfs.File, error) {
	return l.open(l.FS.OpenReadWrite(name))
}

// Rename takes the past along: files are used again under another name.
func (l *silentFaultFS) Rename(from, to string) error {
	err := l.FS.Rename(from, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	if past := l.old[filepath.Clean(from)]; err == nil && past != nil {
		l.old[filepath.Clean(to)] = past
		delete(l.old, filepath.Clean(from))
	}
	return err
}

type silentFaultFile struct {
	vfs.File
	fs  *silentFaultFS
	pos int64
}

func (f *silentFaultFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *silentFaultFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.remember(off, int64(len(p)))
	f.fs.writes++
	if f.fs.writes == f.fs.at && slices.Contains(silentWrites, f.fs.kind) {
		f.fs.done = f.fs.kind + " write of " + f.Name()
		switch f.fs.kind {
		case "half":
			_, err := f.File.WriteAt(p[:len(p)/2], off)
			return len(p), err
		case "displaced":
			_, err := f.File.WriteAt(p, off+faultSector)
			return len(p), err
		}
		return len(p), nil
	}
	return f.File.WriteAt(p, off)
}

// remember keeps what is about to be overwritten.
func (f *silentFaultFile) remember(off, n int64) {
	name := filepath.Clean(f.Name())
	past := f.fs.old[name]
	if past == nil {
		past = map[int64][]byte{}
		f.fs.old[name] = past
	}
	for s := off / faultSector; s*faultSector < off+n; s++ {
		b := make([]byte, faultSector)
		_, _ = f.File.ReadAt(b, s*faultSector)
		past[s] = b
	}
}

func (f *silentFaultFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.reads++
	if f.fs.reads != f.fs.at || n == 0 || !slices.Contains(silentReads, f.fs.kind) {
		return n, err
	}
	right := bytes.Clone(p[:n])
	f.alter(p[:n], off)
	if !bytes.Equal(right, p[:n]) {
		f.fs.done = f.fs.kind + " read of " + f.Name()
	}
	return n, err
}

// alter changes what was read.
func (f *silentFaultFile) alter(p []byte, off int64) {
	switch f.fs.kind {
	case "old":
		f.past(p, off, 0)
	case "torn":
		f.past(p, off, len(p)/2)
	case "zeros":
		clear(p)
	case "shifted":
		if m, err := f.File.ReadAt(p, off+faultSector); m < len(p) && err == io.EOF {
			clear(p[m:])
		}
	case "flipped":
		p[len(p)/2] ^= 0x10
	}
}

// past puts what was there before in the place of p[from:].
func (f *silentFaultFile) past(p []byte, off int64, from int) {
	past := f.fs.old[filepath.Clean(f.Name())]
	for i := from; i < len(p); i++ {
		at := off + int64(i)
		if s := past[at/faultSector]; s != nil {
			p[i] = s[at%faultSector]
		}
	}
}
