package engine_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Goal: deletes on a full disk free the space of large values. Method: every other item is
// deleted, so that hardly a value file goes as a whole.
//
// Promise (disks): On a full disk the space of deleted large values comes back, too.
func TestDeletesOfLargeValuesOnFullDisk(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{
		MemtableBytes: 4 << 20, LogBytes: 8 << 20, MaxRuns: 2, Durability: engine.Process,
		Compression: engine.NoCompression, LargeValue: 1,
	})
	defer mustClose(t, db)
	ok(t, db.Put(pk("first"), nil)) // the reserve is made
	fsys.SetCapacity(fsys.UsedBytes() + 48<<20)
	n := 0
	within(t, 2*time.Minute, "filling the disk", func() { n = fillDisk(t, db, 0) })
	for i := 0; i < n; i += 2 {
		ok(t, db.Delete(pk(fmt.Sprint(i))))
	}
	resumes(t, db)
	again := n
	eventually(t, "the space", func() bool {
		again = fillDisk(t, db, again)
		return again-n > n/4
	})
	for i := 1; i < n; i += 2 {
		wantItems(t, db, i, i+1)
	}
}

// Goal: value files are neither many nor written again without need. Method: 80 flushes make a
// file each, of one partition; those of the first half are small, those of the second are not.
//
// Promise (manners): Small value files are joined; full ones are written again for their garbage
// alone.
func TestSmallValueFilesAreJoined(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := openDir(t, dir, &engine.Options{
		LargeValue: 1, FlushRecords: 1, MaxRuns: 64, Durability: engine.Process,
		FileBytes: 64 << 10, Compression: engine.NoCompression,
	})
	put := func(from, to, size int) {
		for i := from; i < to; i++ {
			ok(t, db.Put(pksk("p", fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size)))
			ok(t, db.Flush(ctx))
		}
		ok(t, db.Compact(ctx))
	}
	const small, full = 100, 40_000
	put(0, 40, full)
	written := db.Metrics().CompactionWrittenBytes
	if written > full {
		t.Errorf("%d bytes are written for the keys of 40 values", written)
	}
	put(40, 80, small)
	for i := range 80 {
		v, err := db.Get(pksk("p", fmt.Sprint(i)))
		if ok(t, err); len(v) != full && i < 40 || len(v) != small && i >= 40 || v[0] != byte(i) {
			t.Fatalf("value %d: %d bytes", i, len(v))
		}
	}
	mustClose(t, db)
	if _, n := valueFiles(t, dir); n > 40+32 {
		t.Errorf("%d value files of 40 full and 40 small ones", n)
	}
}
