package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
)

// defaultMaxFiles is how many files Files keeps open if nothing else is asked for.
const defaultMaxFiles = 4096

// maxReopens bounds how often a read that lost its file to eviction tries again
// with a shared handle before it opens one of its own.
const maxReopens = 4

// evictPart is the part of the open files that Evict closes.
const evictPart = 8

// File is an open file. ReadAt on a closed file returns an error that wraps
// fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.Closer
}

// Files opens files on demand and keeps at most a fixed number of them open,
// closing others by CLOCK. While more goroutines than the limit open files at the
// same moment, each may have one file open beyond it. All methods are safe for concurrent use.
type Files struct {
	open  func(name string) (File, error)
	limit int

	mu   sync.Mutex
	ring []*Handle // Guarded by mu. Open or about to be opened.
	hand int       // Guarded by mu.
}

// NewFiles returns a set of at most limit open files (defaultMaxFiles if limit is
// 0 or less), opened through open.
func NewFiles(open func(name string) (File, error), limit int) *Files {
	if limit <= 0 {
		limit = defaultMaxFiles
	}
	return &Files{open: open, limit: limit}
}

// Open returns the number of files that are open at the moment.
func (s *Files) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring)
}

// Evict closes some of the open files and reports whether it has closed any: something else
// needs their descriptors.
func (s *Files) Evict() bool {
	var victims []*openFile
	s.mu.Lock()
	for n := max(1, len(s.ring)/evictPart); len(s.ring) > 0 && len(victims) < n; {
		if f := s.evictLocked(); f != nil {
			victims = append(victims, f)
		}
	}
	s.mu.Unlock()
	for _, v := range victims {
		v.Close() // Why unchecked: the file was only read.
	}
	return len(victims) > 0
}

// Handle is one file of a Files: a name that is opened when it is read and may be
// closed in between. Safe for concurrent use.
type Handle struct {
	files  *Files
	name   string
	marked atomic.Bool
	file   atomic.Pointer[openFile]

	opening sync.Mutex // held while the file is being opened; taken before Files.mu
	closed  bool       // Guarded by Files.mu.
	place   int        // Guarded by Files.mu. Index in the ring, -1 outside of it.
}

type openFile struct{ File }

// Handle returns a handle for name. It does no I/O.
func (s *Files) Handle(name string) *Handle {
	return &Handle{files: s, name: name, place: -1}
}

// ReadAt implements io.ReaderAt, opening the file if needed. After Close the error
// wraps fs.ErrClosed.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	for range maxReopens {
		f, err := h.acquire()
		if err != nil {
			return 0, err
		}
		n, err := f.ReadAt(p, off)
		if err == nil || !errors.Is(err, fs.ErrClosed) {
			return n, err
		}
		// Evicted between acquire and ReadAt: forget this file and open another.
		h.file.CompareAndSwap(f, nil)
	}
	return h.readPrivately(p, off)
}

// readPrivately reads through a file that cannot be evicted. Why: with far more
// readers than allowed files, each reader could lose its file again and again.
func (h *Handle) readPrivately(p []byte, off int64) (int, error) {
	if err := h.checkOpen(); err != nil {
		return 0, err
	}
	f, err := h.files.open(h.name)
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(p, off)
	return n, errors.Join(err, f.Close())
}

func (h *Handle) checkOpen() error {
	h.files.mu.Lock()
	defer h.files.mu.Unlock()
	if h.closed {
		return h.closedError()
	}
	return nil
}

// acquire returns the open file.
func (h *Handle) acquire() (*openFile, error) {
	if f := h.file.Load(); f != nil {
		if !h.marked.Load() {
			h.marked.Store(true)
		}
		return f, nil
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if f := h.file.Load(); f != nil {
		return f, nil
	}
	victims, err := h.files.reserve(h)
	for _, v := range victims {
		v.Close() // Why unchecked: the file was only read.
	}
	if err != nil {
		return nil, err
	}
	file, err := h.files.open(h.name)
	if err != nil {
		h.files.release(h)
		return nil, err
	}
	h.marked.Store(true) // a new file is not the next to go
	return h.publish(&openFile{file})
}

// publish makes f the handle's file, unless the place was lost while it was opened.
func (h *Handle) publish(f *openFile) (*openFile, error) {
	h.files.mu.Lock()
	if h.closed {
		h.files.mu.Unlock()
		f.Close()
		return nil, h.closedError()
	}
	if h.place < 0 { // another opener took the place; the caller will try again
		h.files.mu.Unlock()
		f.Close()
		return f, nil
	}
	h.file.Store(f)
	h.files.mu.Unlock()
	return f, nil
}

// Close closes the file. Reads that are under way may still succeed, later ones
// fail. It may be called more than once.
func (h *Handle) Close() error {
	h.files.mu.Lock()
	h.closed = true
	f := h.files.removeLocked(h)
	h.files.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.Close()
}

// reserve gives h a place in the ring and returns the files to close for it.
func (s *Files) reserve(h *Handle) (victims []*openFile, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.closed {
		return nil, h.closedError()
	}
	if h.place >= 0 {
		// The file was found closed by a reader and dropped without eviction.
		if f := s.removeLocked(h); f != nil {
			victims = append(victims, f)
		}
	}
	for len(s.ring) >= s.limit {
		if f := s.evictLocked(); f != nil {
			victims = append(victims, f)
		}
	}
	h.place = len(s.ring)
	s.ring = append(s.ring, h)
	return victims, nil
}

func (h *Handle) closedError() error {
	return fmt.Errorf("read %s: %w", h.name, fs.ErrClosed)
}

// release gives back a place whose file could not be opened.
func (s *Files) release(h *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(h)
}

// evictLocked removes one handle from the ring and returns its file, nil if it was
// still being opened. Requires: the ring is not empty.
func (s *Files) evictLocked() *openFile {
	for {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		h := s.ring[s.hand]
		if h.marked.CompareAndSwap(true, false) {
			s.hand++
			continue
		}
		s.hand++ // past the handle that takes the free place
		return s.removeLocked(h)
	}
}

// removeLocked takes h out of the ring and returns its file, if it has one.
func (s *Files) removeLocked(h *Handle) *openFile {
	if h.place < 0 {
		return nil
	}
	last := s.ring[len(s.ring)-1]
	s.ring[h.place] = last
	last.place = h.place
	s.ring[len(s.ring)-1] = nil
	s.ring = s.ring[:len(s.ring)-1]
	h.place = -1
	return h.file.Swap(nil)
}
