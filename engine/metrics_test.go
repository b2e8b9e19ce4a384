package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// moved checks by how much a counter has grown.
func moved[T uint64 | int | int64](t *testing.T, what string, before, after, want T) {
	t.Helper()
	if after-before != want {
		t.Errorf("%s grew by %d, want %d", what, after-before, want)
	}
}

// Counters count what was done, not what was tried.
func TestMetricsCount(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("k"), []byte("v")))
	m := db.Metrics()
	wantIs(t, db.PutIf(pk("k"), nil, engine.IfAbsent()), engine.ErrConditionFailed)
	ok(t, db.Apply(ctx, engine.NewBatch()))
	ok(t, db.Update(ctx, func(*engine.Tx) error { return nil }))
	b := engine.NewBatch()
	for i := range 3 {
		ok(t, b.Put(pk(fmt.Sprint(i)), nil))
	}
	ok(t, db.Apply(ctx, b))
	ok(t, db.Delete(pk("0")))
	err := db.Update(ctx, func(tx *engine.Tx) error {
		_ = second(tx.Get(pk("k")))
		ok(t, db.Put(pk("k"), nil))
		return tx.Put(pk("l"), nil)
	})
	wantIs(t, err, engine.ErrConflict)
	_ = second(db.Get(pk("k")))
	_ = second(db.Get(pk("none")))
	for range db.Query(ctx, engine.Query{PK: []byte("k")}) {
	}
	for range db.Scan(ctx, engine.Scan{}) {
	}
	n := db.Metrics()
	moved(t, "commits", m.Commits, n.Commits, 3)
	moved(t, "operations", m.Operations, n.Operations, 5)
	moved(t, "version", m.LastVersion, n.LastVersion, 3)
	moved(t, "conflicts", m.Conflicts, n.Conflicts, 1)
	moved(t, "gets", m.Gets, n.Gets, 3)
	moved(t, "queries", m.Queries, n.Queries, 1)
	moved(t, "scans", m.Scans, n.Scans, 1)
	moved(t, "scanned", m.Scanned, n.Scanned, 4)
	if n.WrittenBytes <= m.WrittenBytes || n.LogBytes == 0 || n.LogSegments == 0 ||
		n.LogBudgetBytes == 0 || n.MemtableBytes == 0 || n.MemtableBudget == 0 ||
		n.WriteLatency.Max == 0 {
		t.Errorf("no bytes or latencies: %+v", n.String())
	}
	if n.OpenSnapshots != 0 || n.ReadOnlyCause != nil || n.Stalls != 0 {
		t.Errorf("snapshots %d, cause %v, stalls %d", n.OpenSnapshots, n.ReadOnlyCause, n.Stalls)
	}
}

// Stripe figures add up to the total and follow an item from the memtable to the bottom.
func TestMetricsOfStripes(t *testing.T) {
	db := openMemory(t, engine.Options{})
	id := keycodec.Stripe([]byte("user#1"))
	for i := range 100 {
		ok(t, db.Put(pksk("user#1", fmt.Sprint(i)), make([]byte, 100)))
		if other := pk(fmt.Sprint(i)); keycodec.Stripe(other.PK) != id {
			ok(t, db.Put(other, nil))
		}
	}
	for i := range 10 {
		ok(t, db.Delete(pksk("user#1", fmt.Sprint(i))))
	}
	check := func(when string, want func(s engine.StripeMetrics) bool) {
		t.Helper()
		m := db.Metrics()
		if s := m.Stripes[id]; !want(s) {
			t.Errorf("%s: %+v", when, s)
		}
		var sum engine.StripeMetrics
		used := 0
		for _, s := range m.Stripes {
			sum.Records += s.Records
			sum.Tombstones += s.Tombstones
			sum.DiskBytes += s.DiskBytes
			sum.RawBytes += s.RawBytes
			sum.MemtableBytes += s.MemtableBytes
			sum.Runs += s.Runs
			sum.Files += s.Files
			sum.FlushedBytes += s.FlushedBytes
			sum.MergedBytes += s.MergedBytes
			if s.Records > 0 {
				used++
			}
		}
		if sum != m.Total || used != m.StripesUsed {
			t.Errorf("%s: total %+v in %d stripes, sum %+v in %d",
				when, m.Total, m.StripesUsed, sum, used)
		}
	}
	check("memtable", func(s engine.StripeMetrics) bool {
		return s.Records == 100 && s.Tombstones == 10 && s.MemtableBytes > 0 && s.Runs == 0
	})
	ok(t, db.Flush(ctx))
	check("flushed", func(s engine.StripeMetrics) bool {
		return s.Records <= 100 && s.Runs == 1 && s.Files == 1 && s.DiskBytes > 0 &&
			s.RawBytes > 9000 && s.FlushedBytes == s.DiskBytes
	})
	ok(t, db.Put(pksk("user#1", "50"), nil))
	ok(t, db.Compact(ctx))
	check("merged", func(s engine.StripeMetrics) bool {
		return s.Records == 90 && s.Tombstones == 0 && s.Runs == 1 && s.MergedBytes > 0
	})
	m := db.Metrics()
	if m.Flushes < 2 || m.FlushedBytes == 0 || m.Compactions == 0 || m.CompactionReadBytes == 0 ||
		m.CompactionWrittenBytes == 0 || m.WriteAmplification <= 1 {
		t.Errorf("%v", m)
	}
	text := m.String()
	for _, word := range []string{"records", "log", "cache", "filters", "write amp", "p99"} {
		if !strings.Contains(text, word) {
			t.Errorf("String lacks %q:\n%s", word, text)
		}
	}
}

