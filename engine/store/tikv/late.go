package tikv

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Reads of a query that has no timestamp yet.
//
// The naive way: take a timestamp, read as of it. That is a trip more than a query that reads once
// needs.
//
// What one request to one region reads of the newest state is as of one moment, too: a key, or a
// range within the region. So if that is all that the query reads, it needs no timestamp. One is
// taken beside the request, in case the query reads more: then the first read is done once more as
// of that timestamp, beside the second one. If it sees what it saw before, all is as of the
// timestamp, and the lookup of a row by an index has taken two trips. Otherwise the second read
// fails with store.ErrConflict, and the caller begins again. It has returned nothing by then: see
// store.LateSnapshots.
//
// Where a range goes on, in the region or after it, the timestamp counts from the beginning.

// lateView is a view whose timestamp is taken with its first read.
type lateView struct {
	s     *Store
	again bool // the first read may be done without a timestamp

	mu sync.Mutex
	ts uint64 // 0 before it is fixed
	// Of a first read without it: the timestamp that was taken beside it, and what does it once
	// more and reports whether it sees the same.
	taken uint64
	same  func(ctx context.Context, at *view) (bool, error)
}

// newest reads the newest state.
func (s *Store) newest() *view { return s.at(math.MaxUint64) }

// Get implements remote.View.
func (v *lateView) Get(ctx context.Context, keys [][]byte) (pairs []remote.Pair, err error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	first := func() (bool, error) {
		pairs, err = v.s.newest().Get(ctx, keys)
		return true, err
	}
	if len(keys) > 1 {
		first = nil
	}
	err = v.read(ctx, first, func(at *view) (err error) {
		pairs, err = at.Get(ctx, keys)
		return err
	}, func(ctx context.Context, at *view) (bool, error) {
		again, err := at.Get(ctx, keys)
		return slices.EqualFunc(pairs, again, samePair), err
	})
	return pairs, err
}

// Pages implements remote.View.
func (v *lateView) Pages(
	ctx context.Context, spans []remote.Span,
) (pages []remote.Page, err error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	first := func() (whole bool, err error) {
		pages = make([]remote.Page, 1)
		pages[0], whole, err = v.s.newest().only(ctx, spans[0])
		return whole, v.s.failure(ctx, "reading a page", err)
	}
	if len(spans) > 1 {
		first = nil
	}
	err = v.read(ctx, first, func(at *view) (err error) {
		pages, err = at.Pages(ctx, spans)
		return err
	}, func(ctx context.Context, at *view) (bool, error) {
		again, err := at.Pages(ctx, spans)
		return err == nil && slices.EqualFunc(pages[0].Pairs, again[0].Pairs, samePair), err
	})
	return pages, err
}

func samePair(a, b remote.Pair) bool {
	return string(a.Key) == string(b.Key) && string(a.Value) == string(b.Value) &&
		(a.Value == nil) == (b.Value == nil)
}

// read reads: with first, which is nil if that takes several requests, or as of the timestamp.
// First reports whether it has read all there is to read.
func (v *lateView) read(
	ctx context.Context, first func() (whole bool, err error), at func(*view) error,
	same func(context.Context, *view) (bool, error),
) error {
	v.mu.Lock()
	if ts := v.ts; ts != 0 {
		v.mu.Unlock()
		return at(v.s.at(ts))
	}
	defer v.mu.Unlock()
	if v.same != nil {
		return v.second(ctx, at)
	}
	var ts uint64
	var err error
	if first == nil || !v.again {
		ts, err = v.s.timestamp(ctx)
	} else {
		whole := false
		ts, err = v.s.beside(ctx, func() (err error) {
			whole, err = first()
			return err
		})
		if err == nil && whole {
			v.taken, v.same = ts, same
			return nil
		}
	}
	if err == nil {
		err = at(v.s.at(ts))
	}
	if err == nil {
		v.ts = ts
	}
	return err
}

// second reads as of the timestamp, and does the first read once more.
func (v *lateView) second(ctx context.Context, at func(*view) error) error {
	var wg sync.WaitGroup
	var same bool
	var failed error
	wg.Go(func() { same, failed = v.same(ctx, v.s.at(v.taken)) })
	err := at(v.s.at(v.taken))
	wg.Wait()
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case !same:
		return fmt.Errorf("tikv: what was read first has changed: %w", store.ErrConflict)
	}
	v.ts = v.taken
	return nil
}

// SnapshotLater implements store.LateSnapshots.
func (s *Store) SnapshotLater(
	ctx context.Context, again bool, fixed func() error,
) (store.Snapshot, error) {
	return s.Later(ctx, &lateView{s: s, again: again}, fixed)
}
