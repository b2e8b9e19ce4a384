package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var ok = testutil.OK

// A store made of pages, views and batches passes all checks, in whatever pages it answers.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		striped bool
		maxPage int
	}{{false, 1 << 20}, {false, 2}, {true, 1 << 20}, {true, 1}} {
		t.Run(fmt.Sprintf("striped=%v,page=%d", c.striped, c.maxPage), func(t *testing.T) {
			for _, check := range storetest.Checks(testutil.Seed(t)) {
				t.Run(check.Name, func(t *testing.T) {
					check.Run(t, remotetest.New(c.striped, c.maxPage))
				})
			}
		})
	}
}

// fill puts n items into partition pk and returns the store.
func fill(t *testing.T, s *remotetest.Store, pk string, n int) {
	t.Helper()
	var w store.WriteSet
	for i := range n {
		w.Put(store.Key{PK: []byte(pk), SK: fmt.Appendf(nil, "%06d", i)}, []byte("value"))
	}
	ok(t, s.Commit(ctx, &w))
}

// A read waits as often as it must: once for a point, many keys, a page, or a page of many
// partitions together, and seldom for a long scan.
func TestRoundTrips(t *testing.T) {
	s := remotetest.New(true, 1<<20)
	var pks [][]byte
	for i := range 16 {
		pks = append(pks, fmt.Appendf(nil, "bucket%02d", i))
		fill(t, s, string(pks[i]), 1000)
	}
	page := func(r store.Range, limit int) store.Range { r.Limit = limit; return r }
	spans := make([]store.Span, 5)
	for i := range spans {
		spans[i] = store.Span{Start: fmt.Appendf(nil, "%06d", 10*i),
			End: fmt.Appendf(nil, "%06d", 10*i+1)}
	}
	unordered := store.Interval(nil, nil)
	unordered.Unordered = true
	for _, c := range []struct {
		name     string
		r        store.Range
		items, n int
	}{
		{"point", store.Point(store.Key{PK: pks[0], SK: []byte("000001")}), 1, 1},
		{"page", page(store.Partition(pks[0]), 100), 100, 1},
		{"page of 16 buckets", page(store.Partitions(pks), 100), 100, 1},
		{"page of an interval", page(store.Interval(nil, nil), 10), 10, 1},
		{"five spans", store.Partition(pks[0], spans...), 5, 1},
		{"partition", store.Partition(pks[0]), 1000, 2},
		{"16 buckets", store.Partitions(pks), 16000, 10},
		{"everything", unordered, 16000, 40},
	} {
		counted, trips := store.CountTrips(ctx)
		items := 0
		for _, err := range s.Scan(counted, c.r) {
			ok(t, err)
			items++
		}
		if items != c.items || trips.Waves() > c.n || trips.Waves() != trips.Requests() {
			t.Errorf("%s: %d items in %v, want %d in %d", c.name, items, trips, c.items, c.n)
		}
	}
}

// A scan whose first wave fails asks for nothing more.
func TestScanFailsOnce(t *testing.T) {
	s := remotetest.New(true, 1<<20)
	fill(t, s, "p", 10)
	s.SetLatency(time.Hour)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	counted, trips := store.CountTrips(short)
	for _, err := range s.Scan(counted, store.Interval(nil, nil)) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: %v", err)
		}
	}
	if trips.Requests() != 1 {
		t.Errorf("%v", trips)
	}
}

// A long scan waits for few of its pages: those of many segments come together.
func TestLongScan(t *testing.T) {
	testutil.SkipUnderRace(t, "it reads much")
	n := testutil.Effort(100_000, 1_000_000)
	s := remotetest.New(true, 1<<20)
	var w store.WriteSet
	for i := range n {
		w.Put(store.Key{PK: fmt.Appendf(nil, "%03d", i/1000), SK: fmt.Appendf(nil, "%08d", i)},
			[]byte("a value of a few words"))
	}
	ok(t, s.Commit(ctx, &w))
	s.SetLatency(time.Millisecond)
	r := store.Interval(nil, nil)
	for _, r.Unordered = range []bool{true, false} {
		counted, trips := store.CountTrips(ctx)
		begun, got := time.Now(), 0
		for _, err := range s.Scan(counted, r) {
			ok(t, err)
			got++
		}
		d := time.Since(begun)
		t.Logf("unordered=%v: %d items in %v, %v, %.0f a second", r.Unordered, got, d, trips,
			float64(got)/d.Seconds())
		most := 40 + n/5000
		if !r.Unordered { // partition after partition, each of another run
			most = 300 + n/250
		}
		if got != n || trips.Waves() > most {
			t.Errorf("unordered=%v: %d items in %v, want %d in %d", r.Unordered, got, trips, n,
				most)
		}
	}
}

// A call without a deadline gets one, and its error says so; a deadline of the caller stays.
func TestWithin(t *testing.T) {
	short, cancel := remote.Within(ctx, time.Nanosecond)
	defer cancel()
	<-short.Done()
	if err := context.Cause(short); !errors.Is(err, context.DeadlineExceeded) ||
		err.Error() != "no answer within 1ns, the store's own timeout" {
		t.Errorf("cause: %v", err)
	}
	own, cancelOwn := context.WithTimeout(ctx, time.Hour)
	defer cancelOwn()
	kept, cancel := remote.Within(own, time.Nanosecond)
	defer cancel()
	if d, _ := kept.Deadline(); time.Until(d) < time.Minute {
		t.Errorf("the deadline is %v", d)
	}
}

// Values are read as they were written, and nothing else is read.
func FuzzDecodeValue(f *testing.F) {
	f.Add([]byte{})
	f.Add(remote.AppendValue(nil, []byte("v"), 0))
	f.Add(remote.AppendValue(nil, nil, 1<<40))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		value, expiry, err := remote.DecodeValue(b)
		if err == nil && !bytes.Equal(remote.AppendValue(nil, value, expiry), b) {
			t.Errorf("%x is read as %x, %d", b, value, expiry)
		}
	})
}
