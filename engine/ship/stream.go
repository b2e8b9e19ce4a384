package ship

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// sumsName is the file of a backup stream that has the SHA-256 of all others, as sha256sum writes
// and checks them.
const sumsName = "SHA256SUMS"

// Backup writes a copy of a database to w: a tar archive of the files of a checkpoint, checksums,
// and CURRENT last, so that a truncated archive is not a database. It has every commit acknowledged
// before the call. Reads and writes go on meanwhile; Close of the database waits for what w does
// not take yet. RestoreFrom and tar read it.
func Backup(ctx context.Context, db *engine.DB, w io.Writer) (err error) {
	ctx, done, err := db.Background(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = db.Flush(ctx)
	if err != nil && err != engine.ErrReadOnly { //nolint:errorlint // a failure is its cause
		return err
	}
	src := source.Of(db)
	c, err := src.Pin()
	if err != nil {
		return err
	}
	defer c.Release()
	small, err := smallFiles(c)
	if err = errors.Join(err, c.Log.Unpin()); err != nil {
		return err
	}
	b := backup{out: tar.NewWriter(w)}
	for name, size := range c.State.AllFiles() {
		if err := b.addFile(ctx, src, name, size); err != nil {
			return explain(src, name, err)
		}
	}
	current := small[len(small)-1]
	for _, f := range small[:len(small)-1] {
		if err := b.add(f.name, f.size, bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	fmt.Fprintf(&b.sums, "%x  %s\n", current.sum, current.name)
	sums := b.sums.Bytes()
	if err := b.add(sumsName, int64(len(sums)), bytes.NewReader(sums)); err != nil {
		return err
	}
	if err := b.add(current.name, current.size, bytes.NewReader(current.content)); err != nil {
		return err
	}
	return b.out.Close()
}

// backup is a Backup call.
type backup struct {
	out  *tar.Writer
	sums bytes.Buffer
}

// addFile adds a file of the database. What was read is right if the file still has its name: see
// namedFile.
func (b *backup) addFile(ctx context.Context, src *source.Source, name string, size int64) error {
	path := filepath.Join(src.Dir, name)
	in, err := src.FS.Open(path)
	if err != nil {
		return err
	}
	err = b.add(name, size, &ctxReader{ctx, io.NewSectionReader(in, 0, size)})
	if err = errors.Join(err, in.Close()); err == nil {
		_, err = src.FS.Stat(path)
	}
	return err
}

func (b *backup) add(name string, size int64, content io.Reader) error {
	err := b.out.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644,
		Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(b.out, sum), content)
	if err == nil && n != size {
		err = fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
	}
	fmt.Fprintf(&b.sums, "%x  %s\n", sum.Sum(nil), name)
	return err
}

// RestoreFrom makes a database in dir, which must not exist, of what Backup has written, and checks
// all checksums. If it fails, only dir.restoring is left, which is not a database.
func RestoreFrom(ctx context.Context, r io.Reader, dir string) error {
	return restoreFromOn(ctx, r, vfs.OS(), dir)
}

func restoreFromOn(ctx context.Context, r io.Reader, fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); dir == "" || !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, invalid("restore: %q is there: name a new directory", dir))
	}
	tmp := filepath.Clean(dir) + restoringSuffix
	if err := removeAll(fsys, tmp); err != nil {
		return err
	}
	if err := manifest.MakeDir(fsys, tmp); err != nil {
		return err
	}
	if err := unpack(ctx, tar.NewReader(r), fsys, tmp); err != nil {
		return fmt.Errorf("ship: restore: %w", err)
	}
	if err := fsys.SyncDir(tmp); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, filepath.Clean(dir)); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

// unpack writes the files of a stream. CURRENT is written when all others are right.
func unpack(ctx context.Context, in *tar.Reader, fsys vfs.FS, dir string) (err error) {
	var sums, want bytes.Buffer
	var out written
	defer func() { err = errors.Join(err, out.sync()) }()
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return corrupt.New("backup", -1, "stream", "a file "+manifest.CurrentName, "its end")
		}
		if err != nil {
			return err
		}
		if !plainName(h.Name) || h.Typeflag != tar.TypeReg {
			return corrupt.New("backup", -1, "file", "one of a database", h.Name)
		}
		content := &ctxReader{ctx, in}
		sum := sha256.New()
		if h.Name == sumsName {
			if _, err := want.ReadFrom(io.LimitReader(content, maxBodyBytes)); err != nil {
				return err
			}
			continue
		}
		last := h.Name == manifest.CurrentName
		if last && want.Len() == 0 {
			return corrupt.New("backup", -1, "stream", sumsName+" before CURRENT", "none")
		}
		path := filepath.Join(dir, h.Name)
		if last {
			path += ".tmp"
		}
		if err := unpackFile(fsys, path, content, sum, &out); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), h.Name)
		if !last {
			continue
		}
		if !bytes.Equal(sums.Bytes(), want.Bytes()) {
			return corrupt.New("backup", -1, "content", "the checksums of "+sumsName, "others")
		}
		// The end is read, too: what writes it to a pipe waits for that.
		if h, err := in.Next(); err == nil {
			return corrupt.New("backup", -1, "stream", "its end", h.Name)
		} else if !errors.Is(err, io.EOF) {
			return err
		}
		if err := errors.Join(out.sync(), fsys.SyncDir(dir)); err != nil {
			return err
		}
		return fsys.Rename(path, filepath.Join(dir, h.Name))
	}
}

func unpackFile(fsys vfs.FS, path string, content io.Reader, sum hash.Hash, to *written) error {
	out, err := fsys.Create(path)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(out, sum)}, content, to.buffer())
	if err != nil {
		return errors.Join(err, out.Close())
	}
	return to.add(out, n)
}
