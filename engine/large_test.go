package engine_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// largeOptions keep values from 100 bytes on apart, and make flushes and merges frequent.
func largeOptions() *engine.Options {
	return &engine.Options{
		LargeValue: 100, FlushRecords: 25, MaxRuns: 2, Durability: engine.Process,
		MemtableBytes: 1 << 20, BlockBytes: 1 << 10, CacheBytes: 1 << 20,
	}
}

// largeModel is what a database of values around Options.LargeValue has.
type largeModel struct {
	rnd  *rand.Rand
	want map[string][]byte // by sort key, of partition p
}

// write overwrites, adds and deletes some items.
func (m *largeModel) write(t testing.TB, db *engine.DB, n int) {
	t.Helper()
	for range n {
		key := fmt.Sprintf("%03d", m.rnd.IntN(150))
		if m.rnd.IntN(10) == 0 {
			ok(t, db.Delete(pksk("p", key)))
			delete(m.want, key)
			continue
		}
		v := make([]byte, []int{0, 99, 100, 500, 40_000}[m.rnd.IntN(5)])
		for i := range v {
			v[i] = byte(m.rnd.Uint32())
		}
		ok(t, db.Put(pksk("p", key), v))
		m.want[key] = v
	}
}

// check compares all reads of items with the model.
func (m *largeModel) check(t testing.TB, r engine.Reader) {
	t.Helper()
	compareLarge(t, r, m.want)
}

func compareLarge(t testing.TB, r engine.Reader, want map[string][]byte) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	for _, reverse := range []bool{false, true} {
		for _, keysOnly := range []bool{false, true} {
			q := engine.Query{PK: []byte("p"), Reverse: reverse, KeysOnly: keysOnly}
			var got []string
			for item, err := range r.Query(ctx, q) {
				ok(t, err)
				key := string(item.Key.SK)
				got = append(got, key)
				if keysOnly && item.Value != nil ||
					!keysOnly && !bytes.Equal(item.Value, want[key]) {
					t.Fatalf("%s has %d bytes, keys only: %v", key, len(item.Value), keysOnly)
				}
			}
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, keys) {
				t.Fatalf("a query shows %q, want %q", got, keys)
			}
		}
	}
	// Limits make a merge read its sources lazily, and large values divide what those have read.
	for _, from := range []string{"000", "031", "077"} {
		s := engine.Scan{Limit: 60, From: pksk("p", from)}
		first, _ := slices.BinarySearch(keys, from)
		left := keys[first:]
		for item, err := range r.Scan(ctx, s) {
			ok(t, err)
			key := string(item.Key.SK)
			if len(left) == 0 || key != left[0] || !bytes.Equal(item.Value, want[key]) {
				t.Fatalf("%s has %d bytes, want %q", key, len(item.Value), left[:min(1, len(left))])
			}
			left = left[1:]
		}
		if n := len(keys) - first - len(left); n < min(s.Limit, len(keys)-first) {
			t.Fatalf("a scan shows %d items", n)
		}
	}
	var asked []engine.Key
	for _, key := range keys {
		got, err := r.Get(pksk("p", key))
		if ok(t, err); !bytes.Equal(got, want[key]) {
			t.Fatalf("%s has %d bytes, want %d", key, len(got), len(want[key]))
		}
		asked = append(asked, pksk("p", key))
	}
	var many engine.Results
	ok(t, r.MultiGet(ctx, asked, &many))
	for i := range asked {
		if got, _ := many.Value(i); !bytes.Equal(got, want[keys[i]]) {
			t.Fatalf("MultiGet: %s has %d bytes", keys[i], len(got))
		}
	}
}

// valueFiles returns the size of the value files of a directory, and how many there are.
func valueFiles(t testing.TB, dir string) (bytes int64, n int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.val"))
	ok(t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		ok(t, err)
		bytes += info.Size()
	}
	return bytes, len(names)
}

