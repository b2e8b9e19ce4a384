package manifest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Salvaged is what can be read of the manifests in a directory.
type Salvaged struct {
	// State is the newest state that could be read: whole, or that before the damage;
	// nil if there is none.
	State *State
	Name  string // of the manifest that has it
	// Whole: CURRENT and its manifest are intact. The state may still be an older one, if
	// files were replaced or cut at the end of a record.
	Whole bool
	// Damage says what is wrong, one error a file.
	Damage []error
}

// Salvage reads what it can of CURRENT and the manifests in dir, and changes nothing.
// Hint is the identity of the database as other files have it, zero if they do not. The
// error is one of I/O, or, if no header has a version that this program knows, or an intact one of
// a manifest has another, that.
func Salvage(fsys vfs.FS, dir string, hint [16]byte) (Salvaged, error) {
	l, err := load(fsys, dir)
	if err == nil {
		return Salvaged{State: l.state, Name: Name(l.id.num), Whole: true}, nil
	}
	damage := err
	if errors.Is(err, fs.ErrNotExist) {
		err = corrupt.New(CurrentName, -1, "database", "the file", "no such file")
	}
	out := Salvaged{Damage: []error{err}}
	current, cerr := readCurrent(fsys, dir)
	known := cerr == nil // a header of this version is among them
	names, err := fsys.List(dir)
	if err != nil {
		return out, err
	}
	var nums []uint64
	for _, name := range names {
		if num, ok := ParseName(name); ok {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	slices.Reverse(nums)
	for _, num := range nums {
		ids := []identity{{dbid: hint, num: num}}
		if current.num == num {
			ids = append(ids, current)
		}
		l, err := salvageFile(fsys, dir, Name(num), ids)
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) && !vfs.Unreadable(err) {
			return out, err
		}
		if l.later {
			return out, err
		}
		known = known || !errors.Is(err, corrupt.ErrVersion)
		if err != nil && err.Error() != out.Damage[0].Error() {
			out.Damage = append(out.Damage, err)
		}
		if l.state != nil && (out.State == nil || l.state.LastSeq > out.State.LastSeq) {
			out.State, out.Name = l.state, Name(num)
		}
	}
	if errors.Is(damage, corrupt.ErrVersion) && !known {
		return out, damage
	}
	return out, nil
}

// salvageFile reads a manifest up to the first damage. Ids are tried if its header is bad.
func salvageFile(fsys vfs.FS, dir, name string, ids []identity) (loaded, error) {
	path := filepath.Join(dir, name)
	content, err := readFile(fsys, path, maxManifestBytes)
	var unreadable error
	if vfs.Unreadable(err) {
		unreadable = err
		content, err = readStart(fsys, path)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = corrupt.New(name, -1, "manifest", "the file", "no such file")
		}
		return loaded{}, err
	}
	id, herr := decodeHeader(name, magicManifest, content)
	if isLater(magicManifest, content) {
		return loaded{later: true}, herr
	}
	if herr == nil {
		ids = []identity{id}
	}
	if herr != nil { // then the version is not known, either
		for _, id := range ids {
			ids = append(ids, identity{id.dbid, id.num, true})
		}
	}
	for _, id := range ids {
		l := loaded{id: id, end: headerBytes, fileBytes: int64(len(content))}
		err := error(nil)
		for l.end < l.fileBytes && err == nil {
			var r record
			if r, err = decodeRecord(name, content, id, l.end, l.next); err == nil {
				if r.typ == typeSeal {
					break
				}
				err = l.apply(name, r)
			}
		}
		if l.state != nil {
			return l, errors.Join(herr, err, unreadable)
		}
		if herr == nil {
			herr = err
		}
	}
	return loaded{}, errors.Join(herr, unreadable)
}

// readStart returns the content of a file up to the first place that cannot be read.
func readStart(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if vfs.Unreadable(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	var content, piece []byte
	piece = make([]byte, 4<<10)
	for err == nil && int64(len(content)) < maxManifestBytes {
		var n int
		n, err = f.ReadAt(piece, int64(len(content)))
		content = append(content, piece[:n]...)
	}
	return content, nil
}
