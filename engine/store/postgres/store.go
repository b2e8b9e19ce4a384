package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Store is a table of a PostgreSQL database. It may be used by many goroutines at once. Trips of
// its calls are counted for contexts of store.CountTrips; left out is what prepares a statement,
// once for each connection, and the end of a scan, which is not waited for.
type Store struct {
	remote.Core
	pool  *pgxpool.Pool
	table pgx.Identifier
	sql   statements
}

var _ interface {
	store.Store
	store.ItemReader
	store.ExpiredReader
	store.Counter
	store.LateSnapshots
	store.RangeDeleter
	store.Transactor
} = (*Store)(nil)

// maxEncodedKey is how long an encoded key may be: three of them fit a page of an index, less what
// the page and the entries have beside them.
const maxEncodedKey = 2690

// limits of a server with its default settings. A key may be shorter than KeyBytes and still too
// long: see maxEncodedKey. Zero bytes of a partition key count twice.
var limits = store.Limits{
	KeyBytes: 2 << 10, ValueBytes: 64 << 20, CommitBytes: 128 << 20, PropertyBytes: 16 << 20,
	Fences: 1,
	Costs: store.Costs{
		Seek: 20_000, Key: 500, Byte: 2, Fetch: 5_000, RoundTrip: 300_000, Page: 4096, Batch: 4096,
		Trees: 1,
	},
}

// Close implements store.Store. It waits for calls that are under way; snapshots and transactions
// must have ended.
func (s *Store) Close() error {
	if s.Shut() {
		s.pool.Close()
	}
	return nil
}

// acquire returns a connection. Until it has one nothing has been sent.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	c, err := s.pool.Acquire(ctx)
	if err == nil {
		return c, nil
	}
	if st := s.pool.Stat(); ctx.Err() != nil && st.AcquiredConns() >= st.MaxConns() {
		return nil, fmt.Errorf("postgres: %w: all %d connections are in use, by snapshots, scans "+
			"and transactions that have not ended: end them, or raise pool_max_conns",
			context.Cause(ctx), st.MaxConns())
	}
	return nil, failure(ctx, "connecting", err)
}

// Count implements store.Counter.
func (s *Store) Count(ctx context.Context, rg store.Range) (int64, error) {
	return count(ctx, &s.Reader, rg)
}

// count counts a range at the server, unless its items have to be looked at.
func count(ctx context.Context, r *remote.Reader, rg store.Range) (n int64, err error) {
	if err := cmp.Or(store.CheckContext(ctx), rg.Validate()); err != nil {
		return 0, err
	}
	if rg.Filter != nil || rg.Kind == store.KindPoint {
		for _, err := range r.Scan(ctx, rg) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	v, end, err := r.View(ctx, false)
	if err != nil {
		return 0, err
	}
	defer end()
	most := int64(rg.Limit)
	if most == 0 {
		most = 1 << 62
	}
	spans := r.Layout.Spans(&rg)
	if late, ok := v.(*remote.LateView); ok {
		err = late.Do(ctx, func() (err error) {
			n, err = late.View.(*view).count(ctx, spans, most)
			return err
		})
	} else {
		n, err = v.(*view).count(ctx, spans, most)
	}
	return min(n, most), err
}

// DeletePartitions implements store.RangeDeleter.
func (s *Store) DeletePartitions(ctx context.Context, pks [][]byte) error {
	from, to := make([][]byte, len(pks)), make([][]byte, len(pks))
	for i, pk := range pks {
		if err := (store.Key{PK: pk}).Validate(); err != nil {
			return err
		}
		sorted := pks[i : i+1]
		span := s.Layout.Spans(&store.Range{Kind: store.KindPartitions, PKs: sorted})[0]
		from[i], to[i] = span.Start, span.End
	}
	return s.retry(ctx, func(ctx context.Context) error {
		return s.serializable(ctx, func(b *pgx.Batch) { b.Queue(s.sql.remove, from, to) }, nil)
	})
}