// Values are what they were put to through flushes, merges, rewriting and restarts; the same in a
// snapshot, a checkpoint and a repaired copy; and little of their files is garbage in the end.
//
// Promise (reads and writes): Large values are read as they were put: `Options.LargeValue` changes
// what merges write, and garbage is less than a fifth of their files.
func TestLargeValuesLive(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(filepath.Join(dir, "db"), largeOptions())
	ok(t, err)
	m := largeModel{rnd: testutil.Rand(t), want: map[string][]byte{}}
	m.write(t, db, 200)
	ok(t, db.Flush(ctx))
	snap := snapshotOf(t, db)
	old := maps.Clone(m.want)
	for range 6 {
		m.write(t, db, 150)
		m.check(t, db)
	}
	compareLarge(t, snap, old)
	snap.Close()
	ok(t, db.Compact(ctx))
	ok(t, db.Compact(ctx)) // the first finds the garbage
	m.check(t, db)
	mustClose(t, db) // which removes the files that wait for reuse
	live := int64(0)
	for _, v := range m.want {
		if len(v) >= 100 {
			live += int64(len(v))
		}
	}
	if bytes, n := valueFiles(t, filepath.Join(dir, "db")); bytes < live || bytes > live*5/4+4096 {
		t.Errorf("%d value files have %d bytes, the values %d", n, bytes, live)
	}
	db = openDir(t, filepath.Join(dir, "db"), largeOptions())
	m.write(t, db, 40)
	ok(t, db.Checkpoint(ctx, filepath.Join(dir, "copy"), nil))
	mustClose(t, db)
	_, err = engine.Repair(ctx, filepath.Join(dir, "db"), filepath.Join(dir, "repaired"), nil, nil)
	ok(t, err)
	for _, name := range []string{"db", "copy", "repaired"} {
		db, err := engine.Open(filepath.Join(dir, name), nil)
		ok(t, err)
		m.check(t, db)
		_, err = db.Verify(ctx, nil)
		ok(t, err)
		ok(t, db.Compact(ctx))
		m.check(t, db)
		mustClose(t, db)
	}
}

// removeValues removes the value files of a database in memory.
func removeValues(t testing.TB, fsys vfs.FS) {
	t.Helper()
	names, err := fsys.List("db")
	ok(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".val") {
			ok(t, fsys.Remove(filepath.Join("db", name)))
		}
	}
}

// Promise (reads and writes): Reads of keys alone, and counts, read no large values.
func TestKeysOnlyReadsNoValues(t *testing.T) {
	fsys := vfs.NewMem()
	o := largeOptions()
	o.MaxRuns = 64
	db := openOn(t, fsys, *o)
	m := largeModel{rnd: testutil.Rand(t), want: map[string][]byte{}}
	m.write(t, db, 400)
	ok(t, db.Flush(ctx))
	m.check(t, db) // of many runs
	mustClose(t, db)
	db = openOn(t, fsys, *o)
	removeValues(t, fsys)
	n := 0
	for item, err := range db.Scan(ctx, engine.Scan{KeysOnly: true}) {
		if ok(t, err); item.Value != nil {
			t.Error("an item has a value")
		}
		n++
	}
	counted, err := db.Count(ctx, engine.Query{PK: []byte("p")})
	ok(t, err)
	gather := engine.Gather{PKs: [][]byte{[]byte("p")}, KeysOnly: true}
	gathered := 0
	for item, err := range db.Gather(ctx, gather) {
		if ok(t, err); item.Value != nil {
			t.Error("a gathered item has a value")
		}
		gathered++
	}
	count := func(b *engine.Block) bool {
		gathered += b.Len()
		return true
	}
	ok(t, db.GatherBlocks(ctx, gather, count))
	ok(t, db.ScanBlocks(ctx, engine.Scan{KeysOnly: true}, count))
	gather.KeysOnly = false
	inAll, err := db.CountGather(ctx, gather)
	ok(t, err)
	if n != len(m.want) || counted != int64(n) || gathered != 3*n || inAll != int64(n) {
		t.Errorf("%d items are shown, %d counted, %d there", n, counted, len(m.want))
	}
	if err := lastOf(db.Scan(ctx, engine.Scan{})); err == nil {
		t.Error("values are read although their files are gone")
	}
	_ = db.Close()
}

