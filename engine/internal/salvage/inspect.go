package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/wal"
)

// ErrFileName: the name is not that of a file of a database.
var ErrFileName = errors.New("not the name of a kstone file")

// Describe writes what is in one file of a database, for people. The name says which kind
// of file it is. Settings describes the settings that a manifest stores.
func Describe(name string, w io.Writer, settings func(stored []byte) string) error {
	fsys, err := vfs.OpenDir(vfs.OS(), filepath.Dir(name)) // a named pipe would wait for ever
	if err != nil {
		return fmt.Errorf("engine: inspect: %w", err)
	}
	defer fsys.Close()
	baseName := filepath.Base(name)
	if _, ok := wal.ParseFileName(baseName); ok {
		f, err := fsys.Open(name)
		if err != nil {
			return fmt.Errorf("engine: inspect: %w", err)
		}
		defer f.Close()
		return wal.Describe(f, w)
	}
	if _, _, ok := base.ParseSSTName(baseName); ok {
		return describeSST(fsys, name, w)
	}
	if id, num, ok := base.ParseDataName(baseName); ok {
		return describeValues(fsys, name, id, num, w)
	}
	_, isManifest := manifest.ParseName(baseName)
	if !isManifest && baseName != manifest.CurrentName {
		return ErrFileName
	}
	content, err := readAll(fsys, name)
	if err != nil {
		return fmt.Errorf("engine: inspect: %w", err)
	}
	if isManifest {
		return manifest.Describe(w, baseName, content, settings)
	}
	return manifest.DescribeCurrent(w, content)
}

func readAll(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, io.NewSectionReader(f, 0, size))
	return b.Bytes(), err
}

func describeSST(fsys vfs.FS, name string, w io.Writer) error {
	meta, dbid, err := sst.ReadMeta(fsys, name)
	if err != nil {
		return fmt.Errorf("engine: inspect: %w", err)
	}
	if meta.Name() != filepath.Base(name) {
		return &corrupt.Error{
			File: name, Offset: -1, What: "file identity",
			Want: filepath.Base(name), Got: meta.Name(),
		}
	}
	r := sst.NewReader(sst.ReaderOptions{
		FS: fsys, Dir: filepath.Dir(name), Meta: &meta, DBID: dbid, SeedUnknown: true,
	})
	defer r.Close()
	return r.Describe(w)
}

// describeValues describes a value file. What it has is in the SSTs that refer to it: those of the
// stripe in the same directory.
func describeValues(
	fsys vfs.FS, name string, id base.StripeID, num base.FileNum, w io.Writer,
) error {
	dir := filepath.Dir(name)
	dbid, size, err := sst.ReadValueHeader(fsys, dir, id, num)
	if err != nil {
		return fmt.Errorf("engine: inspect: %w", err)
	}
	fmt.Fprintf(w, "file            %s (%d bytes)\n", filepath.Base(name), size)
	fmt.Fprintf(w, "database        %x\n", dbid)
	fmt.Fprintf(w, "values          %d bytes\n", sst.ValuesIn(size))
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("engine: inspect: %w", err)
	}
	for _, other := range names {
		if s, _, ok := base.ParseSSTName(other); !ok || s != id {
			continue
		}
		meta, _, err := sst.ReadMeta(fsys, filepath.Join(dir, other))
		if err != nil { // it may need the file, too
			fmt.Fprintf(w, "unknown         %v\n", err)
		}
		for _, u := range meta.Values {
			if u.Num == num {
				fmt.Fprintf(w, "needed by       %s: %d bytes\n", other, u.Bytes)
			}
		}
	}
	return nil
}
