package store

import (
	"context"
	"errors"
	"iter"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// The vocabulary that implementations share, package engine included.
type (
	// Key is a partition key with an optional sort key.
	Key = keycodec.Key
	// Item is a stored item. Its Version is 0 if the store has none: see Limits.
	Item = kv.Item
	// Span is a half-open range of sort keys. The zero Span has all of them, but not the
	// item without a sort key.
	Span = keycodec.Span
	// ConditionError says which operation of a write set failed its condition: Op is its
	// index. It matches ErrConditionFailed.
	ConditionError = kv.ConditionError
	// Block is a number of items that an iteration has at hand together: see BlockReader.
	Block = kv.Block
	// Results are the items that a MultiGet has found: see ResultsReader.
	Results = kv.Results
	// Share divides a range among readers: see Sharer.
	Share = kv.Share
	// Sample selects items at random: see Sampler.
	Sample = kv.Sample
	// Sampled is an item of a sample.
	Sampled = kv.Sampled
	// TxOptions are how a transaction begins: see Transactor.
	TxOptions = kv.TxOptions
	// Savepoint is a state of what a transaction has written.
	Savepoint = kv.Savepoint
	// Zone has the column zones of a block or a file: see Describer.
	Zone = zone.Columns
	// ZoneItems are the items of a block.
	ZoneItems = zone.Items
	// ZoneBuilder takes the description of items.
	ZoneBuilder = zone.ColumnsBuilder
	// BlockCounts counts the blocks that were tested by their zones.
	BlockCounts = zone.BlockCounts
)

// Errors to test with errors.Is. Others may be returned as well, for example those of a
// damaged file or of a context.
var (
	// ErrNotFound: the key has no item.
	ErrNotFound = kv.ErrNotFound
	// ErrConditionFailed: a condition of the write set does not hold. Nothing was written.
	// The error is a *ConditionError.
	ErrConditionFailed = kv.ErrConditionFailed
	// ErrConflict: another commit came in between. Nothing was written; what it was based on
	// must be read again.
	ErrConflict = kv.ErrConflict
	// ErrTooLarge: a key, a value or a write set is beyond the limits. Nothing was written.
	ErrTooLarge = kv.ErrTooLarge
	// ErrInvalid: an argument makes no sense.
	ErrInvalid = kv.ErrInvalid
	// ErrClosed: the store, snapshot or transaction has been closed.
	ErrClosed = kv.ErrClosed
	// ErrReadOnly: the store takes no writes.
	ErrReadOnly = kv.ErrReadOnly
	// ErrTxAge: a transaction was rolled back as it was older than TxOptions.MaxAge.
	ErrTxAge = kv.ErrTxAge
	// ErrCorrupt: stored bytes are damaged. ErrVersion: their format is not known.
	ErrCorrupt = corrupt.ErrCorrupt
	ErrVersion = corrupt.ErrVersion
	// ErrUnknown: the outcome of a commit is not known. It is written as a whole or not at all. A
	// request that is on its way still, or waits at a server, may be carried out after a read.
	ErrUnknown = errors.New("store: unknown outcome")
	// ErrStale: the store has dropped what a snapshot or scan reads. Take a new one.
	ErrStale = errors.New("store: snapshot is too old")
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

	// Close ends the use of the store: it ends its connections, or closes the database that Open
	// has opened for it. It may be called again.
	Close() error
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
	// Fences says that processes share the storage, by stores of their own, and change definitions
	// of tables while others write: 0 is storage of one process. Every commit of rows requires
	// one of so many items, and every change of a definition writes all of them. It is 1 where
	// commits that require one item are not in conflict, and otherwise about as many as there are
	// commits at a time. All processes must have the same.
	Fences int
	// Follows says that what this store reads is written elsewhere, definitions of tables
	// included, by a writer that knows nothing of its readers.
	Follows bool
	// QueryBytes is what a query may keep in memory unless it is said otherwise: see
	// table.Options.MemoryBytes. 0 is exec.DefaultMemoryBytes.
	QueryBytes int64
	// Costs are what reading costs, for the planner.
	Costs Costs
}

// Costs are what reading costs, in nanoseconds where they are times. The planner compares plans by
// them. What is 0 is that of the engine of this process: plan.DefaultCosts.
type Costs struct {
	Seek  float64 // finding the first key of a range
	Key   float64 // reading on to the next key
	Byte  float64 // each byte of key and value on the way
	Fetch float64 // reading an item by its key, in a batch

	RoundTrip float64 // a request and its answer
	Page      int     // items that one request of a range returns
	Batch     int     // keys that one request of MultiGet looks up
	// Trees is in how many places a scan of everything looks for its first key.
	Trees int
}