// Promise (manners): Flushes and merges of less than 64 KiB make no value files; a later one does.
func TestFewLargeValuesMakeNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := openDir(t, dir, &engine.Options{
		LargeValue: 4 << 10, FlushRecords: 1, Durability: engine.Process,
	})
	defer mustClose(t, db)
	rnd := testutil.Rand(t)
	put := func(from, to int) {
		for i := from; i < to; i++ {
			v := bytes.Repeat([]byte{byte(i)}, 5<<10)
			for j := range 4 << 10 {
				v[j] = byte(rnd.Uint32())
			}
			ok(t, db.Put(pksk("p", fmt.Sprint(i)), v))
		}
		ok(t, db.Flush(ctx))
	}
	put(0, 3)
	if _, n := valueFiles(t, dir); n > 0 {
		t.Errorf("%d value files for 3 values", n)
	}
	put(3, 60)
	ok(t, db.Compact(ctx))
	if b, n := valueFiles(t, dir); n == 0 || n > 6 || b < 100<<10 {
		t.Errorf("%d value files of %d bytes for 60 values", n, b)
	}
	for i := range 60 {
		v, err := db.Get(pksk("p", fmt.Sprint(i)))
		if ok(t, err); len(v) != 5<<10 || v[len(v)-1] != byte(i) {
			t.Fatalf("value %d: %d bytes", i, len(v))
		}
	}
}

// Goal: what asks whether a key is there, or has changed, needs no large value. Method: the value
// files are gone.
//
// Promise (reads and writes): Has, ValueSize, estimates, conditions on existence and versions,
// FilterNew, InsertNew and the check of a transaction read no large values.
func TestExistenceReadsNoValues(t *testing.T) {
	fsys := vfs.NewMem()
	o := largeOptions()
	db := openOn(t, fsys, *o)
	defer mustClose(t, db)
	keys, there := make([]engine.Key, 8), make([]engine.Item, 8)
	for i := range keys {
		keys[i] = pk(fmt.Sprint("k", i))
		ok(t, db.Put(keys[i], bytes.Repeat([]byte{byte(i)}, 200)))
		there[i] = engine.Item{Key: keys[i], Value: []byte("new")}
	}
	for i := range 8 {
		ok(t, db.Put(pksk("p", fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 200)))
	}
	ok(t, db.Flush(ctx))
	removeValues(t, fsys)
	if has, err := db.Has(keys[0]); !has || err != nil {
		t.Errorf("Has: %v, %v", has, err)
	}
	if n, err := db.ValueSize(keys[0]); n != 200 || err != nil {
		t.Errorf("ValueSize: %d, %v", n, err)
	}
	few := engine.Query{PK: []byte("p"), SK: engine.SKRange([]byte("3"), []byte("5"))}
	if n, err := db.CountAbout(few); n != 2 || err != nil {
		t.Errorf("CountAbout: %v, %v", n, err)
	}
	ok(t, db.Delete(keys[7])) // in a memtable, beside the file that has it
	if n, err := db.CountScan(ctx, engine.Scan{}); n != 15 || err != nil {
		t.Errorf("CountScan: %d, %v", n, err)
	}
	keys, there = keys[:7], there[:7]
	for _, n := range []int{2, len(keys)} { // one by one, and together
		has, err := db.MultiHas(ctx, keys[:n], nil)
		if err != nil || slices.Contains(has, false) {
			t.Errorf("MultiHas: %v, %v", has, err)
		}
		isNew, _, err := db.FilterNew(ctx, keys[:n], nil, nil)
		if err != nil || slices.Contains(isNew, true) {
			t.Errorf("FilterNew: %v, %v", isNew, err)
		}
		inserted, _, err := db.InsertNew(ctx, there[:n], nil)
		if err != nil || slices.Contains(inserted, true) {
			t.Errorf("InsertNew: %v, %v", inserted, err)
		}
		b := engine.NewBatch()
		for i := range n {
			ok(t, b.Require(keys[i], engine.IfPresent()))
			ok(t, b.Require(keys[i], engine.IfVersion(uint64(i+1))))
		}
		ok(t, db.Apply(ctx, b))
	}
	err := db.PutIf(keys[0], nil, engine.IfAbsent())
	wantIs(t, err, engine.ErrConditionFailed)
	err = db.Update(ctx, func(tx *engine.Tx) error {
		has, err := tx.Has(keys[1])
		ok(t, err)
		if !has {
			t.Error("Has in a transaction: no item")
		}
		ok(t, db.Put(keys[1], bytes.Repeat([]byte("x"), 200)))
		ok(t, db.Flush(ctx))
		removeValues(t, fsys)
		return tx.Put(keys[2], nil)
	})
	wantIs(t, err, engine.ErrConflict)
	if err := db.PutIf(keys[3], nil, engine.IfValue(nil)); err == nil {
		t.Error("a condition on a value that is gone holds")
	}
}

