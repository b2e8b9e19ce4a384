package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/vfs"
)

// move continues the log in a new manifest that begins with a snapshot of s.
//
//  1. Write MANIFEST-n with header, snapshot and seal; sync it.
//  2. Write CURRENT.tmp, which names it; sync it.
//  3. Sync the directory: both names are durable.
//  4. Rename CURRENT.tmp to CURRENT; sync the directory. This is the commit.
//  5. Remove the old manifest.
//
// A crash before the rename of step 4 leaves the old CURRENT and with it the old
// state; the new files are orphans (in a directory without CURRENT: files that
// Create replaces). After the rename, whether or not its sync was reached, either
// CURRENT may be found, and each names a complete manifest: the old one is removed
// only when the new CURRENT is durable.
func (l *Log) move(s *State) error {
	id := identity{dbid: s.DBID, num: l.lastNum + 1, values: s.values()}
	l.lastNum = id.num
	name := Name(id.num)

	b := encodeHeader(magicManifest, id)
	b = appendRecord(b, id, 0, typeSnapshot,
		func(b []byte) []byte { return appendState(b, s, id.values) })
	end := int64(len(b))
	if end+sealBytes > maxManifestBytes {
		return tooLarge("write "+name, end)
	}
	b = appendSeal(b, id, 1)
	file, err := l.writeFile(name, b)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := l.pointTo(id); err != nil {
		file.Close()
		if !errors.Is(err, ErrUncertain) {
			l.discard(name)
		}
		return err
	}
	l.retire()
	l.file, l.id, l.end, l.next = file, id, end, 1
	l.snapshot, l.mustMove = end-headerBytes, false
	return nil
}

// pointTo makes CURRENT name manifest id.num, durably.
func (l *Log) pointTo(id identity) error {
	tmp, path := filepath.Join(l.dir, currentTmpName), filepath.Join(l.dir, CurrentName)
	f, err := l.writeFile(currentTmpName, encodeHeader(magicCurrent, id))
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", currentTmpName, err)
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.fail(fmt.Errorf("sync database directory: %w", err))
	}
	if err := l.fs.Rename(tmp, path); err != nil {
		// The rename may have happened nevertheless. Only another one, to yet another
		// manifest, settles it; nothing more may be appended to the old file.
		l.mustMove = true
		return fmt.Errorf("replace %s: %w (%w)", CurrentName, err, ErrUncertain)
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.fail(fmt.Errorf("sync database directory: %w", err))
	}
	return nil
}

// writeFile makes a file with the content b, durable apart from its name. A file
// that could not be written is removed; a failed sync is sticky.
func (l *Log) writeFile(name string, b []byte) (vfs.File, error) {
	f, err := l.fs.Create(filepath.Join(l.dir, name))
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(b, 0); err != nil {
		err = errors.Join(err, f.Close())
		l.discard(name)
		return nil, err
	}
	if err = f.Sync(); err != nil {
		f.Close()
		return nil, l.fail(err)
	}
	return f, nil
}

// retire closes and removes the manifest that CURRENT no longer names. Errors do
// not matter: what is left is an orphan.
func (l *Log) retire() {
	if l.file == nil {
		return
	}
	l.file.Close()
	l.discard(Name(l.id.num))
}

// discard removes a file that nothing refers to; failing that, it is an orphan.
func (l *Log) discard(name string) { _ = l.fs.Remove(filepath.Join(l.dir, name)) }
