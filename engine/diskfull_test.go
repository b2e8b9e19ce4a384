package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// smallDisk opens a database whose budgets are small and that must never turn read-only.
func smallDisk(t *testing.T, fsys vfs.FS) *engine.DB {
	return openOn(t, fsys, engine.Options{
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2, Durability: engine.Process,
		Compression: engine.NoCompression,
		Events:      &engine.Events{ReadOnly: func(err error) { t.Errorf("read-only: %v", err) }},
	})
}

// fillDisk writes values until the disk is full, and returns how many were acknowledged.
func fillDisk(t *testing.T, db *engine.DB, from int) (n int) {
	t.Helper()
	value := make([]byte, 4<<10)
	for n = from; ; n++ {
		if n-from > 1<<20 {
			t.Fatal("the disk never fills up")
		}
		copy(value, fmt.Sprint(n))
		if err := db.Put(pk(fmt.Sprint(n)), value); err != nil {
			wantIs(t, err, engine.ErrDiskFull)
			if errors.Is(err, engine.ErrReadOnly) {
				t.Fatalf("%v is final", err)
			}
			return n
		}
	}
}

func wantFilled(t *testing.T, db *engine.DB, n int) {
	t.Helper()
	for i := range n {
		v, err := db.Get(pk(fmt.Sprint(i)))
		ok(t, err)
		if got := string(v[:len(fmt.Sprint(i))]); len(v) != 4<<10 || got != fmt.Sprint(i) {
			t.Fatalf("item %d is %q", i, got)
		}
	}
}

// A full disk is an error of the write that met it, no more: nothing is lost, reads go
// on, and with the space the writes come back, without a reopen and without anybody
// calling Flush.
func TestDiskFullPasses(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	db := smallDisk(t, fsys)
	for i := range 400 {
		value := append(fmt.Append(nil, i), make([]byte, 4<<10-len(fmt.Sprint(i)))...)
		ok(t, db.Put(pk(fmt.Sprint(i)), value))
	}
	n, rounds := 400, testutil.Effort(2, 3)
	for round := range rounds {
		fsys.SetCapacity(fsys.UsedBytes() + 2<<20)
		within(t, 2*time.Minute, "filling the disk", func() { n = fillDisk(t, db, n) })
		wantFilled(t, db, n)
		wantValue(t, db, pk(fmt.Sprint(n)), nil) // refused means not written
		if count := len(content(t, db)); count != n {
			t.Fatalf("round %d: %d items, want %d", round, count, n)
		}
		for name, call := range map[string]func() error{
			"Compact":     func() error { return db.Compact(ctx) },
			"Checkpoint":  func() error { return db.Checkpoint(ctx, "copy", nil) },
			"SetProperty": func() error { return db.SetProperty("p", make([]byte, 100<<10)) },
		} {
			err := call()
			if err != nil &&
				(!errors.Is(err, engine.ErrDiskFull) || errors.Is(err, engine.ErrReadOnly)) {
				t.Errorf("%s on a full disk: %v", name, err)
			}
		}
		if names, err := fsys.List("copy"); err == nil {
			for _, name := range names {
				ok(t, fsys.Remove("copy/"+name))
			}
		}
		fsys.SetCapacity(fsys.UsedBytes() + 64<<20)
		resumes := func(write func() error) {
			eventually(t, "writes", func() bool {
				err := write()
				if err != nil {
					wantIs(t, err, engine.ErrDiskFull)
				}
				return err == nil
			})
		}
		resumes(func() error { return db.Put(pk("probe"), nil) })
		resumes(func() error { return db.Delete(pk("probe")) })
		eventually(t, "flushes in the background", func() bool {
			m := db.Metrics()
			return m.MemtableBytes < m.MemtableBudget && m.LogBytes <= m.LogBudgetBytes
		})
	}
	ok(t, db.Compact(ctx))
	mustClose(t, db)
	db = smallDisk(t, fsys)
	wantFilled(t, db, n)
	ok(t, second(db.Verify(ctx, nil)))
	mustClose(t, db)
}

// The disk may fill up at any byte: of the log, an SST, the manifest, CURRENT. Whatever it
// hits, everything acknowledged is there, now and after a reopen, and nothing is final.
func TestDiskFullAnywhere(t *testing.T) {
	step := int64(600_007 / testutil.Effort(1, 5))
	for room := int64(0); room < 4_500_000; room += step {
		fsys := vfs.NewMem()
		db := smallDisk(t, fsys)
		ok(t, db.Put(pk("first"), []byte("v")))
		fsys.SetCapacity(fsys.UsedBytes() + room)
		want := map[string]string{id(pk("first")): "v"}
		full := func(err error) bool {
			if err != nil &&
				(!errors.Is(err, engine.ErrDiskFull) || errors.Is(err, engine.ErrReadOnly)) {
				t.Fatalf("room %d: %v", room, err)
			}
			return err != nil
		}
		for i := range 60 {
			k, v := pk(fmt.Sprint(i%40)), fmt.Sprint(i, string(make([]byte, 40_000)))
			if !full(db.Put(k, []byte(v))) {
				want[id(k)] = v
			}
			switch i % 20 {
			case 5:
				full(db.Flush(ctx))
			case 11:
				full(db.Compact(ctx))
			case 17:
				full(db.SetProperty("p", make([]byte, 100*i)))
			}
		}
		check := func(when string) {
			t.Helper()
			got := content(t, db)
			for k, v := range want {
				if got[k] != v {
					t.Fatalf("room %d, %s: %q is wrong or lost", room, when, k)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("room %d, %s: %d items, want %d", room, when, len(got), len(want))
			}
		}
		check("full")
		full(db.Close())
		db = smallDisk(t, fsys)
		check("reopened")
		fsys.SetCapacity(0)
		eventually(t, "writes", func() bool { return !full(db.Put(pk("last"), nil)) })
		want[id(pk("last"))] = ""
		ok(t, db.Compact(ctx))
		ok(t, db.SetProperty("p", nil))
		check("with space")
		ok(t, second(db.Verify(ctx, nil)))
		mustClose(t, db)
	}
}
