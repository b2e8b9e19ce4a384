package local

import (
	"context"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// past is a snapshot of the engine as a store that takes no writes.
type past struct {
	localSnapshot
	db    *engine.DB
	owned bool // Close closes the snapshot
}

var _ interface {
	store.Store
	store.Counter
	store.BlockReader
	store.ItemReader
	store.ResultsReader
	store.Spiller
	store.Backgrounder
} = (*past)(nil)

// Past opens the tables of a database as they were in a snapshot, such as one of
// engine.DB.SnapshotAt: rows, definitions, indexes, views and statistics. What writes fails with
// ErrReadOnly. The snapshot stays the caller's; it is closed after the tables.
func Past(ctx context.Context, e *engine.DB, snap *engine.Snapshot, o *table.Options,
) (*table.DB, error) {
	return table.OpenStore(ctx, &past{localSnapshot: localSnapshot{reader{snap}, snap}, db: e}, o)
}

// AsOf implements store.Past: see engine.DB.SnapshotAt.
func (s *Store) AsOf(ctx context.Context, m store.Moment) (store.Store, store.Moment, error) {
	var snap *engine.Snapshot
	err := store.CheckContext(ctx)
	switch {
	case err != nil:
	case m.Time.IsZero():
		snap, err = s.db.SnapshotAt(m.Version)
	default:
		snap, err = s.db.SnapshotAtTime(m.Time)
	}
	if err != nil {
		return nil, m, err
	}
	return &past{localSnapshot{reader{snap}, snap}, s.db, true},
		store.Moment{Version: snap.Version()}, nil
}

// Snapshot implements store.Store: there is one moment.
func (p *past) Snapshot(context.Context) (store.Snapshot, error) {
	return &sharedSnapshot{p.localSnapshot}, nil
}

// sharedSnapshot is a snapshot that others go on to use.
type sharedSnapshot struct{ localSnapshot }

// Close implements store.Snapshot.
func (*sharedSnapshot) Close() error { return nil }

// Commit implements store.Writer.
func (*past) Commit(context.Context, *store.WriteSet) error { return store.ErrReadOnly }

// Limits implements store.Store.
func (*past) Limits() store.Limits { return localLimits }

// Property implements store.Store: properties have no past.
func (p *past) Property(_ context.Context, name string) ([]byte, bool, error) {
	value, ok := p.db.Property(name)
	return value, ok, nil
}

// SetProperty implements store.Store.
func (*past) SetProperty(context.Context, string, []byte) error { return store.ErrReadOnly }

// Close implements store.Store.
func (p *past) Close() error {
	if !p.owned {
		return nil
	}
	return p.snap.Close()
}

// Temp implements store.Spiller.
func (p *past) Temp() func() (store.TempFile, error) { return New(p.db).temp }

// Background implements store.Backgrounder.
func (p *past) Background(ctx context.Context) (both context.Context, end func(), err error) {
	return p.db.Background(ctx)
}
