package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// fileSet is the content of a directory, by name.
type fileSet map[string][]byte

func filesOf(t testing.TB, fsys vfs.FS, dir string) fileSet {
	t.Helper()
	names, err := fsys.List(dir)
	ok(t, err)
	return filesOfNames(t, fsys, dir, names)
}

// filesOfNames reads the named files; nil if one is gone.
func filesOfNames(t testing.TB, fsys vfs.FS, dir string, names []string) fileSet {
	t.Helper()
	files := fileSet{}
	for _, name := range names {
		b, err := vfstest.ReadFile(fsys, filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		ok(t, err)
		files[name] = b
	}
	return files
}

// store puts the files into directory db of a new file system.
func (s fileSet) store(t testing.TB) *vfs.MemFS { return stored(t, s) }

func stored[T string | []byte](t testing.TB, files map[string]T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	ok(t, mem.MkdirAll("db"))
	for name, b := range files {
		ok(t, vfstest.WriteFile(mem, filepath.Join("db", name), []byte(b)))
	}
	return mem
}

// names returns the names that begin with prefix, sorted.
func (s fileSet) names(prefix, suffix string) (out []string) {
	for name := range s {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// rescueOptions make small blocks, so that files have several.
var rescueOptions = engine.Options{
	MemtableBytes: 8 << 20, LogBytes: 24 << 20, BlockBytes: 1 << 10, MaxRuns: 8,
	Durability: engine.Process,
}

// rescueDatabase makes a database of three partitions in different stripes, with several
// runs, deletes, a range delete, a property, and a log. Crash leaves it as a kill would.
func rescueDatabase(t testing.TB, crash bool) (fileSet, map[string]engine.Item) {
	t.Helper()
	mem := vfs.NewMem()
	db := openOn(t, mem, rescueOptions)
	ok(t, db.SetProperty("schema", []byte("of the tests")))
	for round := range 3 {
		for i := range 150 {
			k := pksk(fmt.Sprintf("p%d", i%3), fmt.Sprintf("s%03d", i))
			if i%7 != round {
				value := fmt.Appendf(nil, "round %d item %d ", round, i)
				ok(t, db.Put(k, append(value, bytes.Repeat([]byte{byte(i), 7}, i)...)))
			}
		}
		ok(t, db.Delete(pksk("p1", "s004")))
		ok(t, db.DeleteRange([]byte("p2"), engine.SKLess([]byte("s012"))))
		if round < 2 {
			ok(t, db.Flush(ctx))
		}
	}
	ok(t, db.Sync(ctx))
	// Its record says that everything before it is synced.
	ok(t, db.Put(pk("last"), []byte("last item "), engine.Sync))
	want := itemsOf(t, db)
	if !crash {
		mustClose(t, db)
		return filesOf(t, mem, "db"), want
	}
	files := stillFilesOf(t, mem, "db")
	mustClose(t, db)
	return files, want
}

// stillFilesOf is filesOf for a database that is open: merges may be under way.
func stillFilesOf(t testing.TB, fsys *vfs.MemFS, dir string) (files fileSet) {
	t.Helper()
	eventually(t, "a moment without a change", func() bool {
		names, err := fsys.List(dir)
		ok(t, err)
		if files = filesOfNames(t, fsys, dir, names); files == nil {
			return false
		}
		again := filesOfNames(t, fsys, dir, names)
		now, err := fsys.List(dir)
		ok(t, err)
		return slices.Equal(names, now) && maps.EqualFunc(files, again, bytes.Equal)
	})
	return files
}

func itemsOf(t testing.TB, db *engine.DB) map[string]engine.Item {
	t.Helper()
	m := map[string]engine.Item{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		m[id(it.Key)] = it.Clone()
	}
	return m
}

// repaired repairs directory db, checks that nothing in it has changed, and returns the
// content of the new database.
func repaired(t testing.TB, mem *vfs.MemFS, what string,
) (engine.RepairReport, map[string]engine.Item) {
	t.Helper()
	before := filesOf(t, mem, "db")
	o := rescueOptions
	rep, err := engine.RepairFS(ctx, mem, "db", "new", &o)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !maps.EqualFunc(before, filesOf(t, mem, "db"), bytes.Equal) {
		t.Fatalf("%s: the source has changed", what)
	}
	db, err := engine.OpenFS(mem, "new", &o)
	ok(t, err)
	defer mustClose(t, db)
	got := itemsOf(t, db)
	if uint64(len(got)) != rep.Items {
		t.Fatalf("%s: %d items, the report says %d", what, len(got), rep.Items)
	}
	return rep, got
}

// checkRescued checks that what differs from want is in the report, and that an item is
// one that was written.
func checkRescued(t testing.TB, what string, rep engine.RepairReport,
	got, want map[string]engine.Item,
) {
	t.Helper()
	for k, w := range want {
		g, there := got[k]
		if there && bytes.Equal(g.Value, w.Value) && g.Version == w.Version {
			continue
		}
		if !slices.ContainsFunc(rep.Lost, func(l engine.Loss) bool { return covers(l, w.Key) }) {
			t.Fatalf("%s: %s is lost and the report does not say so: %v", what, w.Key, rep.Lost)
		}
		if there && g.Version >= w.Version {
			t.Fatalf("%s: %s has version %d, was %d", what, w.Key, g.Version, w.Version)
		}
	}
	for k, g := range got {
		_, wanted := want[k]
		back := len(rep.Doubts) > 0 || slices.ContainsFunc(rep.Lost,
			func(l engine.Loss) bool { return covers(l, g.Key) })
		if !wanted && !back {
			t.Fatalf("%s: %s is back and the report does not say so: %v", what, g.Key, rep.Lost)
		}
		if !bytes.Contains(g.Value, []byte(" item ")) {
			t.Fatalf("%s: %s has a value that nobody wrote: %q", what, g.Key, g.Value)
		}
	}
}

// covers reports whether a loss may concern the key.
func covers(l engine.Loss, k engine.Key) bool {
	if l.Stripe >= 0 && l.Stripe != int(keycodec.Stripe(k.PK)) {
		return false
	}
	if l.What == "range deletes" {
		return true
	}
	key := keycodec.AppendOrdered(nil, k)
	if l.First.PK != nil && bytes.Compare(key, keycodec.AppendOrdered(nil, l.First)) < 0 {
		return false
	}
	return l.Last.PK == nil || bytes.Compare(key, keycodec.AppendOrdered(nil, l.Last)) <= 0
}

func lossesOf(rep engine.RepairReport, what string) (n int) {
	for _, l := range rep.Lost {
		if l.What == what {
			n++
		}
	}
	return n
}

// A database without damage is copied whole: items, versions, properties.
func TestRepairOfAWholeDatabase(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, crash := range []bool{false, true} {
		files, want := rescueDatabase(t, crash)
		mem := files.store(t)
		rep, got := repaired(t, mem, "whole")
		if len(rep.Lost) > 0 || len(rep.Doubts) > 0 {
			t.Fatalf("crash %v: lost %v, doubts %q", crash, rep.Lost, rep.Doubts)
		}
		checkRescued(t, "whole", rep, got, want)
		db, err := engine.OpenFS(mem, "new", &rescueOptions)
		ok(t, err)
		if v, _ := db.Property("schema"); string(v) != "of the tests" {
			t.Errorf("property is %q", v)
		}
		if v := db.Metrics().LastVersion; v == 0 {
			t.Error("no version")
		}
		ok(t, db.Put(pk("new"), []byte("new item ")))
		it, err := db.GetItem(pk("new"))
		ok(t, err)
		for _, w := range want {
			if it.Version <= w.Version {
				t.Fatalf("a new item has version %d, an old one %d", it.Version, w.Version)
			}
		}
		mustClose(t, db)
	}
}

// A damaged data block costs the keys in it and no others; damage to what only helps to
// find or describe data costs nothing.
//
// Promise (damage): `Repair` saves what is intact, around damaged blocks, without index, footer,
// manifest, files or parts of the log, and reports what is lost, by stripe and range of keys;
// the source stays as it is. Also `TestRepairWithoutAFile`, `TestRepairWithoutManifest`,
// `TestRepairWithoutAMiddleSegment`, `TestRepairOfMuchDamage`, `TestRepairOfAWholeDatabase`,
// `TestRepairOfSeveralDamagedFiles`, `TestRepairLeavesOutFilesOfACopy`.
func TestRepairReadsAroundDamagedBlocks(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, false)
	const step = 97
	for _, name := range files.names("", ".sst") {
		whole := files[name]
		for at := 0; at < len(whole); at += step {
			what := fmt.Sprintf("%s at %d", name, at)
			damaged := maps.Clone(files)
			damaged[name] = bytes.Clone(whole)
			damaged[name][at] ^= 0x40
			rep, got := repaired(t, damaged.store(t), what)
			checkRescued(t, what, rep, got, want)
			if n := lossesOf(rep, "data block") + lossesOf(rep, "range deletes"); n > 1 {
				t.Errorf("%s: %d losses: %v", what, n, rep.Lost)
			}
			if len(got) < len(want)-30 {
				t.Errorf("%s: %d of %d items saved", what, len(got), len(want))
			}
		}
		damaged := maps.Clone(files)
		damaged[name] = whole[:len(whole)-50] // footer
		rep, got := repaired(t, damaged.store(t), name)
		checkRescued(t, name, rep, got, want)
		if len(rep.Lost) > 0 {
			t.Errorf("%s without footer: %v", name, rep.Lost)
		}
	}
}

// Files that are missing are reported, with stripe and keys; whatever is there is saved.
func TestRepairWithoutAFile(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, crash := range []bool{false, true} {
		files, want := rescueDatabase(t, crash)
		for name := range files {
			if name == "LOCK" {
				continue
			}
			damaged := maps.Clone(files)
			delete(damaged, name)
			rep, got := repaired(t, damaged.store(t), name)
			checkRescued(t, "without "+name, rep, got, want)
			isLog := strings.HasPrefix(name, "wal-")
			_, err := engine.OpenFS(damaged.store(t), "db", &engine.Options{ReadOnly: true})
			if err != nil && len(rep.Lost) == 0 {
				t.Errorf("without %s: nothing is lost, but %v", name, err)
			}
			if name == "CURRENT" && len(got) != len(want) {
				t.Errorf("without CURRENT: %d of %d items", len(got), len(want))
			}
			if isLog && len(got) == 0 {
				t.Error("without the log nothing is left")
			}
		}
	}
}

// Without any manifest the SSTs and the log are enough for the items.
func TestRepairWithoutManifest(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, false)
	damaged := maps.Clone(files)
	for _, name := range append(files.names("MANIFEST", ""), "CURRENT") {
		delete(damaged, name)
	}
	damaged["wal-0000009000.log"] = nil // a crash may leave the next segment empty
	rep, got := repaired(t, damaged.store(t), "no manifest")
	if len(rep.Doubts) != 2 || len(rep.Lost) != 1 || lossesOf(rep, "manifest") != 1 {
		t.Errorf("lost %v, doubts %q", rep.Lost, rep.Doubts)
	}
	for k, w := range want {
		if g := got[k]; !bytes.Equal(g.Value, w.Value) || g.Version != w.Version {
			t.Errorf("%s is version %d, was %d", w.Key, g.Version, w.Version)
		}
	}
	if len(got) != len(want) { // nothing has been merged away here
		t.Errorf("%d items, want %d", len(got), len(want))
	}
}

// A log segment that is missing in the middle costs the commits in it; those after it
// are saved, and the gap is reported by number. Open refuses such a log, although no record says
// that those before it were synced: the sync itself has left the proof.
//
// Promise (damage): A log segment that is missing below the last `Sync` is reported by Open and by
// Repair, and what comes after it is not taken for a torn tail.
func TestRepairWithoutAMiddleSegment(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	o := rescueOptions
	o.MemtableBytes, o.LogBytes = 64<<20, 64<<20 // nothing is flushed
	db := openOn(t, mem, o)
	const n = 6000
	value := make([]byte, 3000)
	copy(value, " item ")
	for i := range n {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%05d", i)), value))
	}
	ok(t, db.Sync(ctx))
	files := stillFilesOf(t, mem, "db")
	mustClose(t, db)
	logs := files.names("wal-", ".log")
	if len(logs) < 4 {
		t.Fatalf("only %d segments", len(logs))
	}
	damaged := maps.Clone(files)
	delete(damaged, logs[1])
	_, err := engine.OpenFS(damaged.store(t), "db", &o)
	wantIs(t, err, engine.ErrCorrupt)
	rep, got := repaired(t, damaged.store(t), "no middle segment")
	lost := 0
	for _, l := range rep.Lost {
		if l.What == "commits" {
			lost += int(l.LastCommit - l.FirstCommit + 1)
		}
	}
	if lost == 0 || len(got)+lost != n {
		t.Fatalf("%d items saved, %d commits lost, want %d together: %v", len(got), lost, n,
			rep.Lost)
	}
	if _, there := got[id(pksk("p", fmt.Sprintf("%05d", n-1)))]; !there {
		t.Error("the last commit is not saved")
	}
}

// Damage of several kinds at once.
func TestRepairOfMuchDamage(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	// Closed: of one that is killed a file may wait for reuse; nothing is lost without it.
	files, want := rescueDatabase(t, false)
	ssts := files.names("", ".sst")
	damaged := maps.Clone(files)
	delete(damaged, "CURRENT")
	delete(damaged, ssts[0])
	damaged[ssts[1]] = damaged[ssts[1]][:len(damaged[ssts[1]])/2]
	damaged[ssts[2]] = bytes.Clone(damaged[ssts[2]])
	clear(damaged[ssts[2]][40:80])
	log := files.names("wal-", ".log")[0]
	damaged[log] = bytes.Clone(damaged[log])
	damaged[log][len(bytes.TrimRight(damaged[log], "\x00"))*9/10] ^= 1
	rep, got := repaired(t, damaged.store(t), "much")
	checkRescued(t, "much", rep, got, want)
	for _, kind := range []string{"manifest", "file", "data block", "log"} {
		if lossesOf(rep, kind) == 0 {
			t.Errorf("no loss of kind %q: %v", kind, rep.Lost)
		}
	}
	if len(got) < len(want)/2 {
		t.Errorf("%d of %d items", len(got), len(want))
	}
	for _, l := range rep.Lost {
		wantIs(t, l.Err, engine.ErrCorrupt)
	}
}

// What is not a database, or in use, is refused, and a failed repair leaves nothing.
//
// Promise (damage): `Repair` refuses what it cannot do and leaves nothing behind; what was
// deleted does not come back out of a log with gaps. Also
// `TestRepairDoesNotBringBackWhatWasDeleted`; whatever the files hold: `FuzzRepair`.
func TestRepairRefuses(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, _ := rescueDatabase(t, false)
	mem := files.store(t)
	refused := func(src, dest string, target error) {
		t.Helper()
		_, err := engine.RepairFS(ctx, mem, src, dest, nil)
		wantIs(t, err, target)
	}
	refused("db", "db", engine.ErrInvalid)
	refused("", "new", engine.ErrInvalid)
	refused("db", "db/rescued", engine.ErrInvalid)
	refused("db", "./db/../db/a/b", engine.ErrInvalid)
	ok(t, mem.MkdirAll("other"))
	ok(t, vfstest.WriteFile(mem, "other/file", nil))
	refused("db", "other", engine.ErrInvalid)
	refused("other", "new", engine.ErrNotDatabase)
	db := openOn(t, mem, rescueOptions)
	refused("db", "new", engine.ErrLocked)
	mustClose(t, db)

	broken := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpWrite || op.Kind == vfstest.OpWriteAt {
			return vfs.ErrNoSpace
		}
		return nil
	})
	_, err := engine.RepairFS(ctx, broken, "db", "new", nil)
	wantIs(t, err, engine.ErrDiskFull)
	if names, err := mem.List("new"); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	_, err = engine.RepairFS(ctx, mem, "db", "new", nil)
	ok(t, err)
}

