package tikv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/oracle"
	client "github.com/tikv/client-go/v2/tikv"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Store is a database of a TiKV cluster. Trips of its calls are counted for contexts of
// store.CountTrips, those to placement drivers for timestamps included, and those that look up
// where regions are, once each, left out.
type Store struct {
	remote.Core
	kv     *client.KVStore
	o      Options
	end    func() // ends what an owned client does by itself
	owned  bool   // kv is closed with the store
	spares spares // for commits to begin at
}

var _ interface {
	store.Store
	store.ItemReader
	store.ExpiredReader
	store.LateSnapshots
	store.Transactor
} = (*Store)(nil)

// limits of a cluster with its default settings.
//
// Why 2 KiB: a server takes keys of 8 KiB, which it encodes with 9 bytes for 8, and a partition key
// of zero bytes becomes twice as long.
var limits = store.Limits{
	KeyBytes: 2 << 10, ValueBytes: 4 << 20, CommitBytes: 64 << 20, PropertyBytes: 4 << 20,
	NoVersions: true, Fences: 64,
	Costs: store.Costs{
		Seek: 2e4, RoundTrip: 1e6, Page: 4096, Batch: 5120, Trees: 256, // each seek is a request
	},
}

// New returns a database of a client, which stays the caller's: it must be closed after the store,
// and its requests are counted from now on.
func New(kv *client.KVStore, o *Options) *Store {
	s := &Store{kv: kv}
	if o != nil {
		s.o = *o
	}
	if _, ok := kv.GetTiKVClient().(countedClient); !ok {
		kv.SetTiKVClient(countedClient{kv.GetTiKVClient()})
		kv.SetOracle(countedOracle{kv.GetOracle()})
	}
	s.Core = remote.Core{Kind: "tikv", Timeout: s.o.Timeout, Most: limits,
		Reader: remote.Reader{
			Layout: remote.NewLayout(s.o.Name, true), Now: time.Now, View: s.view,
		},
		Apply: func(ctx context.Context, writes []remote.Write) error {
			return s.commit(ctx, nil, &remote.Batch{Writes: writes})
		},
	}
	return s
}

// Close closes the store, and its client if Open has made it.
func (s *Store) Close() error {
	if !s.Shut() || !s.owned {
		return nil
	}
	defer s.end()
	return s.kv.Close()
}

// view returns a view of the present.
func (s *Store) view(ctx context.Context, point bool) (remote.View, func(), error) {
	ctx, cancel := s.Within(ctx)
	defer cancel()
	ts := uint64(math.MaxUint64) // the newest version, which of a single key is as of one moment
	var err error
	if point {
		err = s.Check()
	} else {
		ts, err = s.timestamp(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	return s.at(ts), func() {}, nil
}

// timestamp returns a timestamp that is above those of all commits that have been acknowledged.
func (s *Store) timestamp(ctx context.Context) (uint64, error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	ts, err := s.kv.GetTimestampWithRetry(client.NewBackoffer(ctx, maxSleepMs),
		oracle.GlobalTxnScope)
	return ts, s.failure(ctx, "timestamp", err)
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	v, _, err := s.view(ctx, false)
	if err != nil {
		return nil, err
	}
	return s.Of(v), nil
}

// GC makes the cluster drop versions that no read at a time after keep ago sees. It returns the
// time up to which they are gone: snapshots from before end with store.ErrStale.
//
// A cluster without TiDB needs it now and then: nothing else drops old versions. Where TiDB runs on
// the cluster, it must not be called.
//
// It waits for 100 seconds, in which all clients learn of it, before anything is dropped.
func (s *Store) GC(ctx context.Context, keep time.Duration) (time.Time, error) {
	now, err := s.timestamp(ctx)
	if err != nil {
		return time.Time{}, err
	}
	point := oracle.GoTimeToTS(oracle.GetTimeFromTS(now).Add(-keep))
	kv := s.kv.GetSafePointKV()
	if err := kv.Put(client.GcSavedSafePoint, fmt.Sprint(point)); err != nil {
		return time.Time{}, s.failure(ctx, "announcing a safe point", err)
	}
	s.kv.UpdateSPCache(point, s.Now())
	select {
	case <-time.After(client.GcSafePointCacheInterval):
	case <-ctx.Done():
		return time.Time{}, s.failure(ctx, "waiting for other clients", ctx.Err())
	}
	point, err = s.kv.GC(ctx, point)
	return oracle.GetTimeFromTS(point), s.failure(ctx, "dropping old versions", err)
}

// failure gives an error of the client its class, and says what was being done.
func (s *Store) failure(ctx context.Context, doing string, err error) error {
	var early *tikverr.ErrGCTooEarly
	switch {
	case err == nil:
		return nil
	case s.Closed() && s.owned:
		return fmt.Errorf("tikv: %s: %w", doing, store.ErrClosed)
	case errors.As(err, &early):
		return fmt.Errorf("tikv: %s: %w: versions before %v are gone", doing, store.ErrStale,
			early.GCSafePoint)
	case errors.Is(err, store.ErrConflict): // of a page: the others are cancelled
		return fmt.Errorf("tikv: %s: %w", doing, err)
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		if errors.Is(err, cause) {
			return fmt.Errorf("tikv: %s: %w", doing, cause)
		}
		return fmt.Errorf("tikv: %s: %w: %v", doing, cause, err)
	}
	return fmt.Errorf("tikv: %s: %w", doing, cmp.Or(class(err), err))
}

// class returns the class of an error after which nothing has been written, nil if it has none.
func class(err error) error {
	var tooLarge *tikverr.ErrTxnTooLarge
	var entry *tikverr.ErrEntryTooLarge
	var retryable *tikverr.ErrRetryable
	var latch *tikverr.ErrWriteConflictInLatch
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &entry):
		return fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	case tikverr.IsErrWriteConflict(err), errors.As(err, &retryable), errors.As(err, &latch):
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return nil
}
