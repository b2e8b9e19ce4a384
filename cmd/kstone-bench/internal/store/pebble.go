package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Configuration: CockroachDB's own (DefaultPebbleOptions), with the budgets of the
// benchmark: newest format, L0 thresholds for sublevels, 256 KiB index blocks, a
// filter of 10 bits a key on all levels but the last, which Get never consults,
// Snappy, two compactions at a time. Blocks are 4 KiB, Pebble's default: of 4, 8, 16
// and 32 KiB (CockroachDB's choice) it was fastest with these small records. Unsynced
// writes are in a buffer of the process until a background goroutine has written them.
//
// Values that lie apart: those of files with a fifth of garbage are written again, without the
// age that CockroachDB waits for.
//
// The second setting has the write buffer in two memtables, and the fastest compression of
// each level.
func init() {
	for i, name := range []string{"pebble", "pebble" + result.Second} {
		register(1, Engine{
			Name:     name,
			Module:   "github.com/cockroachdb/pebble/v2",
			Unsynced: LostWithKill,
			Open:     func(c Config) (Store, error) { return openPebble(c, i == 1) },
		})
	}
}

type pebbleStore struct {
	ordered
	db *pebble.DB
	wo *pebble.WriteOptions
}

func pebbleOptions(c Config, second bool) *pebble.Options {
	o := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(c.WriteBufferBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		L0CompactionFileThreshold:   500,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                4096,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		FlushSplitBytes:             2 << 20,
	}
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
	if second {
		o.MemTableSize, o.MemTableStopWritesThreshold = o.MemTableSize/2, 2
		o.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
			return pebble.DBCompressionFastest
		})
	}
	return o
}

func openPebble(c Config, second bool) (Store, error) {
	o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest}
	if !c.Defaults {
		o = pebbleOptions(c, second)
		o.Cache = pebble.NewCache(c.CacheBytes)
		defer o.Cache.Unref()
	}
	if c.LargeValue > 0 {
		o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
			return pebble.ValueSeparationPolicy{
				Enabled: true, MinimumSize: c.LargeValue, MaxBlobReferenceDepth: 10,
				TargetGarbageRatio: 0.2,
			}
		}
	}
	o.Logger = quiet{}
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	s := &pebbleStore{db: db, wo: pebble.NoSync}
	if s.of = s; c.Sync {
		s.wo = pebble.Sync
	}
	return s, nil
}

// quiet discards what an engine logs, except why it gives up.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
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

// MultiGet passes values on where they lie.
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

func (s *pebbleStore) iterate(p span, each func(Row) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: p.lo, UpperBound: p.hi})
	if err != nil {
		return err
	}
	return errors.Join(walk(it, p, each), it.Close())
}

// ScanKeys implements KeyScanner.
func (s *pebbleStore) ScanKeys() (n int, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, it.Close()
}

// WrittenBytes implements WriteCounter. What is flushed has the log in it.
func (s *pebbleStore) WrittenBytes() int64 {
	m := s.db.Metrics().Total()
	return int64(m.TableBytesFlushed + m.TableBytesCompacted + m.BlobBytesFlushed +
		m.BlobBytesCompacted)
}

// walk goes through an iterator that knows the bounds.
func walk(it interface {
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Error() error
}, p span, each func(Row) bool) error {
	first, next := it.First, it.Next
	if p.reverse {
		first, next = it.Last, it.Prev
	}
	for ok, n := first(), 1; ok; ok, n = next(), n+1 {
		if !each(Row{PK: it.Key(), Value: it.Value()}) || n == p.limit {
			break
		}
	}
	return it.Error()
}

func (s *pebbleStore) Flush() error { return s.db.Flush() }
func (s *pebbleStore) Close() error { return s.db.Close() }
