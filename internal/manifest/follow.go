package manifest

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/vfs"
)

// Position is a place in the history of the states of a database: a record of a manifest. It only
// grows, over all processes that write.
type Position struct{ Manifest, Record uint64 }

// Before reports whether p is the position of an older state than q.
func (p Position) Before(q Position) bool {
	return p.Manifest < q.Manifest || p.Manifest == q.Manifest && p.Record < q.Record
}

// Follower reads the states of a database, one after the other, while another process may change
// it. Its methods are not called concurrently.
type Follower struct {
	fs   vfs.FS
	dir  string
	at   *loaded
	file vfs.File // the manifest of at; nil: to be opened
}

// Follow loads the present state of the database in dir. The caller closes the Follower.
func Follow(fsys vfs.FS, dir string) (*Follower, error) {
	f := &Follower{fs: fsys, dir: dir}
	return f, f.load()
}

// State returns the state that was read last.
func (f *Follower) State() *State { return f.at.state }

// Position returns that of State.
func (f *Follower) Position() Position { return Position{f.at.id.num, f.at.next - 1} }

// load reads CURRENT and the manifest that it names.
//
// Why again after an error: the content of a file that is being written may be read half before
// and half after a write. What is damaged reads the same twice.
func (f *Follower) load() error {
	var before string
	for {
		at, err := load(f.fs, f.dir)
		if err == nil {
			_ = f.Close()
			f.at = at
			return nil
		}
		if err.Error() == before {
			return err
		}
		before = err.Error()
	}
}

// Poll reads what was committed since the last call, and reports whether the state is another one.
func (f *Follower) Poll() (changed bool, err error) {
	id, err := readCurrent(f.fs, f.dir)
	if err != nil {
		return false, err
	}
	if id != f.at.id.named() {
		return true, f.load()
	}
	if f.file == nil {
		f.file, err = f.fs.Open(filepath.Join(f.dir, Name(id.num)))
		if errors.Is(err, fs.ErrNotExist) {
			return true, f.load()
		}
		if err != nil {
			return false, err
		}
	}
	content, err := f.tail()
	if err != nil {
		return false, err
	}
	name := Name(id.num)
	for {
		// A record with a wrong checksum is being written.
		r, err := decodeRecord(name, content, f.at.id, 0, f.at.next)
		if err != nil || r.typ != typeEdit {
			return changed, nil
		}
		content = content[r.end():]
		r.off = f.at.end
		next := *f.at
		if next.apply(name, r) != nil { // the end of the manifest was taken back, and written again
			return true, f.load()
		}
		f.at, changed = &next, true
	}
}

// tail returns what follows the last record that was read.
func (f *Follower) tail() ([]byte, error) {
	size, err := f.file.Size()
	if err != nil || size <= f.at.end {
		return nil, err
	}
	b := make([]byte, min(size, maxManifestBytes)-f.at.end)
	n, err := f.file.ReadAt(b, f.at.end)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// Close closes what the follower has open.
func (f *Follower) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
