package store

import (
	"context"
	"errors"
	"iter"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// The vocabulary of the engine, which implementations share.
type (
	// Key is a partition key with an optional sort key.
	Key = keycodec.Key
	// Item is a stored item. Its Version is 0 if the store has none: see Limits.
	Item = engine.Item
	// Span is a half-open range of sort keys. The zero Span has all of them, but not the
	// item without a sort key.
	Span = keycodec.Span
	// ConditionError says which operation of a write set failed its condition: Op is its
	// index. It matches ErrConditionFailed.
	ConditionError = engine.ConditionError
)

// Errors to test with errors.Is. Others may be returned as well, for example those of a
// damaged file or of a context.
var (
	// ErrNotFound: the key has no item.
	ErrNotFound = engine.ErrNotFound
	// ErrConditionFailed: a condition of the write set does not hold. Nothing was written.
	// The error is a *ConditionError.
	ErrConditionFailed = engine.ErrConditionFailed
	// ErrConflict: another commit came in between. Nothing was written; what it was based on
	// must be read again.
	ErrConflict = engine.ErrConflict
	// ErrTooLarge: a key, a value or a write set is beyond the limits. Nothing was written.
	ErrTooLarge = engine.ErrTooLarge
	// ErrInvalid: an argument makes no sense.
	ErrInvalid = engine.ErrInvalid
	// ErrClosed: the store, snapshot or transaction has been closed.
	ErrClosed = engine.ErrClosed
	// ErrUnknown: the outcome of a commit is not known. It has been written as a whole or
	// not at all, and is not written later than the next read sees.
	ErrUnknown = errors.New("store: unknown outcome")
)

// Reader reads the newest committed state, or that of a snapshot or transaction.
type Reader interface {
	// Get appends the value of key to dst and returns the extended slice, which is not nil.
	// The error is ErrNotFound if there is none. On an error it returns dst. It may ignore a
	// context that has ended if it need not wait.
	Get(ctx context.Context, dst []byte, key Key) ([]byte, error)

	// MultiGet looks up many keys at one moment and calls found for those that have an item,
	// in the order of keys, with their index. The same key may be given more than once.
	//
	// Ownership: an item is valid until found returns.
	MultiGet(ctx context.Context, keys []Key, found func(i int, item Item)) error

	// Scan returns the items of a range, all of them as of one moment. The sequence yields at
	// most one error, last, with a zero Item.
	//
	// Ownership: an item is valid in the loop body. The slices of r are used until the
	// iteration ends.
	Scan(ctx context.Context, r Range) iter.Seq2[Item, error]
}

// Writer writes.
type Writer interface {
	// Commit applies the write set as a whole if all its conditions hold, and otherwise
	// leaves everything as it is. An empty one does nothing. W is neither changed nor kept.
	Commit(ctx context.Context, w *WriteSet) error
}

// ReadWriter is what a transaction has of a Store.
type ReadWriter interface {
	Reader
	Writer
}

// Snapshot reads the store as it was at one moment.
type Snapshot interface {
	Reader
	// Close ends the snapshot. It may be called again.
	Close() error
}

// Store is an ordered key/value store. It may be used by many goroutines at once.
type Store interface {
	Reader
	Writer

	// Snapshot takes a snapshot of the present. The caller must Close it. It sees every
	// commit that was acknowledged before.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Limits returns what the store can take. They never change.
	Limits() Limits

	// Property returns a copy of a small named value; ok is false if there is none.
	Property(ctx context.Context, name string) (value []byte, ok bool, err error)

	// SetProperty stores a small named value, durably; nil removes it. The name is UTF-8
	// text. Properties are for what changes rarely, such as schemas.
	SetProperty(ctx context.Context, name string, value []byte) error
}

// Limits say what a store can take. A number that is 0 is no limit.
type Limits struct {
	KeyBytes   int // a partition key, and a sort key
	ValueBytes int // a value
	// CommitOps and CommitBytes bound a write set: its operations, and the keys and values
	// of them and of their conditions together.
	CommitOps, CommitBytes int
	// PropertyBytes bounds all properties together.
	PropertyBytes int
	// NoVersions says that items have no Version, and conditions on it are refused with
	// ErrInvalid.
	NoVersions bool
}

// Counter is a Reader that counts the items of a range without handing them out.
type Counter interface {
	Count(ctx context.Context, r Range) (int64, error)
}

// BlockReader is a Reader that hands out many items at a time.
type BlockReader interface {
	// Blocks hands the items of a range to yield until it returns false. Filter is not called.
	Blocks(ctx context.Context, r Range, yield func(*engine.Block) bool) error
}

// Sharer is a BlockReader that several goroutines may read with at once, and whose Range.Share
// divides a range among them.
type Sharer interface {
	BlockReader
	// Shares marks the readers for which that holds: those of one moment.
	Shares()
}

// ItemReader is a Reader that returns a single item with its version and expiry.
type ItemReader interface {
	// GetItem returns the item of key, or ErrNotFound. The caller owns it.
	GetItem(ctx context.Context, key Key) (Item, error)
}

// ResultsReader is a Reader whose MultiGet can hand over what it has found as it is.
type ResultsReader interface {
	// MultiGetResults is MultiGet into r, which stays valid until it is used again.
	MultiGetResults(ctx context.Context, keys []Key, r *engine.Results) error
}

// Describer is a Store that keeps zones of blocks: see Range.MayHold.
type Describer interface {
	// Describe makes it collect the zones of items by what f says of them: see
	// engine.DB.Describe. It may be called at any time.
	Describe(f func(items *engine.ZoneItems, b *engine.ZoneBuilder))
}

// Sampler is a Reader that returns items chosen at random.
type Sampler interface {
	// Sample returns items of an interval at random, with the number of items that each
	// stands for. What it reads depends on q.Parts: see engine.Snapshot.Sample.
	Sample(ctx context.Context, q engine.Sample) iter.Seq2[engine.Sampled, error]
}

// Estimator is a Store that estimates numbers of items without reading them all.
type Estimator interface {
	// CountAbout estimates how many items a range comes across: of one partition, with one span
	// at most, or of an interval, from parts of the store, at most so many, until enough were
	// found. Of r, what selects items counts, and MayHold.
	CountAbout(r Range, enough float64, parts int) (float64, error)
}

// RangeDeleter is a Writer that removes many items of a partition at the cost of one.
type RangeDeleter interface {
	// DeleteRange removes the items of partition pk whose sort key is in the span, or, if
	// span is nil, all of them.
	DeleteRange(ctx context.Context, pk []byte, span *Span) error
}

// Count returns the number of items in the range, Limit included.
func Count(ctx context.Context, r Reader, rg Range) (int64, error) {
	if c, ok := r.(Counter); ok {
		return c.Count(ctx, rg)
	}
	var n int64
	for _, err := range r.Scan(ctx, rg) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Blocks hands the items of a range to yield, as many at a time as the reader has at hand, until it
// returns false. Filter is not called.
func Blocks(ctx context.Context, r Reader, rg Range, yield func(*engine.Block) bool) error {
	if b, ok := r.(BlockReader); ok {
		return b.Blocks(ctx, rg, yield)
	}
	var b engine.Block
	rg.Filter = nil
	for it, err := range r.Scan(ctx, rg) {
		if err != nil {
			return err
		}
		if b.SetItem(&it); !yield(&b) {
			return nil
		}
	}
	return nil
}

// GetItem returns the item of key with its version and expiry, or ErrNotFound. The caller
// owns it.
func GetItem(ctx context.Context, r Reader, key Key) (Item, error) {
	if g, ok := r.(ItemReader); ok {
		return g.GetItem(ctx, key)
	}
	for it, err := range r.Scan(ctx, Point(key)) {
		return it.Clone(), err
	}
	return Item{}, ErrNotFound
}

// SampleOf returns items of an interval chosen at random, and all of them, each standing for
// itself, of a Reader that is no Sampler.
func SampleOf(ctx context.Context, r Reader, q engine.Sample) iter.Seq2[engine.Sampled, error] {
	if s, ok := r.(Sampler); ok {
		return s.Sample(ctx, q)
	}
	rg := Interval(q.From.PK, q.To.PK)
	rg.Unordered = true
	return func(yield func(engine.Sampled, error) bool) {
		for it, err := range r.Scan(ctx, rg) {
			if !yield(engine.Sampled{Item: it, Weight: 1}, err) {
				return
			}
		}
	}
}
