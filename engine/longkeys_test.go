package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// The longest keys: a partition key that is as long as can be in ordered form, and a sort
// key with nothing longer after it.
var (
	longestPK = make([]byte, engine.MaxKeyBytes)
	longestSK = bytes.Repeat([]byte("s"), engine.MaxKeyBytes)
)

// A range that starts after a sort key of the greatest length is a range of its own
// partition, also when it is replayed or repaired.
//
// Promise (manners): Keys, ranges and files at their limits, in combination: a range after the
// longest sort key, the longest start of a range, more range deletes than a block holds, an
// index larger than a block, and the same at full size with `KSTONE_HUGE=1`. Also
// `TestTransactionsSeeRangeAfterLongestSortKey`, `TestLongestRangeStart`,
// `TestLongRangeDeletesFillFiles`, `TestHugeRangeDeletes`, `TestHugeIndex`;
// `TestRangeTombstonesFillFiles` in `stripe`.
func TestRangeAfterLongestSortKey(t *testing.T) {
	for _, n := range []int{engine.MaxKeyBytes - 1, engine.MaxKeyBytes} {
		fsys := vfs.NewMem()
		db := openOn(t, fsys, engine.Options{})
		ok(t, db.Put(pksk("p", "t"), []byte("gone")))
		ok(t, db.Put(pksk("p", "a"), []byte("kept")))
		ok(t, db.DeleteRange([]byte("p"), engine.SKGreater(longestSK[:n])))
		check := func(db *engine.DB) {
			t.Helper()
			wantValue(t, db, pksk("p", "t"), nil)
			wantValue(t, db, pksk("p", "a"), []byte("kept"))
		}
		check(db)
		mustClose(t, db)
		report, err := engine.RepairFS(ctx, fsys, "db", "repaired", nil)
		ok(t, err)
		if len(report.Lost) > 0 {
			t.Errorf("%d bytes: repair lost %v", n, report.Lost)
		}
		for _, dir := range []string{"db", "repaired"} {
			db, err := engine.OpenFS(fsys, dir, nil)
			ok(t, err)
			check(db)
			ok(t, db.Compact(ctx))
			check(db)
			mustClose(t, db)
		}
	}
}

// A transaction conflicts with a range delete that starts after the longest sort key, and
// sees its own. The key of the conflict is a key.
func TestTransactionsSeeRangeAfterLongestSortKey(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pksk("p", "t"), []byte("v")))
	for _, read := range []func(tx *engine.Tx) error{
		func(tx *engine.Tx) error { return second(tx.Get(pksk("p", "t"))) },
		func(tx *engine.Tx) error {
			for _, err := range tx.Query(ctx, engine.Query{PK: []byte("p")}) {
				return err
			}
			return nil
		},
	} {
		err := db.Update(ctx, func(tx *engine.Tx) error {
			ok(t, read(tx))
			ok(t, db.DeleteRange([]byte("p"), engine.SKGreater(longestSK)))
			return tx.Put(pksk("p", "a"), nil)
		})
		var conflict *engine.ConflictError
		if !errors.As(err, &conflict) {
			t.Fatalf("a range that was read is deleted meanwhile: %v", err)
		}
		if err := conflict.Key.Validate(); err != nil || string(conflict.Key.PK) != "p" {
			t.Errorf("the conflict is about a key of %d and %d bytes: %v", len(conflict.Key.PK),
				len(conflict.Key.SK), err)
		}
		ok(t, db.Put(pksk("p", "t"), []byte("v")))
	}
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		ok(t, tx.DeleteRange([]byte("p"), engine.SKGreater(longestSK)))
		_, err := tx.Get(pksk("p", "t"))
		wantIs(t, err, engine.ErrNotFound)
		return nil
	}))
}

// The longest start that a range can have passes through log, files and repair.
func TestLongestRangeStart(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{})
	gone, kept := engine.Key{PK: longestPK, SK: []byte("t")}, engine.Key{PK: longestPK}
	ok(t, db.Put(gone, []byte("v")))
	ok(t, db.Put(kept, []byte("v")))
	ok(t, db.Flush(ctx)) // a run, so that the range tombstone is kept
	ok(t, db.DeleteRange(longestPK, engine.SKGreater(longestSK)))
	mustClose(t, db)
	check := func(dir string) {
		t.Helper()
		db, err := engine.OpenFS(fsys, dir, nil)
		ok(t, err)
		for _, step := range []func() error{
			func() error { return nil },
			func() error { return db.Flush(ctx) },
			func() error { return second(db.Verify(ctx, nil)) },
			func() error { return db.Compact(ctx) },
		} {
			ok(t, step())
			wantValue(t, db, gone, nil)
			wantValue(t, db, kept, []byte("v"))
			ok(t, db.Put(pk("other"), nil))
		}
		mustClose(t, db)
	}
	for _, dir := range []string{"of the log", "of files"} {
		report, err := engine.RepairFS(ctx, fsys, "db", dir, nil)
		ok(t, err)
		if len(report.Lost) > 0 {
			t.Errorf("repair lost %v", report.Lost)
		}
		db := openOn(t, fsys, engine.Options{})
		ok(t, db.Flush(ctx))
		mustClose(t, db)
		check(dir)
	}
	check("db")
}

