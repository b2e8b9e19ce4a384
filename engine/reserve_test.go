package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// fullOne is a database that has filled its disk with items of 4 KiB, their numbers as keys.
func fullOne(t *testing.T, fsys *vfs.MemFS, room int64) (db *engine.DB, n int) {
	t.Helper()
	db = smallDisk(t, fsys)
	ok(t, db.Put(pk("first"), nil)) // the reserve is made
	ok(t, db.Delete(pk("first")))
	fsys.SetCapacity(fsys.UsedBytes() + room)
	within(t, 2*time.Minute, "filling the disk", func() { n = fillDisk(t, db, 0) })
	if n < 100 {
		t.Fatalf("the disk is full after %d items", n)
	}
	return db, n
}

// resumes waits until a put succeeds, and until then accepts ErrDiskFull alone.
func resumes(t *testing.T, db *engine.DB) {
	t.Helper()
	eventually(t, "puts", func() bool {
		err := db.Put(pk("resumed"), make([]byte, 4<<10))
		if err != nil {
			wantIs(t, err, engine.ErrDiskFull)
			if errors.Is(err, engine.ErrReadOnly) {
				t.Fatal(err)
			}
		}
		return err == nil
	})
}

// ways of deleting the items from number lo to below hi
var deleteWays = map[string]func(t *testing.T, db *engine.DB, lo, hi int){
	"one by one": func(t *testing.T, db *engine.DB, lo, hi int) {
		for i := lo; i < hi; i++ {
			ok(t, db.Delete(pk(fmt.Sprint(i))))
		}
	},
	"in batches": func(t *testing.T, db *engine.DB, lo, hi int) {
		for i := lo; i < hi; i += 50 {
			b := engine.NewBatch()
			for j := i; j < min(hi, i+50); j++ {
				ok(t, b.Delete(pk(fmt.Sprint(j))))
			}
			ok(t, db.Apply(ctx, b))
		}
	},
	"by ranges": func(t *testing.T, db *engine.DB, lo, hi int) {
		for i := lo; i < hi; i++ {
			ok(t, db.DeleteRange(fmt.Append(nil, i), engine.SKCondition{}))
		}
	},
	"in a transaction": func(t *testing.T, db *engine.DB, lo, hi int) {
		ok(t, db.Update(ctx, func(tx *engine.Tx) error {
			for i := lo; i < hi; i++ {
				if err := tx.Delete(pk(fmt.Sprint(i))); err != nil {
					return err
				}
			}
			return nil
		}))
	},
}

// On a full disk every delete succeeds, in whatever form, also of everything. Space comes
// back by merges in the background, and puts resume, although the disk has not grown.
func TestDeletesOnFullDisk(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for name, remove := range deleteWays {
		for _, room := range []int64{8 << 20, 24 << 20} {
			if room > 8<<20 && testutil.Effort(1, 3) < 3 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d MiB", name, room>>20), func(t *testing.T) {
				fsys := vfs.NewMem()
				db, n := fullOne(t, fsys, room)
				within(t, 2*time.Minute, "deletes", func() { remove(t, db, 0, n) })
				if left := content(t, db); len(left) != 0 {
					t.Fatalf("%d items are left", len(left))
				}
				resumes(t, db)
				again := n
				// Memtables, the log and the reserve share the disk with the items, so that how
				// many fit depends on when they are flushed: 2/3 at least have been seen.
				eventually(t, "the space", func() bool {
					again = fillDisk(t, db, again)
					return again-n > n/2
				})
				mustClose(t, db)
			})
		}
	}
}

// A batch that writes nothing waits for no room, and a full disk has nothing that it lacks.
func TestConditionsAloneNeedNoRoom(t *testing.T) {
	db, _ := fullOne(t, vfs.NewMem(), 8<<20)
	b := engine.NewBatch()
	ok(t, b.Require(pk("absent"), engine.IfAbsent()))
	ok(t, db.Apply(ctx, b, nil))
	mustClose(t, db)
}

