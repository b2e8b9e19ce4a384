package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// overwrite changes slices that the callee should have copied.
func overwrite(slices ...[]byte) {
	for _, b := range slices {
		for i := range b {
			b[i] ^= 0x55
		}
	}
}

// Goal: nothing that was passed in is looked at again after the call, and nothing that was
// handed out is looked at at all: a caller may reuse its buffers, in transactions before
// they commit, too. Method: everything is overwritten at once.
func TestReusedBuffersChangeNothing(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{FlushRecords: 7})
	fresh := func(i int) (p, s, v []byte) {
		p, s = fmt.Appendf(nil, "p%d", i%3), fmt.Appendf(nil, "s%02d", i)
		return p, s, fmt.Appendf(nil, "v%d", i)
	}
	want := map[string]string{}
	for i := range 40 {
		p, s, v := fresh(i)
		k := engine.Key{PK: p, SK: s}
		if i < 35 {
			want[id(k)] = string(v)
		}
		switch i % 4 {
		case 0:
			ok(t, db.Put(k, v))
		case 1:
			ok(t, db.PutIf(k, v, engine.IfAbsent()))
			old := bytes.Clone(v)
			ok(t, db.PutIf(k, v, engine.IfValue(old)))
			overwrite(old)
		case 2:
			b := engine.NewBatch()
			ok(t, b.Put(k, v))
			overwrite(p, s, v)
			ok(t, db.Apply(ctx, b))
		case 3:
			ok(t, db.Update(ctx, func(tx *engine.Tx) error {
				ok(t, tx.Put(k, v))
				overwrite(p, s, v)
				p, s, v := fresh(i)
				got, err := tx.Get(engine.Key{PK: p, SK: s})
				if err != nil || !bytes.Equal(got, v) {
					t.Errorf("own write %d: %q, %v", i, got, err)
				}
				overwrite(got)
				return nil
			}))
		}
		overwrite(p, s, v)
	}
	lo, hi := []byte("s35"), []byte("s99")
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		for i := range 3 {
			p, _, _ := fresh(i)
			ok(t, tx.DeleteRange(p, engine.SKBetween(lo, hi)))
			overwrite(p)
		}
		overwrite(lo, hi)
		return nil
	}))
	value := []byte("property")
	ok(t, db.SetProperty("p", value))
	overwrite(value)
	check := func() {
		t.Helper()
		if got := content(t, db); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("database holds %q, want %q", got, want)
		}
		if p, _ := db.Property("p"); string(p) != "property" {
			t.Errorf("the property is %q", p)
		}
	}
	check()
	mustClose(t, db)
	db = openOn(t, fsys, engine.Options{})
	check()
	mustClose(t, db)
}

// What Get and GetItem hand out of a snapshot, a view and the cache is the caller's.
func TestHandedOutValuesAreTheCallers(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("k"), []byte("value")))
	for _, stage := range []string{"memtable", "file"} {
		snap := snapshotOf(t, db)
		for range 2 {
			v, err := snap.Get(pk("k"))
			ok(t, err)
			it, err := snap.GetItem(pk("k"))
			ok(t, err)
			if string(v) != "value" || string(it.Value) != "value" {
				t.Fatalf("%s: %q, %q", stage, v, it.Value)
			}
			overwrite(v, it.Value)
		}
		ok(t, db.View(ctx, func(tx *engine.Tx) error {
			for range 2 {
				v, err := tx.AppendGet(nil, pk("k"))
				if err != nil || string(v) != "value" {
					t.Errorf("%s: %q, %v", stage, v, err)
				}
				overwrite(v)
			}
			return nil
		}))
		ok(t, snap.Close())
		ok(t, db.Flush(ctx))
	}
}

// Snapshots that were forgotten are counted, Close says how many there are, and the database
// opens again as if nothing had been.
//
// Promise (manners): Forgotten snapshots and iterations are reported. Also
// `TestIterationAcrossClose`, `TestLoopsThatEndEarly`.
func TestUnclosedSnapshots(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{MaxRuns: 2})
	for i := range 3 {
		ok(t, db.Put(pk("k"), fmt.Append(nil, i)))
		ok(t, second(db.Snapshot()))
		ok(t, db.Flush(ctx))
	}
	if n := db.Metrics().OpenSnapshots; n != 3 {
		t.Errorf("%d snapshots are counted, want 3", n)
	}
	err := db.Close()
	wantIs(t, err, engine.ErrLeaked)
	if !strings.Contains(err.Error(), "3") {
		t.Errorf("%q does not say how many", err)
	}
	db = openOn(t, fsys, engine.Options{})
	wantValue(t, db, pk("k"), []byte("2"))
	ok(t, db.Compact(ctx))
	if m := db.Metrics(); m.Total.Records != 1 || m.OpenSnapshots != 0 {
		t.Errorf("%d records, %d snapshots are left", m.Total.Records, m.OpenSnapshots)
	}
	mustClose(t, db)
}

// A batch and a Query made without their constructors work or are refused, and never panic.
func TestZeroValues(t *testing.T) {
	db := openMemory(t, engine.Options{})
	var b engine.Batch
	ok(t, b.Put(pk("k"), []byte("v")))
	ok(t, db.Apply(ctx, &b))
	wantValue(t, db, pk("k"), []byte("v"))
	wantIs(t, second(db.Count(ctx, engine.Query{})), engine.ErrEmptyPK)
	wantIs(t, second(db.Get(engine.Key{})), engine.ErrEmptyPK)
	var q engine.Query
	q.After = q.CursorAfter(engine.Item{})
	wantIs(t, second(db.Count(ctx, q)), engine.ErrEmptyPK)
	var s engine.Scan
	s.After = s.CursorAfter(engine.Item{})
	for _, err := range db.Scan(ctx, s) {
		wantIs(t, err, engine.ErrInvalidCursor)
	}
}
