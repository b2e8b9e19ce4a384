package store

import (
	"bytes"
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Configuration: Badger's recommended options, with the budgets of the benchmark and
// no metrics. Its filters have a false positive rate of 1 %, which is 9.6 bits a key;
// values stay in the tables (the threshold of the value log is 1 MiB). Every write is
// a transaction, as Badger has no other single write, and so is a batch; conflicts
// between transactions are not looked for, which saves an eighth of the processor time
// of a write: a lock by key makes "put if absent" atomic instead. The log is a mapped
// file.
func init() {
	register(2, Engine{
		Name:     "badger",
		Module:   "github.com/dgraph-io/badger/v4",
		Unsynced: SurvivesKill,
		Open:     openBadger,
	})
}

type badgerStore struct {
	db     *badger.DB
	insert keyLocks // makes PutIfAbsent atomic
}

func openBadger(c Config) (Store, error) {
	o := badger.DefaultOptions(c.Dir).
		WithSyncWrites(c.Sync).
		WithMemTableSize(c.WriteBufferBytes).
		WithBlockCacheSize(c.CacheBytes).
		WithCompression(options.Snappy).
		WithMetricsEnabled(false).
		WithDetectConflicts(false).
		WithLogger(nil)
	db, err := badger.Open(o)
	if err != nil {
		return nil, err
	}
	return &badgerStore{db: db}, nil
}

// Put copies its arguments, because Badger keeps them until the commit is applied,
// and commits, which waits until the write is in log and memtable.
func (s *badgerStore) Put(k Key, value []byte) error {
	return s.db.Update(func(tx *badger.Txn) error {
		return tx.Set(bytes.Clone(k.Bytes), bytes.Clone(value))
	})
}

func (s *badgerStore) Delete(k Key) error {
	return s.db.Update(func(tx *badger.Txn) error { return tx.Delete(bytes.Clone(k.Bytes)) })
}

func (s *badgerStore) PutBatch(keys []Key, values [][]byte) error {
	return s.db.Update(func(tx *badger.Txn) error {
		for i, k := range keys {
			if err := tx.Set(bytes.Clone(k.Bytes), bytes.Clone(values[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *badgerStore) PutIfAbsent(k Key, value []byte) (inserted bool, err error) {
	defer s.insert.lock(k.Bytes)()
	err = s.db.Update(func(tx *badger.Txn) error {
		_, err := tx.Get(k.Bytes)
		if inserted = errors.Is(err, badger.ErrKeyNotFound); !inserted {
			return err
		}
		return tx.Set(bytes.Clone(k.Bytes), bytes.Clone(value))
	})
	return inserted && err == nil, err
}

func (s *badgerStore) Get(dst []byte, k Key) ([]byte, bool, error) {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	return badgerGet(tx, dst, k)
}

func badgerGet(tx *badger.Txn, dst []byte, k Key) ([]byte, bool, error) {
	item, err := tx.Get(k.Bytes)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			err = nil
		}
		return dst, false, err
	}
	err = item.Value(func(v []byte) error {
		dst = append(dst, v...)
		return nil
	})
	return dst, err == nil, err
}

func (s *badgerStore) MultiGet(keys []Key, each func(int, []byte)) error {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	get := func(dst []byte, k Key) ([]byte, bool, error) { return badgerGet(tx, dst, k) }
	return getEach(get, keys, each)
}

func (s *badgerStore) Query(q Query, each func(Row) bool) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.Reverse, o.PrefetchValues = q.PK, q.Reverse, false
	seek := append(append(make([]byte, 0, 64), q.PK...), q.From...)
	if q.Reverse {
		seek = append(seek[:len(q.PK)], 0xff)
	}
	return s.iterate(o, seek, nil, q.Limit, each)
}

func (s *badgerStore) Scan(from Key, limit int, each func(Row) bool) error {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false // values are beside their keys
	return s.iterate(o, from.Bytes, nil, limit, each)
}

func (s *badgerStore) ScanPart(p Part, each func(Row) bool) error {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false
	return s.iterate(o, p.Lo, p.Hi, 0, each)
}

func (s *badgerStore) iterate(o badger.IteratorOptions, seek, hi []byte, limit int,
	each func(Row) bool) error {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	it := tx.NewIterator(o)
	defer it.Close()
	n, more := 0, true
	for it.Seek(seek); more && it.ValidForPrefix(o.Prefix); it.Next() {
		item := it.Item()
		if hi != nil && bytes.Compare(item.Key(), hi) >= 0 {
			return nil
		}
		err := item.Value(func(v []byte) error {
			n++
			more = each(Row{PK: item.Key(), Value: v}) && n != limit
			return nil
		})
		if err != nil {
			return err
		}
		if !more {
			return nil // before Next, which would read one more
		}
	}
	return nil
}

// Flush: Badger flushes a memtable when it is full or when it closes.
func (s *badgerStore) Flush() error { return nil }
func (s *badgerStore) Close() error { return s.db.Close() }
