package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	client "go.etcd.io/etcd/client/v3"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Store is a database of an etcd cluster. Trips of its calls are counted for contexts of
// store.CountTrips.
type Store struct {
	remote.Core
	c   *client.Client
	o   Options
	end func() // ends what a client of Open does by itself, which is closed with the store
}

var _ interface {
	store.Store
	store.ItemReader
	store.ExpiredReader
	store.LateSnapshots
	store.Transactor
} = (*Store)(nil)

// defaultTxnOps and maxRequestBytes are those of servers with default settings.
const (
	defaultTxnOps   = 128
	maxRequestBytes = 3 << 19
)

// ownOps are operations of a commit that are not its caller's: see trace in commit.go.
const ownOps = 1

var limits = store.Limits{
	KeyBytes: 32 << 10, ValueBytes: 1 << 20,
	CommitOps: defaultTxnOps - ownOps, CommitBytes: 5 << 18, PropertyBytes: 1 << 20, Fences: 1,
	Costs: store.Costs{ // a member reads some 300,000 keys a second
		Seek: 20_000, Key: 3_000, Byte: 2, Fetch: 5_000, RoundTrip: 1e6, Page: 4096,
		Batch: defaultTxnOps, Trees: 1,
	},
}

// New returns a database of a client, which stays the caller's.
func New(c *client.Client, o *Options) *Store {
	s := &Store{c: c}
	if o != nil {
		s.o = *o
	}
	s.Core = remote.Core{Kind: "etcd", Timeout: s.o.Timeout, Most: limits,
		Reader: remote.Reader{
			Layout: remote.NewLayout(s.o.Name, false), Now: time.Now,
			View: func(context.Context, bool) (remote.View, func(), error) {
				return &view{s: s}, func() {}, s.Check()
			},
		},
		Apply: func(ctx context.Context, writes []remote.Write) error {
			return s.commit(ctx, nil, &remote.Batch{Writes: writes})
		},
	}
	s.Most.CommitOps, s.Most.Costs.Batch = s.o.txnOps()-ownOps, s.o.txnOps()
	return s
}

// Close closes the store, and its client if Open has made it.
func (s *Store) Close() error {
	if !s.Shut() || s.end == nil {
		return nil
	}
	defer s.end()
	return s.c.Close()
}

// revision returns the revision of the newest commit.
func (s *Store) revision(ctx context.Context) (int64, error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	defer store.BeginRequest(ctx)()
	start, _ := s.Layout.Range()
	resp, err := s.c.Get(ctx, string(start)) // the prefix is not a key
	if err != nil {
		return 0, s.failure(ctx, "revision", err)
	}
	return resp.Header.Revision, nil
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	rev, err := s.revision(ctx)
	if err != nil {
		return nil, err
	}
	return s.Of(&view{s: s, rev: rev}), nil
}

// SnapshotLater implements store.LateSnapshots.
func (s *Store) SnapshotLater(
	ctx context.Context, _ bool, fixed func() error,
) (store.Snapshot, error) {
	return s.Later(ctx, &view{s: s}, fixed)
}

// failure gives an error of the client its class, and says what was being done, and what to do.
func (s *Store) failure(ctx context.Context, doing string, err error) error {
	remedy, class := classOf(err)
	switch {
	case err == nil:
		return nil
	case s.Closed():
		return fmt.Errorf("etcd: %s: %w", doing, store.ErrClosed)
	case class != nil:
		return fmt.Errorf("etcd: %s: %w: %w", doing, class, err)
	case remedy != "":
		return fmt.Errorf("etcd: %s: %w: %s", doing, err, remedy)
	case ctx.Err() != nil:
		return fmt.Errorf("etcd: %s: %w: %v", doing, context.Cause(ctx), err)
	}
	return fmt.Errorf("etcd: %s: %w", doing, err)
}

// classOf returns the class of an error after which nothing has been written, or what to do.
func classOf(err error) (remedy string, class error) {
	var e rpctypes.EtcdError
	if !errors.As(rpctypes.Error(err), &e) {
		return "", nil
	}
	switch e.Error() {
	case rpctypes.ErrCompacted.Error():
		return "", store.ErrStale
	case rpctypes.ErrTooManyOps.Error(), rpctypes.ErrRequestTooLarge.Error():
		return "", fmt.Errorf("%w: make the write set smaller, or raise --max-txn-ops and "+
			"--max-request-bytes of all members", store.ErrTooLarge)
	case rpctypes.ErrNoSpace.Error():
		return "the space quota is used up: compact and defragment the members and disarm " +
			"the alarm (etcdctl), or raise --quota-backend-bytes, to at most 8 GiB", nil
	case rpctypes.ErrUserEmpty.Error(), rpctypes.ErrAuthFailed.Error(),
		rpctypes.ErrPermissionDenied.Error(), rpctypes.ErrInvalidAuthToken.Error(),
		rpctypes.ErrAuthNotEnabled.Error():
		return "check user and password of the URL, and the roles of the user", nil
	}
	return "", nil
}