// Range deletes of the longest keys that a merge keeps for a snapshot are spread over files
// of about FileBytes, and all can be read.
func TestLongRangeDeletesFillFiles(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	longRangeDeletes(t, 12, engine.Options{FileBytes: 256 << 10})
}

// hugeEnv turns on tests of sizes that take some GiB of memory and a minute each.
const hugeEnv = "KSTONE_HUGE"

// The same with what exceeds the limit of one block, 1 GiB, and files of ordinary size.
func TestHugeRangeDeletes(t *testing.T) {
	skipUnlessHuge(t)
	longRangeDeletes(t, 2800, engine.Options{})
	longRangeDeletes(t, 2800, engine.Options{FileBytes: 4 << 30})
}

func skipUnlessHuge(t *testing.T) {
	t.Helper()
	if os.Getenv(hugeEnv) == "" {
		t.Skipf("takes some GiB of memory; %s=1 turns it on", hugeEnv)
	}
}

func longRangeDeletes(t *testing.T, n int, o engine.Options) {
	t.Helper()
	o.Durability, o.Compression = engine.Process, engine.NoCompression
	fsys := vfs.NewMem()
	db := openOn(t, fsys, o)
	sk := bytes.Clone(longestSK)
	at := func(i int) engine.Key {
		copy(sk[len(sk)-4:], fmt.Sprintf("%04d", i))
		return engine.Key{PK: longestPK, SK: sk}
	}
	kept := engine.Key{PK: longestPK, SK: []byte("kept")}
	ok(t, db.Put(kept, []byte("v")))
	ok(t, db.Put(at(1), []byte("old")))
	s, err := db.Snapshot()
	ok(t, err)
	for i := range n {
		ok(t, db.DeleteRange(longestPK, engine.SKEqual(at(i).SK)))
	}
	ok(t, db.Compact(ctx))
	most := o.FileBytes + 1<<20 // one tombstone more, or one item with its index and bounds
	if o.FileBytes == 0 || o.FileBytes > 512<<20 {
		most = 512<<20 + 1<<20
	}
	names, err := fsys.List("db")
	ok(t, err)
	files := 0
	for _, name := range names {
		info, err := fsys.Stat("db/" + name)
		ok(t, err)
		if len(name) > 4 && name[len(name)-4:] == ".sst" {
			files++
			if info.SizeBytes > most {
				t.Errorf("%s has %d bytes, want at most %d", name, info.SizeBytes, most)
			}
		}
	}
	t.Logf("%d range deletes are in %d files", n, files)
	check := func() {
		t.Helper()
		wantValue(t, db, kept, []byte("v"))
		wantValue(t, db, at(1), nil)
		ok(t, second(db.Verify(ctx, nil)))
	}
	check()
	v, err := s.Get(at(1))
	if err != nil || string(v) != "old" {
		t.Errorf("the snapshot reads %q, %v", v, err)
	}
	ok(t, s.Close())
	mustClose(t, db)
	db = openOn(t, fsys, o)
	check()
	ok(t, db.Compact(ctx))
	check()
	mustClose(t, db)
}

// Files end before their index becomes larger than readers accept, whatever FileBytes is.
func TestHugeIndex(t *testing.T) {
	skipUnlessHuge(t)
	db := openMemory(t, engine.Options{
		Durability: engine.Process, FileBytes: 4 << 30, MemtableBytes: 2 << 30, LogBytes: 2 << 30,
	})
	sk := bytes.Clone(longestSK)
	for i := range 2800 {
		copy(sk[len(sk)-4:], fmt.Sprintf("%04d", i))
		ok(t, db.Put(engine.Key{PK: longestPK, SK: sk}, nil))
	}
	ok(t, db.Compact(ctx))
	n, err := db.Count(ctx, engine.Query{PK: longestPK})
	if err != nil || n != 2800 {
		t.Errorf("%d items, %v", n, err)
	}
	ok(t, second(db.Verify(ctx, nil)))
	ok(t, db.Put(pk("a"), nil))
}

// A small write buffer takes keys of any length in any number: what is flushed leaves
// nothing after that counts.
//
// Promise (manners): Puts of the longest keys never come to a halt with the smallest write buffers,
// since empty memtables are small and count as nothing. Also `TestEmptyTableIsSmall` in `memtable`.
func TestLongKeysInSmallWriteBuffers(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openMemory(t, engine.Options{MemtableBytes: 1 << 20, Durability: engine.Process})
	within(t, 2*time.Minute, "puts of long keys", func() {
		for i := range testutil.Effort(400, 700) {
			p := append(bytes.Repeat([]byte("k"), 60<<10), fmt.Sprint(i%256)...)
			ok(t, db.Put(engine.Key{PK: p, SK: []byte(fmt.Sprint(i))}, nil))
		}
	})
	ok(t, db.Flush(ctx))
	if m := db.Metrics(); m.MemtableBytes != 0 {
		t.Errorf("write buffers without an item hold %d bytes", m.MemtableBytes)
	}
}