// A lost or damaged value file costs the values in it; all others are repaired, and the report has
// the keys of the lost ones.
//
// Promise (damage): Repair loses of a damaged value file only the values whose bytes are damaged.
func TestRepairOfADamagedValueFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	db, err := engine.Open(path, largeOptions())
	ok(t, err)
	m := largeModel{rnd: testutil.Rand(t), want: map[string][]byte{}}
	for i := range 24 {
		key := fmt.Sprint("k", i)
		m.want[key] = bytes.Repeat([]byte(key), 200)
		ok(t, db.Put(pksk("p", key), m.want[key]))
	}
	ok(t, db.Flush(ctx))
	mustClose(t, db)
	names, err := filepath.Glob(filepath.Join(path, "*.val"))
	ok(t, err)
	if len(names) != 1 {
		t.Fatalf("%d value files", len(names))
	}
	b, err := os.ReadFile(names[0])
	ok(t, err)
	b[len(b)/2] ^= 1
	ok(t, os.WriteFile(names[0], b, 0o600))
	db = openDir(t, path, nil)
	if _, err := db.Verify(ctx, nil); err == nil {
		t.Error("Verify finds nothing")
	}
	mustClose(t, db)
	rep, err := engine.Repair(ctx, path, filepath.Join(dir, "repaired"), nil, nil)
	ok(t, err)
	if len(rep.Lost) != 1 || rep.Lost[0].Entries != 1 {
		t.Fatalf("lost are %v", rep.Lost)
	}
	delete(m.want, string(rep.Lost[0].First.SK))
	db = openDir(t, filepath.Join(dir, "repaired"), nil)
	m.check(t, db)
	mustClose(t, db)
}

// Promise (readers): A reader beside the writer keeps the value files of what it reads.
func TestReaderKeepsValueFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := engine.Open(path, largeOptions())
	ok(t, err)
	m := largeModel{rnd: testutil.Rand(t), want: map[string][]byte{}}
	m.write(t, db, 200)
	ok(t, db.Flush(ctx))
	ok(t, db.Sync(ctx))
	reader := openDir(t, path, &engine.Options{ReadOnly: true, CacheBytes: 1})
	snap := snapshotOf(t, reader)
	old := maps.Clone(m.want)
	for range 4 {
		m.write(t, db, 150)
		ok(t, db.Compact(ctx))
	}
	ok(t, db.Sync(ctx))
	compareLarge(t, snap, old)
	snap.Close()
	ok(t, reader.Refresh())
	m.check(t, reader)
	mustClose(t, reader)
	mustClose(t, db)
}

