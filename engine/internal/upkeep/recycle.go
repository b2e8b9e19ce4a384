package upkeep

import (
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// recycler keeps some SST files that nothing refers to any more and gives them new
// names and contents instead of creating files.
//
// Why: creating a file costs more than writing 256 KiB to it (ext4: 260 µs of CPU
// against 22 µs for a rename, docs/decisions/0008), and merges free about as many files
// as flushes need.
//
// Safety: a file gets here after the edit that removed it is durable and no view has
// it. It is reused only while it has one name: a checkpoint's hard links keep theirs.
// Until the next edit names it, whatever name a crash leaves it is an orphan's. A reader
// that still had the old file open fails on the checksum, which covers the file's
// number, and looks at the newer view.
type recycler struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger
	full   *atomic.Bool // the disk is: nothing is kept

	mu     sync.Mutex
	names  []string // guarded by mu
	closed bool     // guarded by mu
}

const (
	// maxRecycled bounds the files that wait for reuse; a flush takes up to
	// MaxFlushGroup at once.
	maxRecycled = 2 * MaxFlushGroup
	// maxRecycledBytes is the largest file worth keeping: the cost of creating does not
	// grow with the size, the space held back does.
	maxRecycledBytes = 1 << 20
)

// obsolete takes over an SST that no view contains any more. If removing it fails the
// next Open finds it as an orphan.
func (r *recycler) obsolete(s base.StripeID, num base.FileNum) {
	name := filepath.Join(r.dir, base.SSTName(s, num))
	info, err := r.fs.Stat(name)
	if err == nil && info.SizeBytes <= maxRecycledBytes && r.keep(name) {
		return
	}
	r.remove(name)
}

func (r *recycler) keep(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.names) >= maxRecycled || r.full.Load() {
		return false
	}
	r.names = append(r.names, name)
	return true
}

func (r *recycler) remove(name string) {
	if err := r.fs.Remove(name); err != nil {
		r.logger.Warn("remove obsolete file", "file", name, "err", err)
	}
}

// create returns a file of the given name, recycled or new. A recycled one still has
// its old content.
func (r *recycler) create(name string) (vfs.File, error) {
	if old, ok := r.take(); ok {
		if err := r.fs.Rename(old, name); err != nil {
			r.remove(old)
		} else if f, ok := r.reuse(name); ok {
			return f, nil
		} else {
			r.remove(name) // nobody else would, if Create fails, too
		}
	}
	return r.fs.Create(name)
}

// reuse opens a file to be overwritten, if it has one name only.
func (r *recycler) reuse(name string) (vfs.File, bool) {
	f, err := r.fs.OpenReadWrite(name)
	if err != nil {
		return nil, false
	}
	if n, err := f.Links(); err != nil || n > 1 {
		_ = f.Close()
		return nil, false
	}
	return f, true
}

func (r *recycler) take() (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.names)
	if n == 0 {
		return "", false
	}
	name := r.names[n-1]
	r.names = r.names[:n-1]
	return name, true
}

// drop removes the files that wait, to give their space back.
func (r *recycler) drop() {
	for {
		name, ok := r.take()
		if !ok {
			return
		}
		r.remove(name)
	}
}

// close removes what waits; files that become obsolete later are removed at once.
func (r *recycler) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.drop()
}
