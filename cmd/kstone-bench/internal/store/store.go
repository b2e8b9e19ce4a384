// Package store gives the engines one interface, with one file each: its
// configuration and the way an experienced user of it would do every operation.
package store

import (
	"cmp"
	"fmt"
	"slices"
)

// Key is a key whose first PK bytes are the partition key and the rest, if
// any, the sort key. Engines without that notion use Bytes.
type Key struct {
	Bytes []byte
	PK    int
}

// Row is a record of an iteration. Engines without sort keys have the whole key in
// PK. The slices are valid during the call that gets them.
type Row struct{ PK, SK, Value []byte }

// Query asks for records of one partition in the order of sort keys.
type Query struct {
	PK []byte
	// From is the lowest sort key wanted; empty means all.
	From  []byte
	Limit int
	// Reverse returns the highest sort key first.
	Reverse bool
}

// Part is one of the disjoint parts of all records that together are the whole:
// by number, or by the range [Lo, Hi) of keys (nil means unbounded).
type Part struct {
	Index, Count int
	Lo, Hi       []byte
}

// Store is an open database. Everything but Close may be called concurrently.
// Functions passed in return false to end an iteration; rows are valid only while
// they run.
type Store interface {
	Put(k Key, value []byte) error
	// PutBatch writes all records atomically. The engine may keep nothing of them.
	PutBatch(keys []Key, values [][]byte) error
	// PutIfAbsent writes the record unless the key has one, atomically with respect
	// to other calls of PutIfAbsent.
	PutIfAbsent(k Key, value []byte) (inserted bool, err error)
	Delete(k Key) error

	// Get appends the value to dst.
	Get(dst []byte, k Key) (value []byte, ok bool, err error)
	// MultiGet calls each with the value of every key, or with nil.
	MultiGet(keys []Key, each func(i int, value []byte)) error
	Query(q Query, each func(Row) bool) error
	// Scan returns limit records (0 means all) in the order of keys, from the given
	// one on (empty means the first).
	Scan(from Key, limit int, each func(Row) bool) error
	// ScanPart returns the records of one part in whatever order is fastest.
	ScanPart(p Part, each func(Row) bool) error

	// Flush moves what is buffered in memory into the files that reads use, as far
	// as the engine has such a buffer.
	Flush() error
	Close() error
}

// Filter is what engines have that report by one call which of many keys are new.
type Filter interface {
	// FilterNew returns dst, grown if needed, with an element for each key: whether the
	// database has no record of it. Workers is how many goroutines take part at most, 0
	// for the engine's choice.
	FilterNew(keys []Key, dst []bool, workers int) ([]bool, error)
}

// KeyScanner is what engines have that go through keys without reading values.
type KeyScanner interface {
	// ScanKeys goes through all keys, in whatever order is fastest, and returns their number.
	ScanKeys() (int, error)
}

// Collector is what engines have that collect the garbage of values only on request.
type Collector interface{ CollectGarbage() error }

// WriteCounter is what engines have that count the bytes they write to log and files. Why not what
// the process has made dirty: a file that is used again may be dirty still, and counts once.
type WriteCounter interface{ WrittenBytes() int64 }

// Config is what the benchmark decides for all engines alike.
type Config struct {
	Dir string
	// Sync makes a write return when it survives a power cut. Otherwise the engine
	// acknowledges as early as it can without losing the order of writes; what that
	// survives differs: see Engine.Unsynced.
	Sync bool
	// Writers is the number of goroutines that will write.
	Writers                      int
	WriteBufferBytes, CacheBytes int64
	// DataBytes is about what will be stored, for engines that reserve space.
	DataBytes int64
	// LargeValue is the size from which values lie apart from their keys; 0 leaves it to the
	// engine's set-up.
	LargeValue int
	// Defaults leaves everything but Dir and Sync to the engine.
	Defaults bool
}

// Engine is a database under test.
type Engine struct {
	Name string
	// Module is the path of the Go module whose version identifies the engine, or
	// empty for engines that report their version otherwise.
	Module  string
	Version func() string
	// Unsynced says what acknowledged writes survive without Config.Sync.
	Unsynced string
	// Void is set for the harness, which keeps nothing: it does the fills only, and
	// nothing is verified.
	Void  bool
	Open  func(Config) (Store, error)
	order int
}

// What unsynced writes survive.
const (
	SurvivesKill = "kill of the process"
	LostWithKill = "nothing: the end of the log is in the memory of the process"
)

var engines []Engine

// register adds an engine at its place in reports.
func register(order int, e Engine) {
	e.order = order
	engines = append(engines, e)
	slices.SortStableFunc(engines, func(a, b Engine) int { return cmp.Compare(a.order, b.order) })
}

// Names lists the engines compiled in, in the order of reports: kstone first.
func Names() (names []string) {
	for _, e := range engines {
		names = append(names, e.Name)
	}
	return names
}

// Find returns the engine of that name.
func Find(name string) (Engine, error) {
	for _, e := range engines {
		if e.Name == name {
			return e, nil
		}
	}
	return Engine{}, fmt.Errorf("no engine %q; compiled in: %v", name, Names())
}
