package engine

import (
	"context"
	"sync"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
)

// Block is a number of items that an iteration has at hand together. Their keys are decoded when
// they are asked for. It belongs to one goroutine.
//
// Ownership: all it returns is valid in the call that it was handed to, a key until the next call
// of Key or Item.
type Block = kv.Block

// Values are those of the items of a Block.
type Values = base.Values

// Share divides the stripes of an unordered scan among readers of the same moment, see Scan.Share.
type Share = kv.Share

// ScanBlocks hands the items that s selects to yield, as many at a time as are at hand, until
// it returns false. It is Scan for readers of many items. Filter is not called: with MayHold the
// caller's own test is it. With KeysOnly a block may lack values.
func (r *reader) ScanBlocks(ctx context.Context, s Scan, yield func(*Block) bool) error {
	it := read.NewIteration()
	defer it.Close()
	if err := r.openScan(ctx, it, &s, s.Unordered); err != nil {
		return err
	}
	return yieldBlocks(it, yield)
}

// GatherBlocks is Gather as ScanBlocks is Scan.
func (r *reader) GatherBlocks(ctx context.Context, g Gather, yield func(*Block) bool) error {
	it := read.NewIteration()
	defer it.Close()
	if err := r.openGather(ctx, it, &g, true); err != nil {
		return err
	}
	return yieldBlocks(it, yield)
}

// yieldBlocks hands out what an iteration shows.
func yieldBlocks(it *read.Iteration, yield func(*Block) bool) error {
	y := yieldedPool.Get().(*yielded)
	defer func() {
		kv.SetRows(&y.block, nil, nil, 0, 0)
		y.at = read.Block{}
		yieldedPool.Put(y)
	}()
	b, at := &y.block, &y.at
	for last := false; !last; {
		if !it.Block(at) {
			return it.Err()
		}
		pk, skip, _ := it.Part()
		if at.Plain != nil {
			kv.SetEntries(b, at.Plain, pk, skip, it.Stripe())
		} else {
			at.Rows, last = it.Cut(at.Rows)
			kv.SetRows(b, at.Rows, pk, skip, it.Stripe())
		}
		if !yield(b) {
			return nil
		}
	}
	return nil
}

// yielded is what yieldBlocks hands out, and its buffers.
type yielded struct {
	block Block
	at    read.Block
}

var yieldedPool = sync.Pool{New: func() any { return new(yielded) }}
