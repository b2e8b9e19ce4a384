package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/store"
)

// Store is the engine of this process as a store.Store. Scans hand out the engine's items
// as they are.
type Store struct {
	reader
	db    *engine.DB
	temp  func() (store.TempFile, error) // nil: there is no directory
	owned bool                           // Close closes the database
}

var _ interface {
	store.Store
	store.Counter
	store.BlockReader
	store.ItemReader
	store.ExpiredReader
	store.ResultsReader
	store.RangeDeleter
	store.Describer
	store.Estimator
	store.Transactor
	store.Spiller
	store.Backgrounder
	store.Shared
} = (*Store)(nil)

// New returns the store of an open database, which stays the caller's: Close does nothing.
func New(db *engine.DB) *Store {
	s := &Store{reader: reader{db}, db: db}
	if temp := db.Temp(); temp != nil {
		s.temp = func() (store.TempFile, error) {
			f, err := temp()
			if err != nil {
				return nil, err
			}
			return f, nil
		}
	}
	return s
}

// Engine returns the database.
func (s *Store) Engine() *engine.DB { return s.db }

// Storage implements store.Shared.
func (s *Store) Storage() any { return s.db }

// Close implements store.Store.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return s.db.Close()
}

// Temp implements store.Spiller.
func (s *Store) Temp() func() (store.TempFile, error) { return s.temp }

// Background implements store.Backgrounder.
func (s *Store) Background(ctx context.Context) (both context.Context, end func(), err error) {
	return s.db.Background(ctx)
}

// Begin implements store.Transactor.
func (s *Store) Begin(ctx context.Context, o *store.TxOptions) (store.Tx, error) {
	tx, err := s.db.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	return NewTx(tx), nil
}

// Update implements store.Transactor.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.db.UpdateRetry(ctx, func(tx *engine.Tx) error { return fn(NewTx(tx)) })
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(context.Context) (store.Snapshot, error) {
	snap, err := s.db.Snapshot()
	if err != nil {
		return nil, err
	}
	return &localSnapshot{reader{snap}, snap}, nil
}

// Limits implements store.Store.
func (s *Store) Limits() store.Limits {
	l := localLimits
	l.QueryBytes, l.Follows = s.db.QueryMemory(), s.db.Follows()
	return l
}

var localLimits = store.Limits{
	KeyBytes: engine.MaxKeyBytes, ValueBytes: engine.MaxValueBytes,
	CommitBytes: engine.MaxBatchBytes, PropertyBytes: engine.MaxPropertyBytes,
}

// Property implements store.Store.
func (s *Store) Property(_ context.Context, name string) ([]byte, bool, error) {
	value, ok := s.db.Property(name)
	return value, ok, nil
}

// SetProperty implements store.Store.
func (s *Store) SetProperty(_ context.Context, name string, value []byte) error {
	return s.db.SetProperty(name, value)
}

// Describe implements store.Describer.
func (s *Store) Describe(f func(items *engine.ZoneItems, b *engine.ZoneBuilder)) {
	s.db.Describe(f)
}

// CountAbout implements store.Estimator.
func (s *Store) CountAbout(r store.Range, enough float64, parts int) (float64, error) {
	switch {
	case r.Kind == store.KindInterval:
		return s.db.CountScanAbout(engine.Scan{From: store.Key{PK: r.From}, To: store.Key{PK: r.To},
			MayHold: r.MayHold}, enough, parts)
	case r.Kind != store.KindPartitions || len(r.PKs) != 1 || len(r.Spans) > 1 || r.Each != nil:
		return 0, fmt.Errorf("%w: only one range is counted", store.ErrInvalid)
	}
	q := engine.Query{PK: r.PKs[0], MayHold: r.MayHold}
	if len(r.Spans) > 0 {
		q.SK = engine.SKRange(r.Spans[0].Start, r.Spans[0].End)
	}
	return s.db.CountAbout(q)
}

// DeletePartitions implements store.RangeDeleter.
func (s *Store) DeletePartitions(ctx context.Context, pks [][]byte) error {
	batch := engine.NewBatch()
	for _, pk := range pks {
		if err := batch.DeleteRange(pk, engine.SKCondition{}); err != nil {
			return err
		}
	}
	return s.db.Apply(ctx, batch)
}

// batchPool recycles the batches of commits.
var batchPool = sync.Pool{New: func() any { return engine.NewBatch() }}

// maxPooledBytes keeps giant batches out of the pool.
const maxPooledBytes = 1 << 20

// Commit implements store.Writer. If this turns the database read-only, the error matches
// store.ErrUnknown: the next Open may find what has been logged.
func (s *Store) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(store.CheckContext(ctx), w.Validate(localLimits)); err != nil {
		return err
	}
	b := batchPool.Get().(*engine.Batch)
	defer release(b)
	for i := range w.Ops {
		if err := add(b, &w.Ops[i]); err != nil {
			return err
		}
	}
	return outcome(s.db.Apply(ctx, b, engine.Durability(w.Durability)))
}

// release gives a batch back to the pool.
func release(b *engine.Batch) {
	if b.Bytes() <= maxPooledBytes {
		b.Reset()
		batchPool.Put(b)
	}
}

// add adds an operation to a batch.
func add(b *engine.Batch, op *store.Op) error {
	cond, err := conditionOf(&op.Cond)
	switch {
	case err != nil:
		return err
	case op.Kind == store.OpRequire:
		return b.Require(op.Key, cond)
	case op.Kind == store.OpDelete:
		return b.DeleteIf(op.Key, cond)
	}
	if op.Expiry == 0 { // as with it, for less
		return b.PutIf(op.Key, op.Value, cond)
	}
	return b.PutIf(op.Key, op.Value, cond, engine.Expiry(op.Expiry))
}

// conditionOf returns a condition in the engine's form.
func conditionOf(c *store.Condition) (engine.Condition, error) {
	switch c.Kind {
	case store.CondNone:
		return engine.Condition{}, nil
	case store.CondAbsent:
		return engine.IfAbsent(), nil
	case store.CondPresent:
		return engine.IfPresent(), nil
	case store.CondValue:
		return engine.IfValue(c.Value), nil
	case store.CondVersion:
		return engine.IfVersion(c.Version), nil
	}
	return engine.Condition{}, fmt.Errorf("%w: kind %d of condition is unknown",
		store.ErrInvalid, c.Kind)
}

// outcome gives the error of a commit its class.
func outcome(err error) error {
	// ErrReadOnly itself says that the database was opened read-only; with a cause it has turned
	// so, by this commit or before it.
	bare := err == engine.ErrReadOnly //nolint:errorlint // what wraps it is meant not to match
	if !bare && errors.Is(err, engine.ErrReadOnly) {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// localSnapshot is a snapshot of the engine.
type localSnapshot struct {
	reader
	snap *engine.Snapshot
}

// Close implements store.Snapshot.
func (s *localSnapshot) Close() error { return s.snap.Close() }

var _ interface {
	store.Sampler
	store.Sharer
} = (*localSnapshot)(nil)

// Shares implements store.Sharer.
func (s *localSnapshot) Shares() {}

// Sample implements store.Sampler.
func (s *localSnapshot) Sample(ctx context.Context,
	q engine.Sample) iter.Seq2[engine.Sampled, error] {
	return s.snap.Sample(ctx, q)
}
