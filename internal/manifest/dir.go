package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Names in a database directory. On disk: never change.
const (
	// CurrentName is the file that makes a directory a database.
	CurrentName = "CURRENT"

	currentTmpName = "CURRENT.tmp"
	manifestPrefix = "MANIFEST-"
	spillPrefix    = "SPILL-"
	timesTmpName   = "TIMES.tmp"

	// LockName is the lock file of a database directory. It may exist before the
	// database does.
	LockName = "LOCK"

	// ReadersName is the file with the leases of processes that read the database. It is no part
	// of it.
	ReadersName = "READERS"

	firstManifest = 1
)

// Name returns the name of manifest num, MANIFEST-nnnnnn.
func Name(num uint64) string { return fmt.Sprintf("%s%06d", manifestPrefix, num) }

// ParseName is the inverse of Name; ok is false for every other name.
func ParseName(name string) (num uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, err == nil && Name(num) == name
}

// SpillName returns the name of temporary file num, SPILL-nnnnnn.
func SpillName(num uint64) string { return fmt.Sprintf("%s%06d", spillPrefix, num) }

// isSpill reports whether a name is one of SpillName.
func isSpill(name string) bool {
	digits, ok := strings.CutPrefix(name, spillPrefix)
	if !ok {
		return false
	}
	num, err := strconv.ParseUint(digits, 10, 64)
	return err == nil && SpillName(num) == name
}

// Exists reports whether dir holds a kstone database, and changes nothing. False
// without an error means that one may be created there: dir does not exist, or is
// empty, or holds nothing but what an interrupted creation leaves
// before its last step.
//
// Any other content is an error that matches ErrNotDatabase and names the
// unexpected files. So is a file CURRENT that another program made; one of kstone
// that is damaged or of an unknown version is a *corrupt.Error.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	// Usually it is there, and the list of all files is not needed.
	if _, err := readCurrent(fsys, dir); !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, vfs.ErrNotDir) {
		return err == nil, err
	}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look into database directory: %w", err)
	}
	var strange []string
	for _, name := range names {
		switch name {
		case CurrentName:
			_, err := readCurrent(fsys, dir)
			return err == nil, err
		case currentTmpName, LockName, Name(firstManifest):
		default:
			strange = append(strange, name)
		}
	}
	if len(strange) == 0 {
		return false, nil
	}
	more := ""
	if len(strange) > 5 {
		more = fmt.Sprintf(" and %d more", len(strange)-5)
		strange = strange[:5]
	}
	return false, fmt.Errorf("%s: %w: no file %s, but unexpected files: %s%s",
		dir, ErrNotDatabase, CurrentName, strings.Join(strange, ", "), more)
}

// readCurrent reads and checks CURRENT.
func readCurrent(fsys vfs.FS, dir string) (identity, error) {
	path := filepath.Join(dir, CurrentName)
	b, err := readFile(fsys, path, 4<<10)
	if err != nil {
		return identity{}, fmt.Errorf("read %s: %w", path, err)
	}
	// LevelDB and its relatives have a CURRENT too, with a line of text in it.
	if strings.HasPrefix(string(b), manifestPrefix) {
		return identity{}, fmt.Errorf("%s: %w: file %s belongs to another program",
			dir, ErrNotDatabase, CurrentName)
	}
	id, err := decodeCurrent(b)
	if err != nil && !strings.HasPrefix(string(b), magicCurrent) {
		// Nobody can tell whose file this is, or was.
		err = fmt.Errorf("%s: %w: %w", dir, ErrNotDatabase, err)
	}
	return id, err
}

// MakeDir creates dir, with its parents, so that it is there after a crash. It may
// exist already.
//
// Directories are made and synced one by one from the top, beginning with the sync of the
// one that is there: the process that made it may have been killed before it could sync.
func MakeDir(fsys vfs.FS, dir string) error {
	var missing []string
	p := filepath.Clean(dir)
	for ; p != filepath.Dir(p); p = filepath.Dir(p) {
		if _, err := fsys.Stat(p); err == nil {
			break
		}
		missing = append(missing, p)
	}
	err := fsys.SyncDir(filepath.Dir(p))
	if errors.Is(err, fs.ErrPermission) {
		err = nil // a process that may not read the parent has not made the directory with MakeDir
	}
	for i := len(missing) - 1; err == nil && i >= 0; i-- {
		if err = fsys.MkdirAll(missing[i]); err == nil {
			err = fsys.SyncDir(filepath.Dir(missing[i]))
		}
	}
	if err != nil {
		return fmt.Errorf("create database directory: %w", err)
	}
	return nil
}

// readFile returns the content of a file of at most limit bytes.
func readFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, corrupt.New(filepath.Base(path), limit, "end of file",
			fmt.Sprintf("at most %d bytes", limit), size)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// Orphans returns those of names, the content of a database directory, that no
// part of the database needs any more: SSTs and value files that s does not name,
// manifests other than current, and temporary files. Names that kstone's manifest
// does not know are never among them.
//
// Requires: nothing is writing SST files; a file that is being written is an
// orphan too until its edit commits.
func Orphans(s *State, current uint64, names []string) []string {
	live := make(map[string]bool)
	for name := range s.AllFiles() {
		live[name] = true
	}
	var out []string
	for _, name := range names {
		_, _, isData := base.ParseDataName(strings.TrimSuffix(name, ".tmp"))
		num, isManifest := ParseName(name)
		if (isData && !live[name]) || (isManifest && num != current) || name == currentTmpName ||
			name == timesTmpName || isSpill(name) {
			out = append(out, name)
		}
	}
	return out
}
