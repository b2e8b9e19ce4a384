package engine_test

import (
	"bytes"
	"fmt"
	"maps"
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
