package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// damageDatabase makes a small database with two runs, deletes, a range delete, a TTL and
// a log with records that no file has yet.
func damageDatabase(t *testing.T) (files map[string][]byte, want map[string]string) {
	t.Helper()
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 8})
	for round := range 3 {
		for i := range 30 {
			k := pksk(fmt.Sprintf("p%d", i%3), fmt.Sprintf("s%02d", i))
			if i%5 != round {
				ok(t, db.Put(k, fmt.Appendf(nil, "round %d item %d", round, i)))
			}
		}
		ok(t, db.Delete(pksk("p1", "s04")))
		ok(t, db.DeleteRange([]byte("p2"), engine.SKLess([]byte("s06"))))
		if round < 2 {
			ok(t, db.Flush(ctx))
		}
	}
	want = content(t, db)
	mustClose(t, db)
	return filesOf(t, mem, "db"), want
}

// Goal: damage to any stored byte is an error that names a file of the database, or
// harmless; never a wrong or a missing item, a panic or a hang. Method: every file of a
// small closed database is changed at many places and cut at many lengths, one at a
// time; then everything is read.
//
// Promise (durability): A log that was cut off after an orderly Close, or is missing, is
// noticed. Also `TestMissingFiles`.
// Promise (damage): A changed, cut or missing byte in any file is an error or harmless, never a
// wrong or missing item. Also `TestEveryFlippedByte`, `TestEveryTruncation` in `sst`;
// `TestFlippedByte`, `TestTruncated` in `internal/manifest`.
func TestDamageIsNeverSilent(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := damageDatabase(t)
	places := testutil.Effort(10, 50)
	cases, found := 0, 0
	for name, whole := range files {
		used := len(bytes.TrimRight(whole, "\x00")) // the log is preallocated
		for at := 0; at < used; at += max(1, used/places) {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << (at % 8)
			for what, content := range map[string][]byte{"flip": flipped, "cut": whole[:at]} {
				cases++
				what := fmt.Sprintf("%s %s at %d", what, name, at)
				if damageIsSeen(t, files, name, content, want, what) {
					found++
				}
			}
		}
	}
	t.Logf("%d of %d damages gave an error, the others changed nothing", found, cases)
}

// damageIsSeen reads a copy of the database in which one file is replaced; it reports
// whether there was an error.
func damageIsSeen(
	t *testing.T, files map[string][]byte, name string, content []byte,
	want map[string]string, what string,
) bool {
	t.Helper()
	mem := vfs.NewMem()
	ok(t, mem.MkdirAll("db"))
	for n, b := range files {
		if n == name {
			b = content
		}
		f, err := mem.Create(filepath.Join("db", n))
		ok(t, err)
		_, err = f.Write(b)
		ok(t, err)
		ok(t, f.Close())
	}
	db, err := engine.OpenFS(mem, "db", &engine.Options{ReadOnly: true})
	if err != nil {
		wantDamage(t, what, err)
		return true
	}
	defer db.Close()
	got := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil {
			wantDamage(t, what, err)
			if _, err := db.Verify(ctx, nil); !errors.Is(err, engine.ErrCorrupt) {
				t.Fatalf("%s: a scan fails, Verify says %v", what, err)
			}
			return true
		}
		got[id(it.Key)] = string(it.Value)
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s: %q is %q, want %q", what, k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d items, want %d", what, len(got), len(want))
	}
	return false
}

func wantDamage(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrNotDatabase) {
		t.Fatalf("%s: %v, want an error of corruption", what, err)
	}
	var c *engine.CorruptionError
	if errors.As(err, &c) && c.File == "" {
		t.Fatalf("%s: the error names no file: %v", what, err)
	}
}
