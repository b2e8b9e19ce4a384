package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kstonedb/kstone/internal/vfs"
)

// CrashFS is a file system in memory that knows what of it is durable, so that a test
// can look at the disk that a power cut would leave.
//
// Durable is no more than the interface promises: the content and size of a file as of
// its last Sync, the names in a directory as of its last SyncDir (of the parent for the
// directory itself). Closing makes nothing durable, nor does a Sync of a file its name.
//
// A CrashFS is safe for concurrent use. Its files implement neither Mapper nor
// Writebacker. A renamed directory takes the names below it along, synced or not.
type CrashFS struct {
	// SectorBytes is the piece in which unsynced writes reach the disk or do not.
	SectorBytes int64

	mem  *vfs.MemFS // what the running program sees
	disk *vfs.MemFS // holds the durable contents, without names

	mu      sync.Mutex
	live    map[string]*crashNode // Guarded by mu, as all below; by cleaned path
	durable map[string]*crashNode
	pending []nameChange // not synced, in the order they were made
}

// crashNode is a file's durable content, and what was done to it since. A directory has
// nothing but names.
type crashNode struct {
	content *vfs.MemNode // nil for a directory
	file    vfs.File     // of the content
	pending []contentChange
}

// contentChange is a write or, without data, a change of size.
type contentChange struct {
	data []byte
	off  int64 // of data, or the new size
	grow bool  // the size is changed only if it is smaller
}

// nameChange is one operation on names; all its entries reach the disk together.
type nameChange []nameEntry

type nameEntry struct {
	path string
	node *crashNode // nil: the name is gone
}

// NewCrash returns an empty CrashFS.
func NewCrash() *CrashFS { return CrashOf(vfs.NewMem()) }

// CrashOf returns a CrashFS that starts with a copy of m, all of it durable. With the
// result of PowerCut it is the machine after the power has come back.
func CrashOf(m *vfs.MemFS) *CrashFS {
	c := &CrashFS{SectorBytes: 512, mem: vfs.NewMem(), disk: vfs.NewMem(),
		live: map[string]*crashNode{}}
	nodes := map[*vfs.MemNode]*crashNode{}
	copies := map[*vfs.MemNode]*vfs.MemNode{}
	all := m.Nodes()
	for _, path := range slices.Sorted(maps.Keys(all)) { // parents before children
		n := all[path]
		if n == nil {
			_ = c.mem.MkdirAll(path)
			c.live[path] = &crashNode{}
			continue
		}
		if nodes[n] == nil {
			nodes[n] = c.newNode(n.Clone())
			copies[n] = n.Clone()
		}
		c.mem.AddNode(path, copies[n])
		c.live[path] = nodes[n]
	}
	c.durable = maps.Clone(c.live)
	return c
}

// newNode makes content what is durable of a file that has no name yet.
func (c *CrashFS) newNode(content *vfs.MemNode) *crashNode {
	const name = "content" // for this moment: an open file needs none
	c.disk.AddNode(name, content)
	f, _ := c.disk.OpenReadWrite(name)
	_ = c.disk.Remove(name)
	return &crashNode{content: content, file: f}
}

// Kill returns the machine as the death of the running process at this moment leaves it:
// nothing is lost, nothing more is durable than was, and no lock is held. C and its
// users are not disturbed.
func (c *CrashFS) Kill() *CrashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := CrashOf(c.mem) // contents and names, but with all of it durable
	nodes := map[*crashNode]*crashNode{nil: nil}
	for path, n := range c.live {
		nodes[n] = after.live[path]
	}
	seen := map[*crashNode]bool{}
	copied := func(n *crashNode) *crashNode {
		if _, ok := nodes[n]; !ok {
			nodes[n] = &crashNode{} // has lost its names, or is about to
		}
		if to := nodes[n]; n != nil && n.content != nil && !seen[n] {
			seen[n] = true
			*to = *after.newNode(n.content.Clone())
			to.pending = slices.Clone(n.pending)
		}
		return nodes[n]
	}
	for _, n := range c.live {
		copied(n)
	}
	clear(after.durable)
	for path, n := range c.durable {
		after.durable[path] = copied(n)
	}
	for _, change := range c.pending {
		change = slices.Clone(change)
		for i := range change {
			change[i].node = copied(change[i].node)
		}
		after.pending = append(after.pending, change)
	}
	return after
}

