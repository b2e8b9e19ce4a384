package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/kstonedb/kstone/engine"
)

// LocalStore is the engine of this process as a Store. Scans hand out the engine's items
// as they are.
type LocalStore struct {
	reader
	db *engine.DB
}

var _ interface {
	Store
	Counter
	BlockReader
	ItemReader
	ResultsReader
	RangeDeleter
	Describer
	Estimator
} = (*LocalStore)(nil)

// Local returns the store of an open database, which stays the caller's.
func Local(db *engine.DB) *LocalStore { return &LocalStore{reader{db}, db} }

// DB returns the database.
func (s *LocalStore) DB() *engine.DB { return s.db }

// Snapshot implements Store.
func (s *LocalStore) Snapshot(context.Context) (Snapshot, error) {
	snap, err := s.db.Snapshot()
	if err != nil {
		return nil, err
	}
	return &localSnapshot{reader{snap}, snap}, nil
}

// Limits implements Store.
func (s *LocalStore) Limits() Limits { return localLimits }

var localLimits = Limits{
	KeyBytes: engine.MaxKeyBytes, ValueBytes: engine.MaxValueBytes,
	CommitBytes: engine.MaxBatchBytes, PropertyBytes: engine.MaxPropertyBytes,
}

// Property implements Store.
func (s *LocalStore) Property(_ context.Context, name string) ([]byte, bool, error) {
	value, ok := s.db.Property(name)
	return value, ok, nil
}

// SetProperty implements Store.
func (s *LocalStore) SetProperty(_ context.Context, name string, value []byte) error {
	return s.db.SetProperty(name, value)
}

// Describe implements Describer.
func (s *LocalStore) Describe(f func(items *engine.ZoneItems, b *engine.ZoneBuilder)) {
	s.db.Describe(f)
}

// CountAbout implements Estimator.
func (s *LocalStore) CountAbout(r Range, enough float64, parts int) (float64, error) {
	switch {
	case r.Kind == KindInterval:
		return s.db.CountScanAbout(engine.Scan{From: Key{PK: r.From}, To: Key{PK: r.To},
			MayHold: r.MayHold}, enough, parts)
	case r.Kind != KindPartitions || len(r.PKs) != 1 || len(r.Spans) > 1 || r.Each != nil:
		return 0, fmt.Errorf("%w: only one range is counted", ErrInvalid)
	}
	q := engine.Query{PK: r.PKs[0], MayHold: r.MayHold}
	if len(r.Spans) > 0 {
		q.SK = condition(&r.Spans[0])
	}
	return s.db.CountAbout(q)
}

// DeleteRange implements RangeDeleter.
func (s *LocalStore) DeleteRange(_ context.Context, pk []byte, span *Span) error {
	return s.db.DeleteRange(pk, condition(span))
}

func condition(span *Span) engine.SKCondition {
	if span == nil {
		return engine.SKCondition{}
	}
	return engine.SKRange(span.Start, span.End)
}

// batchPool recycles the batches of commits.
var batchPool = sync.Pool{New: func() any { return engine.NewBatch() }}

// maxPooledBytes keeps giant batches out of the pool.
const maxPooledBytes = 1 << 20

// Commit implements Writer. If the database turns read-only over it, the error matches
// ErrUnknown: what has been logged may be found again when it is opened next.
func (s *LocalStore) Commit(ctx context.Context, w *WriteSet) error {
	if err := cmp.Or(CheckContext(ctx), w.Validate(localLimits)); err != nil {
		return err
	}
	b := batchPool.Get().(*engine.Batch)
	defer func() {
		if b.Bytes() <= maxPooledBytes {
			b.Reset()
			batchPool.Put(b)
		}
	}()
	for i := range w.Ops {
		if err := add(b, &w.Ops[i]); err != nil {
			return err
		}
	}
	return outcome(s.db.Apply(ctx, b, w.Durability))
}

