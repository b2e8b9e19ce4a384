package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// silentOptions make every read one of the file system.
var silentOptions = engine.Options{
	CacheBytes: 1, BlockBytes: 1 << 10, FileBytes: 64 << 10, MaxRuns: 2, MaxOpenFiles: 16,
	CompactionWorkers: 1, MemtableBytes: 1 << 20, LogBytes: 8 << 20,
}

// silentScript fills a database so that it has files that were used again, a log, and a
// manifest with some edits. It returns the first error.
func silentScript(fsys vfs.FS) (want map[string]string, err error) {
	db, err := engine.OpenFS(fsys, "db", &silentOptions)
	if err != nil {
		return nil, err
	}
	want = map[string]string{}
	put := func(round, n int) error {
		b := engine.NewBatch()
		for i := range n {
			k, v := pksk(fmt.Sprintf("p%d", i%3), fmt.Sprintf("%03d", i)), fmt.Sprintf(
				"value %d of round %d %s", i, round, strings.Repeat("x", i%50))
			if err := b.Put(k, []byte(v)); err != nil {
				return err
			}
			want[id(k)] = v
		}
		return db.Apply(ctx, b)
	}
	for round := range 4 {
		err = errors.Join(err, put(round, 120-20*round), db.Flush(ctx))
		if round == 2 {
			err = errors.Join(err, db.Compact(ctx), db.SetProperty("p", []byte("property")))
		}
	}
	for i := range 10 {
		k := pksk("p1", fmt.Sprintf("%03d", 3*i+1))
		err = errors.Join(err, db.Delete(k))
		delete(want, id(k))
	}
	err = errors.Join(err, put(9, 5))
	return want, errors.Join(err, db.Close())
}

// silentOutcome reads everything in all ways. It returns whether an error showed, and fails
// the test if anything read is wrong.
func silentOutcome(t *testing.T, what string, fsys vfs.FS, want map[string]string) (seen bool) {
	t.Helper()
	check := func(err error) bool {
		if err != nil {
			seen = true
			if !errors.Is(err, engine.ErrCorrupt) {
				t.Errorf("%s: an error that does not speak of damage: %v", what, err)
			}
		}
		return err == nil
	}
	db, err := engine.OpenFS(fsys, "db", &silentOptions)
	if !check(err) {
		return true
	}
	defer func() { check(db.Close()) }()
	for i := range 120 {
		k := pksk(fmt.Sprintf("p%d", i%3), fmt.Sprintf("%03d", i))
		v, err := db.Get(k)
		if errors.Is(err, engine.ErrNotFound) {
			err = nil
		}
		if check(err) && string(v) != want[id(k)] {
			t.Errorf("%s: %v is %q, want %q", what, k, v, want[id(k)])
		}
	}
	for _, reverse := range []bool{false, true} {
		n := 0
		for it, err := range db.Scan(ctx, engine.Scan{Reverse: reverse}) {
			if !check(err) {
				n = len(want)
				break
			}
			if n++; string(it.Value) != want[id(it.Key)] {
				t.Errorf("%s: the scan shows %v as %q", what, it.Key, it.Value)
			}
		}
		if n != len(want) {
			t.Errorf("%s: the scan has %d items, want %d", what, n, len(want))
		}
	}
	if p, _ := db.Property("p"); string(p) != "property" {
		t.Errorf("%s: the property is %q", what, p)
	}
	check(second(db.Verify(ctx, nil)))
	return seen
}

