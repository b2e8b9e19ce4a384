package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// TestWritesRefuseBadTerms: whichever write gets them. Bad expiries are in TestItemOptions.
func TestWritesRefuseBadTerms(t *testing.T) {
	db := openMemory(t, engine.Options{})
	k := pk("k")
	items := []engine.Item{{Key: k}}
	b := engine.NewBatch()
	ok(t, b.Put(k, nil))
	for _, o := range []engine.CommitOption{engine.Durability(3), engine.MaxWait(-1)} {
		calls := map[string]func() error{
			"Apply":       func() error { return db.Apply(ctx, b, o) },
			"Delete":      func() error { return db.Delete(k, o) },
			"DeleteIf":    func() error { return db.DeleteIf(k, engine.IfPresent(), o) },
			"DeleteRange": func() error { return db.DeleteRange(k.PK, engine.SKCondition{}, o) },
			"Put":         func() error { return db.Put(k, nil, o) },
			"PutIf":       func() error { return db.PutIf(k, nil, engine.IfAbsent(), o) },
			"InsertNew": func() error {
				_, s, err := db.InsertNew(ctx, items, nil, o)
				if s != (engine.DedupStats{}) {
					t.Errorf("InsertNew reports %+v", s)
				}
				return err
			},
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s with %v: %v", name, o, err)
			}
		}
	}
	if v := db.Metrics().LastVersion; v != 0 {
		t.Errorf("something was committed, version %d", v)
	}
}

// TestManyKeysRefuseOne: an invalid key among others, few or many, is an error of the call.
func TestManyKeysRefuseOne(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("k"), nil))
	for _, n := range []int{1, 4, 32, 33, 100} {
		keys := slices.Repeat([]engine.Key{pk("k")}, n)
		all, err := db.MultiHas(ctx, keys, nil)
		if err != nil || len(all) != n || slices.Contains(all, false) {
			t.Errorf("MultiHas of %d keys: %v, %v", n, all, err)
		}
		var res engine.Results
		ok(t, db.MultiGet(ctx, keys, &res))
		if res.Len() != n {
			t.Errorf("%d results of %d keys", res.Len(), n)
		}
		keys[n-1] = engine.Key{}
		wantIs(t, second(db.MultiHas(ctx, keys, nil)), engine.ErrEmptyPK)
		wantIs(t, db.MultiGet(ctx, keys, &res), engine.ErrEmptyPK)
		if res.Len() != 0 {
			t.Errorf("%d results after an error", res.Len())
		}
		_, _, err = db.FilterNew(ctx, keys, nil, nil)
		wantIs(t, err, engine.ErrEmptyPK)
		_, _, err = db.InsertNew(ctx, []engine.Item{{Key: pk("new")}, {}}, nil)
		wantIs(t, err, engine.ErrEmptyPK)
	}
	wantValue(t, db, pk("new"), nil)
}

// TestResultsThatAreFound: All yields those alone, and ends with its loop.
func TestResultsThatAreFound(t *testing.T) {
	db := openMemory(t, engine.Options{})
	var keys []engine.Key
	for i := range 6 {
		k := pk(fmt.Sprint(i))
		if keys = append(keys, k); i%2 == 1 {
			ok(t, db.Put(k, k.PK))
		}
	}
	var res engine.Results
	ok(t, db.MultiGet(ctx, keys, &res))
	var got []string
	for i, it := range res.All() {
		got = append(got, fmt.Sprintf("%d %s=%s@%d", i, it.Key.PK, it.Value, it.Version))
	}
	if text := strings.Join(got, " "); text != "1 1=1@1 3 3=3@2 5 5=5@3" {
		t.Errorf("found %s", text)
	}
	n := 0
	for range res.All() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d rounds", n)
	}
}

// TestInsertNewAtTheExpiry: an item that expires between the look at the keys and the commit
// gives way, in the same commit, which writes each item once.
func TestInsertNewAtTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the background work is at rest, and asks for no time
		var mu sync.Mutex
		times := []int64{500} // of the next calls of the clock; the last stays
		set := func(ms ...int64) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			times = ms
		}
		db := openMemory(t, engine.Options{Clock: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			now := times[0]
			if len(times) > 1 {
				times = times[1:]
			}
			return time.UnixMilli(now)
		}})
		for _, c := range []struct {
			expiry int64
			want   string
		}{{1000, "[true true] 2 0"}, {1001, "[false true] 1 0"}} {
			set(500)
			a, b := pk(fmt.Sprint("a", c.expiry)), pk(fmt.Sprint("b", c.expiry))
			ok(t, db.Put(a, nil, engine.Expiry(c.expiry)))
			before := db.Metrics().Operations
			set(999, 1000)
			got, s, err := db.InsertNew(ctx, []engine.Item{{Key: a}, {Key: b}}, nil)
			ok(t, err)
			if text := fmt.Sprint(got, s.New, s.Repeated); text != c.want ||
				db.Metrics().Operations-before != uint64(s.New) {
				t.Errorf("expires at %d: %s, %d operations", c.expiry, text,
					db.Metrics().Operations-before)
			}
		}
		mustClose(t, db)
	})
}

