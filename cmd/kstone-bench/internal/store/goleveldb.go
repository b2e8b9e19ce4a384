package store

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Configuration: the one go-ethereum arrived at: filters of 10 bits a key, no
// compaction caused by seeks, many open files; larger tables than the default 2 MiB;
// Snappy. There is one write buffer being filled and one being flushed. The log is
// written by one write call for each commit.
func init() {
	register(3, Engine{
		Name:     "goleveldb",
		Module:   "github.com/syndtr/goleveldb",
		Unsynced: SurvivesKill,
		Open:     openGoleveldb,
	})
}

type goleveldb struct {
	db     *leveldb.DB
	wo     *opt.WriteOptions
	insert keyLocks // makes PutIfAbsent atomic
}

func openGoleveldb(c Config) (Store, error) {
	db, err := leveldb.OpenFile(c.Dir, &opt.Options{
		WriteBuffer:            int(c.WriteBufferBytes),
		BlockCacheCapacity:     int(c.CacheBytes),
		BlockSize:              4 << 10,
		CompactionTableSize:    8 << 20,
		Compression:            opt.SnappyCompression,
		DisableSeeksCompaction: true,
		Filter:                 filter.NewBloomFilter(10),
		OpenFilesCacheCapacity: 4096,
	})
	if err != nil {
		return nil, err
	}
	return &goleveldb{db: db, wo: &opt.WriteOptions{Sync: c.Sync}}, nil
}

func (s *goleveldb) Put(k Key, value []byte) error { return s.db.Put(k.Bytes, value, s.wo) }
func (s *goleveldb) Delete(k Key) error            { return s.db.Delete(k.Bytes, s.wo) }

func (s *goleveldb) PutBatch(keys []Key, values [][]byte) error {
	var b leveldb.Batch
	for i, k := range keys {
		b.Put(k.Bytes, values[i])
	}
	return s.db.Write(&b, s.wo)
}

func (s *goleveldb) PutIfAbsent(k Key, value []byte) (bool, error) {
	defer s.insert.lock(k.Bytes)()
	present, err := s.db.Has(k.Bytes, nil)
	if err != nil || present {
		return false, err
	}
	return true, s.db.Put(k.Bytes, value, s.wo)
}

// Get: goleveldb returns a copy of its own.
func (s *goleveldb) Get(dst []byte, k Key) ([]byte, bool, error) {
	v, err := s.db.Get(k.Bytes, nil)
	if err != nil {
		if errors.Is(err, leveldb.ErrNotFound) {
			err = nil
		}
		return dst, false, err
	}
	return v, true, nil
}

func (s *goleveldb) MultiGet(keys []Key, each func(int, []byte)) error {
	return getEach(s.Get, keys, each)
}

func (s *goleveldb) Query(q Query, each func(Row) bool) error {
	lo := append(append(make([]byte, 0, 64), q.PK...), q.From...)
	hi := prefixEnd(append(make([]byte, 0, 64), q.PK...))
	return s.iterate(lo, hi, q.Limit, q.Reverse, each)
}

func (s *goleveldb) Scan(from Key, limit int, each func(Row) bool) error {
	return s.iterate(from.Bytes, nil, limit, false, each)
}

func (s *goleveldb) ScanPart(p Part, each func(Row) bool) error {
	return s.iterate(p.Lo, p.Hi, 0, false, each)
}

func (s *goleveldb) iterate(lo, hi []byte, limit int, reverse bool, each func(Row) bool) error {
	it := s.db.NewIterator(&util.Range{Start: lo, Limit: hi}, nil)
	defer it.Release()
	first, next := it.First, it.Next
	if reverse {
		first, next = it.Last, it.Prev
	}
	for ok, n := first(), 1; ok; ok, n = next(), n+1 {
		if !each(Row{PK: it.Key(), Value: it.Value()}) || n == limit {
			break
		}
	}
	return it.Error()
}

// Flush: goleveldb has no call that flushes without compacting.
func (s *goleveldb) Flush() error { return nil }
func (s *goleveldb) Close() error { return s.db.Close() }
