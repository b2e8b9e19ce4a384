package engine_test

import (
	"fmt"
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
