package store

import (
	"bytes"
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
	db    *bbolt.DB
	write func(func(*bbolt.Tx) error) error
}

var bucket = []byte("b")

func openBbolt(c Config) (Store, error) {
	db, err := bbolt.Open(filepath.Join(c.Dir, "bolt"), 0o644, &bbolt.Options{
		NoSync:          !c.Sync,
		NoGrowSync:      !c.Sync,
		NoFreelistSync:  true,
		NoStatistics:    true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: int(max(1<<30, 4*c.DataBytes)),
	})
	if err != nil {
		return nil, err
	}
	s := &bboltStore{db: db, write: db.Update}
	if c.Sync && c.Writers > 1 {
		db.MaxBatchSize = c.Writers
		db.MaxBatchDelay = time.Millisecond
		s.write = db.Batch
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
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

func (s *bboltStore) Query(q Query, each func(Row) bool) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		if q.Reverse {
			return queryBack(c, q, each)
		}
		n, lo := 0, append(append(make([]byte, 0, 64), q.PK...), q.From...)
		for k, v := c.Seek(lo); bytes.HasPrefix(k, q.PK); k, v = c.Next() {
			n++
			if !each(Row{PK: k, Value: v}) || n == q.Limit {
				break
			}
		}
		return nil
	})
}

func queryBack(c *bbolt.Cursor, q Query, each func(Row) bool) error {
	k, v := c.Seek(prefixEnd(append(make([]byte, 0, 64), q.PK...)))
	if k == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	for n := 1; bytes.HasPrefix(k, q.PK); k, v = c.Prev() {
		if !each(Row{PK: k, Value: v}) || n == q.Limit {
			break
		}
		n++
	}
	return nil
}

func (s *bboltStore) Scan(from Key, limit int, each func(Row) bool) error {
	return s.iterate(from.Bytes, nil, limit, each)
}

func (s *bboltStore) ScanPart(p Part, each func(Row) bool) error {
	return s.iterate(p.Lo, p.Hi, 0, each)
}

func (s *bboltStore) iterate(lo, hi []byte, limit int, each func(Row) bool) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		c, n := tx.Bucket(bucket).Cursor(), 0
		for k, v := c.Seek(lo); k != nil; k, v = c.Next() {
			if hi != nil && bytes.Compare(k, hi) >= 0 {
				break
			}
			n++
			if !each(Row{PK: k, Value: v}) || n == limit {
				break
			}
		}
		return nil
	})
}

// Flush: every commit is in the file already.
func (s *bboltStore) Flush() error { return nil }
func (s *bboltStore) Close() error { return s.db.Close() }
