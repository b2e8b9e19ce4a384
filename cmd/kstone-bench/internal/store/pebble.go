package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Configuration: CockroachDB's own (DefaultPebbleOptions), with the budgets of the
// benchmark: newest format, L0 thresholds for sublevels, 256 KiB index blocks, a
// filter of 10 bits a key on all levels but the last, which Get never consults,
// Snappy, two compactions at a time. Blocks are 4 KiB, Pebble's default: of 4, 8, 16
// and 32 KiB (CockroachDB's choice) it was fastest with these small records. Unsynced
// writes are in a buffer of the process until a background goroutine has written them.
func init() {
	register(1, Engine{
		Name:     "pebble",
		Module:   "github.com/cockroachdb/pebble/v2",
		Unsynced: LostWithKill,
		Open:     openPebble,
	})
}

type pebbleStore struct {
	db *pebble.DB
	wo *pebble.WriteOptions
	// insert makes PutIfAbsent atomic: Pebble has no conditional write.
	insert keyLocks
}

func openPebble(c Config) (Store, error) {
	cache := pebble.NewCache(c.CacheBytes)
	defer cache.Unref()
	o := &pebble.Options{
		Cache:                       cache,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(c.WriteBufferBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		L0CompactionFileThreshold:   500,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                4096,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      quiet{},
	}
	o.FlushSplitBytes = 2 << 20
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 4 << 10
		l.IndexBlockSize = 256 << 10
		l.FilterType = pebble.TableFilter
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
		o.TargetFileSizes[i] = 2 << 20 << i
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	s := &pebbleStore{db: db, wo: pebble.NoSync}
	if c.Sync {
		s.wo = pebble.Sync
	}
	return s, nil
}

// quiet discards what an engine logs, except why it gives up.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Warningf(string, ...any)        {}
func (quiet) Debugf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { pebble.DefaultLogger.Fatalf(format, a...) }

func (s *pebbleStore) Put(k Key, value []byte) error { return s.db.Set(k.Bytes, value, s.wo) }
func (s *pebbleStore) Delete(k Key) error            { return s.db.Delete(k.Bytes, s.wo) }

func (s *pebbleStore) PutBatch(keys []Key, values [][]byte) error {
	b := s.db.NewBatch()
	for i, k := range keys {
		op := b.SetDeferred(len(k.Bytes), len(values[i]))
		copy(op.Key, k.Bytes)
		copy(op.Value, values[i])
		if err := op.Finish(); err != nil {
			return err
		}
	}
	if err := b.Commit(s.wo); err != nil {
		return err
	}
	return b.Close()
}

func (s *pebbleStore) PutIfAbsent(k Key, value []byte) (bool, error) {
	defer s.insert.lock(k.Bytes)()
	_, closer, err := s.db.Get(k.Bytes)
	if err == nil {
		return false, closer.Close()
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return false, err
	}
	return true, s.db.Set(k.Bytes, value, s.wo)
}

func (s *pebbleStore) Get(dst []byte, k Key) ([]byte, bool, error) {
	v, closer, err := s.db.Get(k.Bytes)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			err = nil
		}
		return dst, false, err
	}
	dst = append(dst, v...)
	return dst, true, closer.Close()
}

func (s *pebbleStore) MultiGet(keys []Key, each func(int, []byte)) error {
	for i, k := range keys {
		v, closer, err := s.db.Get(k.Bytes)
		switch {
		case err == nil:
			each(i, v)
			err = closer.Close()
		case errors.Is(err, pebble.ErrNotFound):
			each(i, nil)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *pebbleStore) Query(q Query, each func(Row) bool) error {
	lo := append(append(make([]byte, 0, 64), q.PK...), q.From...)
	hi := prefixEnd(append(make([]byte, 0, 64), q.PK...))
	return s.iterate(lo, hi, q.Limit, q.Reverse, each)
}

// prefixEnd turns a prefix in place into the first key after all that start with it.
// The keys of the benchmark are digits, so the last byte can be raised.
func prefixEnd(p []byte) []byte {
	p[len(p)-1]++
	return p
}

func (s *pebbleStore) Scan(from Key, limit int, each func(Row) bool) error {
	return s.iterate(from.Bytes, nil, limit, false, each)
}

func (s *pebbleStore) ScanPart(p Part, each func(Row) bool) error {
	return s.iterate(p.Lo, p.Hi, 0, false, each)
}

func (s *pebbleStore) iterate(lo, hi []byte, limit int, reverse bool, each func(Row) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return err
	}
	first, next := it.First, it.Next
	if reverse {
		first, next = it.Last, it.Prev
	}
	for ok, n := first(), 1; ok; ok, n = next(), n+1 {
		if !each(Row{PK: it.Key(), Value: it.Value()}) || n == limit {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func (s *pebbleStore) Flush() error { return s.db.Flush() }
func (s *pebbleStore) Close() error { return s.db.Close() }
