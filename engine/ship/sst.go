package ship

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// sizes returns the sizes of objects by name.
func sizes(infos []Info) map[string]int64 {
	m := make(map[string]int64, len(infos))
	for _, info := range infos {
		m[info.Name] = info.SizeBytes
	}
	return m
}

// checkWhole returns the error of a base that needs another object than those that are there.
func checkWhole(files []file, there map[string]int64) error {
	for i := range files {
		f := &files[i]
		if size, is := there[f.object()]; f.content == nil && (!is || size != f.size) {
			return corrupt.New(f.object(), -1, "SST of a base", fmt.Sprintf("%d bytes", f.size),
				size)
		}
	}
	return nil
}

// filesOfLast returns the files of the last base, by hash. If that is damaged, nothing is shared.
func (s *Shipper) filesOfLast(ctx context.Context) (map[[32]byte]file, error) {
	found, err := s.look(ctx)
	if err != nil || len(found.bases) == 0 {
		return nil, err
	}
	files, err := getFiles(ctx, s.dest, &found.bases[len(found.bases)-1])
	if err != nil && !isDamage(err) {
		return nil, err
	}
	byHash := make(map[[32]byte]file, len(files))
	for _, f := range files {
		byHash[f.sum] = f
	}
	return byHash, nil
}

// getFiles returns the files of a base.
func getFiles(ctx context.Context, d Destination, b *baseObject) ([]file, error) {
	_, body, err := get(ctx, d, b.name, kindBase)
	if err != nil {
		return nil, err
	}
	return decodeFiles(b.name, body)
}

// putSST makes the object of an SST, unless the last base has it, and learns the hash of its
// content. An attempt that follows one that has failed finds the object under the same name, unless
// that is spoilt, or the shipper may have removed it.
//
// Why hashes are remembered by name only as long as the shipper runs: a number of a file is never
// used again by a database, but by a copy of it that goes on by itself.
func (s *Shipper) putSST(ctx context.Context, r *pacedFile, f *file, shared map[[32]byte]file,
	there map[string]int64) error {
	in, err := s.src.FS.Open(filepath.Join(s.src.Dir, f.name))
	if err != nil {
		return explain(s.src, f.name, err)
	}
	defer in.Close()
	r.File = in
	content := s.content(r, f)
	sum, known := s.sums[f.name]
	if !known {
		h := sha256.New()
		_, err = io.CopyBuffer(h, io.NewSectionReader(content, 0, f.size), make([]byte, copyBytes))
		if err != nil {
			return explain(s.src, f.name, err)
		}
		sum = [32]byte(h.Sum(nil))
		s.sums[f.name] = sum
	}
	f.sum = sum
	old, is := shared[sum]
	if f.epoch, f.put = old.epoch, old.put; !is || there[f.object()] != f.size {
		f.epoch, f.put = s.epoch, s.placed[sum]
		size, spoilt := there[f.object()]
		if is = size == f.size; f.put == 0 || spoilt && !is {
			s.puts++
			f.put, s.placed[sum] = s.puts, s.puts
		}
	}
	name := f.object()
	s.mu.Lock()
	if is {
		s.m.SharedBytes += f.size
	} else {
		s.m.SSTs++
		s.m.SSTBytes += f.size
	}
	s.mu.Unlock()
	if is {
		return nil
	}
	err = s.dest.Put(ctx, name, content, f.size)
	if errors.Is(err, errExist) {
		return nil // its size is looked at when all are there
	}
	return explain(s.src, f.name, err)
}

// content returns the content of an SST.
//
// Why more than the file beside a writing process: that may let go of the file and write it again
// between a look at the hash and one at the content. The object would have another content than its
// name says, and a later base would share it.
func (s *Shipper) content(r *pacedFile, f *file) io.ReaderAt {
	if s.src.Beside {
		return &namedFile{r, s.src.FS, filepath.Join(s.src.Dir, f.name)}
	}
	return r
}

// namedFile is an SST of another process. What was read is right if the file still has its name
// afterwards, since a file is renamed before it is used again.
type namedFile struct {
	*pacedFile
	fs   vfs.FS
	path string
}

// ReadAt implements io.ReaderAt.
func (f *namedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.pacedFile.ReadAt(p, off)
	if _, serr := f.fs.Stat(f.path); serr != nil {
		return 0, serr
	}
	return n, err
}

// explain makes an error of reading a file that a writing process has let go of an ErrStale.
func explain(src *source.Source, name string, err error) error {
	if err == nil || !src.Beside {
		return err
	}
	_, serr := src.FS.Stat(filepath.Join(src.Dir, name))
	if errors.Is(serr, errNotExist) {
		return fmt.Errorf("%w: %s", engine.ErrStale, name)
	}
	return err
}

// pacedFile is a file that is read with rests in between, so that others have the disk, too.
type pacedFile struct {
	vfs.File
	ctx  context.Context //nolint:containedctx // of one call
	duty upkeep.DutyCycle
}

// ReadAt implements io.ReaderAt.
func (f *pacedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.duty.Rest(f.ctx); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}
