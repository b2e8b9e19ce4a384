package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// retainedDatabase makes a database with several retained segments. The first has puts whose
// deletes and range deletes are in the second, and which merges have dropped from the files. It
// also returns the names of the retained segments.
func retainedDatabase(t testing.TB) (fileSet, map[string]engine.Item, []string) {
	t.Helper()
	mem := vfs.NewMem()
	o := rescueOptions
	o.LogBytes, o.RetainBytes, o.RetainAge = 16<<20, 64<<20, time.Hour
	db := openOn(t, mem, o)
	filler := func(round int) {
		value := append([]byte("filler item "), make([]byte, 60<<10)...)
		for i := range 18 { // a segment has a MiB
			ok(t, db.Put(pksk("p0", fmt.Sprintf("filler %d %d", round, i)), value))
		}
	}
	for i := range 40 {
		ok(t, db.Put(pksk("p0", fmt.Sprintf("deleted %d", i)), []byte("old item ")))
		ok(t, db.Put(pksk("p0", fmt.Sprintf("kept %d", i)), []byte("old item ")))
		ok(t, db.Put(pksk("p1", fmt.Sprint(i)), []byte("old item ")))
	}
	filler(1)
	for i := range 40 {
		ok(t, db.Delete(pksk("p0", fmt.Sprintf("deleted %d", i))))
		ok(t, db.Put(pksk("p0", fmt.Sprintf("kept %d", i)), []byte("new item ")))
	}
	ok(t, db.DeleteRange([]byte("p1"), engine.SKLess([]byte("3"))))
	ok(t, db.Compact(ctx))
	filler(2)
	filler(3)
	ok(t, db.Compact(ctx))
	filler(4)
	ok(t, db.Flush(ctx))
	ok(t, db.Put(pksk("p0", "last"), []byte("last item "), engine.Sync))
	want := itemsOf(t, db)
	retained := db.Metrics().RetainedSegments
	files := stillFilesOf(t, mem, "db")
	mustClose(t, db)
	logs := files.names("wal-", ".log")
	if retained < 3 || len(logs) < retained {
		t.Fatalf("%d segments are retained of %q", retained, logs)
	}
	return files, want, logs[:retained]
}

// Retained log brings nothing back that was deleted or overwritten: whether the manifest is lost,
// the log after it is damaged, or both; and whatever of the retained log itself is lost.
//
// Promise (damage): `Repair` of a database with retained log brings nothing back out of it.
func TestRepairWithRetainedLog(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want, retained := retainedDatabase(t)
	lastLog := ""
	for _, name := range files.names("wal-", ".log") {
		if bytes.Contains(files[name], []byte("last item ")) {
			lastLog = name
		}
	}
	noManifest := func(f fileSet) {
		for _, name := range append(f.names("MANIFEST", ""), "CURRENT") {
			delete(f, name)
		}
	}
	missing := func(f fileSet) { delete(f, retained[1]) }
	flip := func(f fileSet, name string, at int) {
		if at < 0 {
			t.Fatalf("%s: nothing to damage", name)
		}
		f[name] = bytes.Clone(f[name])
		f[name][at] ^= 1
	}
	// The first delete: those that follow in the segment are intact.
	deletes := func(f fileSet) {
		if i := bytes.Index(f[retained[0]], []byte("deleted 0")); i < 0 ||
			bytes.Contains(f[retained[0]][i+1:], []byte("deleted 0")) {
			t.Fatal("the first segment has not the put alone")
		}
		flip(f, retained[1], bytes.Index(f[retained[1]], []byte("deleted 0")))
	}
	header := func(f fileSet) { flip(f, retained[1], 45) }
	live := func(f fileSet) { flip(f, lastLog, bytes.Index(f[lastLog], []byte("filler 4 1"))) }
	for name, damage := range map[string][]func(fileSet){
		"whole":                         {},
		"missing segment":               {missing},
		"no manifest":                   {noManifest},
		"no manifest, missing segment":  {noManifest, missing},
		"no manifest, damaged header":   {noManifest, header},
		"no manifest, damaged delete":   {noManifest, deletes},
		"damaged log":                   {live},
		"damaged log, missing segment":  {live, missing},
		"damaged log, damaged delete":   {live, deletes},
		"no manifest, damaged log":      {noManifest, live},
		"no manifest, log, and segment": {noManifest, live, missing},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := maps.Clone(files)
			for _, d := range damage {
				d(damaged)
			}
			_, got := repaired(t, damaged.store(t), name)
			for k, g := range got {
				if w := want[k]; !bytes.Equal(g.Value, w.Value) || g.Version != w.Version {
					t.Errorf("%s is %.20q of version %d, was %.20q of %d", g.Key, g.Value,
						g.Version, w.Value, w.Version)
				}
			}
			if len(got) < len(want)-20 {
				t.Errorf("%d of %d items", len(got), len(want))
			}
		})
	}
}

