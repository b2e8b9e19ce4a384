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
	ordered
	db *leveldb.DB
	wo *opt.WriteOptions
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
	s := &goleveldb{db: db, wo: &opt.WriteOptions{Sync: c.Sync}}
	s.of = s
	return s, err
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

func (s *goleveldb) iterate(p span, each func(Row) bool) error {
	it := s.db.NewIterator(&util.Range{Start: p.lo, Limit: p.hi}, nil)
	defer it.Release()
	return walk(it, p, each)
}

func (s *goleveldb) Close() error { return s.db.Close() }
