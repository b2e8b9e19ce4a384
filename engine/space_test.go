package engine_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Space of items that have expired returns without anybody calling Flush or Compact, and without a
// single further write. The clock of the test stands still while there is work.
//
// Promise (reads and writes): Deleted space comes back without being asked for; an idle database
// writes nothing. Also `TestDeletedItemsAreReclaimed`, `TestIdleDatabaseWritesNothing`.
func TestSpaceReturnsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openMemory(t, engine.Options{Durability: engine.Process})
		for i := range 5000 {
			ok(t, db.Put(pksk("p", fmt.Sprintf("%06d", i)), make([]byte, 100),
				engine.TTL(30*time.Minute)))
		}
		ok(t, db.Flush(ctx))
		before := db.Metrics().Total.DiskBytes
		time.Sleep(time.Hour + 2*time.Minute)
		left := db.Metrics().Total
		if left.Records > 0 || left.DiskBytes > before/20 {
			t.Errorf("%d records, %d of %d bytes are left", left.Records, left.DiskBytes, before)
		}
		if got := content(t, db); len(got) != 0 {
			t.Errorf("%d items are left", len(got))
		}
	})
}

// An idle database with nothing to reclaim writes nothing.
func TestIdleDatabaseWritesNothing(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	synctest.Test(t, func(t *testing.T) {
		db := openMemory(t, engine.Options{Durability: engine.Process})
		for i := range 1000 {
			ok(t, db.Put(pk(fmt.Sprint(i)), nil))
		}
		ok(t, db.Flush(ctx))
		ok(t, db.Put(pk("one more"), nil))
		ok(t, db.Delete(pk("17")))
		time.Sleep(5 * time.Minute) // the tombstone is more than a twentieth of its stripe
		m := db.Metrics()
		time.Sleep(24 * time.Hour)
		if after := db.Metrics(); after.Flushes != m.Flushes || after.Compactions != m.Compactions {
			t.Errorf("a day later: %d flushes more, %d merges more",
				after.Flushes-m.Flushes, after.Compactions-m.Compactions)
		}
	})
}

// A database that nothing is written to any more flushes what Close would flush, merges what is
// there twice, and gives up what waits for reuse: its log is the segment in use and the next.
//
// Promise (reads and writes): A database at rest takes little more space than its items.
func TestDatabaseAtRest(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		db := openOn(t, disk, engine.Options{
			Durability: engine.Process, MemtableBytes: 8 << 20, LogBytes: 64 << 20,
		})
		defer mustClose(t, db)
		reserve := func() int64 {
			info, err := disk.Stat(filepath.Join(db.Dir(), "RESERVE"))
			ok(t, err)
			return info.SizeBytes
		}
		value := make([]byte, 200)
		for round := range 3 { // each is in runs of its own, and the last in memtables
			for i := range 20_000 {
				ok(t, db.Put(pk(fmt.Sprint(i)), value))
			}
			if round < 2 {
				ok(t, db.Flush(ctx))
			}
		}
		busy := db.Metrics()
		large := reserve()
		if busy.MemtableBytes < 4<<20 || busy.Total.Records < 40_000 || large < 8<<20 {
			t.Fatalf("%d bytes in memtables, %d records, reserve %d: nothing to do at rest",
				busy.MemtableBytes, busy.Total.Records, large)
		}
		time.Sleep(5 * time.Minute)
		m := db.Metrics()
		if m.MemtableBytes > 0 || m.Total.Records > 25_000 {
			t.Errorf("%d bytes in memtables, %d records", m.MemtableBytes, m.Total.Records)
		}
		if n := m.LogSegments; n > 2 {
			t.Errorf("%d segments of the log", n)
		}
		if n := reserve(); n > large/2 {
			t.Errorf("the reserve has %d of %d bytes", n, large)
		}
		ok(t, db.Put(pk("one more"), nil))
		time.Sleep(5 * time.Minute)
		if after := db.Metrics(); after.Flushes != m.Flushes {
			t.Errorf("%d flushes for one small item", after.Flushes-m.Flushes)
		}
	})
}

// Very many range deletes do not make every later read of the stripe slow: they move to
// files, where they are searched rather than walked.
func TestManyRangeDeletes(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	const n = 5000
	for i := range n {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%05d", i)), nil))
	}
	for i := 0; i < n; i += 2 {
		ok(t, db.DeleteRange([]byte("p"), engine.SKEqual(fmt.Appendf(nil, "%05d", i))))
	}
	eventually(t, "a flush", func() bool { return db.Metrics().Flushes > 0 })
	for i := range n {
		there, err := db.Has(pksk("p", fmt.Sprintf("%05d", i)))
		if err != nil || there != (i%2 == 1) {
			t.Fatalf("item %d: %v, %v", i, there, err)
		}
	}
	if c, err := db.Count(ctx, engine.Query{PK: []byte("p")}); err != nil || c != n/2 {
		t.Fatalf("%d items, %v", c, err)
	}
}

// Range deletes that come back by replay move to a file, too.
func TestManyRangeDeletesAfterReplay(t *testing.T) {
	mem := vfs.NewMem()
	b := &breaker{match: onFile(".sst", vfstest.OpCreate), err: errDisk}
	db := openOn(t, vfstest.NewFault(mem, b.hook), engine.Options{})
	ok(t, db.Put(pksk("p", "0001"), nil))
	ok(t, db.Put(pksk("p", "x"), nil))
	batch := engine.NewBatch()
	for i := range 1000 {
		ok(t, batch.DeleteRange([]byte("p"), engine.SKEqual(fmt.Appendf(nil, "%04d", i))))
	}
	b.broken.Store(true) // the flush that follows fails, as if the process had died
	_ = db.Apply(ctx, batch)
	_ = db.Close()
	db = openOn(t, mem, engine.Options{})
	eventually(t, "a flush", func() bool { return db.Metrics().Flushes > 0 })
	wantValue(t, db, pksk("p", "0001"), nil)
	wantValue(t, db, pksk("p", "x"), []byte{})
	mustClose(t, db)
}

// CompactPartition reclaims what is deleted in the stripe of a partition, and only there.
func TestCompactPartition(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for _, p := range []string{"p", "q"} {
		for i := range 100 {
			ok(t, db.Put(pksk(p, fmt.Sprint(i)), make([]byte, 100)))
		}
		ok(t, db.Flush(ctx))
		for i := range 4 { // too few for a merge in the background
			ok(t, db.Delete(pksk(p, fmt.Sprint(i))))
		}
	}
	ok(t, db.Flush(ctx))
	ok(t, db.CompactPartition(ctx, []byte("p")))
	if m := db.Metrics().Total; m.Tombstones != 4 || m.Records != 200 {
		t.Errorf("%d tombstones of %d records are left, want those of one partition: 4 of 200",
			m.Tombstones, m.Records)
	}
	wantIs(t, db.CompactPartition(ctx, nil), engine.ErrEmptyPK)
}