// The same where others take all that the database does not hold: when the disk is full,
// and again before it is reopened.
func TestDeletesOnADiskThatOthersFill(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	db, n := fullOne(t, fsys, 24<<20)
	take := func() { fsys.SetCapacity(fsys.UsedBytes()) }
	take()
	deleteWays["one by one"](t, db, 0, 100)
	mustClose(t, db)
	take()
	db = smallDisk(t, fsys)
	wantIs(t, db.Put(pk("x"), nil), engine.ErrDiskFull)
	for i := range 100 {
		wantValue(t, db, pk(fmt.Sprint(i)), nil)
	}
	wantItems(t, db, 100, n)
	deleteWays["in batches"](t, db, 100, n-100)
	wantItems(t, db, n-100, n)
	resumes(t, db) // in the space that the deletes have given back
	mustClose(t, db)
}

func wantItems(t *testing.T, db *engine.DB, lo, hi int) {
	t.Helper()
	for i := lo; i < hi; i++ {
		v, err := db.Get(pk(fmt.Sprint(i)))
		ok(t, err)
		if got := string(v[:len(fmt.Sprint(i))]); got != fmt.Sprint(i) {
			t.Fatalf("item %d is %q", i, got)
		}
	}
}

// A database that was closed long before the disk became full opens on it, is read, and
// deletes. Puts come back with the space at once, not after a pause: by a clock that stands
// still while anything runs, so that a busy machine is no pause.
func TestOpenOnFullDiskAndDelete(t *testing.T) { synctest.Test(t, openOnFullDiskAndDelete) }

func openOnFullDiskAndDelete(t *testing.T) {
	fsys := vfs.NewMem()
	db := smallDisk(t, fsys)
	for i := range 400 {
		ok(t, db.Put(pk(fmt.Sprint(i)), append(fmt.Append(nil, i), make([]byte, 1<<10)...)))
	}
	mustClose(t, db)
	closed := fsys.UsedBytes()
	fsys.SetCapacity(closed) // not a byte more
	db = smallDisk(t, fsys)
	wantItems(t, db, 0, 400)
	wantIs(t, db.Put(pk("x"), nil), engine.ErrDiskFull)
	deleteWays["one by one"](t, db, 0, 200)
	deleteWays["by ranges"](t, db, 200, 300)
	ok(t, db.Compact(ctx))
	wantItems(t, db, 300, 400)
	fsys.SetCapacity(closed + 64<<20)
	start := time.Now()
	resumes(t, db)
	if d := time.Since(start); d > 50*time.Millisecond {
		t.Errorf("puts came back %v after the space", d)
	}
	mustClose(t, db)
}

// The reserve of a closed database is small beside what it holds, or beside a log segment.
//
// Promise (disks): The reserve for deletes on a full disk is small beside the data.
func TestReserveIsSmall(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	size := func() int64 {
		info, err := fsys.Stat("db/RESERVE")
		ok(t, err)
		return info.SizeBytes
	}
	db := smallDisk(t, fsys)
	mustClose(t, db)
	if n := size(); n > 128<<10 {
		t.Errorf("an empty database reserves %d bytes", n)
	}
	db = smallDisk(t, fsys)
	for i := range 10_000 {
		ok(t, db.Put(pk(fmt.Sprint(i)), make([]byte, 4<<10)))
	}
	ok(t, db.Flush(ctx))
	open := size()
	data := db.Metrics().Total.DiskBytes
	mustClose(t, db)
	if n := size(); n > 128<<10+int64(data)/14 {
		t.Errorf("%d bytes are reserved for %d bytes of data", n, data)
	}
	if open > 8<<20 {
		t.Errorf("the open database reserves %d bytes", open)
	}
	// What is not there is made again: by the first put, or by Close.
	for _, write := range []bool{true, false} {
		ok(t, fsys.Remove("db/RESERVE"))
		db = smallDisk(t, fsys)
		if write {
			ok(t, db.Put(pk("x"), nil))
			if n := size(); n < 1<<20 {
				t.Errorf("%d bytes are reserved after the file was removed", n)
			}
		}
		mustClose(t, db)
		if n := size(); n < 128<<10 {
			t.Errorf("%d bytes are reserved after Close", n)
		}
	}
}
