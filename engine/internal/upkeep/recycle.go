package upkeep

import (
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # Reused SSTs
//
// A merge replaces files and a flush needs new ones. The recycler gives an old file a new name and
// new content.
//
// The naive way: when a merge has written its result, the next flush overwrites a replaced file.
//
// Why it fails, in four ways. The manifest may still name the file: if its edit is not durable, a
// power cut leaves a manifest that names a destroyed file. A cursor reads the file for as long as
// it likes. A checkpoint has it by a hard link, and a copy must not change. And a Get holds no
// reference on its view (docs/decisions/0004), so it may be about to read:
//
//	G: loads view V; opens 007-12.sst; is about to read a block
//	M: installs view V2 without file 12; the last reference on V goes, the file is closed
//	F: renames 007-12.sst to 007-31.sst and writes over it
//	G: the read returns bytes of file 31
//
// The way taken: a file comes to obsolete when an edit that removes it is synced (Stripe.Install
// marks it afterwards) and the last view that contains it is released. create renames it to the
// name of a number that was never used, and reuse takes it only while it has one name. The writer
// writes from the start, cuts the file to its length, syncs it and the directory, and then an edit
// names it.
//
// G gets one of three errors. The handle is closed: fs.ErrClosed. It opens the name once more
// after the rename: fs.ErrNotExist, for no other file ever gets that name. It reads foreign bytes:
// the checksum of the block does not pass, since it covers the file's number and the block's
// offset. Then Stripe.newest compares V with the current view. V2 was published before V was
// released, so they differ, and the Get looks again in V2. If they are the same, the error is
// real.
//
// Invariants: a file that some view contains, or that the manifest names, is never written. While
// the process runs, a name belongs to one file. A block enters the cache of its own Reader, after
// its checksum.
//
// What a crash leaves: from the rename until the edit, the manifest names neither the old name nor
// the new one. Whichever is found, with old, new or mixed content, is an orphan. Open removes it.
// After the edit the new file is whole, because the syncs came first.

// recycler keeps some SST files that nothing refers to any more and gives them new
// names and contents instead of creating files.
//
// Why: creating a file costs more than writing 256 KiB to it (ext4: 260 µs of CPU
// against 22 µs for a rename, docs/decisions/0008), and merges free about as many files
// as flushes need.
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
			r.remove(name) // nothing else would, if Create fails, too
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
