package local

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/store"
)

// reader makes a store.Reader of a database, a snapshot or a transaction.
type reader struct{ r engineReader }

// engineReader is a reader of the engine that also hands out blocks.
type engineReader interface {
	engine.Reader
	ScanBlocks(ctx context.Context, s engine.Scan, yield func(*engine.Block) bool) error
	GatherBlocks(ctx context.Context, g engine.Gather, yield func(*engine.Block) bool) error
}

// Get implements store.Reader.
func (r *reader) Get(ctx context.Context, dst []byte, key store.Key) ([]byte, error) {
	if err := store.CheckContext(ctx); err != nil {
		return dst, err
	}
	return r.r.AppendGet(dst, key)
}

// GetItem implements store.ItemReader.
func (r *reader) GetItem(ctx context.Context, key store.Key) (store.Item, error) {
	if err := store.CheckContext(ctx); err != nil {
		return store.Item{}, err
	}
	return r.r.GetItem(key)
}

// resultsPool recycles the results of MultiGet.
var resultsPool = sync.Pool{New: func() any { return new(engine.Results) }}

// MultiGet implements store.Reader.
func (r *reader) MultiGet(
	ctx context.Context, keys []store.Key, found func(int, store.Item),
) error {
	return r.multiGet(ctx, keys, false, found)
}

// MultiGetExpired implements store.ExpiredReader.
func (r *reader) MultiGetExpired(
	ctx context.Context, keys []store.Key, found func(int, store.Item),
) error {
	return r.multiGet(ctx, keys, true, found)
}

func (r *reader) multiGet(
	ctx context.Context, keys []store.Key, expired bool, found func(int, store.Item),
) error {
	res := resultsPool.Get().(*engine.Results)
	defer func() {
		res.Release()
		resultsPool.Put(res)
	}()
	res.Expired = expired
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

// MultiGetResults implements store.ResultsReader.
func (r *reader) MultiGetResults(
	ctx context.Context, keys []store.Key, res *engine.Results,
) error {
	return r.r.MultiGet(ctx, keys, res)
}

// Scan implements store.Reader.
func (r *reader) Scan(ctx context.Context, rg store.Range) iter.Seq2[store.Item, error] {
	switch rg.Kind {
	case store.KindPoint:
		return r.point(rg)
	case store.KindPartitions:
		return r.r.Gather(ctx, gatherOf(&rg))
	}
	if err := rg.Validate(); err != nil {
		return func(yield func(store.Item, error) bool) { yield(store.Item{}, err) }
	}
	return r.r.Scan(ctx, scanOf(&rg))
}

// Blocks implements store.BlockReader.
func (r *reader) Blocks(
	ctx context.Context, rg store.Range, yield func(*engine.Block) bool,
) error {
	switch rg.Kind {
	case store.KindPoint:
		var b engine.Block
		for it, err := range r.point(rg) {
			if err != nil {
				return err
			}
			b.SetItem(&it)
			yield(&b)
		}
		return nil
	case store.KindPartitions:
		return r.r.GatherBlocks(ctx, gatherOf(&rg), yield)
	}
	if err := rg.Validate(); err != nil {
		return err
	}
	return r.r.ScanBlocks(ctx, scanOf(&rg), yield)
}

// Count implements store.Counter.
func (r *reader) Count(ctx context.Context, rg store.Range) (int64, error) {
	switch rg.Kind {
	case store.KindPoint:
		var n int64
		for _, err := range r.point(rg) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	case store.KindPartitions:
		return r.r.CountGather(ctx, gatherOf(&rg))
	}
	if err := rg.Validate(); err != nil {
		return 0, err
	}
	return r.r.CountScan(ctx, scanOf(&rg))
}

// point yields the item of a point.
func (r *reader) point(rg store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		if err := rg.Validate(); err != nil {
			yield(store.Item{}, err)
			return
		}
		it, err := r.r.GetItem(rg.Key)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			yield(store.Item{}, err)
		case rg.Filter == nil || rg.Filter(it):
			yield(it, nil)
		}
	}
}

// gatherOf returns a range of partitions in the engine's form.
func gatherOf(r *store.Range) engine.Gather {
	return engine.Gather{
		PKs: r.PKs, Spans: r.Spans, Each: r.Each, ByPartition: r.Unordered, Reverse: r.Reverse,
		Limit: r.Limit, StartAfter: r.After,
		Filter: filterOf(r), MayHold: r.MayHold, Blocks: r.Blocks, KeysOnly: r.KeysOnly,
	}
}

// filterOf returns the filter. With MayHold the engine needs one: the caller's own tests are it.
func filterOf(r *store.Range) func(store.Item) bool {
	if r.Filter == nil && r.MayHold != nil {
		return all
	}
	return r.Filter
}

func all(store.Item) bool { return true }

// scanOf returns an interval in the engine's form.
func scanOf(r *store.Range) engine.Scan {
	s := engine.Scan{
		From: store.Key{PK: r.From}, To: store.Key{PK: r.To}, Unordered: r.Unordered,
		Reverse: r.Reverse, Limit: r.Limit, Filter: filterOf(r), MayHold: r.MayHold,
		Blocks: r.Blocks, Share: r.Share, KeysOnly: r.KeysOnly,
	}
	switch {
	case r.After.PK == nil:
	case r.Unordered:
		s.After = s.CursorAfter(store.Item{Key: r.After})
	default:
		s.StartAfter = r.After
	}
	return s
}