// Goal: a file system that returns other bytes than were written, be they older ones of the
// same place, of another place, or half of each, is never believed: a read is right or an
// error that matches ErrCorrupt. Method: one read of a database's files is faulty, for each
// read there is and each fault.
//
// Promise (damage): A file system that returns older, torn or foreign bytes, or drops, halves or
// misplaces an acknowledged write, is never believed. Also `TestSilentWriteFaultsAreNoticed`.
func TestSilentReadFaultsAreNoticed(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	within(t, 10*time.Minute, "silent faults", func() {
		l := newSilentFaultFS(vfs.NewMem())
		want, err := silentScript(l)
		ok(t, err)
		files := filesOf(t, l.FS, "db")
		whole := l.over(files.store(t), "", 0)
		if silentOutcome(t, "without a fault", whole, want) {
			t.Fatal("refused without a fault")
		}
		cases, noticed := 0, 0
		for _, kind := range silentReads {
			for at := 1; at <= whole.reads; at += silentStep(whole.reads) {
				faulty := l.over(files.store(t), kind, at)
				seen := silentOutcome(t, fmt.Sprintf("read %d %s", at, kind), faulty, want)
				if faulty.done == "" {
					continue
				}
				if cases++; seen {
					noticed++
				}
				if t.Failed() {
					t.Fatalf("read %d: %s", at, faulty.done)
				}
			}
		}
		t.Logf("%d reads, %d faults, %d were errors, the others did no harm", whole.reads, cases,
			noticed)
		if noticed < cases/2 {
			t.Errorf("only %d of %d faults were noticed", noticed, cases)
		}
	})
}

// Goal: the same for writes that were acknowledged and not made, made in part, or made in
// another place, at any time in the life of a database.
func TestSilentWriteFaultsAreNoticed(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	within(t, 10*time.Minute, "silent faults", func() {
		l := newSilentFaultFS(vfs.NewMem())
		want, err := silentScript(l)
		ok(t, err)
		cases, noticed := 0, 0
		for _, kind := range silentWrites {
			for at := 1; at <= l.writes; at += silentStep(l.writes) {
				faulty := newSilentFaultFS(vfs.NewMem())
				faulty.kind, faulty.at = kind, at
				cases++
				if _, err := silentScript(faulty); err != nil {
					noticed++ // at work
					continue
				}
				what := fmt.Sprintf("write %d: %s", at, faulty.done)
				if silentOutcome(t, what, faulty.FS, want) {
					noticed++
				}
				if t.Failed() {
					return
				}
			}
		}
		t.Logf("%d writes, %d faults, %d were errors, the others did no harm", l.writes, cases,
			noticed)
	})
}

// silentStep is the distance between the faulty reads or writes.
func silentStep(n int) int {
	return max(1, n/testutil.Effort(20, n))
}

// Goal: a block that is intact, but in another place of its file, is noticed. Method: in a
// file of blocks of the same size two change places, or one is written over another.
//
// Promise (damage): A file or block of another place, another database or an older time is
// refused. Also `TestWrongFile` in `sst`; `TestMisplacedRecords`, `TestReplayedManifest` in
// `internal/manifest`; `TestReplacedSegments` in `wal`.
func TestMovedBlocksAreNoticed(t *testing.T) {
	const n = 12
	mem := vfs.NewMem()
	o := engine.Options{BlockBytes: 1 << 10, Compression: engine.NoCompression}
	db := openOn(t, mem, o)
	value := func(i int) string { return fmt.Sprintf("item %03d ", i) + strings.Repeat("x", 900) }
	key := func(i int) engine.Key { return pksk("p", fmt.Sprintf("%03d", i)) }
	for i := range n {
		ok(t, db.Put(key(i), []byte(value(i))))
	}
	ok(t, db.Flush(ctx))
	mustClose(t, db)
	files := snapshotFiles(t, mem, "db")
	for name, whole := range files {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		at := strings.Index(whole, "item 000")
		size := strings.Index(whole, "item 001") - at
		if at < 0 || strings.Index(whole, "item 011") != at+11*size {
			t.Fatalf("%s has no blocks of one item each", name)
		}
		block := func(i int) string { return whole[i*size : (i+1)*size] }
		for i := range n - 1 {
			for j := i + 1; j < n; j++ {
				b := []byte(whole)
				copy(b[j*size:], block(i))
				if (i+j)%2 == 0 { // change places
					copy(b[i*size:], block(j))
				}
				changed := maps.Clone(files)
				changed[name] = string(b)
				db := openOn(t, stored(t, changed), o)
				for k := range n {
					v, err := db.Get(key(k))
					if string(v) != value(k) && !errors.Is(err, engine.ErrCorrupt) {
						t.Fatalf("block %d at %d: item %d is %.10q, %v", i, j, k, v, err)
					}
				}
				wantIs(t, second(db.Verify(ctx, nil)), engine.ErrCorrupt)
				mustClose(t, db)
			}
		}
	}
}
