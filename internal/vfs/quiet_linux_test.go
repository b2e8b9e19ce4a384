package vfs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/internal/vfs"
)

// Whoever looks at a file does not make its writer write the inode: neither by the time of access,
// nor by a question for the times, after which the next write notes its time to the nanosecond.
//
// Promise (readers): Readers beside the writer do not change what its syncs write.
func TestQuietReads(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, vfs.OS(), dir)
	long := time.Now().Add(-time.Hour)
	create := func(name string) *os.File {
		w, err := os.Create(filepath.Join(dir, name))
		ok(t, err)
		ok(t, second(w.Write([]byte("a"))))
		return w
	}
	times := func(name string) (st unix.Stat_t) {
		ok(t, unix.Stat(filepath.Join(dir, name), &st))
		return st
	}
	coarse := 0
	for i := range 100 {
		name, other := fmt.Sprint(i), fmt.Sprint(i, " that nobody asks about")
		w, beside := create(name), create(other)
		ok(t, os.Chtimes(w.Name(), long, time.Time{}))
		r, err := d.Open(w.Name())
		ok(t, err)
		ok(t, second(r.Size()))
		ok(t, second(d.Stat(w.Name())))
		ok(t, second(r.ReadAt(make([]byte, 1), 0)))
		ok(t, second(beside.Write([]byte("b"))))
		ok(t, second(w.Write([]byte("b"))))
		ok(t, errors.Join(r.Close(), w.Close(), beside.Close()))
		got := times(name)
		if got.Mtim == times(other).Mtim {
			coarse++
		}
		if got := time.Unix(got.Atim.Unix()); got.After(long.Add(time.Minute)) {
			t.Fatalf("the time of access is %v", got)
		}
	}
	// Between some of the writes the clock ticks, or another program makes that of files finer.
	if coarse < 3 {
		t.Errorf("%d of 100 writes noted the time that one to another file did", coarse)
	}
}
