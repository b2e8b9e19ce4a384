package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// filesOf3 makes a database with one file in each of three stripes, and returns their partitions.
func filesOf3(t *testing.T, mem vfs.FS, o engine.Options) (*engine.DB, [][]byte) {
	t.Helper()
	db := openOn(t, mem, o)
	pks := partitionsOfStripes(3)
	slices.SortFunc(pks, func(a, b []byte) int {
		return int(keycodec.Stripe(a)) - int(keycodec.Stripe(b))
	})
	for i, p := range pks {
		for j := range i + 1 {
			ok(t, db.Put(pksk(string(p), fmt.Sprint(j)), []byte("value")))
		}
	}
	ok(t, db.Flush(ctx))
	return db, pks
}

// TestVerifyCounts: the report counts files, bytes and entries, and the progress goes up to it.
func TestVerifyCounts(t *testing.T) {
	for _, unfiltered := range []bool{false, true} {
		mem := vfs.NewMem()
		o := engine.Options{Durability: engine.Process}
		if unfiltered {
			o.FilterBits = engine.NoFilter
		}
		db, _ := filesOf3(t, mem, o)
		total := db.Metrics().Total
		var steps []engine.VerifyProgress
		rep, err := db.Verify(ctx, func(p engine.VerifyProgress) { steps = append(steps, p) })
		ok(t, err)
		want := 0
		if unfiltered {
			want = 3
		}
		if rep.Files != 3 || rep.Bytes != total.DiskBytes || rep.Entries != 6 ||
			rep.Unfiltered != want || rep.LogRecords != 0 || len(rep.Errors) > 0 {
			t.Errorf("report %+v, metrics %+v", rep, total)
		}
		bytes := int64(0)
		for i, p := range steps {
			if p.Files != i+1 || p.FilesTotal != 3 || p.BytesTotal != total.DiskBytes ||
				p.Bytes <= bytes {
				t.Errorf("step %d: %+v", i, p)
			}
			bytes = p.Bytes
		}
		if len(steps) != 3 || bytes != total.DiskBytes {
			t.Errorf("%d steps, %d bytes", len(steps), bytes)
		}
		ok(t, db.Put(pk("more"), nil))
		mustClose(t, db)
		db = openOn(t, mem, engine.Options{})
		if rep, err := db.Verify(ctx, nil); err != nil || rep.LogRecords != 1 {
			t.Errorf("reopened: %+v, %v", rep, err)
		}
		mustClose(t, db)
	}
}

// TestFlushRecordsIsExact: a stripe flushes with the record that makes it that many, and so with
// each batch as a whole.
func TestFlushRecordsIsExact(t *testing.T) {
	for _, records := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			db := openOn(t, vfs.NewMem(), engine.Options{
				FlushRecords: records, Durability: engine.Process,
			})
			defer mustClose(t, db)
			synctest.Wait()
			flushed := func(want uint64) {
				t.Helper()
				synctest.Wait()
				if n := db.Metrics().Flushes; n != want {
					t.Errorf("FlushRecords %d: %d flushes, want %d", records, n, want)
				}
			}
			for i := range records - 1 {
				ok(t, db.Put(pksk("p", fmt.Sprint(i)), nil))
			}
			ok(t, db.Put(pk("another stripe"), nil))
			if records > 1 {
				flushed(0)
				ok(t, db.Put(pksk("p", "last"), nil))
			}
			flushed(1)
			b := engine.NewBatch()
			for i := range records + 5 {
				ok(t, b.Put(pksk("p", fmt.Sprint(i)), nil))
			}
			ok(t, db.Apply(ctx, b))
			flushed(2)
		})
	}
}

// TestManyRangesAreFlushed: a memtable with 256 range tombstones is flushed.
func TestManyRangesAreFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openOn(t, vfs.NewMem(), engine.Options{Durability: engine.Process})
		defer mustClose(t, db)
		for i := range 256 {
			synctest.Wait()
			if n := db.Metrics().Flushes; n != 0 {
				t.Fatalf("%d flushes after %d range deletes", n, i)
			}
			ok(t, db.DeleteRange([]byte("p"), engine.SKEqual(fmt.Appendf(nil, "%03d", i))))
		}
		synctest.Wait()
		if n := db.Metrics().Flushes; n != 1 {
			t.Errorf("%d flushes after 256 range deletes", n)
		}
	})
}

// TestIdleDeletesAreFlushed: an idle database flushes the deletes of a stripe once they are a
// twentieth of what its files hold, and at least one, and every range tombstone.
func TestIdleDeletesAreFlushed(t *testing.T) {
	for _, c := range []struct {
		items, deletes int
		ranges         bool
		want           uint64
	}{
		{1, 0, false, 0}, {1, 1, false, 1}, {39, 1, false, 1}, {40, 1, false, 0},
		{40, 2, false, 1}, {61, 2, false, 0}, {61, 3, false, 1}, {100, 0, true, 1},
		{0, 5, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := openOn(t, vfs.NewMem(), engine.Options{Durability: engine.Process})
			defer mustClose(t, db)
			synctest.Wait() // the flusher has looked once
			for i := range c.items {
				ok(t, db.Put(pksk("p", fmt.Sprint(i)), nil))
			}
			ok(t, db.Flush(ctx))
			before := db.Metrics().Flushes
			for i := range c.deletes {
				ok(t, db.Delete(pksk("p", fmt.Sprint(i))))
			}
			if c.ranges {
				ok(t, db.DeleteRange([]byte("p"), engine.SKEqual([]byte("x"))))
			}
			time.Sleep(29 * time.Second)
			synctest.Wait()
			if n := db.Metrics().Flushes - before; n != 0 {
				t.Errorf("%+v: %d flushes before the database is idle", c, n)
			}
			time.Sleep(32 * time.Second) // the first look is one at what was written before it
			synctest.Wait()
			if n := db.Metrics().Flushes - before; n != c.want {
				t.Errorf("%+v: %d flushes", c, n)
			}
		})
	}
}

