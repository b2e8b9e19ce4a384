package engine_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: files without filters, beside files with filters, change no answer, and inspect and
// verify name them. Method: three generations of items in three runs, the middle one with
// filters; single reads, groups and deduplication are compared with what was written.
func TestFilesWithoutFilters(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	dir := filepath.Join(t.TempDir(), "db")
	const stored = 6000
	key := func(i int) engine.Key { // from stored on those that are never written, between
		return pk(fmt.Sprintf("key %06d%s", i%stored, strings.Repeat("+", i/stored)))
	}
	live := make(map[int]bool)
	for i, bits := range []int{engine.NoFilter, 8, engine.NoFilter} {
		db := openDir(t, dir, &engine.Options{FilterBits: bits, MaxRuns: 8})
		b := engine.NewBatch()
		for n := i; n < stored; n += 3 {
			ok(t, b.Put(key(n), fmt.Append(nil, n)))
			live[n] = true
			if n%2 == 1 {
				ok(t, b.Delete(key(n-1))) // of the run below
				live[n-1] = false
			}
		}
		ok(t, db.Apply(ctx, b))
		ok(t, db.Flush(ctx))
		mustClose(t, db)
	}
	db, err := engine.Open(dir, &engine.Options{ReadOnly: true}) // no merges
	ok(t, err)
	defer mustClose(t, db)
	keys := make([]engine.Key, 2*stored)
	for i := range keys {
		keys[i] = key(i)
		if has, err := db.Has(keys[i]); err != nil || has != live[i] {
			t.Fatalf("%v: there %t, want %t, %v", keys[i], has, live[i], err)
		}
	}
	var group engine.Results
	ok(t, db.MultiGet(ctx, keys, &group))
	for i := range keys {
		if group.Has(i) != live[i] {
			t.Fatalf("%v in a group: there %t, want %t", keys[i], group.Has(i), live[i])
		}
	}
	isNew, _, err := db.FilterNew(ctx, keys, nil, nil)
	ok(t, err)
	perhaps, _, err := db.FilterNew(ctx, keys, nil, &engine.FilterOptions{Approximate: true})
	ok(t, err)
	for i := range keys {
		if isNew[i] == live[i] || perhaps[i] && live[i] {
			t.Fatalf("%v: new %t, approximately %t, want %t", keys[i], isNew[i], perhaps[i],
				!live[i])
		}
	}
	kept := int64(0)
	for _, n := range perhaps[stored:] {
		kept += toInt(!n)
	}
	if kept > stored/50 { // the filters of the middle run err in 0.4 %
		t.Errorf("%d of %d absent keys are not called new", kept, stored)
	}
	namesUnfiltered(t, db, dir)
}

// namesUnfiltered checks that verify and inspect name the same files without filters.
func namesUnfiltered(t *testing.T, db *engine.DB, dir string) {
	t.Helper()
	rep, err := db.Verify(ctx, nil)
	ok(t, err)
	if rep.Unfiltered == 0 || rep.Unfiltered == rep.Files {
		t.Errorf("verify counts %d of %d files without filters", rep.Unfiltered, rep.Files)
	}
	described := int64(0)
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	ok(t, err)
	for _, name := range files {
		var text strings.Builder
		ok(t, engine.InspectFile(name, &text))
		described += toInt(strings.Contains(text.String(), "filters         none"))
	}
	if described != int64(rep.Unfiltered) {
		t.Errorf("inspect says of %d files that they have no filters, verify of %d", described,
			rep.Unfiltered)
	}
}