// add adds an operation to a batch.
func add(b *engine.Batch, op *Op) error {
	cond, err := op.Cond.engine()
	switch {
	case err != nil:
		return err
	case op.Kind == OpRequire:
		return b.Require(op.Key, cond)
	case op.Kind == OpDelete:
		return b.DeleteIf(op.Key, cond)
	}
	return b.PutIf(op.Key, op.Value, cond, engine.Expiry(op.Expiry))
}

// outcome gives the error of a commit its class.
func outcome(err error) error {
	// ErrReadOnly itself says that the database was opened read-only; with a cause it has
	// turned so, perhaps over this commit, perhaps before.
	bare := err == engine.ErrReadOnly //nolint:errorlint // what wraps it is meant not to match
	if !bare && errors.Is(err, engine.ErrReadOnly) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// localSnapshot is a snapshot of the engine.
type localSnapshot struct {
	reader
	snap *engine.Snapshot
}

// Close implements Snapshot.
func (s *localSnapshot) Close() error { return s.snap.Close() }

var _ interface {
	Sampler
	Sharer
} = (*localSnapshot)(nil)

// Shares implements Sharer.
func (s *localSnapshot) Shares() {}

// Sample implements Sampler.
func (s *localSnapshot) Sample(ctx context.Context,
	q engine.Sample) iter.Seq2[engine.Sampled, error] {
	return s.snap.Sample(ctx, q)
}

// TxStore is a transaction of the engine as a ReadWriter.
type TxStore struct {
	reader
	tx *engine.Tx
}

var _ interface {
	ReadWriter
	Counter
	BlockReader
	ItemReader
	ResultsReader
	RangeDeleter
} = (*TxStore)(nil)

// Tx returns a transaction as a store: reads see it, and Commit adds to it.
func Tx(tx *engine.Tx) *TxStore { return &TxStore{reader{tx}, tx} }

// Commit implements Writer: it checks the conditions at once, by reading, so that they
// count among what the transaction has read, and adds the writes to those of the
// transaction. Nothing is stored before the transaction itself is committed.
func (s *TxStore) Commit(ctx context.Context, w *WriteSet) error {
	if err := cmp.Or(CheckContext(ctx), w.Validate(localLimits)); err != nil {
		return err
	}
	if err := s.check(ctx, w); err != nil {
		return err
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		var err error
		switch op.Kind {
		case OpPut:
			err = s.tx.Put(op.Key, op.Value, engine.Expiry(op.Expiry))
		case OpDelete:
			err = s.tx.Delete(op.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check checks all conditions of the write set.
func (s *TxStore) check(ctx context.Context, w *WriteSet) error {
	var keys []Key
	var ops []int
	for i := range w.Ops {
		if w.Ops[i].Cond.Kind != CondNone {
			keys, ops = append(keys, w.Ops[i].Key), append(ops, i)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var found engine.Results
	if err := s.tx.MultiGet(ctx, keys, &found); err != nil {
		return err
	}
	for j, i := range ops {
		it, ok := found.Item(j)
		if !w.Ops[i].Cond.Holds(it, ok) {
			key := Item{Key: keys[j]}.Clone().Key
			return &ConditionError{Key: key, Op: i, Exists: ok, Version: it.Version}
		}
	}
	return nil
}

// DeleteRange implements RangeDeleter.
func (s *TxStore) DeleteRange(_ context.Context, pk []byte, span *Span) error {
	return s.tx.DeleteRange(pk, condition(span))
}

// reader makes a Reader of any of them.
type reader struct{ r engineReader }

// engineReader is a reader of the engine that also hands out blocks.
type engineReader interface {
	engine.Reader
	ScanBlocks(ctx context.Context, s engine.Scan, yield func(*engine.Block) bool) error
	GatherBlocks(ctx context.Context, g engine.Gather, yield func(*engine.Block) bool) error
}

// Get implements Reader.
func (r reader) Get(ctx context.Context, dst []byte, key Key) ([]byte, error) {
	if err := CheckContext(ctx); err != nil {
		return dst, err
	}
	return r.r.AppendGet(dst, key)
}

// GetItem implements ItemReader.
func (r reader) GetItem(ctx context.Context, key Key) (Item, error) {
	if err := CheckContext(ctx); err != nil {
		return Item{}, err
	}
	return r.r.GetItem(key)
}

// resultsPool recycles the results of MultiGet.
var resultsPool = sync.Pool{New: func() any { return new(engine.Results) }}

// MultiGet implements Reader.
func (r reader) MultiGet(ctx context.Context, keys []Key, found func(int, Item)) error {
	res := resultsPool.Get().(*engine.Results)
	defer func() {
		res.Release()
		resultsPool.Put(res)
	}()
	if err := r.r.MultiGet(ctx, keys, res); err != nil {
		return err
	}
	for i := range keys {
		if it, ok := res.Item(i); ok {
			found(i, it)
		}
	}
	return nil
}

// MultiGetResults implements ResultsReader.
func (r reader) MultiGetResults(ctx context.Context, keys []Key, res *engine.Results) error {
	return r.r.MultiGet(ctx, keys, res)
}

// Scan implements Reader.
func (r reader) Scan(ctx context.Context, rg Range) iter.Seq2[Item, error] {
	switch rg.Kind {
	case KindPoint:
		return r.point(rg)
	case KindPartitions:
		return r.r.Gather(ctx, rg.gather())
	}
	if err := rg.Validate(); err != nil {
		return func(yield func(Item, error) bool) { yield(Item{}, err) }
	}
	return r.r.Scan(ctx, rg.scan())
}

// Blocks implements BlockReader.
func (r reader) Blocks(ctx context.Context, rg Range, yield func(*engine.Block) bool) error {
	switch rg.Kind {
	case KindPoint:
		var b engine.Block
		for it, err := range r.point(rg) {
			if err != nil {
				return err
			}
			b.SetItem(&it)
			yield(&b)
		}
		return nil
	case KindPartitions:
		return r.r.GatherBlocks(ctx, rg.gather(), yield)
	}
	if err := rg.Validate(); err != nil {
		return err
	}
	return r.r.ScanBlocks(ctx, rg.scan(), yield)
}

// Count implements Counter.
func (r reader) Count(ctx context.Context, rg Range) (int64, error) {
	switch rg.Kind {
	case KindPoint:
		var n int64
		for _, err := range r.point(rg) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	case KindPartitions:
		return r.r.CountGather(ctx, rg.gather())
	}
	if err := rg.Validate(); err != nil {
		return 0, err
	}
	return r.r.CountScan(ctx, rg.scan())
}

// point yields the item of a point.
func (r reader) point(rg Range) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := rg.Validate(); err != nil {
			yield(Item{}, err)
			return
		}
		it, err := r.r.GetItem(rg.Key)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			yield(Item{}, err)
		case rg.Filter == nil || rg.Filter(it):
			yield(it, nil)
		}
	}
}

// gather returns a range of partitions in the engine's form.
func (r *Range) gather() engine.Gather {
	return engine.Gather{
		PKs: r.PKs, Spans: r.Spans, Each: r.Each, ByPartition: r.Unordered, Reverse: r.Reverse,
		Limit: r.Limit, StartAfter: r.After,
		Filter: r.filter(), MayHold: r.MayHold, Blocks: r.Blocks,
	}
}

// filter returns the filter. With MayHold the engine needs one: the caller's own tests are it.
func (r *Range) filter() func(Item) bool {
	if r.Filter == nil && r.MayHold != nil {
		return all
	}
	return r.Filter
}

func all(Item) bool { return true }

// scan returns an interval in the engine's form.
func (r *Range) scan() engine.Scan {
	s := engine.Scan{
		From: Key{PK: r.From}, To: Key{PK: r.To}, Unordered: r.Unordered, Reverse: r.Reverse,
		Limit: r.Limit, Filter: r.filter(), MayHold: r.MayHold, Blocks: r.Blocks,
		Share: r.Share,
	}
	switch {
	case r.After.PK == nil:
	case r.Unordered:
		s.After = s.CursorAfter(Item{Key: r.After})
	default:
		s.StartAfter = r.After
	}
	return s
}
