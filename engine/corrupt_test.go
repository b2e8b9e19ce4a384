package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// flip changes one byte of a file.
func flip(t testing.TB, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(name)
	ok(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	ok(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b, at)
	ok(t, err)
	ok(t, f.Close())
}

func sstFiles(t testing.TB, fsys vfs.FS, prefix string) (names []string) {
	t.Helper()
	all, err := fsys.List("db")
	ok(t, err)
	for _, name := range all {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, ".sst") {
			names = append(names, name)
		}
	}
	return names
}

// Verify names every damaged file, not only the first, and goes on after the damage.
//
// Promise (damage): `Verify` names every damaged file, and finds contradictions under right
// checksums. Also `TestVerifyFindsContradictions` in `sst`.
func TestVerifyNamesAllDamage(t *testing.T) {
	fsys := vfs.NewMem()
	fixture(t, fsys)
	names := sstFiles(t, fsys, "")
	for i, name := range names {
		if i%3 != 1 {
			flip(t, fsys, filepath.Join("db", name), 20)
		}
	}
	db := openOn(t, fsys, engine.Options{})
	defer mustClose(t, db)
	rep, err := db.Verify(ctx, nil)
	wantIs(t, err, engine.ErrCorrupt)
	damaged := 0
	for i, name := range names {
		if named := strings.Contains(err.Error(), name); named != (i%3 != 1) {
			t.Errorf("%s: named %v", name, named)
		}
		if i%3 != 1 {
			damaged++
		}
	}
	if len(rep.Errors) != damaged || rep.Files != len(names) {
		t.Errorf("%d errors in %d files, want %d in %d",
			len(rep.Errors), rep.Files, damaged, len(names))
	}
}

// A damaged file takes down what is in it and nothing else: other partitions and stripes
// are read and written as ever, new writes of the stripe are merged among themselves,
// and the damage is not merged again and again.
//
// Promise (damage): A damaged file takes down what is in it and nothing else. Also
// `TestReadErrorsOfMergesPass`.
func TestDamagedFileStaysOnItsOwn(t *testing.T) {
	mem := vfs.NewMem()
	o := engine.Options{MaxRuns: 2, Durability: engine.Process}
	victim, other := pk("user#1"), pk("user#2")
	id := keycodec.Stripe(victim.PK)
	bad := damageOneFile(t, mem, o, victim, other)

	var reads, merges atomic.Int64
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && op.Name == bad {
			reads.Add(1)
		}
		return nil
	})
	o.Events = &engine.Events{
		Compacted: func(e engine.CompactionEvent) {
			if e.Stripe == int(id) {
				merges.Add(1)
			}
		},
		ReadOnly: func(err error) { t.Errorf("read-only: %v", err) },
	}
	db := openOn(t, fsys, o)
	wantDamaged := func(err error) {
		t.Helper()
		wantIs(t, err, engine.ErrCorrupt)
		if !strings.Contains(err.Error(), filepath.Base(bad)) {
			t.Fatalf("%v does not name %s", err, bad)
		}
	}
	old := engine.Key{PK: victim.PK, SK: []byte("0007")}
	wantDamaged(second(db.Get(old)))
	wantDamaged(second(db.Count(ctx, engine.Query{PK: victim.PK})))
	wantDamaged(db.PutIf(old, nil, engine.IfAbsent())) // cannot know
	wantDamaged(lastOf(db.Scan(ctx, engine.Scan{})))

	fresh := func(i int) engine.Key {
		return engine.Key{PK: victim.PK, SK: fmt.Appendf(nil, "new%04d", i)}
	}
	const rounds = 30
	for i := range rounds {
		ok(t, db.Put(fresh(i), []byte("new")))
		ok(t, db.Put(old, []byte("replaced")))
		ok(t, db.Flush(ctx))
	}
	eventually(t, "merges of the new runs", func() bool {
		return db.Metrics().Stripes[id].Runs <= 4 && merges.Load() > 0
	})
	if n := reads.Load(); n > 200 {
		t.Errorf("the damaged file was read %d times", n)
	}
	for i := range rounds {
		wantValue(t, db, fresh(i), []byte("new"))
	}
	wantValue(t, db, old, []byte("replaced"))
	if n, err := db.Count(ctx, engine.Query{PK: other.PK}); err != nil || n != 300 {
		t.Errorf("other stripe: %d items, %v", n, err)
	}

	ok(t, db.Put(other, nil))
	before := reads.Load()
	wantDamaged(db.Compact(ctx)) // goes on to the other stripes
	if runs := db.Metrics().Stripes[keycodec.Stripe(other.PK)].Runs; runs != 1 {
		t.Errorf("the other stripe has %d runs after Compact", runs)
	}
	if n := reads.Load() - before; n > 20 {
		t.Errorf("Compact read the damaged file %d times", n)
	}
	mustClose(t, db) // the event would have shown if the database were read-only
}

// damageOneFile makes a database with 300 items in each of two stripes and flips a bit in
// the only file of the first. It returns the file's path.
func damageOneFile(
	t *testing.T, mem *vfs.MemFS, o engine.Options, victim, other engine.Key,
) string {
	t.Helper()
	db := openOn(t, mem, o)
	for i := range 300 {
		for _, k := range []engine.Key{victim, other} {
			k.SK = fmt.Appendf(nil, "%04d", i)
			ok(t, db.Put(k, []byte("old")))
		}
	}
	ok(t, db.Compact(ctx))
	mustClose(t, db)
	prefix := fmt.Sprintf("%03d-", keycodec.Stripe(victim.PK))
	bad := filepath.Join("db", sstFiles(t, mem, prefix)[0])
	flip(t, mem, bad, 50)
	return bad
}

// A disk that fails to read for a while stops merges, not writes, and for that while only.
func TestReadErrorsOfMergesPass(t *testing.T) {
	var broken atomic.Bool
	errRead := errors.New("cannot read")
	var failed atomic.Int64
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") && broken.Load() {
			failed.Add(1)
			return errRead
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{MaxRuns: 2, CacheBytes: 1})
	defer mustClose(t, db)
	broken.Store(true)
	for i := range 8 {
		ok(t, db.Put(pksk("p", fmt.Sprint(i)), nil))
		ok(t, db.Flush(ctx))
	}
	eventually(t, "a failed merge", func() bool { return failed.Load() > 0 })
	wantIs(t, db.Compact(ctx), errRead)
	wantIs(t, second(db.Get(pksk("p", "1"))), errRead)
	broken.Store(false)
	wantValue(t, db, pksk("p", "1"), []byte{})
	eventually(t, "a merge", func() bool { return db.Metrics().Total.Runs <= 2 })
	ok(t, db.Put(pk("p"), nil))
}
