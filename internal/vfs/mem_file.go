package vfs

import (
	"io"
	"io/fs"
	"slices"
)

// memFile is an open handle of a MemNode.
type memFile struct {
	fs       *MemFS
	node     *MemNode
	name     string
	writable bool
	pos      int64 // Guarded by fs.mu; where Write continues
	closed   bool  // Guarded by fs.mu
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return 0, pathErr("read", f.name, fs.ErrClosed)
	}
	if off < 0 {
		return 0, pathErr("read", f.name, fs.ErrInvalid)
	}
	total := 0
	for len(p) > 0 && off < f.node.size {
		in := off % memChunkBytes
		n := int(min(int64(len(p)), memChunkBytes-in, f.node.size-off))
		if c := f.node.chunks[off/memChunkBytes]; c != nil {
			copy(p[:n], c[in:])
		} else {
			clear(p[:n])
		}
		total, off, p = total+n, off+int64(n), p[n:]
	}
	if len(p) > 0 {
		return total, io.EOF
	}
	return total, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.writeLocked(p, off)
}

func (f *memFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.writeLocked(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// writeLocked writes as much as fits, like a real disk: a full one takes the first
// part of the bytes.
func (f *memFile) writeLocked(p []byte, off int64) (int, error) {
	if err := f.writableLocked("write"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathErr("write", f.name, fs.ErrInvalid)
	}
	var full error
	if end := off + int64(len(p)); end > f.node.size {
		if err := f.fs.resizeLocked(f.node, end); err != nil {
			full = pathErr("write", f.name, err)
			room := max(f.fs.capacity-f.fs.used, 0)
			p = p[:min(max(f.node.size+room-off, 0), int64(len(p)))]
			if len(p) == 0 {
				return 0, full
			}
			if err := f.fs.resizeLocked(f.node, max(off+int64(len(p)), f.node.size)); err != nil {
				return 0, full
			}
		}
	}
	total := 0
	for len(p) > 0 {
		in := off % memChunkBytes
		n := int(min(int64(len(p)), memChunkBytes-in))
		c := &f.node.chunks[off/memChunkBytes]
		if *c == nil {
			*c = make([]byte, memChunkBytes)
		}
		copy((*c)[in:], p[:n])
		total, off, p = total+n, off+int64(n), p[n:]
	}
	return total, full
}

func (f *memFile) writableLocked(op string) error {
	if f.closed {
		return pathErr(op, f.name, fs.ErrClosed)
	}
	if !f.writable {
		return pathErr(op, f.name, errReadOnly)
	}
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathErr("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.node.locks = slices.DeleteFunc(f.node.locks, func(l memRange) bool { return l.by == f })
	f.fs.open--
	f.node.opens--
	f.fs.reapLocked(f.node)
	return nil
}

// TryLock implements SharedFile.
func (f *memFile) TryLock(off, n int64) (bool, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.writableLocked("lock"); err != nil || f.heldLocked(off, n) {
		return false, err
	}
	f.node.locks = append(f.node.locks, memRange{f, off, n})
	return true, nil
}

// Locked implements SharedFile.
func (f *memFile) Locked(off, n int64) (bool, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.heldLocked(off, n), nil
}

func (f *memFile) heldLocked(off, n int64) bool {
	return slices.ContainsFunc(f.node.locks, func(l memRange) bool {
		return l.by != f && off < l.off+l.n && l.off < off+n
	})
}

func (f *memFile) Sync() error {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return pathErr("sync", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.writableLocked("truncate"); err != nil {
		return err
	}
	if size < 0 {
		return pathErr("truncate", f.name, fs.ErrInvalid)
	}
	if err := f.fs.resizeLocked(f.node, size); err != nil {
		return pathErr("truncate", f.name, err)
	}
	return nil
}

func (f *memFile) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.writableLocked("allocate"); err != nil {
		return err
	}
	if size <= f.node.size {
		return nil
	}
	if err := f.fs.resizeLocked(f.node, size); err != nil {
		return pathErr("allocate", f.name, err)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return 0, pathErr("size", f.name, fs.ErrClosed)
	}
	return f.node.size, nil
}

func (f *memFile) Links() (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return 0, pathErr("stat", f.name, fs.ErrClosed)
	}
	return f.node.names, nil
}
