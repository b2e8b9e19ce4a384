package vfs_test

import (
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
	const files = 100
	dir := t.TempDir()
	d := openDir(t, vfs.OS(), dir)
	long := time.Now().Add(-time.Hour)
	var ticks [files]int64 // the clock's last tick after a write
	for i := range ticks {
		name := filepath.Join(dir, fmt.Sprint(i))
		w, err := os.Create(name)
		ok(t, err)
		ok(t, second(w.Write([]byte("a"))))
		ok(t, os.Chtimes(name, long, time.Time{}))
		r, err := d.Open(name)
		ok(t, err)
		ok(t, second(r.Size()))
		ok(t, second(d.Stat(name)))
		ok(t, second(r.ReadAt(make([]byte, 1), 0)))
		ok(t, second(w.Write([]byte("b"))))
		var now unix.Timespec
		ok(t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
		ticks[i] = now.Nano()
		ok(t, r.Close())
		ok(t, w.Close())
	}
	coarse := 0
	for i, tick := range ticks {
		var st unix.Stat_t
		ok(t, unix.Stat(filepath.Join(dir, fmt.Sprint(i)), &st))
		if st.Mtim.Nano() <= tick {
			coarse++
		}
		if got := time.Unix(st.Atim.Unix()); got.After(long.Add(time.Minute)) {
			t.Fatalf("the time of access is %v", got)
		}
	}
	// Most are finer where other files of the system are at the moment; all are, if this one is.
	if coarse < 3 {
		t.Errorf("%d of %d writes noted the clock's tick as their time", coarse, files)
	}
}