// Damage of retained log and of the time index is found by Verify, which names the file, and by the
// changes that meet it. Items, and the changes after it, are as they were, also after an Open for
// writing, which lets go of what the damage cuts off.
//
// Promise (damage): Damage of retained log is found by `Verify` and by the changes that it
// concerns; it costs no item, and no change after it.
func TestDamageOfRetainedLog(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want, retained := retainedDatabase(t)
	changes := map[uint64]string{}
	newest := changesInto(t, changes, files, 0)
	logs := files.names("wal-", ".log")
	for i, name := range retained {
		after := files[logs[i+1]]
		used := int(binary.LittleEndian.Uint32(after[56:])) * 8
		next := binary.LittleEndian.Uint64(after[48:])
		for at := 4; at < used; at += used/7 | 5 {
			damaged := maps.Clone(files)
			damaged[name] = bytes.Clone(files[name])
			damaged[name][at] ^= 4
			checkDamaged(t, damaged, want, name, fmt.Sprintf("%s at %d", name, at))
			if got := changesInto(t, changes, damaged, next); got != newest {
				t.Errorf("%s at %d: changes up to %d", name, at, got)
			}
		}
		cut := maps.Clone(files)
		cut[name] = files[name][:used/2]
		checkDamaged(t, cut, want, name, name+" cut")
		exchanged := maps.Clone(files)
		exchanged[name] = files[logs[(i+1)%len(retained)]]
		checkDamaged(t, exchanged, want, name, name+" exchanged")
	}
	times := maps.Clone(files)
	times["TIMES"] = bytes.Clone(files["TIMES"])
	times["TIMES"][13] ^= 1
	checkDamaged(t, times, want, "TIMES", "TIMES")
}

// changesInto reads all changes from a commit on, to the last, and compares them with those of the
// same commits that were read before; without any it keeps them. It returns the last commit.
func changesInto(t testing.TB, known map[uint64]string, files fileSet, from uint64) (last uint64) {
	t.Helper()
	db := openOn(t, files.store(t), engine.Options{ReadOnly: true})
	defer mustClose(t, db)
	keep := len(known) == 0
	got := map[uint64]string{}
	for c, err := range db.Changes(ctx, version(from), &engine.ChangesOptions{Stop: true}) {
		ok(t, err)
		last = c.Version
		got[last] += changeText(&c)
	}
	for v, text := range got {
		if keep {
			known[v] = text
		} else if known[v] != text {
			t.Fatalf("commit %d: %.200q, was %.200q", v, text, known[v])
		}
	}
	return last
}

// checkDamaged checks that Verify finds damage in a file, and that all items are there.
func checkDamaged(t testing.TB, files fileSet, want map[string]engine.Item, name, what string) {
	t.Helper()
	mem := files.store(t)
	db := openOn(t, mem, engine.Options{ReadOnly: true})
	rep, err := db.Verify(ctx, nil)
	var c *engine.CorruptionError
	if !errors.As(err, &c) || filepath.Base(c.File) != name || len(rep.Errors) != 1 {
		t.Errorf("%s: Verify found %v", what, err)
	}
	for ch, err := range db.Changes(ctx, engine.Position{}, &engine.ChangesOptions{Stop: true}) {
		if err != nil && !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrGone) {
			t.Errorf("%s: after commit %d: %v", what, ch.Version, err)
		}
	}
	mustClose(t, db)
	db = openOn(t, mem, rescueOptions)
	defer mustClose(t, db)
	ok(t, db.Put(pk("new"), nil))
	ok(t, db.Delete(pk("new")))
	got := itemsOf(t, db)
	if !maps.EqualFunc(got, want, func(a, b engine.Item) bool {
		return bytes.Equal(a.Value, b.Value) && a.Version == b.Version
	}) {
		t.Errorf("%s: %d items, want %d", what, len(got), len(want))
	}
}
