package engine_test

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/vfs"
)

// lieSector is the piece in which a liar remembers what was there before.
const lieSector = 512

// liar is a file system that lies about one read or one write: the read returns something
// else than was written, the write claims to have been made and was not, or not there.
// It may be used concurrently.
type liar struct {
	vfs.FS
	kind string // see lies

	mu     sync.Mutex
	old    map[string]map[int64][]byte // file and sector → content before its last write
	reads  int                         // so far
	writes int
	at     int    // the read or write to lie about, from 1; 0 for none
	told   string // what the lie was about, "" if it was the truth
}

var (
	readLies  = []string{"old", "torn", "zeros", "shifted", "flipped"}
	writeLies = []string{"lost", "half", "displaced"}
)

func newLiar(fsys vfs.FS) *liar { return &liar{FS: fsys, old: map[string]map[int64][]byte{}} }

// over returns a liar that remembers the same about the copy of the files.
func (l *liar) over(fsys vfs.FS, kind string, at int) *liar {
	c := newLiar(fsys)
	for name, sectors := range l.old {
		c.old[name] = maps.Clone(sectors)
	}
	c.kind, c.at = kind, at
	return c
}

func (l *liar) open(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &lyingFile{File: f, fs: l}, nil
}

func (l *liar) Create(name string) (vfs.File, error) { return l.open(l.FS.Create(name)) }

func (l *liar) Open(name string) (vfs.File, error) { return l.open(l.FS.Open(name)) }

func (l *liar) OpenReadWrite(name string) (vfs.File, error) {
	return l.open(l.FS.OpenReadWrite(name))
}

// Rename takes the past along: files are used again under another name.
func (l *liar) Rename(from, to string) error {
	err := l.FS.Rename(from, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	if past := l.old[filepath.Clean(from)]; err == nil && past != nil {
		l.old[filepath.Clean(to)] = past
		delete(l.old, filepath.Clean(from))
	}
	return err
}

type lyingFile struct {
	vfs.File
	fs  *liar
	pos int64
}

func (f *lyingFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *lyingFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.remember(off, int64(len(p)))
	f.fs.writes++
	if f.fs.writes == f.fs.at && slices.Contains(writeLies, f.fs.kind) {
		f.fs.told = f.fs.kind + " write of " + f.Name()
		switch f.fs.kind {
		case "half":
			_, err := f.File.WriteAt(p[:len(p)/2], off)
			return len(p), err
		case "displaced":
			_, err := f.File.WriteAt(p, off+lieSector)
			return len(p), err
		}
		return len(p), nil
	}
	return f.File.WriteAt(p, off)
}

// remember keeps what is about to be overwritten.
func (f *lyingFile) remember(off, n int64) {
	name := filepath.Clean(f.Name())
	past := f.fs.old[name]
	if past == nil {
		past = map[int64][]byte{}
		f.fs.old[name] = past
	}
	for s := off / lieSector; s*lieSector < off+n; s++ {
		b := make([]byte, lieSector)
		_, _ = f.File.ReadAt(b, s*lieSector)
		past[s] = b
	}
}

func (f *lyingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.reads++
	if f.fs.reads != f.fs.at || n == 0 || !slices.Contains(readLies, f.fs.kind) {
		return n, err
	}
	truth := bytes.Clone(p[:n])
	f.lie(p[:n], off)
	if !bytes.Equal(truth, p[:n]) {
		f.fs.told = f.fs.kind + " read of " + f.Name()
	}
	return n, err
}

// lie changes what was read.
func (f *lyingFile) lie(p []byte, off int64) {
	switch f.fs.kind {
	case "old":
		f.past(p, off, 0)
	case "torn":
		f.past(p, off, len(p)/2)
	case "zeros":
		clear(p)
	case "shifted":
		if m, err := f.File.ReadAt(p, off+lieSector); m < len(p) && err == io.EOF {
			clear(p[m:])
		}
	case "flipped":
		p[len(p)/2] ^= 0x10
	}
}

// past puts what was there before in the place of p[from:].
func (f *lyingFile) past(p []byte, off int64, from int) {
	past := f.fs.old[filepath.Clean(f.Name())]
	for i := from; i < len(p); i++ {
		at := off + int64(i)
		if s := past[at/lieSector]; s != nil {
			p[i] = s[at%lieSector]
		}
	}
}

// filesBelow copies all files of a directory into a new file system.
func filesBelow(fsys vfs.FS, dir string) (*vfs.MemFS, error) {
	to := vfs.NewMem()
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	if err := to.MkdirAll(dir); err != nil {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		in, err := fsys.Open(path)
		if err != nil {
			return nil, err
		}
		size, _ := in.Size()
		b := make([]byte, size)
		if _, err := in.ReadAt(b, 0); err != nil && err != io.EOF {
			return nil, err
		}
		out, err := to.Create(path)
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(b); err != nil {
			return nil, err
		}
		if err := out.Close(); err != nil {
			return nil, err
		}
		if err := in.Close(); err != nil && err != fs.ErrClosed {
			return nil, err
		}
	}
	return to, nil
}