// PowerCut returns the disk as a power cut at this moment may leave it. The file system
// and its users are not disturbed.
//
// Everything durable is there. Of the rest each change is kept with probability keep,
// whatever its order: of a write each sector for itself, of a write that makes the file
// longer also the length without the data; a rename wholly or not at all, so that the
// new name always stands for the old or the new file. For every other file or directory
// on average it is all changes or none: such a loss is harder on a program than one
// that is spread evenly.
//
// A kept name whose directory is lost is lost. Rnd is not used after the call.
func (c *CrashFS) PowerCut(rnd *rand.Rand, keep float64) *vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := maps.Clone(c.durable)
	kept := lottery(rnd, keep)
	for _, change := range c.pending {
		if kept() {
			change.apply(names)
		}
	}
	out := vfs.NewMem()
	nodes := map[*crashNode]*vfs.MemNode{}
	for _, path := range slices.Sorted(maps.Keys(names)) { // parents before children
		n := names[path]
		dir := filepath.Dir(path)
		if at, err := out.Stat(dir); !isRoot(dir) && (err != nil || !at.IsDir) {
			continue
		}
		switch {
		case n.content == nil:
			_ = out.MkdirAll(path)
		case nodes[n] == nil:
			nodes[n] = n.content.Clone()
			out.AddNode(path, nodes[n])
			n.tear(out, path, c.SectorBytes, lottery(rnd, keep))
		default:
			out.AddNode(path, nodes[n])
		}
	}
	return out
}

func isRoot(path string) bool { return path == filepath.Dir(path) }

// lottery returns a function that says which changes are kept.
func lottery(rnd *rand.Rand, keep float64) func() bool {
	draw := func() bool { return rnd.Float64() < keep }
	if rnd.IntN(2) == 0 {
		return draw
	}
	all := draw()
	return func() bool { return all }
}

// tear applies some of the pending changes to a copy of the durable content.
func (n *crashNode) tear(m *vfs.MemFS, path string, sector int64, kept func() bool) {
	f, _ := m.OpenReadWrite(path)
	for _, c := range n.pending {
		for _, piece := range c.pieces(sector) {
			if kept() {
				piece.apply(f)
			}
		}
	}
	_ = f.Close()
}

// pieces divides a write at the borders of sectors.
func (c contentChange) pieces(sector int64) []contentChange {
	if c.data == nil {
		return []contentChange{c}
	}
	var all []contentChange
	for off, data := c.off, c.data; len(data) > 0; {
		n := min(sector-off%sector, int64(len(data)))
		all = append(all, contentChange{data: data[:n], off: off})
		off, data = off+n, data[n:]
	}
	return all
}

// apply does the change. It cannot fail: the files have no limit and are open.
func (c contentChange) apply(f vfs.File) {
	switch {
	case c.data != nil:
		_, _ = f.WriteAt(c.data, c.off)
	case c.grow:
		_ = f.Allocate(c.off)
	default:
		_ = f.Truncate(c.off)
	}
}

func (c nameChange) apply(names map[string]*crashNode) {
	for _, e := range c {
		if e.node == nil {
			delete(names, e.path)
		} else {
			names[e.path] = e.node
		}
	}
}

// renameLocked makes entries current, and pending until a SyncDir.
func (c *CrashFS) renameLocked(entries ...nameEntry) {
	nameChange(entries).apply(c.live)
	c.pending = append(c.pending, entries)
}

// Create implements FS.
func (c *CrashFS) Create(name string) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.mem.Create(name)
	if err != nil {
		return nil, err
	}
	n := c.newNode(&vfs.MemNode{})
	c.renameLocked(nameEntry{filepath.Clean(name), n})
	return &crashFile{File: f, fs: c, node: n}, nil
}

// Open implements FS.
func (c *CrashFS) Open(name string) (vfs.File, error) { return c.open(name, c.mem.Open) }

// OpenReadWrite implements FS.
func (c *CrashFS) OpenReadWrite(name string) (vfs.File, error) {
	return c.open(name, c.mem.OpenReadWrite)
}

func (c *CrashFS) open(name string, fn func(string) (vfs.File, error)) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := fn(name)
	if err != nil {
		return nil, err
	}
	n := c.live[filepath.Clean(name)]
	return &crashFile{File: f, fs: c, node: n}, nil
}

// Remove implements FS.
func (c *CrashFS) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mem.Remove(name); err != nil {
		return err
	}
	c.renameLocked(nameEntry{filepath.Clean(name), nil})
	return nil
}

