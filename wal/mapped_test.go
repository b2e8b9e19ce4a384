//go:build linux || darwin

package wal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// mapped reports whether files of dir can be mapped and have reserved blocks.
func mapped(t *testing.T, dir string) bool {
	t.Helper()
	f, err := vfs.OS().Create(filepath.Join(dir, "probe"))
	ok(t, err)
	ok(t, f.Allocate(1<<16))
	m, err := f.(vfs.Mapper).Map(1 << 16)
	if err == nil {
		ok(t, m.Unmap())
	}
	ok(t, f.Close())
	ok(t, vfs.OS().Remove(filepath.Join(dir, "probe")))
	return err == nil
}

// Somebody truncates the file under the log: the store faults, and that is an error,
// not the end of the process.
//
// Promise (disks): A fault in the mapped log is an error, not the end of the process. Also
// `TestPowerCutOnRealFileSystems` in `internal/powercut`.
func TestFaultInTheMapping(t *testing.T) {
	for _, where := range []string{"record", "header"} {
		dir := t.TempDir()
		if !mapped(t, dir) {
			t.Skip("the temporary directory is on a file system without preallocation")
		}
		o := wal.Options{FS: vfs.OS(), Dir: dir, DBID: testDBID, SegmentBytes: 16 << 10}
		o.Mapped = true
		reports := 0
		o.OnFailure = func(error) { reports++ }
		l := openNew(t, o)
		fill(t, l, 5)
		ok(t, l.Sync(5))
		victim, size := wal.SegmentNum(1), int64(4096)
		if where == "header" {
			for len(l.Segments()) < 2 { // the prepared one is published soon
				ok(t, l.Sync(base.MaxSeqNum))
			}
			victim, size = 2, 0
		}
		ok(t, os.Truncate(filepath.Join(dir, victim.FileName()), size))
		var err error
		for i := 0; err == nil && i < 10_000; i++ {
			_, err = l.Append(payload(l.LastSeq() + 1))
		}
		wantIs(t, err, wal.ErrFailed)
		var fault interface{ Addr() uintptr }
		if !errors.As(err, &fault) {
			t.Fatalf("%v does not carry the fault", err)
		}
		wantIs(t, second(l.Append(nil)), wal.ErrFailed)
		wantIs(t, l.Sync(1), wal.ErrFailed)
		wantIs(t, l.Close(), wal.ErrFailed)
		if reports != 1 {
			t.Fatalf("OnFailure was called %d times", reports)
		}
		if _, n := replay(t, o, 0, 1); n < 5 {
			t.Fatalf("%d records are left", n)
		}
	}
}

// What is stored in the mapping is in the file without any sync: it survives the
// process.
//
// Promise (durability): A commit at `Process` is in the file without a sync.
func TestMappedRecordsAreVisibleAtOnce(t *testing.T) {
	o := wal.Options{FS: vfs.OS(), Dir: t.TempDir(), DBID: testDBID, SegmentBytes: 4 << 10}
	o.Mapped = true
	l := openNew(t, o)
	for seq := base.SeqNum(1); seq <= 300; seq++ {
		fill(t, l, seq)
		if seq%37 == 0 {
			if _, n := replay(t, o, 0, 1); n != int(seq) {
				t.Fatalf("%d of %d records are in the files", n, seq)
			}
		}
	}
	ok(t, l.Close())
}

// A file system that cannot map falls back to writes.
func TestMapFailureFallsBackToWrites(t *testing.T) {
	o := wal.Options{Dir: t.TempDir(), DBID: testDBID, SegmentBytes: 4 << 10, Mapped: true}
	writes := 0
	o.FS = vfstest.NewFault(vfs.OS(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpMap {
			return errBoom
		}
		if op.Kind == vfstest.OpWriteAt {
			writes++
		}
		return nil
	})
	l := openNew(t, o)
	fill(t, l, 20)
	ok(t, l.Close())
	if writes < 20 {
		t.Fatalf("%d writes for 20 records", writes)
	}
	replay(t, o, 0, 1)
}