// TestLatencyOfOneIn32: the first write of 32 and the last read of 32 are measured.
func TestLatencyOfOneIn32(t *testing.T) {
	db := openMemory(t, engine.Options{})
	if m := db.Metrics(); m.WriteLatency.Max != 0 || m.ReadLatency.Max != 0 {
		t.Errorf("before: %v, %v", m.WriteLatency, m.ReadLatency)
	}
	ok(t, db.Put(pk("k"), nil))
	if db.Metrics().WriteLatency.Max == 0 {
		t.Error("the first write is not measured")
	}
	for i := range 32 {
		if db.Metrics().ReadLatency.Max != 0 {
			t.Errorf("measured after %d reads", i)
		}
		ok(t, second(db.Get(pk("k"))))
	}
	if db.Metrics().ReadLatency.Max == 0 {
		t.Error("the 32nd read is not measured")
	}
}

// TestFilterMetrics: of the keys that are not there a filter denies most, and the rest are its
// false positives.
func TestFilterMetrics(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for _, s := range []string{"a", "z"} {
		ok(t, db.Put(pksk("p", s), nil))
	}
	ok(t, db.Flush(ctx))
	const n = 5000
	for i := range n {
		has, err := db.Has(pksk("p", fmt.Sprint("b", i)))
		if has || err != nil {
			t.Fatal(has, err)
		}
	}
	m := db.Metrics()
	if m.FilterChecks != n || m.FilterNegatives+m.FilterFalsePositives != n {
		t.Errorf("%d checks, %d negatives, %d false positives", m.FilterChecks, m.FilterNegatives,
			m.FilterFalsePositives)
	}
	for _, c := range []struct {
		flushed, merged int64
		want            float64
	}{{0, 0, 0}, {0, 5, 0}, {1, 1, 2}, {100, 50, 1.5}} {
		s := engine.StripeMetrics{FlushedBytes: c.flushed, MergedBytes: c.merged}
		if got := s.WriteAmplification(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestLargestProperties: all of them together have 256 KiB as they are stored, and not a byte
// more.
func TestLargestProperties(t *testing.T) {
	db := openMemory(t, engine.Options{})
	const stored = `{"properties":{"nn":""}}`
	largest := (engine.MaxPropertyBytes - len(stored)) / 4 * 3
	ok(t, db.SetProperty("nn", make([]byte, largest)))
	wantIs(t, db.SetProperty("nn", make([]byte, largest+1)), engine.ErrTooLarge)
	if v, found := db.Property("nn"); !found || len(v) != largest {
		t.Errorf("%d bytes, %t", len(v), found)
	}
	if (engine.MaxPropertyBytes-len(stored))%4 != 0 {
		t.Error("the largest property is not as large as all may be")
	}
	ok(t, db.SetProperty("nn", nil))
	if _, found := db.Property("nn"); found {
		t.Error("a property that is removed is found")
	}
}

// TestLoneExpiryIsMerged: one item that expires is reason enough for Compact to merge a run.
func TestLoneExpiryIsMerged(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("expires"), nil, engine.TTL(time.Hour)))
	ok(t, db.Flush(ctx))
	ok(t, db.Compact(ctx))
	if n := db.Metrics().Compactions; n != 1 {
		t.Errorf("%d merges", n)
	}
}

// TestVerifyEndsBetweenFiles: with its context.
func TestVerifyEndsBetweenFiles(t *testing.T) {
	db, _ := filesOf3(t, vfs.NewMem(), engine.Options{})
	defer mustClose(t, db)
	c, cancel := context.WithCancelCause(ctx)
	rep, err := db.Verify(c, func(engine.VerifyProgress) { cancel(errEnough) })
	if !errors.Is(err, errEnough) || rep.Files != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// TestOpenFSIsNotInMemory: whatever the option says, the file system is the caller's; so a
// checkpoint goes there, and there is a reserve.
func TestOpenFSIsNotInMemory(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{InMemory: true})
	ok(t, db.Put(pk("k"), nil))
	ok(t, db.Checkpoint(ctx, "copy", nil))
	mustClose(t, db)
	for _, name := range []string{"db/RESERVE", "copy/CURRENT"} {
		if _, err := mem.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestReserveOfAClosedDatabase: what Close keeps is a sixteenth of the data, within bounds, what
// the memtables need, and a share of the data for merges.
func TestReserveOfAClosedDatabase(t *testing.T) {
	for _, c := range []struct{ items, unflushed int }{
		{0, 0}, {0, 1}, {0, 3}, {1, 0}, {44, 0}, {44, 2}, {420, 0},
	} {
		synctest.Test(t, func(t *testing.T) { checkClosedReserve(t, c.items, c.unflushed) })
	}
}

func checkClosedReserve(t *testing.T, items, unflushed int) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{
		Durability: engine.Process, Compression: engine.NoCompression,
	})
	synctest.Wait() // the flusher has looked once
	for i := range items {
		ok(t, db.Put(pk(fmt.Sprint(i)), make([]byte, 64<<10)))
	}
	ok(t, db.Flush(ctx))
	for _, p := range partitionsOfStripes(unflushed) {
		ok(t, db.Put(pk(string(p)), nil))
	}
	m := db.Metrics()
	mustClose(t, db)
	data := m.Total.DiskBytes
	want := min(max(128<<10, data/16), 3<<19) + data/128 + m.MemtableBytes +
		m.MemtableBytes/16 + int64(unflushed)*8<<10
	want = (want + 4095) / 4096 * 4096
	info, err := mem.Stat("db/RESERVE")
	ok(t, err)
	if info.SizeBytes != want {
		t.Errorf("%d, %d: %d bytes are reserved, want %d, data %d, memtables %d", items, unflushed,
			info.SizeBytes, want, data, m.MemtableBytes)
	}
}
