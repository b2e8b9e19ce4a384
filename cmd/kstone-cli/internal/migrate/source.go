// Package migrate has the command migrate, which copies what other engines store into a database.
//
// It knows no other engine. Readers of them are registered by a program that links their code:
// kstone-cli-migrate, a module of its own.
package migrate

import (
	"context"
	"errors"
	"iter"

	"github.com/kstonedb/kstone/engine/expr"
)

// Pair is a key with its value. Its slices are valid until the next pair.
type Pair struct {
	// Bucket is the path of the bucket, as BucketPath writes it; "" in a store without buckets.
	Bucket     string
	Key, Value []byte
	Expiry     int64 // in Unix milliseconds, 0 for never
}

// Pairs is a store of keys and values, which is open read-only and does not change while it is.
type Pairs interface {
	// All reads the pairs, each time the same, in the order of buckets and keys.
	All(ctx context.Context) iter.Seq2[Pair, error]
	// Buckets reports whether pairs are in buckets.
	Buckets() bool
	// Left lists what the store has beside its pairs, which is not copied. It is complete when All
	// has been read to its end.
	Left() []string
	Close() error
}

// Table is a table of a source, and what becomes of it.
type Table struct {
	Name    string
	Count   int64 // of its rows
	Next    int64 // the next number of the column with numbers, 0 without one
	Columns []Column
	Key     []string // the columns of the primary key
	Indexes []Index
	Left    []string // what it has that is not carried over
}

// Column is a column of a source, and what becomes of it.
type Column struct {
	Name     string
	From, To string // its type
	Nullable bool
	Default  string // an expression, "" for none
	Note     string // what changes, if anything does
}

// Index is an index of a source.
type Index struct {
	Name    string
	Unique  bool
	Columns []string // quoted, perhaps with DESC
	Where   string   // a condition, "" for none
}

// Tables is a store of tables, which is open read-only and does not change while it is.
type Tables interface {
	Tables() []Table
	// Rows reads a table, a value for each column of its definition. A *RowError is a row that
	// cannot be carried over; the next one follows.
	Rows(ctx context.Context, t *Table) iter.Seq2[[]expr.Value, error]
	// Left lists what is not carried over and belongs to no table.
	Left() []string
	Close() error
}

// RowError reports why a row is not carried over.
type RowError struct{ Reason string }

// Error implements error.
func (e *RowError) Error() string { return e.Reason }

// ErrBusy is matched by the error of a source that another process has open for writing.
var ErrBusy = errors.New("another process has it open for writing")

// Opener opens a source of one kind. Only one of the two is not nil.
type Opener func(path string) (Pairs, Tables, error)

// kinds are the engines whose readers some program has.
var kinds = []string{"bbolt", "badger", "leveldb", "pebble", "sqlite"}

var openers = map[string]Opener{}

// Register makes the reader of one engine known to the command.
func Register(kind string, o Opener) { openers[kind] = o }