// A put that is still in the log although its stripe is flushed is not taken if the log has
// a gap: the delete that followed it may be in the gap, and merged away from the files.
func TestRepairDoesNotBringBackWhatWasDeleted(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	mem := vfs.NewMem()
	db := openOn(t, mem, rescueOptions)
	ok(t, db.Put(pksk("p0", "victim"), []byte("an item ")))
	ok(t, db.Delete(pksk("p0", "victim")))
	for i := range 100 {
		ok(t, db.Put(pksk("p0", fmt.Sprintf("%03d", i)), make([]byte, 100)))
	}
	ok(t, db.Compact(ctx))
	for i := range 2 {
		ok(t, db.Put(pksk("p1", fmt.Sprint(i)), []byte("an item "), engine.Sync))
	}
	files := stillFilesOf(t, mem, "db")
	mustClose(t, db)
	damage := func(name string, at int) {
		t.Helper()
		if at < 0 {
			t.Fatalf("%s: nothing to damage", name)
		}
		files[name] = bytes.Clone(files[name])
		files[name][at] ^= 1
	}
	log := files.names("wal-", ".log")[0]
	damage(log, bytes.LastIndex(files[log], []byte("victim")))
	for _, name := range files.names(fmt.Sprintf("%03d-", keycodec.Stripe([]byte("p0"))), ".sst") {
		damage(name, 20)
	}
	rep, got := repaired(t, files.store(t), "deleted")
	if lossesOf(rep, "log") == 0 || lossesOf(rep, "data block") == 0 {
		t.Errorf("lost %v", rep.Lost)
	}
	if _, back := got[id(pksk("p0", "victim"))]; back {
		t.Error("the deleted item is back")
	}
	if len(got) < 50 {
		t.Errorf("%d items saved", len(got))
	}
}

// A repair says how far it is, from its first file to its last item.
func TestRepairProgress(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(filepath.Join(dir, "db"), &engine.Options{Durability: engine.Process})
	ok(t, err)
	for i := range 2000 {
		ok(t, db.Put(pksk(fmt.Sprint("p", i%7), fmt.Sprint(i)), make([]byte, 100)))
	}
	ok(t, db.Compact(ctx))
	ok(t, db.Close())
	var steps []int64
	rep, err := engine.Repair(ctx, filepath.Join(dir, "db"), filepath.Join(dir, "repaired"), nil,
		func(done, total int64) {
			if total <= 0 || done > total {
				t.Fatalf("%d of %d", done, total)
			}
			steps = append(steps, 100*done/total)
		})
	ok(t, err)
	if rep.Items != 2000 || len(steps) < 20 || !slices.IsSorted(steps) || steps[0] > 5 ||
		steps[len(steps)-1] < 95 {
		t.Errorf("%d items, %d %%", rep.Items, steps)
	}
}
