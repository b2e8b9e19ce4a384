package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pairStore is a store of pairs in memory that reads like one on another machine.
type pairStore struct {
	remote.Reader
	maxPage int // whatever a page is asked for

	mu    sync.Mutex
	pairs []remote.Pair // in order; replaced by each commit
}

func newPairStore(striped bool, maxPage int) *pairStore {
	s := &pairStore{maxPage: maxPage}
	s.Reader = remote.Reader{Layout: remote.NewLayout("test", striped), Now: time.Now}
	s.Reader.View = func(ctx context.Context, point bool) (remote.View, func(), error) {
		return pairView{s.newest(), s.maxPage}, func() {}, nil
	}
	return s
}

func (s *pairStore) newest() []remote.Pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pairs
}

type pairView struct {
	pairs   []remote.Pair
	maxPage int
}

// find returns the place of key and whether it is there.
func find(pairs []remote.Pair, key []byte) (int, bool) {
	return sort.Find(len(pairs), func(i int) int { return bytes.Compare(key, pairs[i].Key) })
}

func (v pairView) Get(ctx context.Context, keys [][]byte) ([]remote.Pair, error) {
	defer remote.Request(ctx)()
	out := make([]remote.Pair, len(keys))
	for i, key := range keys {
		if j, ok := find(v.pairs, key); ok {
			out[i] = v.pairs[j]
		}
	}
	return out, context.Cause(ctx)
}

func (v pairView) Pages(ctx context.Context, spans []remote.Span) ([]remote.Page, error) {
	defer remote.Request(ctx)()
	out := make([]remote.Page, len(spans))
	for i, span := range spans {
		from, _ := find(v.pairs, span.Start)
		to, _ := find(v.pairs, span.End)
		in := slices.Clone(v.pairs[from:max(from, to)])
		if span.Reverse {
			slices.Reverse(in)
		}
		n := min(len(in), span.Limit, v.maxPage)
		out[i] = remote.Page{Pairs: in[:n], More: n < len(in)}
	}
	return out, context.Cause(ctx)
}

func (s *pairStore) Close() error { return nil }

func (s *pairStore) Limits() store.Limits {
	return store.Limits{KeyBytes: 1 << 10, ValueBytes: 1 << 16, NoVersions: true}
}

func (s *pairStore) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := errors.Join(store.CheckContext(ctx), w.Validate(s.Limits())); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.Layout.NewBatch(w)
	pairs, err := pairView{pairs: s.pairs}.Get(ctx, b.CondKeys())
	if err == nil {
		err = b.Check(w, pairs, time.Now())
	}
	if err != nil {
		return err
	}
	s.pairs = slices.Clone(s.pairs)
	for _, write := range b.Writes {
		i, there := find(s.pairs, write.Key)
		switch {
		case write.Value == nil && there:
			s.pairs = slices.Delete(s.pairs, i, i+1)
		case write.Value == nil:
		case there:
			s.pairs[i].Value = write.Value
		default:
			s.pairs = slices.Insert(s.pairs, i, remote.Pair{Key: write.Key, Value: write.Value})
		}
	}
	return nil
}

type pairSnapshot struct {
	remote.Reader
	closed bool
}

func (s *pairSnapshot) Close() error { s.closed = true; return nil }

func (s *pairStore) Snapshot(context.Context) (store.Snapshot, error) {
	pairs, snap := s.newest(), &pairSnapshot{Reader: s.Reader}
	snap.View = func(context.Context, bool) (remote.View, func(), error) {
		if snap.closed {
			return nil, nil, store.ErrClosed
		}
		return pairView{pairs, s.maxPage}, func() {}, nil
	}
	return snap, nil
}

func (s *pairStore) Property(ctx context.Context, name string) ([]byte, bool, error) {
	i, ok := find(s.newest(), s.Layout.PropertyKey(name))
	if !ok {
		return nil, false, nil
	}
	return slices.Clone(s.newest()[i].Value[1:]), true, nil
}

func (s *pairStore) SetProperty(_ context.Context, name string, value []byte) error {
	if name == "" {
		return store.ErrInvalid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.Layout.PropertyKey(name)
	s.pairs = slices.DeleteFunc(slices.Clone(s.pairs), func(p remote.Pair) bool {
		return bytes.Equal(p.Key, key)
	})
	if value != nil {
		i, _ := find(s.pairs, key)
		s.pairs = slices.Insert(s.pairs, i, remote.Pair{Key: key,
			Value: remote.AppendValue(nil, value, 0)})
	}
	return nil
}

// A store made of pages, views and batches passes all checks, in whatever pages it answers.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		striped bool
		maxPage int
	}{{false, 1 << 20}, {false, 2}, {true, 1 << 20}, {true, 1}} {
		t.Run(fmt.Sprintf("striped=%v,page=%d", c.striped, c.maxPage), func(t *testing.T) {
			for _, check := range storetest.Checks(testutil.Seed(t)) {
				t.Run(check.Name, func(t *testing.T) {
					check.Run(t, newPairStore(c.striped, c.maxPage))
				})
			}
		})
	}
}

// fill puts n items into partition pk and returns the store.
func fill(t *testing.T, s *pairStore, pk string, n int) {
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
	s := newPairStore(true, 1<<20)
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
		counted, trips := remote.CountTrips(ctx)
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
