package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// directory is a destination in a directory: an object is a file. Put writes a file of another
// name, syncs it, and links it to its own name, which fails if there is one; then it syncs the
// directory. A crash leaves a temporary file, which a process removes with its first Put, when it
// is an hour old, or an object whose name is not durable. So does a sync that fails. Such an object
// counts as one that is there, so names are made durable before anything is built on them: all with
// the first Put of a process and with that after a failed sync, and one that is taken with the Put
// that finds it.
//
// It works on a file system with hard links.
type directory struct {
	fs   vfs.FS
	dir  string
	last atomic.Uint64 // number of the last temporary file
	tidy sync.Once
	// settled: no sync of a directory has failed since all were synced.
	settled atomic.Bool
	seen    sync.Map // the directories that were there
}

// temporary is where objects are written.
const temporary = "tmp"

// Directory returns the destination in a directory, which is made when it is first needed. It has
// to be on a file system with hard links, and not inside of the database.
func Directory(dir string) Destination { return directoryOn(vfs.OS(), dir) }

func directoryOn(fsys vfs.FS, dir string) *directory { return &directory{fs: fsys, dir: dir} }

func (d *directory) path(name string) string {
	return filepath.Join(d.dir, filepath.FromSlash(name))
}

// Put implements Destination.
func (d *directory) Put(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	to := d.path(name)
	if err := d.settle(); err != nil {
		return err
	}
	if _, err := d.Head(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = cmp.Or(d.sync(filepath.Dir(to)), fmt.Errorf("%s: %w", to, errExist))
		}
		return err
	}
	for _, dir := range []string{filepath.Dir(to), d.path(temporary)} {
		if err := d.ready(dir); err != nil {
			return err
		}
	}
	d.tidy.Do(d.removeOld)
	tmp := d.path(path.Join(temporary, fmt.Sprintf("%s-%d-%d",
		strings.ReplaceAll(name, "/", "-"), os.Getpid(), d.last.Add(1))))
	err := d.write(ctx, tmp, content, size)
	if err == nil {
		err = d.fs.Link(tmp, to)
	}
	if rerr := d.fs.Remove(tmp); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if vfs.CannotLink(err) {
		return fmt.Errorf("%s: the file system has no hard links, which a destination needs: "+
			"name a directory on another one: %w", d.dir, err)
	}
	if err == nil || errors.Is(err, errExist) {
		err = cmp.Or(d.sync(filepath.Dir(to)), err)
	}
	return err
}

// settle makes the names of all objects durable, unless they are.
func (d *directory) settle() error {
	if d.settled.Swap(true) {
		return nil
	}
	names, err := d.fs.List(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		d.settled.Store(false)
		return err
	}
	for _, name := range append(names, ".", "..") {
		name = filepath.Join(d.dir, name)
		var st vfs.Info
		if st, err = d.fs.Stat(name); err == nil && st.IsDir {
			err = d.sync(name)
		}
		if errors.Is(err, fs.ErrPermission) {
			continue // it is no shipper's, such as lost+found
		}
		if err != nil {
			d.settled.Store(false)
			return err
		}
	}
	return nil
}

// sync makes the names in a directory durable.
func (d *directory) sync(dir string) error {
	err := d.fs.SyncDir(dir)
	if err != nil {
		d.settled.Store(false)
	}
	return err
}

// ready makes a directory, unless it was there before and is gone. Why: the disk may not be mounted
// any more, or somebody has moved the destination. What is put in its place is not part of it.
func (d *directory) ready(dir string) error {
	_, seen := d.seen.Load(dir) // first: another put may make the directory
	_, err := d.fs.Stat(dir)
	if err != nil && seen {
		return fmt.Errorf("%s is gone: mount the disk, or move the directory back", dir)
	}
	if err != nil {
		if err = manifest.MakeDir(d.fs, dir); err != nil {
			d.settled.Store(false)
		}
	}
	if err == nil {
		d.seen.Store(dir, true)
	}
	return err
}

// removeOld removes what crashes have left long ago.
func (d *directory) removeOld() {
	names, _ := d.fs.List(d.path(temporary))
	for _, name := range names {
		name = filepath.Join(d.path(temporary), name)
		st, err := d.fs.Stat(name)
		if at := st.Modified(); err == nil && !at.IsZero() && now().Sub(at) > time.Hour {
			_ = d.fs.Remove(name) // another process may have done so
		}
	}
}

func (d *directory) write(ctx context.Context, name string, content io.ReaderAt, size int64,
) error {
	f, err := d.fs.Create(name)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, &ctxReader{ctx, io.NewSectionReader(content, 0, size)}); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ctxReader is a reader that ends with a context.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // of one call
	io.Reader
}

// Read implements io.Reader.
func (r *ctxReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// Get implements Destination.
func (d *directory) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	if n < 0 {
		size, err := f.Size()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		n = max(size-off, 0)
	}
	return struct {
		io.Reader
		io.Closer
	}{&ctxReader{ctx, io.NewSectionReader(f, off, n)}, f}, nil
}

// List implements Destination.
func (d *directory) List(ctx context.Context, prefix string) (all []Info, err error) {
	dir := path.Dir(prefix + "x")
	names, err := d.fs.List(d.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if name = path.Join(dir, name); !strings.HasPrefix(name, prefix) {
			continue
		}
		info, err := d.Head(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a directory, or removed meanwhile
		case err != nil:
			return nil, err
		default:
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Delete implements Destination.
func (d *directory) Delete(_ context.Context, name string) error {
	err := d.fs.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Head implements Destination.
func (d *directory) Head(_ context.Context, name string) (Info, error) {
	st, err := d.fs.Stat(d.path(name))
	if err != nil {
		return Info{}, err
	}
	if st.IsDir {
		return Info{}, &fs.PathError{Op: "stat", Path: d.path(name), Err: errNotExist}
	}
	return Info{Name: name, SizeBytes: st.SizeBytes, Modified: st.Modified()}, nil
}