// TestDestinationNamesWhatIsThere: up to three names, and how many more there are.
func TestDestinationNamesWhatIsThere(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{})
	defer mustClose(t, db)
	for n, want := range []string{
		1: "it holds a: name", 2: "it holds a, b: name", 3: "it holds a, b, c: name",
		4: "it holds a, b, c and 1 more: name", 5: "it holds a, b, c and 2 more: name",
	} {
		dir := fmt.Sprint("copy", n)
		ok(t, mem.MkdirAll(dir))
		for i := range n {
			ok(t, vfstest.WriteFile(mem, filepath.Join(dir, string(rune('a'+i))), nil))
		}
		err := db.Checkpoint(ctx, dir, nil)
		if n > 0 && (!errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), want)) ||
			n == 0 && err != nil {
			t.Errorf("%d files: %v", n, err)
		}
	}
}

// TestMissingFilesAreNamed: at most ten of them.
func TestMissingFilesAreNamed(t *testing.T) {
	for _, n := range []int{1, 10, 11} {
		mem := vfs.NewMem()
		db := openOn(t, mem, engine.Options{Durability: engine.Process})
		for _, p := range partitionsOfStripes(n) {
			ok(t, db.Put(pk(string(p)), nil))
		}
		ok(t, db.Flush(ctx))
		mustClose(t, db)
		for _, name := range sstFiles(t, mem, "") {
			ok(t, mem.Remove(filepath.Join("db", name)))
		}
		_, err := engine.OpenFS(mem, "db", nil)
		wantIs(t, err, engine.ErrCorrupt)
		if got := strings.Count(err.Error(), "no such file"); got != min(n, 10) {
			t.Errorf("%d files are missing, %d are named: %v", n, got, err)
		}
	}
}

// TestDedupCounts: what FilterNew and InsertNew report of their keys, in files and memtables, at
// the moment at which items expire.
func TestDedupCounts(t *testing.T) {
	var now atomic.Int64 // in milliseconds
	now.Store(5000)
	db := openMemory(t, engine.Options{
		Clock: func() time.Time { return time.UnixMilli(now.Load()) }, Durability: engine.Process,
	})
	put := func(k string, expiry int64) {
		b := engine.NewBatch()
		ok(t, b.Put(pk(k), nil, engine.Expiry(expiry)))
		ok(t, db.Apply(ctx, b))
	}
	put("file", 0)
	put("file expires", 5001)
	ok(t, db.Flush(ctx))
	put("memory", 0)
	put("memory expires", 5001)
	ok(t, db.Delete(pk("deleted")))
	var keys []engine.Key
	var items []engine.Item
	for _, k := range []string{"new", "file", "file expires", "memory", "memory expires", "deleted",
		"new", "file"} {
		keys = append(keys, pk(k))
		items = append(items, engine.Item{Key: pk(k), Value: []byte("inserted"), Expiry: 9000})
	}
	check := func(what string, got []bool, s engine.DedupStats, err error, want string) {
		t.Helper()
		if s.DataReads < 1 { // a merge may have removed what has expired
			t.Errorf("%s: %d reads of data", what, s.DataReads)
		}
		text := fmt.Sprint(got, s.Keys, s.New, s.Repeated, s.MemtableHits, err)
		if text != want {
			t.Errorf("%s: %s, want %s", what, text, want)
		}
	}
	got, s, err := db.FilterNew(ctx, keys, nil, nil)
	check("before", got, s, err,
		"[true false false false false true false false] 8 2 2 3 <nil>")
	now.Add(1)
	got, s, err = db.FilterNew(ctx, keys, got, &engine.FilterOptions{Workers: 1})
	check("at the expiry", got, s, err,
		"[true false true false true true false false] 8 4 2 3 <nil>")
	got, s, err = db.InsertNew(ctx, items, got)
	check("insert", got, s, err,
		"[true false true false true true false false] 8 4 2 3 <nil>")
	it, err := db.GetItem(pk("new"))
	if err != nil || it.Expiry != 9000 || string(it.Value) != "inserted" {
		t.Errorf("%+v, %v", it, err)
	}
	if _, _, err := db.FilterNew(ctx, keys, nil,
		&engine.FilterOptions{Workers: -1}); !errors.Is(err,
		engine.ErrInvalid) {
		t.Errorf("-1 workers: %v", err)
	}
}

// TestRenameThatFailsIsNoFailure: a file that cannot be reused is removed, and a new one is made.
func TestRenameThatFailsIsNoFailure(t *testing.T) {
	mem := vfs.NewMem()
	renames := 0
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpRename && strings.HasSuffix(op.Name, ".sst") {
			renames++
			return errDisk
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{MaxRuns: 2, Durability: engine.Process})
	for round := range 4 {
		ok(t, db.Put(pk("k"), fmt.Append(nil, round)))
		ok(t, db.Compact(ctx))
	}
	wantValue(t, db, pk("k"), []byte("3"))
	mustClose(t, db)
	if n := len(sstFiles(t, mem, "")); renames == 0 || n != 1 {
		t.Errorf("%d renames have failed, %d files are left", renames, n)
	}
}