// Goal: rows that a reading passes over cost no large value. Method: the values that are hidden,
// expired or too old are in files that are gone.
//
// Promise (reads and writes): Scans and queries read no large value of what is overwritten,
// deleted or expired, nor of what Since leaves out.
func TestHiddenLargeValuesAreNotRead(t *testing.T) {
	fsys := vfs.NewMem()
	var clock hand
	clock.ms.Store(1_000)
	o := largeOptions()
	o.MaxRuns, o.Clock = 64, clock.now
	db := openOn(t, fsys, *o)
	defer mustClose(t, db)
	put := func(from, to int, how ...engine.WriteOption) {
		for i := from; i < to; i++ {
			v := bytes.Repeat([]byte{byte(i)}, 200)
			ok(t, db.Put(pksk("p", fmt.Sprintf("%02d", i)), v, how...))
		}
		ok(t, db.Flush(ctx))
	}
	check := func(since uint64) {
		t.Helper()
		want := map[string][]byte{}
		for i := 12; i < 16; i++ {
			want[fmt.Sprintf("%02d", i)] = bytes.Repeat([]byte{byte(i)}, 200)
		}
		for _, reverse := range []bool{false, true} {
			q := engine.Query{PK: []byte("p"), Since: since, Reverse: reverse}
			s := engine.Scan{Since: since, Reverse: reverse}
			few := s
			few.Limit = 9
			for name, items := range map[string]iter.Seq2[engine.Item, error]{
				"query": db.Query(ctx, q), "scan": db.Scan(ctx, s), "limited": db.Scan(ctx, few),
			} {
				n := 0
				for item, err := range items {
					if err != nil || !bytes.Equal(item.Value, want[string(item.Key.SK)]) {
						t.Errorf("%s, reverse %v: %s: %v", name, reverse, item.Key.SK, err)
					}
					n++
				}
				if n != len(want) {
					t.Errorf("%s, reverse %v: %d items, want %d", name, reverse, n, len(want))
				}
			}
		}
	}
	put(0, 18)
	put(18, 20, engine.TTL(time.Second))
	ok(t, db.Compact(ctx)) // into one run
	removeValues(t, fsys)
	clock.pass(time.Second)
	for i := range 6 {
		ok(t, db.Delete(pksk("p", fmt.Sprintf("%02d", i))))
	}
	ok(t, db.DeleteRange([]byte("p"), engine.SKRange([]byte("06"), []byte("12"))))
	since := db.Metrics().LastVersion
	put(12, 16)
	check(since)
	ok(t, db.Delete(pksk("p", "16")))
	ok(t, db.Delete(pksk("p", "17")))
	check(0)
}

// Promise (reads and writes): Large values that were looked up stay in the cache when a merge
// replaces the files of their keys.
func TestMergesKeepLargeValuesInTheCache(t *testing.T) {
	var reads atomic.Int64
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".val") {
			reads.Add(1)
		}
		return nil
	})
	o := largeOptions()
	o.MaxRuns = 64
	db := openOn(t, fsys, *o)
	defer mustClose(t, db)
	for i := range 8 {
		ok(t, db.Put(pk(fmt.Sprint("k", i)), bytes.Repeat([]byte{byte(i)}, 200)))
	}
	ok(t, db.Flush(ctx))
	beside := openOn(t, fsys, engine.Options{ReadOnly: true})
	defer mustClose(t, beside)
	read := func() int64 {
		reads.Store(0)
		for i := range 8 {
			for _, db := range []*engine.DB{db, beside} {
				v, err := db.Get(pk(fmt.Sprint("k", i)))
				if ok(t, err); !bytes.Equal(v, bytes.Repeat([]byte{byte(i)}, 200)) {
					t.Errorf("k%d is %q", i, v)
				}
			}
		}
		return reads.Load()
	}
	if n := read(); n != 16 {
		t.Fatalf("8 values in files of their own are read %d times", n)
	}
	for i := range 8 {
		ok(t, db.Put(pksk(fmt.Sprint("k", i), "x"), nil))
	}
	ok(t, db.Compact(ctx))
	ok(t, beside.Refresh())
	if n := read(); n != 0 {
		t.Errorf("after a merge %d values are read again", n)
	}
}

// Scans and queries read large values into the same memory again and again.
func TestScansOfLargeValuesAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	o := largeOptions()
	o.InMemory = true
	db := openDir(t, "test", o)
	defer mustClose(t, db)
	for i := range 500 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%03d", i)), bytes.Repeat([]byte{byte(i)}, 1000)))
	}
	ok(t, db.Compact(ctx))
	n := testutil.AllocsPerRun(3, func() {
		i := 0
		for item, err := range db.Query(ctx, engine.Query{PK: []byte("p")}) {
			if ok(t, err); len(item.Value) != 1000 || item.Value[999] != byte(i) {
				t.Fatalf("item %d: %q", i, item.Value)
			}
			i++
		}
	})
	if n > 150 {
		t.Errorf("%v allocations for 500 values", n)
	}
}
