// Package remotetest has a store that reads and writes like one on another machine, in memory: for
// tests of what package remote shares, and of how often what is above waits for a store.
package remotetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Store is a store of pairs. Its trips are counted for contexts of store.CountTrips.
type Store struct {
	remote.Core
	maxPage int // whatever a page is asked for
	latency atomic.Int64
	fault   atomic.Pointer[Fault]

	mu    sync.Mutex
	pairs []remote.Pair // in order; replaced by each commit
}

// Fault is called when a request begins. An error takes the place of the answer.
type Fault func(ctx context.Context) error

var _ interface {
	store.Store
	store.LateSnapshots
	store.Transactor
} = (*Store)(nil)

// New returns an empty store, with or without stripes in front of its keys, whose pages have at
// most so many items.
func New(striped bool, maxPage int) *Store {
	s := &Store{maxPage: maxPage}
	layout := remote.NewLayout("test", striped)
	s.Core = remote.Core{Kind: "test",
		Most: store.Limits{KeyBytes: 1 << 10, ValueBytes: 1 << 16, PropertyBytes: 1 << 16,
			NoVersions: true, Fences: 1,
			Costs: store.Costs{RoundTrip: 1e6, Page: 4096, Batch: 4096, Trees: len(layout.Heads())},
		},
		Reader: remote.Reader{Layout: layout, Now: time.Now,
			View: func(context.Context, bool) (remote.View, func(), error) {
				return &view{s: s}, func() {}, nil
			},
		},
		Apply: func(ctx context.Context, writes []remote.Write) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.merge(writes)
			return nil
		},
	}
	return s
}

// SetLatency makes each request take d.
func (s *Store) SetLatency(d time.Duration) { s.latency.Store(int64(d)) }

// SetFault sets the fault.
func (s *Store) SetFault(f Fault) { s.fault.Store(&f) }

// request counts a request and waits as long as it takes.
func (s *Store) request(ctx context.Context) error {
	defer store.BeginRequest(ctx)()
	if f := s.fault.Load(); f != nil {
		if err := (*f)(ctx); err != nil {
			return err
		}
	}
	if d := time.Duration(s.latency.Load()); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

func (s *Store) newest() []remote.Pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pairs
}

// view reads pairs: those that are the newest with its first request, if it has none yet.
type view struct {
	s     *Store
	pairs []remote.Pair
	fixed bool
}

func (v *view) fix() {
	if !v.fixed {
		v.pairs, v.fixed = v.s.newest(), true
	}
}

// find returns the place of key and whether it is there.
func find(pairs []remote.Pair, key []byte) (int, bool) {
	return sort.Find(len(pairs), func(i int) int { return bytes.Compare(key, pairs[i].Key) })
}

// Get implements remote.View.
func (v *view) Get(ctx context.Context, keys [][]byte) ([]remote.Pair, error) {
	err := v.s.request(ctx)
	v.fix()
	return get(v.pairs, keys), err
}

func get(pairs []remote.Pair, keys [][]byte) []remote.Pair {
	out := make([]remote.Pair, len(keys))
	for i, key := range keys {
		if j, ok := find(pairs, key); ok {
			out[i] = pairs[j]
		}
	}
	return out
}

// Pages implements remote.View.
func (v *view) Pages(ctx context.Context, spans []remote.Span) ([]remote.Page, error) {
	err := v.s.request(ctx)
	v.fix()
	out := make([]remote.Page, len(spans))
	for i, span := range spans {
		from, _ := find(v.pairs, span.Start)
		to, _ := find(v.pairs, span.End)
		in := v.pairs[from:max(from, to)]
		n := min(len(in), span.Limit, v.s.maxPage)
		page := slices.Clone(in[:n])
		if span.Reverse {
			page = slices.Clone(in[len(in)-n:])
			slices.Reverse(page)
		}
		out[i] = remote.Page{Pairs: page, More: n < len(in)}
	}
	return out, err
}

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(store.CheckContext(ctx), w.Validate(s.Limits())); err != nil {
		return err
	}
	if err := s.request(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.Layout.NewBatch(w)
	if err := b.Check(w, get(s.pairs, b.CondKeys()), s.Now()); err != nil {
		return err
	}
	s.merge(b.Writes)
	return nil
}

// merge writes. Requires: mu is held.
func (s *Store) merge(writes []remote.Write) {
	writes = slices.Clone(writes)
	slices.SortFunc(writes, func(a, b remote.Write) int { return bytes.Compare(a.Key, b.Key) })
	out := make([]remote.Pair, 0, len(s.pairs)+len(writes))
	old := s.pairs
	for _, write := range writes {
		i, there := find(old, write.Key)
		out = append(out, old[:i]...)
		if write.Value != nil {
			out = append(out, remote.Pair{Key: write.Key, Value: write.Value})
		}
		if there {
			i++
		}
		old = old[i:]
	}
	s.pairs = append(out, old...)
}

// Close implements store.Store: it may be used still.
func (s *Store) Close() error { return nil }

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := cmp.Or(store.CheckContext(ctx), s.request(ctx)); err != nil {
		return nil, err
	}
	v := &view{s: s}
	v.fix()
	return s.Of(v), nil
}

// SnapshotLater implements store.LateSnapshots.
func (s *Store) SnapshotLater(
	ctx context.Context, _ bool, fixed func() error,
) (store.Snapshot, error) {
	return s.Later(ctx, &view{s: s}, fixed)
}

// Begin implements store.Transactor.
func (s *Store) Begin(ctx context.Context, o *store.TxOptions) (store.Tx, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	return remote.Begin(s.Reader, &base{view{s: s}}, s.Limits(), o)
}

// Update implements store.Transactor.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return remote.Update(ctx, s.Begin, fn)
}

// base is what a transaction reads.
type base struct{ view }

// Commit implements remote.Base.
func (b *base) Commit(ctx context.Context, reads *remote.Reads, writes []remote.Write) error {
	if err := b.s.request(ctx); err != nil {
		return err
	}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	now := &view{s: &Store{maxPage: b.s.maxPage}, pairs: b.s.pairs, fixed: true}
	holds, err := reads.Hold(context.WithoutCancel(ctx), now)
	if err != nil {
		return err
	}
	if !holds {
		return store.ErrConflict
	}
	b.s.merge(writes)
	return nil
}
