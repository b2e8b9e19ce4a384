package storetest

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// Memory is a store in a map. It has no fast paths and keeps nothing. It is right rather
// than fast: each scan sorts what it has found.
type Memory struct {
	clock func() time.Time

	mu         sync.Mutex
	state      *memoryState // replaced by each commit, so that readers may keep it
	version    uint64
	properties map[string][]byte
}

// NewMemory returns an empty store. Items expire by the clock.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{
		clock: clock, state: &memoryState{}, properties: map[string][]byte{},
	}
}

var _ store.Store = (*Memory)(nil)

// memoryState is the content at one moment, by ordered key. It is immutable.
type memoryState struct{ items map[string]store.Item }

// memoryLimits are low, so that the checks meet them.
var memoryLimits = store.Limits{
	KeyBytes: keycodec.MaxKeyBytes, ValueBytes: 1 << 20, CommitOps: 128, CommitBytes: 1 << 21,
	PropertyBytes: 1 << 16,
}

// memoryReader reads a state.
type memoryReader struct {
	items func() (map[string]store.Item, error)
	now   func() time.Time
}

func (m *Memory) reader() memoryReader {
	return memoryReader{
		func() (map[string]store.Item, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.state.items, nil
		},
		m.clock,
	}
}

// Get implements store.Reader.
func (m *Memory) Get(ctx context.Context, dst []byte, key store.Key) ([]byte, error) {
	return m.reader().Get(ctx, dst, key)
}

// MultiGet implements store.Reader.
func (m *Memory) MultiGet(
	ctx context.Context, keys []store.Key, found func(int, store.Item),
) error {
	return m.reader().MultiGet(ctx, keys, found)
}

// Scan implements store.Reader.
func (m *Memory) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Item, error] {
	return m.reader().Scan(ctx, r)
}

// Limits implements store.Store.
func (m *Memory) Limits() store.Limits { return memoryLimits }

// Close implements store.Store.
func (m *Memory) Close() error { return nil }

// Commit implements store.Writer.
func (m *Memory) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := w.Validate(memoryLimits); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := memoryReader{now: m.clock}
	for i := range w.Ops {
		op := &w.Ops[i]
		it, ok := r.lookup(m.state.items, op.Key)
		if !op.Cond.Holds(it, ok) {
			key := store.Item{Key: op.Key}.Clone().Key
			return &store.ConditionError{Key: key, Op: i, Exists: ok, Version: it.Version}
		}
	}
	m.version++
	items := maps.Clone(m.state.items)
	if items == nil {
		items = map[string]store.Item{}
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		switch op.Kind {
		case store.OpPut:
			it := store.Item{Key: op.Key, Value: op.Value, Expiry: op.Expiry, Version: m.version}
			items[ordered(op.Key)] = it.Clone()
		case store.OpDelete:
			delete(items, ordered(op.Key))
		}
	}
	m.state = &memoryState{items}
	return nil
}

// Snapshot implements store.Store.
func (m *Memory) Snapshot(context.Context) (store.Snapshot, error) {
	items, err := m.reader().items()
	s := &memorySnapshot{}
	s.memoryReader = memoryReader{
		func() (map[string]store.Item, error) {
			if s.closed {
				return nil, store.ErrClosed
			}
			return items, nil
		},
		m.clock,
	}
	return s, err
}

type memorySnapshot struct {
	memoryReader
	closed bool
}

// Close implements store.Snapshot.
func (s *memorySnapshot) Close() error {
	s.closed = true
	return nil
}

// Property implements store.Store.
func (m *Memory) Property(_ context.Context, name string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.properties[name]
	return bytes.Clone(value), ok, nil
}

// SetProperty implements store.Store.
func (m *Memory) SetProperty(_ context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" {
		return store.ErrInvalid
	}
	if len(value) > memoryLimits.PropertyBytes {
		return store.ErrTooLarge
	}
	if value == nil {
		delete(m.properties, name)
	} else {
		m.properties[name] = append([]byte{}, value...)
	}
	return nil
}

func ordered(key store.Key) string { return string(keycodec.AppendOrdered(nil, key)) }

// lookup returns the item of key that has not expired.
func (r memoryReader) lookup(items map[string]store.Item, key store.Key) (store.Item, bool) {
	it, ok := items[ordered(key)]
	if ok && it.Expiry != 0 && r.now().UnixMilli() >= it.Expiry {
		return store.Item{}, false
	}
	return it, ok
}

// Get implements store.Reader.
func (r memoryReader) Get(_ context.Context, dst []byte, key store.Key) ([]byte, error) {
	items, err := r.items()
	if err == nil {
		err = key.Validate()
	}
	if err != nil {
		return dst, err
	}
	it, ok := r.lookup(items, key)
	if !ok {
		return dst, store.ErrNotFound
	}
	if dst == nil {
		dst = []byte{}
	}
	return append(dst, it.Value...), nil
}

// MultiGet implements store.Reader.
func (r memoryReader) MultiGet(
	_ context.Context, keys []store.Key, found func(int, store.Item),
) error {
	items, err := r.items()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
	}
	for i, key := range keys {
		if it, ok := r.lookup(items, key); ok {
			found(i, it)
		}
	}
	return nil
}

// Scan implements store.Reader.
func (r memoryReader) Scan(
	ctx context.Context, rg store.Range,
) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		items, err := r.items()
		if err == nil {
			err = cmp.Or(rg.Validate(), context.Cause(ctx))
		}
		if err != nil {
			yield(store.Item{}, err)
			return
		}
		n := 0
		for _, it := range Select(items, rg, r.now().UnixMilli()) {
			if !yield(it, nil) {
				return
			}
			if n++; n == rg.Limit {
				return
			}
		}
	}
}
