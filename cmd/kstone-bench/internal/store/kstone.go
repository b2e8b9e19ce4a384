package store

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/kstonedb/kstone/engine"
)

// Configuration: the defaults, with the budgets of the benchmark. Keys without a
// sort key are partition keys as a whole, so they spread over all stripes, in the
// sequential workloads too.
func init() {
	register(0, Engine{
		Name:     "kstone",
		Module:   "github.com/kstonedb/kstone",
		Unsynced: SurvivesKill,
		Open:     openKstone,
	})
}

type kstone struct {
	db      *engine.DB
	batches sync.Pool
	lookups sync.Pool // of *lookup
}

func openKstone(c Config) (Store, error) {
	o := &engine.Options{}
	if !c.Defaults {
		o.Durability = engine.Process
		o.MemtableBytes, o.CacheBytes = c.WriteBufferBytes, c.CacheBytes
	}
	o.LargeValue = c.LargeValue
	if c.Sync {
		o.Durability = engine.Sync
	}
	db, err := engine.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	s := &kstone{db: db}
	s.batches.New = func() any { return engine.NewBatch() }
	s.lookups.New = func() any { return new(lookup) }
	return s, nil
}

func (k Key) split() engine.Key {
	if k.PK == len(k.Bytes) {
		return engine.Key{PK: k.Bytes}
	}
	return engine.Key{PK: k.Bytes[:k.PK], SK: k.Bytes[k.PK:]}
}

func (s *kstone) Put(k Key, value []byte) error { return s.db.Put(k.split(), value) }
func (s *kstone) Delete(k Key) error            { return s.db.Delete(k.split()) }

func (s *kstone) PutBatch(keys []Key, values [][]byte) error {
	b := s.batches.Get().(*engine.Batch)
	defer s.batches.Put(b)
	b.Reset()
	for i, k := range keys {
		if err := b.Put(k.split(), values[i]); err != nil {
			return err
		}
	}
	return s.db.Apply(context.Background(), b)
}

func (s *kstone) PutIfAbsent(k Key, value []byte) (bool, error) {
	err := s.db.PutIf(k.split(), value, engine.IfAbsent())
	if errors.Is(err, engine.ErrConditionFailed) {
		return false, nil
	}
	return err == nil, err
}

func (s *kstone) Get(dst []byte, k Key) ([]byte, bool, error) {
	v, err := s.db.AppendGet(dst, k.split())
	if err == engine.ErrNotFound { //nolint:errorlint // documented to be exactly it
		return v, false, nil
	}
	return v, err == nil, err
}

// MultiGet passes on values that are valid until each returns.
func (s *kstone) MultiGet(keys []Key, each func(int, []byte)) error {
	m := s.lookups.Get().(*lookup)
	defer s.lookups.Put(m)
	if err := s.db.MultiGet(context.Background(), m.split(keys), &m.results); err != nil {
		return err
	}
	defer m.results.Release()
	for i := range keys {
		v, _ := m.results.Value(i)
		each(i, v)
	}
	return nil
}

// FilterNew calls no repeated key new; the benchmark has none.
func (s *kstone) FilterNew(keys []Key, dst []bool, workers int) ([]bool, error) {
	m := s.lookups.Get().(*lookup)
	defer s.lookups.Put(m)
	o := engine.FilterOptions{Workers: workers}
	dst, _, err := s.db.FilterNew(context.Background(), m.split(keys), dst, &o)
	return dst, err
}

// lookup is reused memory of a call for many keys.
type lookup struct {
	keys    []engine.Key
	results engine.Results
}

func (m *lookup) split(keys []Key) []engine.Key {
	m.keys = m.keys[:0]
	for _, k := range keys {
		m.keys = append(m.keys, k.split())
	}
	return m.keys
}

func (s *kstone) Query(q Query, each func(Row) bool) error {
	eq := engine.Query{PK: q.PK, Limit: q.Limit, Reverse: q.Reverse}
	if len(q.From) > 0 {
		eq.SK = engine.SKGreaterEqual(q.From)
	}
	return rows(s.db.Query(context.Background(), eq), each)
}

func (s *kstone) Scan(from Key, limit int, each func(Row) bool) error {
	sc := engine.Scan{Limit: limit}
	if len(from.Bytes) > 0 { // StartAfter excludes its key: start after the one before
		before := append([]byte(nil), from.Bytes...)
		before[len(before)-1]--
		sc.StartAfter = Key{before, from.PK}.split()
	}
	return rows(s.db.Scan(context.Background(), sc), each)
}

func (s *kstone) ScanPart(p Part, each func(Row) bool) error {
	sc := engine.Scan{Unordered: true, Segment: p.Index, Segments: p.Count}
	return rows(s.db.Scan(context.Background(), sc), each)
}

// ScanKeys implements KeyScanner.
func (s *kstone) ScanKeys() (n int, err error) {
	sc := engine.Scan{Unordered: true, KeysOnly: true}
	err = rows(s.db.Scan(context.Background(), sc), func(Row) bool {
		n++
		return true
	})
	return n, err
}

// WrittenBytes implements WriteCounter.
func (s *kstone) WrittenBytes() int64 {
	m := s.db.Metrics()
	return int64(m.WrittenBytes + m.FlushedBytes + m.CompactionWrittenBytes)
}

func rows(items iter.Seq2[engine.Item, error], each func(Row) bool) error {
	for it, err := range items {
		if err != nil {
			return err
		}
		if !each(Row{it.Key.PK, it.Key.SK, it.Value}) {
			break
		}
	}
	return nil
}

func (s *kstone) Flush() error { return s.db.Flush(context.Background()) }
func (s *kstone) Close() error { return s.db.Close() }
