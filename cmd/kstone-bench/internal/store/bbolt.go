package store

import (
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// Configuration: free pages in a map and not on disk, no statistics, a memory map large
// enough from the start. Unsynced means NoSync: pages are written with pwrite and not synced.
// Several synced writers share transactions through Batch, whose size is the number of
// writers, so that a batch starts when all wait for it. The page cache is its cache.
func init() {
	register(4, Engine{
		Name:     "bbolt",
		Module:   "go.etcd.io/bbolt",
		Unsynced: SurvivesKill,
		Open:     openBbolt,
	})
}

type bboltStore struct {
	ordered
	db    *bbolt.DB
	write func(func(*bbolt.Tx) error) error
}

var bucket = []byte("b")

func openBbolt(c Config) (Store, error) {
	o := &bbolt.Options{
		NoSync:          !c.Sync,
		NoGrowSync:      !c.Sync,
		NoFreelistSync:  true,
		NoStatistics:    true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: int(max(1<<30, 4*c.DataBytes)),
	}
	if c.Defaults {
		o = nil
	}
	db, err := bbolt.Open(filepath.Join(c.Dir, "bolt"), 0o644, o)
	if err != nil {
		return nil, err
	}
	s := &bboltStore{db: db, write: db.Update}
	if s.of = s; c.Sync && c.Writers > 1 {
		db.MaxBatchSize = c.Writers
		db.MaxBatchDelay = time.Millisecond
		s.write = db.Batch
	}
	isNew := false
	err = db.View(func(tx *bbolt.Tx) error {
		isNew = tx.Bucket(bucket) == nil
		return nil
	})
	if err == nil && isNew {
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(bucket)
			return err
		})
	}
	return s, err
}

func (s *bboltStore) Put(k Key, value []byte) error {
	return s.write(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(k.Bytes, value) })
}

func (s *bboltStore) Delete(k Key) error {
	return s.write(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Delete(k.Bytes) })
}

func (s *bboltStore) PutBatch(keys []Key, values [][]byte) error {
	return s.write(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for i, k := range keys {
			if err := b.Put(k.Bytes, values[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *bboltStore) PutIfAbsent(k Key, value []byte) (inserted bool, err error) {
	err = s.write(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		if inserted = b.Get(k.Bytes) == nil; !inserted {
			return nil
		}
		return b.Put(k.Bytes, value)
	})
	return inserted, err
}

func (s *bboltStore) Get(dst []byte, k Key) (value []byte, ok bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucket).Get(k.Bytes)
		ok = v != nil
		value = append(dst, v...)
		return nil
	})
	return value, ok, err
}

func (s *bboltStore) MultiGet(keys []Key, each func(int, []byte)) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		for i, k := range keys {
			each(i, b.Get(k.Bytes))
		}
		return nil
	})
}

func (s *bboltStore) iterate(p span, each func(Row) bool) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		k, v := c.Seek(p.lo)
		next := c.Next
		if p.reverse {
			next = c.Prev
			if k, _ = c.Seek(p.hi); k == nil {
				k, v = c.Last()
			} else {
				k, v = c.Prev()
			}
		}
		for n := 1; k != nil; k, v = next() {
			if p.beyond(k) || !each(Row{PK: k, Value: v}) || n == p.limit {
				break
			}
			n++
		}
		return nil
	})
}

func (s *bboltStore) Close() error { return s.db.Close() }