// Reads of files show in the cache and filter figures.
func TestMetricsOfReads(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for i := range 1000 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%04d", i)), nil))
	}
	ok(t, db.Flush(ctx))
	m := db.Metrics()
	for range 2 {
		ok(t, second(db.Get(pksk("p", "0500"))))
	}
	n := db.Metrics()
	moved(t, "block misses", m.BlockMisses, n.BlockMisses, 1)
	if n.BlockHits == m.BlockHits || n.CacheBytes == 0 || n.CacheBudget == 0 || n.OpenFiles != 1 {
		t.Errorf("hits %d, cache %d of %d, files %d",
			n.BlockHits, n.CacheBytes, n.CacheBudget, n.OpenFiles)
	}
	for i := range 1000 {
		_, err := db.Get(pksk("p", fmt.Sprintf("%04d-", i)))
		wantIs(t, err, engine.ErrNotFound)
	}
	m, n = n, db.Metrics()
	if checks := n.FilterChecks - m.FilterChecks; checks < 900 || checks > 1000 {
		t.Errorf("%d filter checks of 1000 misses", checks)
	}
	if fp := n.FilterFalsePositives - m.FilterFalsePositives; fp > 30 {
		t.Errorf("%d false positives of 1000", fp)
	}
	snap := snapshotOf(t, db)
	if n := db.Metrics().OpenSnapshots; n != 1 {
		t.Errorf("%d snapshots", n)
	}
	ok(t, snap.Close())
}

// Events tell what happened, with figures that match the metrics.
func TestEvents(t *testing.T) {
	var mu sync.Mutex
	var flushes []engine.FlushEvent
	var merges []engine.CompactionEvent
	db := openMemory(t, engine.Options{Events: &engine.Events{
		Flushed: func(e engine.FlushEvent) {
			mu.Lock()
			defer mu.Unlock()
			flushes = append(flushes, e)
		},
		Compacted: func(e engine.CompactionEvent) {
			mu.Lock()
			defer mu.Unlock()
			merges = append(merges, e)
		},
		Stalled:  func(d time.Duration) { t.Errorf("stalled %v", d) },
		ReadOnly: func(err error) { t.Error(err) },
	}})
	for range 2 {
		for i := range 20 {
			ok(t, db.Put(pk(fmt.Sprint(i)), make([]byte, 100)))
		}
		ok(t, db.Flush(ctx))
	}
	ok(t, db.Compact(ctx))
	mu.Lock()
	defer mu.Unlock()
	var flushed, read, written int64
	for _, e := range flushes {
		flushed += e.Bytes
		if e.Stripes == 0 || e.Duration <= 0 {
			t.Errorf("%+v", e)
		}
	}
	for _, e := range merges {
		read += e.BytesRead
		written += e.BytesWritten
		if e.Runs != 2 || e.Stripe < 0 || e.Stripe > 255 || e.Duration <= 0 {
			t.Errorf("%+v", e)
		}
	}
	m := db.Metrics()
	if len(flushes) != int(m.Flushes) || len(merges) != int(m.Compactions) ||
		flushed != int64(m.FlushedBytes) || read != int64(m.CompactionReadBytes) ||
		written != int64(m.CompactionWrittenBytes) || len(merges) == 0 {
		t.Errorf("%d flushes, %d merges, %d/%d/%d bytes; metrics:\n%v",
			len(flushes), len(merges), flushed, read, written, m)
	}
}

// Typed errors say which key lost, and against what.
func TestErrorsCarryTheirData(t *testing.T) {
	db := openMemory(t, engine.Options{})
	k := pksk("p\x00", "s")
	ok(t, db.Put(k, nil))
	it, err := db.GetItem(k)
	ok(t, err)
	var ce *engine.ConditionError
	if err := db.PutIf(k, nil, engine.IfAbsent()); !errors.As(err, &ce) || !ce.Exists ||
		ce.Version != it.Version || id(ce.Key) != id(k) {
		t.Errorf("%+v", err)
	}
	if err := db.DeleteIf(pk("none"), engine.IfPresent()); !errors.As(err, &ce) || ce.Exists ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%+v", err)
	}
	err = db.Update(ctx, func(tx *engine.Tx) error {
		if _, err := tx.Get(k); err != nil {
			return err
		}
		ok(t, db.Put(k, nil))
		return tx.Put(pk("x"), nil)
	})
	var conflict *engine.ConflictError
	if !errors.As(err, &conflict) || id(conflict.Key) != id(k) || conflict.Version != it.Version+1 {
		t.Errorf("%+v", err)
	}
}
