package engine_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// badSector makes one place of a file unreadable.
func badSector(inner vfs.FS, name string, at int64) vfs.FS {
	return vfstest.NewFault(inner, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && op.Name == filepath.Join("db", name) &&
			op.Offset < at+512 && op.Offset+op.Len > at {
			return syscall.EIO
		}
		return nil
	})
}

// A place that cannot be read, wherever it is, is a loss of what is there and no more: the
// repair goes on around it.
//
// Promise (damage): Unreadable sectors and files, in footer, log, manifest or anywhere, are
// losses, and the repair goes on. Also `TestRepairAroundAnUnreadableFile`.
func TestRepairReadsAroundBadSectors(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, false) // closed, so that every file is needed
	for name, content := range files {
		if name == "LOCK" || name == "RESERVE" || isPrepared(string(content)) {
			continue
		}
		used := int64(len(bytes.TrimRight(content, "\x00")))
		for _, at := range []int64{0, used / 3, used / 2, used - 100} {
			what := fmt.Sprintf("%s at %d of %d", name, at, used)
			mem := files.store(t)
			o := rescueOptions
			rep, err := engine.RepairFS(ctx, badSector(mem, name, at), "db", "new", &o)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if len(rep.Lost) == 0 {
				t.Errorf("%s: no loss is reported", what)
			}
			db, err := engine.OpenFS(mem, "new", &o)
			ok(t, err)
			got := itemsOf(t, db)
			mustClose(t, db)
			checkRescued(t, what, rep, got, want)
			if len(got) < len(want)/3 {
				t.Errorf("%s: %d of %d items are saved", what, len(got), len(want))
			}
		}
	}
}

// A file that cannot even be opened is lost, and nothing else is.
func TestRepairAroundAnUnreadableFile(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, true)
	for name, content := range files {
		if name == "LOCK" || name == "RESERVE" || isPrepared(string(content)) {
			continue
		}
		for _, kind := range []vfstest.OpKind{vfstest.OpOpen, vfstest.OpStat} {
			mem := files.store(t)
			fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
				if op.Kind == kind && op.Name == filepath.Join("db", name) {
					return syscall.EIO
				}
				return nil
			})
			o := rescueOptions
			rep, err := engine.RepairFS(ctx, fsys, "db", "new", &o)
			if err != nil {
				t.Fatalf("%v of %s: %v", kind, name, err)
			}
			db, err := engine.OpenFS(mem, "new", &o)
			ok(t, err)
			checkRescued(t, name, rep, itemsOf(t, db), want)
			mustClose(t, db)
		}
	}
}

// With an older manifest of the same database, which is whole and whose files are all there,
// the files that came later are taken as far as the log does not hold what is in them.
//
// Promise (damage): With an older manifest the files that came later are saved unless the log
// has what they hold; without one a missing beginning of the log is doubted. Also
// `TestRepairIgnoresOrphans`, `TestRepairDoubtsTheBeginningOfTheLog`.
func TestRepairWithAnOlderManifest(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	o := rescueOptions
	db := openOn(t, mem, o)
	put := func(from, to int) {
		for i := from; i < to; i++ {
			value := append(fmt.Appendf(nil, "an item %d ", i), make([]byte, 3000)...)
			ok(t, db.Put(pksk("p", fmt.Sprintf("%05d", i)), value))
		}
	}
	put(0, 1000)
	ok(t, db.Flush(ctx))
	older := stillFilesOf(t, mem, "db")
	put(1000, 3000)
	ok(t, db.Flush(ctx))
	put(3000, 5000)
	ok(t, db.Flush(ctx)) // releases the log of the second thousand
	put(5000, 5100)
	ok(t, db.Sync(ctx))
	want := itemsOf(t, db)
	files := stillFilesOf(t, mem, "db")
	mustClose(t, db)
	damaged := maps.Clone(files)
	for _, name := range append(files.names("MANIFEST", ""), "CURRENT") {
		delete(damaged, name)
	}
	for _, name := range append(older.names("MANIFEST", ""), "CURRENT") {
		damaged[name] = older[name]
	}
	rep, got := repaired(t, damaged.store(t), "older manifest")
	if len(rep.Doubts) == 0 {
		t.Errorf("no doubt is reported; lost %v", rep.Lost)
	}
	for _, w := range want {
		if g := got[id(w.Key)]; g.Version != w.Version {
			t.Fatalf("%s has version %d, was %d; doubts %q", w.Key, g.Version, w.Version,
				rep.Doubts)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d items, want %d", len(got), len(want))
	}
}

// What a crash leaves of a flush that did not come to its edit is not taken: the log has it.
func TestRepairIgnoresOrphans(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, true)
	ssts := files.names("", ".sst")
	orphaned := maps.Clone(files)
	mem := files.store(t)
	broken := &breaker{match: onFile("MANIFEST", vfstest.OpSync), err: errDisk}
	db := openOn(t, vfstest.NewFault(mem, broken.hook), rescueOptions)
	broken.broken.Store(true)
	wantIs(t, db.Flush(ctx), errDisk) // the files are there, the edit is uncertain
	for name, b := range filesOf(t, mem, "db") {
		if strings.HasSuffix(name, ".sst") && !slices.Contains(ssts, name) {
			orphaned[name] = b
		}
	}
	_ = db.Close()
	if len(orphaned) == len(files) {
		t.Fatal("the flush has left no files")
	}
	rep, got := repaired(t, orphaned.store(t), "orphans")
	if len(rep.Lost)+len(rep.Doubts) != 0 {
		t.Errorf("lost %v, doubts %q", rep.Lost, rep.Doubts)
	}
	if len(got) != len(want) {
		t.Errorf("%d items, want %d", len(got), len(want))
	}
}

