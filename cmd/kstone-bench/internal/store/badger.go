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
	ordered
	db *badger.DB
}

// valueLogBytes is the size of a value log: small beside the data of a measurement, as only whole
// ones are collected.
const valueLogBytes = 16 << 20

func openBadger(c Config) (Store, error) {
	o := badger.DefaultOptions(c.Dir).WithSyncWrites(c.Sync).WithLogger(nil)
	if !c.Defaults {
		o = o.WithMemTableSize(c.WriteBufferBytes).WithBlockCacheSize(c.CacheBytes).
			WithCompression(options.Snappy).WithMetricsEnabled(false).WithDetectConflicts(false)
	}
	if c.LargeValue > 0 {
		o = o.WithValueThreshold(int64(c.LargeValue)).WithValueLogFileSize(valueLogBytes)
	}
	db, err := badger.Open(o)
	s := &badgerStore{db: db}
	s.of = s
	return s, err
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
	defer s.lock(k).Unlock()
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

func (s *badgerStore) iterate(p span, each func(Row) bool) error {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false // values are beside their keys
	o.Prefix, o.Reverse = p.prefix, p.reverse
	seek := p.lo
	if p.reverse {
		seek = append(append(make([]byte, 0, 64), p.prefix...), 0xff)
	}
	it := tx.NewIterator(o)
	defer it.Close()
	n, more := 0, true
	for it.Seek(seek); more && it.Valid(); it.Next() {
		item := it.Item()
		if p.beyond(item.Key()) {
			return nil
		}
		err := item.Value(func(v []byte) error {
			n++
			more = each(Row{PK: item.Key(), Value: v}) && n != p.limit
			return nil
		})
		if err != nil || !more { // before Next, which would read one more
			return err
		}
	}
	return nil
}

// ScanKeys implements KeyScanner.
func (s *badgerStore) ScanKeys() (n int, err error) {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	it := tx.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		n++
	}
	return n, nil
}

// CollectGarbage implements Collector: value logs with a fifth of garbage are written again.
func (s *badgerStore) CollectGarbage() error {
	for {
		switch err := s.db.RunValueLogGC(0.2); {
		case errors.Is(err, badger.ErrNoRewrite):
			return nil
		case err != nil:
			return err
		}
	}
}

func (s *badgerStore) Close() error { return s.db.Close() }
