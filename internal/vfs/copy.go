package vfs

import (
	"errors"
	"fmt"
	"io"
)

// copyBytes is how much CopyFile reads at a time.
const copyBytes = 256 << 10

// CopyFile copies the first n bytes of a file, to another file system or the same, and syncs
// the copy, not its name. A file at dst is replaced. After an error a part of the copy may be
// there.
func CopyFile(from FS, src string, to FS, dst string, n int64) (err error) {
	in, err := from.Open(src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := to.Create(dst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, max(1, min(n, copyBytes)))
	done, err := io.CopyBuffer(struct{ io.Writer }{out}, io.NewSectionReader(in, 0, n), buf)
	if err != nil {
		return err
	}
	if done < n {
		return fmt.Errorf("%s has %d bytes: %w", src, done, io.ErrUnexpectedEOF)
	}
	return out.Sync()
}

// CannotLink reports whether an error of Link says that these two names can never be of one
// file: they are on two file systems, or on one that has no links, or the file has as many
// names as it may. A copy is needed.
func CannotLink(err error) bool {
	return err != nil && (errors.Is(err, errors.ErrUnsupported) || cannotLinkOS(err))
}
