package upkeep

import (
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/internal/lease"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
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
// the checksum of the block is wrong, since it covers the file's number and the block's
// offset. Then Stripe.newest compares V with the current view. V2 was published before V was
// released, so they differ, and the Get looks again in V2. If they are the same, the error is
// real.
//
// Another process may read the file as well. A file that comes to obsolete is held while a lease
// needs it (package lease): settle looks at the leases after the edit, and before the file is kept
// for reuse or removed.
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

	floor    func() (lease.Held, bool) // of the leases; nil: there are none
	position func() manifest.Position  // of the newest edit
	most     int64                     // bytes that are held for leases
	age      time.Duration             // of what is held

	settling sync.Mutex // one settle at a time

	mu     sync.Mutex
	names  []string   // guarded by mu
	held   []heldFile // guarded by mu; oldest first
	closed bool       // guarded by mu
}

// heldFile is an obsolete file that a lease may need.
type heldFile struct {
	name string
	size int64
	once bool              // it is not reused
	edit manifest.Position // not before the edit that replaced it
	from time.Time
}

const (
	// maxRecycled bounds the files that wait for reuse; a flush takes up to
	// MaxFlushGroup at once.
	maxRecycled = 2 * MaxFlushGroup
	// maxRecycledBytes is the largest file worth keeping: the cost of creating does not
	// grow with the size, the space held back does.
	maxRecycledBytes = 1 << 20
)

// obsolete takes over an SST or value file that no view needs any more. If removing it fails
// the next Open finds it as an orphan.
func (r *recycler) obsolete(name string) {
	r.hold(heldFile{name: filepath.Join(r.dir, name)})
	r.settle()
}

// hold takes over a file, which settle lets go.
func (r *recycler) hold(f heldFile) {
	info, err := r.fs.Stat(f.name)
	f.size, f.once = info.SizeBytes, f.once || err != nil || info.SizeBytes > maxRecycledBytes
	if r.floor != nil {
		f.edit, f.from = r.position(), time.Now()
	}
	r.mu.Lock()
	r.held = append(r.held, f)
	r.mu.Unlock()
}

// settle lets go of the files that no lease needs, and of the oldest beyond the limits.
//
// Why the files are taken before the leases are looked at: a file that comes later may be of an
// edit after the look.
func (r *recycler) settle() {
	r.settling.Lock()
	defer r.settling.Unlock()
	r.mu.Lock()
	list := r.held
	r.held = nil
	r.mu.Unlock()
	if len(list) == 0 {
		return
	}
	var floor lease.Held
	leased := false
	if r.floor != nil {
		floor, leased = r.floor()
	}
	base.Yield()
	var bytes int64
	for _, f := range list {
		bytes += f.size
	}
	stay, now := list[:0], time.Now()
	for _, f := range list {
		if leased && floor.Edit.Before(f.edit) && bytes <= r.most && now.Sub(f.from) < r.age {
			stay = append(stay, f)
			continue
		}
		bytes -= f.size
		if f.once || !r.keep(f.name) {
			r.remove(f.name)
		}
	}
	r.mu.Lock()
	r.held = append(stay, r.held...)
	r.mu.Unlock()
}

// heldBytes returns the size of the files that are held for leases.
func (r *recycler) heldBytes() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.held {
		n += f.size
	}
	return n
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

// drop removes the files that wait, and those that are held for leases, to give their space back.
func (r *recycler) drop() {
	r.mu.Lock()
	held := r.held
	r.held = nil
	r.mu.Unlock()
	for _, f := range held {
		r.remove(f.name)
	}
	r.dropKept()
}

// dropKept removes the files that wait for reuse.
func (r *recycler) dropKept() {
	for {
		name, ok := r.take()
		if !ok {
			return
		}
		r.remove(name)
	}
}

// rest removes the files that wait for reuse, and those that no lease needs any more.
func (r *recycler) rest() {
	r.settle()
	r.dropKept()
}

// close removes what waits; files that become obsolete later are removed at once. What a lease
// needs is left to the next Open.
func (r *recycler) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.rest()
}