// Without a manifest nobody knows where the log begins; that it begins later than the files
// end is reported.
func TestRepairDoubtsTheBeginningOfTheLog(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	o := rescueOptions
	o.MemtableBytes, o.LogBytes = 64<<20, 64<<20 // no flush is due
	noFlush := &breaker{match: onFile(".sst", vfstest.OpCreate), err: syscall.EMFILE}
	db := openOn(t, vfstest.NewFault(mem, noFlush.hook), o)
	value := append([]byte(" item "), make([]byte, 3000)...)
	ok(t, db.Put(pksk("p", "first"), value))
	ok(t, db.Flush(ctx))
	noFlush.broken.Store(true) // one may be on its way that has seen the memtable just flushed
	for i := range 6000 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%05d", i)), value))
	}
	ok(t, db.Sync(ctx))
	files := stillFilesOf(t, mem, "db")
	noFlush.broken.Store(false)
	mustClose(t, db)
	for _, name := range append(files.names("MANIFEST", ""), "CURRENT") {
		delete(files, name)
	}
	doubts := func(files fileSet) bool {
		rep, _ := repaired(t, files.store(t), "no manifest")
		return slices.ContainsFunc(rep.Doubts, func(d string) bool {
			return strings.Contains(d, "first segments of the log")
		})
	}
	if doubts(files) {
		t.Error("the whole log is doubted")
	}
	delete(files, files.names("wal-", ".log")[0])
	if !doubts(files) {
		t.Error("a log without its beginning is not doubted")
	}
}

// Without a manifest, too, a commit is reported by number if the log has one record before it and
// says that it was synced.
func TestRepairTellsTheCommitAfterTheOnlyRecord(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	db := openOn(t, mem, rescueOptions)
	ok(t, db.Put(pk("a"), []byte("first")))
	ok(t, db.Put(pk("b"), []byte("second")))
	mustClose(t, db)
	files := filesOf(t, mem, "db")
	for _, name := range append(files.names("MANIFEST", ""), "CURRENT") {
		delete(files, name)
	}
	for _, name := range files.names("wal-", ".log") {
		files[name] = bytes.Replace(files[name], []byte("second"), []byte("broken"), 1)
	}
	rep, got := repaired(t, files.store(t), "one record")
	if len(got) != 1 || string(got[id(pk("a"))].Value) != "first" {
		t.Errorf("saved %v", got)
	}
	if !slices.ContainsFunc(rep.Lost, func(l engine.Loss) bool {
		return l.What == "commits" && l.FirstCommit == 2 && l.LastCommit == 2
	}) {
		t.Errorf("lost %v", rep.Lost)
	}
}

