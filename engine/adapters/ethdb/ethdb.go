// Package ethdb makes a kstone database a flat, ordered key-value store with iterators and batches,
// as goleveldb and Pebble are: an ethdb.KeyValueStore of go-ethereum, whose test kit it passes.
//
// A key is the PK of an item without SK, after the byte Prefix. So keys spread over 256 stripes:
// writes and lookups of many goroutines do not wait for each other. The price is paid by iterators,
// which merge all stripes: before its first key one takes 0.5 to 1.2 ms, where a lookup takes 1 µs
// (BenchmarkStore, 200,000 keys, 2 cores). A program that mostly iterates over short ranges is
// better off with items of one partition, which the API of kstone has and this interface does not.
//
// Keys have less than 64 KiB.
package ethdb

import (
	"context"
	"math"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/kstonedb/kstone/engine"
)

// Store is a database as an ethdb.KeyValueStore. Its methods may be called concurrently. A key that
// is not there is engine.ErrNotFound, a call after Close engine.ErrClosed.
type Store struct{ db *engine.DB }

var _ ethdb.KeyValueStore = (*Store)(nil)

// New returns db as a Store, which owns it from now on: Close closes it. Writes survive the end of
// the process at once, and a power cut after SyncKeyValue or what is synced later, as with the
// stores of go-ethereum.
func New(db *engine.DB) *Store { return &Store{db} }

// Prefix is the first byte of every PK, so that a key may be empty, and tables may be beside the
// keys. It is part of what is stored.
const Prefix = 'k'

// keyOf returns the key of an item.
func keyOf(key []byte) engine.Key {
	return engine.Key{PK: append(append(make([]byte, 0, 1+len(key)), Prefix), key...)}
}

// endOf returns the end of a range; a nil one is after all keys.
func endOf(key []byte) engine.Key {
	if key == nil {
		return engine.Key{PK: []byte{Prefix + 1}}
	}
	return keyOf(key)
}

// Has implements ethdb.KeyValueReader.
func (s *Store) Has(key []byte) (bool, error) { return s.db.Has(keyOf(key)) }

// Get implements ethdb.KeyValueReader. The caller owns the value.
func (s *Store) Get(key []byte) ([]byte, error) { return s.db.Get(keyOf(key)) }

// Put implements ethdb.KeyValueWriter.
func (s *Store) Put(key, value []byte) error {
	return s.db.Put(keyOf(key), value, engine.Process)
}

// Delete implements ethdb.KeyValueWriter.
func (s *Store) Delete(key []byte) error {
	return s.db.Delete(keyOf(key), engine.Process)
}

// DeleteRange implements ethdb.KeyValueRangeDeleter, in one commit whose cost does not depend on
// the number of keys.
func (s *Store) DeleteRange(start, end []byte) error {
	return s.db.DeleteScan(keyOf(start), endOf(end), engine.Process)
}

// Stat implements ethdb.KeyValueStater.
func (s *Store) Stat() (string, error) { return s.db.Metrics().String(), nil }

// SyncKeyValue implements ethdb.KeyValueSyncer.
func (s *Store) SyncKeyValue() error { return s.db.Sync(context.Background()) }

// Compact implements ethdb.Compacter. It compacts the whole database, whatever the range.
func (s *Store) Compact([]byte, []byte) error { return s.db.Compact(context.Background()) }

// Close closes the database. Iterators are released first.
func (s *Store) Close() error { return s.db.Close() }

// NewIterator implements ethdb.Iteratee: over the keys with a prefix, from prefix + start on, as
// they are now.
func (s *Store) NewIterator(prefix, start []byte) ethdb.Iterator {
	from := keyOf(prefix)
	from.PK = append(from.PK, start...)
	it, err := s.db.ScanIterator(context.Background(),
		engine.Scan{From: from, To: endOf(after(prefix))})
	return &iterator{it: it, err: err}
}

// after returns the first key after all that begin with prefix, nil if there is none.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for len(end) > 0 {
		last := &end[len(end)-1]
		if *last < math.MaxUint8 {
			*last++
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}

// iterator is an ethdb.Iterator.
type iterator struct {
	it    *engine.Iterator // nil after an error, or when it is released
	err   error
	key   []byte
	value []byte
}

// Next implements ethdb.Iterator.
func (i *iterator) Next() bool {
	i.key, i.value = nil, nil
	if i.it == nil || !i.it.Next() {
		return false
	}
	item := i.it.Item()
	i.key, i.value = item.Key.PK[1:], item.Value
	return true
}

// Error implements ethdb.Iterator.
func (i *iterator) Error() error {
	if i.it != nil {
		return i.it.Err()
	}
	return i.err
}

// Key implements ethdb.Iterator.
func (i *iterator) Key() []byte { return i.key }

// Value implements ethdb.Iterator.
func (i *iterator) Value() []byte { return i.value }

// Release implements ethdb.Iterator.
func (i *iterator) Release() {
	if i.it != nil {
		i.err = i.it.Err()
		_ = i.it.Close() // what was read is complete
		i.it, i.key, i.value = nil, nil, nil
	}
}
