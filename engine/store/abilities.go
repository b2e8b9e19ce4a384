package store

import (
	"context"
	"io"
	"iter"
)

// Abilities that not every store has, and what is done without them:
//
//	Counter        Count: counts what Scan returns
//	BlockReader    Blocks: blocks of one item of Scan
//	Sharer         a range is read by one goroutine
//	ItemReader     GetItem: a Scan of one key
//	ResultsReader  rows are fetched with MultiGet
//	Sampler        SampleOf: all items; statistics are made by ANALYZE only
//	Estimator      the planner estimates by statistics alone
//	Describer      Range.MayHold leaves nothing out
//	RangeDeleter   items are removed one by one, in many commits
//	Transactor     each call is a transaction of its own; Begin is errors.ErrUnsupported
//	Spiller        a query beyond its memory ends with an *exec.MemoryError
//	Backgrounder   work ends with the table.DB alone
//	LateSnapshots  a query takes a Snapshot, which may be a round trip
//	Past           only the present is read
//	Shared         each handle is storage of its own
//	versions       Limits.NoVersions: the catalogue is checked for presence, not for changes
//	expiry         every store has it: a reader leaves out what has expired
//	ExpiredReader  entries of a row that has expired and was written over come back with a clock
//	               that is set back

// Counter is a Reader that counts the items of a range without handing them out.
type Counter interface {
	Count(ctx context.Context, r Range) (int64, error)
}

// BlockReader is a Reader that hands out many items at a time.
type BlockReader interface {
	// Blocks hands the items of a range to yield until it returns false. Filter is not called.
	Blocks(ctx context.Context, r Range, yield func(*Block) bool) error
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
	MultiGetResults(ctx context.Context, keys []Key, r *Results) error
}

// ExpiredReader is a Reader that also finds what has expired, as long as it is stored.
type ExpiredReader interface {
	// MultiGetExpired is MultiGet of items whether or not they have expired.
	MultiGetExpired(ctx context.Context, keys []Key, found func(i int, item Item)) error
}

// Describer is a Store that keeps zones of blocks: see Range.MayHold.
type Describer interface {
	// Describe makes it collect the zones of items by what f says of them, as engine.DB.Describe
	// does. It may be called at any time.
	Describe(f func(items *ZoneItems, b *ZoneBuilder))
}

// Sampler is a Reader that returns items chosen at random.
type Sampler interface {
	// Sample returns items of an interval at random, with the number of items that each
	// stands for. What it reads depends on q.Parts: see engine.Snapshot.Sample.
	Sample(ctx context.Context, q Sample) iter.Seq2[Sampled, error]
}

// Estimator is a Store that estimates numbers of items without reading them all.
type Estimator interface {
	// CountAbout estimates how many items a range comes across: of one partition, with one span
	// at most, or of an interval, from parts of the store, at most so many, until enough were
	// found. Of r, what selects items counts, and MayHold.
	CountAbout(r Range, enough float64, parts int) (float64, error)
}

// RangeDeleter is a Writer that removes many items at the cost of few.
type RangeDeleter interface {
	// DeletePartitions removes all items of partitions, in one step.
	DeletePartitions(ctx context.Context, pks [][]byte) error
}

// Transactor is a Store with transactions of many calls, serialisable ones.
type Transactor interface {
	// Begin begins a transaction. Nil options are the defaults.
	Begin(ctx context.Context, o *TxOptions) (Tx, error)
	// Update runs fn in a transaction and commits it if fn returns nil; after a conflict it does
	// so again. The transaction ends with fn, whose error is returned as it is.
	Update(ctx context.Context, fn func(Tx) error) error
}

// Tx is a transaction. Its reads see its writes. Commit adds a write set to it, after it has
// checked its conditions; nothing is stored before End. It belongs to one goroutine.
type Tx interface {
	ReadWriter
	// End stores what has been written, all of it or, with an error, nothing. The error matches
	// ErrConflict if something that was read has changed. The transaction has ended in any case.
	End(ctx context.Context) error
	// Rollback ends the transaction; nothing is stored. After End it does nothing.
	Rollback()
	// Expired reports whether it was rolled back because of TxOptions.MaxAge. It may be called
	// at any time.
	Expired() bool
	// Savepoint returns the present state of the writes, for RollbackTo and Release.
	Savepoint() Savepoint
	// RollbackTo takes back what was written after a savepoint, which stays.
	RollbackTo(s Savepoint) error
	// Release removes a savepoint and those after it; the writes stay.
	Release(s Savepoint) error
}

// Spiller is a Store that has room for what queries have no memory for.
type Spiller interface {
	// Temp returns what makes temporary files, nil if there is no room. The function may be
	// called concurrently.
	Temp() func() (TempFile, error)
}

// TempFile is a temporary file. One goroutine writes to it; many may read.
type TempFile interface {
	io.Writer // appends
	io.ReaderAt
	Name() string
	Close() // removes it
}

// Backgrounder is a Store whose Close waits for work that no caller waits for.
type Backgrounder interface {
	// Background begins such work. The store's end ends the returned context. Without an error
	// the caller must call end.
	Background(ctx context.Context) (both context.Context, end func(), err error)
}

// LateSnapshots is a Store that can fix the moment of a snapshot with the first read.
type LateSnapshots interface {
	// SnapshotLater returns a snapshot of the moment of its first read, so that taking it is no
	// round trip of its own. Fixed is called after that read, before it returns anything; the read
	// fails with its error. It may be called again then.
	//
	// Again says that the caller can do all over again until its second read has returned: that
	// fails with ErrConflict if what the first one saw has changed meanwhile. A store whose moments
	// are requests of their own may then read first, without one.
	SnapshotLater(ctx context.Context, again bool, fixed func() error) (Snapshot, error)
}

// Shared is a Store that is one of several handles of the same storage.
type Shared interface {
	// Storage identifies it: a comparable value, the same for each handle.
	Storage() any
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
func Blocks(ctx context.Context, r Reader, rg Range, yield func(*Block) bool) error {
	if b, ok := r.(BlockReader); ok {
		return b.Blocks(ctx, rg, yield)
	}
	var b Block
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
func SampleOf(ctx context.Context, r Reader, q Sample) iter.Seq2[Sampled, error] {
	if s, ok := r.(Sampler); ok {
		return s.Sample(ctx, q)
	}
	rg := Interval(q.From.PK, q.To.PK)
	rg.Unordered = true
	return func(yield func(Sampled, error) bool) {
		for it, err := range r.Scan(ctx, rg) {
			if !yield(Sampled{Item: it, Weight: 1}, err) {
				return
			}
		}
	}
}
