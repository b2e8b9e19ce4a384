package engine_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A read in a snapshot that is closed meanwhile reports that, and not what is there instead.
// Method: while a block of a file is read, the snapshot is closed, the key is written again
// and the file merged away, which nothing keeps from losing the old version any more.
func TestReadInASnapshotThatIsClosed(t *testing.T) {
	old, other := pk("k1"), pk("k1") // in one file, but not in one block
	old.SK, other.SK = []byte("old"), []byte("other")
	for name, read := range map[string]func(*engine.Snapshot) error{
		"get":      func(s *engine.Snapshot) error { return second(s.Get(old)) },
		"get item": func(s *engine.Snapshot) error { return second(s.GetItem(old)) },
		"has":      func(s *engine.Snapshot) error { return second(s.Has(old)) },
	} {
		t.Run(name, func(t *testing.T) {
			var during func()
			db := openOn(t, vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
				f := during
				if f != nil && op.Kind == vfstest.OpReadAt && filepath.Ext(op.Name) == ".sst" {
					during = nil
					f()
				}
				return nil
			}), engine.Options{Compression: engine.NoCompression, CompactionWorkers: 1})
			defer mustClose(t, db)
			ok(t, db.Put(old, []byte(strings.Repeat("old", 20_000))))
			ok(t, db.Put(other, []byte(strings.Repeat("other", 20_000))))
			ok(t, db.Flush(ctx))
			s, err := db.Snapshot()
			ok(t, err)
			ok(t, second(db.Get(other))) // all but the block of the old value is in memory now
			during = func() {
				ok(t, s.Close())
				ok(t, db.Put(old, []byte("new")))
				ok(t, db.Compact(ctx))
			}
			err = read(s)
			if during != nil {
				t.Fatal("no block was read")
			}
			wantIs(t, err, engine.ErrClosed)
		})
	}
}

// Snapshots are closed beside what reads in them: an answer is that of the snapshot, or
// ErrClosed.
func TestSnapshotsAreClosedBesideReaders(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process, FlushRecords: 40, MaxRuns: 2})
	rounds := testutil.Effort(1000, 4000)
	keys := []engine.Key{pk("a"), pk("b")}
	write := func(n uint64) {
		b := engine.NewBatch()
		for _, k := range keys {
			ok(t, errors.Join(b.Delete(k), b.Put(k, bytesOf(n))))
		}
		ok(t, db.Apply(ctx, b))
	}
	write(0)
	for n := range uint64(rounds) {
		s := snapshotOf(t, db)
		var wg sync.WaitGroup
		wg.Go(func() { wantOld(t, s, keys, n) })
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		write(n + 1)
		wg.Wait()
		if t.Failed() {
			t.Fatalf("round %d", n)
		}
	}
}

// wantOld reads in one way after the other, which is n in turn.
func wantOld(t *testing.T, s *engine.Snapshot, keys []engine.Key, n uint64) {
	var values [][]byte
	var err error
	switch n % 4 {
	case 0:
		var v []byte
		v, err = s.Get(keys[0])
		values = append(values, v)
	case 1:
		for it, e := range s.Query(ctx, engine.Query{PK: keys[0].PK}) {
			values, err = append(values, it.Clone().Value), e
		}
	case 2:
		for it, e := range s.Scan(ctx, engine.Scan{}) {
			values, err = append(values, it.Clone().Value), e
		}
	case 3:
		var r engine.Results
		if err = s.MultiGet(ctx, keys, &r); err == nil {
			for i := range keys {
				v, _ := r.Value(i)
				values = append(values, v)
			}
		}
	}
	if errors.Is(err, engine.ErrClosed) {
		return
	}
	want := len(keys)
	if n%4 < 2 {
		want = 1
	}
	if err != nil || len(values) != want {
		t.Errorf("way %d: %d values, want %d: %v", n%4, len(values), want, err)
		return
	}
	for _, v := range values {
		if len(v) != 8 || number(v) != n {
			t.Errorf("way %d: value %v, want %d", n%4, v, n)
		}
	}
}