// Rename implements FS.
func (c *CrashFS) Rename(oldName, newName string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, to := filepath.Clean(oldName), filepath.Clean(newName)
	n := c.live[from]
	same := n == c.live[to] // two names of one file: nothing happens
	if err := c.mem.Rename(oldName, newName); err != nil || same {
		return err
	}
	entries := []nameEntry{{from, nil}, {to, n}}
	if n.content == nil {
		sep := string(filepath.Separator)
		for path, below := range c.live {
			if rest, ok := strings.CutPrefix(path, from+sep); ok {
				entries = append(entries, nameEntry{path, nil}, nameEntry{to + sep + rest, below})
			}
		}
	}
	c.renameLocked(entries...)
	return nil
}

// Link implements FS.
func (c *CrashFS) Link(oldName, newName string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mem.Link(oldName, newName); err != nil {
		return err
	}
	c.renameLocked(nameEntry{filepath.Clean(newName), c.live[filepath.Clean(oldName)]})
	return nil
}

// MkdirAll implements FS.
func (c *CrashFS) MkdirAll(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mem.MkdirAll(dir); err != nil {
		return err
	}
	for path := filepath.Clean(dir); !isRoot(path); path = filepath.Dir(path) {
		if c.live[path] == nil {
			c.renameLocked(nameEntry{path, &crashNode{}})
		}
	}
	return nil
}

// SyncDir implements FS. A rename between two directories is durable when either is
// synced.
func (c *CrashFS) SyncDir(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mem.SyncDir(dir); err != nil {
		return err
	}
	path := filepath.Clean(dir)
	in := func(e nameEntry) bool { return filepath.Dir(e.path) == path }
	rest := c.pending[:0]
	for _, change := range c.pending {
		if slices.ContainsFunc(change, in) {
			change.apply(c.durable)
		} else {
			rest = append(rest, change)
		}
	}
	clear(c.pending[len(rest):])
	c.pending = rest
	return nil
}

// List implements FS.
func (c *CrashFS) List(dir string) ([]string, error) { return c.mem.List(dir) }

// Stat implements FS.
func (c *CrashFS) Stat(name string) (vfs.Info, error) { return c.mem.Stat(name) }

// Lock implements FS. After a power cut no lock is held.
func (c *CrashFS) Lock(name, owner string, shared bool) (io.Closer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.mem.Stat(name)
	missing := errors.Is(err, fs.ErrNotExist)
	l, err := c.mem.Lock(name, owner, shared)
	if err == nil && missing {
		c.renameLocked(nameEntry{filepath.Clean(name), c.newNode(&vfs.MemNode{})})
	}
	return l, err
}

// OpenShared implements FS. What is written to the file is never durable: it is for processes that
// live at the same time.
func (c *CrashFS) OpenShared(name string) (vfs.SharedFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.mem.Stat(name)
	missing := errors.Is(err, fs.ErrNotExist)
	f, err := c.mem.OpenShared(name)
	if err == nil && missing {
		c.renameLocked(nameEntry{filepath.Clean(name), c.newNode(&vfs.MemNode{})})
	}
	return f, err
}

// crashFile notes what is done to a file.
type crashFile struct {
	vfs.File
	fs   *CrashFS
	node *crashNode
	pos  int64 // Guarded by fs.mu; where Write continues
}

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.writeLocked(p, off)
}

func (f *crashFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.writeLocked(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *crashFile) writeLocked(p []byte, off int64) (int, error) {
	size, _ := f.Size()
	n, err := f.File.WriteAt(p, off)
	if n > 0 {
		if end := off + int64(n); end > size {
			f.noteLocked(contentChange{off: end, grow: true})
		}
		f.noteLocked(contentChange{data: slices.Clone(p[:n]), off: off})
	}
	return n, err
}

func (f *crashFile) noteLocked(c contentChange) { f.node.pending = append(f.node.pending, c) }

func (f *crashFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.File.Truncate(size)
	if err == nil {
		f.noteLocked(contentChange{off: size})
	}
	return err
}

func (f *crashFile) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.File.Allocate(size)
	if err == nil {
		f.noteLocked(contentChange{off: size, grow: true})
	}
	return err
}

func (f *crashFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.File.Sync(); err != nil {
		return err
	}
	for _, c := range f.node.pending {
		c.apply(f.node.file)
	}
	f.node.pending = nil
	return nil
}
