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
//
// The error matches fs.ErrNotExist if src has lost its name meanwhile: another process may have
// written over the file since.
//
// Pace, if not nil, is called after every piece with its size; an error of it ends the copy.
func CopyFile(from FS, src string, to FS, dst string, n int64, pace func(n int64) error,
) (err error) {
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
	for off := int64(0); off < n; {
		piece := buf[:min(n-off, int64(len(buf)))]
		if got, err := in.ReadAt(piece, off); got < len(piece) {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s has %d bytes: %w", src, off+int64(got), io.ErrUnexpectedEOF)
			}
			return err
		}
		if _, err := out.Write(piece); err != nil {
			return err
		}
		if err := startWriteback(out, off, int64(len(piece))); err != nil {
			return err
		}
		off += int64(len(piece))
		if pace == nil {
			continue
		}
		if err := pace(int64(len(piece))); err != nil {
			return err
		}
	}
	if _, err := from.Stat(src); err != nil {
		return err
	}
	return out.Sync()
}

// startWriteback has a file written to the disk piece by piece. Why: otherwise the sync at
// its end writes all of it at once, and others that sync wait for that.
func startWriteback(f File, off, n int64) error {
	if w, ok := f.(Writebacker); ok {
		return w.StartWriteback(off, n)
	}
	return nil
}

// CannotLink reports whether an error of Link says that these two names can never be of one
// file: they are on two file systems, or on one that has no links, or the file has as many
// names as it may. A copy is needed.
func CannotLink(err error) bool {
	return err != nil && (errors.Is(err, errors.ErrUnsupported) || cannotLinkOS(err))
}
