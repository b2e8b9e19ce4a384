package vfstest

import (
	"errors"
	"io"

	"github.com/kstonedb/kstone/internal/vfs"
)

// ReadFile returns the content of a file.
func ReadFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	return b, errors.Join(err, f.Close())
}

// WriteFile makes a file with a content, or replaces the one that is there.
func WriteFile(fsys vfs.FS, name string, content []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
