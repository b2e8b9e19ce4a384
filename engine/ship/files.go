package ship

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// copyBytes is how much is read at a time.
const copyBytes = 256 << 10

// maxUnsynced and maxUnsyncedBytes bound the files that wait to be synced.
const (
	maxUnsynced      = 32
	maxUnsyncedBytes = 64 << 20
)

// written is files that were written and have to be synced. Why several at a time: the first sync
// makes the file system commit its journal, which is most of the time for a small file, and those
// after it find their part done.
type written struct {
	files []vfs.File
	bytes int64
	buf   []byte
}

// add takes a file over. It starts to write it, and syncs all when they are many.
func (w *written) add(f vfs.File, size int64) error {
	if b, ok := f.(vfs.Writebacker); ok {
		_ = b.StartWriteback(0, size) // it is a hint
	}
	w.files, w.bytes = append(w.files, f), w.bytes+size
	if len(w.files) < maxUnsynced && w.bytes < maxUnsyncedBytes {
		return nil
	}
	return w.sync()
}

// sync makes all files durable and closes them.
func (w *written) sync() (err error) {
	for _, f := range w.files {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	w.files, w.bytes = w.files[:0], 0
	return err
}

// buffer returns memory to copy with.
func (w *written) buffer() []byte {
	if w.buf == nil {
		w.buf = make([]byte, copyBytes)
	}
	return w.buf
}

// readFile returns the content of a small file.
func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	b := make([]byte, size)
	if err == nil {
		_, err = io.ReadFull(io.NewSectionReader(f, 0, size), b)
	}
	return b, errors.Join(err, f.Close())
}

// writeFile makes a file with a content, durable apart from its name.
func writeFile(fsys vfs.FS, path string, content []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sumOf returns the SHA-256 of a file.
func sumOf(fsys vfs.FS, path string) (sum [32]byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return sum, err
	}
	size, err := f.Size()
	h := sha256.New()
	if err == nil {
		_, err = io.CopyBuffer(h, struct{ io.Reader }{io.NewSectionReader(f, 0, size)},
			make([]byte, copyBytes))
	}
	return [32]byte(h.Sum(nil)), errors.Join(err, f.Close())
}

// removeAll removes the files of a directory, which need not exist. CURRENT goes first: without it
// nothing else is a database.
func removeAll(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if i := slices.Index(names, manifest.CurrentName); i > 0 {
		names[0], names[i] = names[i], names[0]
	}
	for i := 0; err == nil && i < len(names); i++ {
		err = fsys.Remove(filepath.Join(dir, names[i]))
	}
	return err
}