// Of files of two databases, as many of each, the same are taken every time, with a doubt.
func TestRepairOfTwoDatabasesInOneDirectory(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	mixed := fileSet{}
	for _, name := range []string{"a", "b"} {
		db, err := engine.OpenFS(mem, name, nil)
		ok(t, err)
		ok(t, db.Put(pk(name), []byte("v")))
		ok(t, db.Flush(ctx))
		mustClose(t, db)
		files := filesOf(t, mem, name)
		for _, sst := range files.names("", ".sst") {
			mixed[sst] = files[sst]
		}
	}
	if len(mixed) != 2 {
		t.Fatalf("files %v", mixed.names("", ""))
	}
	first := ""
	for range 20 {
		rep, got := repaired(t, mixed.store(t), "mixed")
		text := fmt.Sprint(rep.Doubts, len(got), got[id(pk("a"))].Version)
		if first == "" {
			first = text
		}
		if text != first || len(got) != 1 || !strings.Contains(text, "several databases") {
			t.Fatalf("%s after %s", text, first)
		}
	}
}

// Losses of several files at once, of SSTs and of the values apart, are all in the report.
func TestRepairOfSeveralDamagedFiles(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := testutil.Rand(t)
	mem := vfs.NewMem()
	o := rescueOptions
	o.LargeValue = 40
	db := openOn(t, mem, o)
	for i := range 90 {
		value := fmt.Appendf(nil, "item %d item %0*d", i, 200*(i%3), 0)
		ok(t, db.Put(pksk(fmt.Sprint("p", i%2), fmt.Sprint(rnd.IntN(40))), value))
		if i%30 == 29 {
			ok(t, db.Flush(ctx))
		}
	}
	want := itemsOf(t, db)
	mustClose(t, db)
	files := filesOf(t, mem, "db")
	names := slices.Concat(files.names("", ".sst"), files.names("", ".val"))
	for range testutil.Effort(60, 3000) {
		damaged, what := maps.Clone(files), ""
		for range 2 {
			name := names[rnd.IntN(len(names))]
			b := bytes.Clone(files[name])
			at := rnd.IntN(len(b))
			switch rnd.IntN(3) {
			case 0:
				b[at] ^= 1
			case 1:
				clear(b[at:min(at+300, len(b))])
			default:
				b = nil
			}
			damaged[name] = b
			what += fmt.Sprintf(" %s at %d to %d bytes", name, at, len(b))
			if b == nil {
				delete(damaged, name)
			}
		}
		rep, got := repaired(t, damaged.store(t), what)
		checkRescued(t, what, rep, got, want)
	}
}

// A file of a copy that went on by itself has the identity and the number of one of the database:
// in its place it is a loss, under another name it replaces nothing.
func TestRepairLeavesOutFilesOfACopy(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	mustClose(t, openOn(t, mem, rescueOptions))
	origin := filesOf(t, mem, "db")
	write := func(what string, n int) (files fileSet, want map[string]engine.Item) {
		mem := origin.store(t)
		db := openOn(t, mem, rescueOptions)
		for i := range n {
			ok(t, db.Put(pksk("p", fmt.Sprint(i)), []byte(what+" item ")))
		}
		ok(t, db.Flush(ctx))
		want = itemsOf(t, db)
		mustClose(t, db)
		return filesOf(t, mem, "db"), want
	}
	files, want := write("own", 50)
	copied, _ := write("of a copy", 60)
	sst := files.names("", ".sst")[0]
	if copied[sst] == nil {
		t.Fatalf("files %v and %v", files.names("", ".sst"), copied.names("", ".sst"))
	}
	extra := maps.Clone(files)
	extra["255-1.sst"] = copied[sst]
	rep, got := repaired(t, extra.store(t), "under another name")
	if len(rep.Lost) > 0 || len(got) != len(want) {
		t.Errorf("%d items, lost %v", len(got), rep.Lost)
	}
	checkRescued(t, "under another name", rep, got, want)
	files[sst] = copied[sst]
	rep, got = repaired(t, files.store(t), "in its place")
	if len(got) > 0 || len(rep.Lost) != 1 || rep.Lost[0].Entries != uint64(len(want)) {
		t.Errorf("%d items, lost %v", len(got), rep.Lost)
	}
	checkRescued(t, "in its place", rep, got, want)
}
