package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Info says where a State was read from.
type Info struct {
	Manifest  uint64 // number of the manifest file
	SizeBytes int64  // up to the end of the last record, without seal and torn tail
	Records   uint64 // snapshot and edits
	TornBytes int64  // of a commit that a crash interrupted; ignored
}

// loaded is the result of reading a manifest, with what is needed to append to it.
type loaded struct {
	state     *State
	id        identity
	end       int64  // where the next record goes
	next      uint64 // its number
	fileBytes int64
	snapshot  int64 // size of record 0
	torn      int64
	sealed    bool // a seal follows the last record, and nothing follows it
	later     bool // it has a version that is not known, and nothing is loaded
}

// Load reads the state of the database in dir without changing anything. It may
// run beside a process that has the database open; it then sees one of the states
// that existed meanwhile. A missing CURRENT is fs.ErrNotExist, damage is a
// *corrupt.Error.
func Load(fsys vfs.FS, dir string) (*State, Info, error) {
	l, err := load(fsys, dir)
	if err != nil {
		return nil, Info{}, err
	}
	info := Info{Manifest: l.id.num, SizeBytes: l.end, Records: l.next, TornBytes: l.torn}
	return l.state, info, nil
}

func load(fsys vfs.FS, dir string) (*loaded, error) {
	var last identity
	for {
		id, err := readCurrent(fsys, dir)
		if err != nil {
			return nil, err
		}
		name := Name(id.num)
		content, err := readFile(fsys, filepath.Join(dir, name), maxManifestBytes)
		switch {
		case err == nil:
			return replay(name, content, id)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("read %s: %w", name, err)
		case id == last:
			return nil, corrupt.New(CurrentName, 28, "manifest number",
				"that of an existing file", name)
		}
		// Why: a writer may have moved on to another manifest between our two reads.
		// Numbers only grow, so this ends.
		last = id
	}
}

// replay builds the state from a manifest's content. id is what CURRENT says.
func replay(name string, content []byte, id identity) (*loaded, error) {
	own, err := decodeHeader(name, magicManifest, content)
	if err != nil {
		return nil, err
	}
	if own.named() != id {
		return nil, corrupt.New(name, 12, "header",
			fmt.Sprintf("database %x, manifest %d", id.dbid, id.num),
			fmt.Sprintf("database %x, manifest %d", own.dbid, own.num))
	}
	id = own
	l := &loaded{id: id, end: headerBytes, fileBytes: int64(len(content))}
	for {
		r, err := decodeRecord(name, content, id, l.end, l.next)
		if err != nil {
			// Record 0 was durable before CURRENT named the file.
			if l.next == 0 || laterRecord(content, id, l.end, l.next) {
				return nil, err
			}
			l.torn = l.fileBytes - l.end
			return l, nil
		}
		if r.typ == typeSeal {
			return l, l.checkSeal(name, content, r)
		}
		if err := l.apply(name, r); err != nil {
			return nil, err
		}
	}
}

// checkSeal judges what follows a seal. Bytes may: those of a record that was to
// overwrite the seal, if a crash kept its end and not its beginning. A valid
// record may not.
func (l *loaded) checkSeal(name string, content []byte, r record) error {
	if l.state == nil || len(r.payload) != 0 {
		return corrupt.New(name, r.off, "manifest seal", "an empty record after a snapshot",
			fmt.Sprintf("record %d with %d bytes", r.num, len(r.payload)))
	}
	if laterRecord(content, l.id, r.off, r.num) {
		return corrupt.New(name, r.off, "manifest seal", "the last record", "a record after it")
	}
	l.torn = l.fileBytes - r.end()
	l.sealed = l.torn == 0
	return nil
}

// apply brings the state forward by one record.
func (l *loaded) apply(name string, r record) error {
	var err error
	switch {
	case r.typ == typeSnapshot && r.num == 0:
		l.state, err = decodeState(name, l.id, r)
		l.snapshot = r.end() - r.off
	case r.typ == typeEdit && r.num > 0:
		var e *Edit
		if e, err = decodeEdit(name, l.id, r); err != nil {
			return err
		}
		s, aerr := Apply(l.state, e)
		if aerr != nil { // Salvage keeps the state before the edit
			return corrupt.New(name, r.off, "manifest edit", "an edit that fits the state", aerr)
		}
		l.state = s
	default:
		err = corrupt.New(name, r.off, "manifest record", "a snapshot first and then edits",
			fmt.Sprintf("record %d of type %d", r.num, r.typ))
	}
	if err != nil {
		return err
	}
	l.end, l.next = r.end(), r.num+1
	return nil
}
