package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// besideModel is what a writer has committed: version by version, the number of each key.
type besideModel struct {
	t    *testing.T
	rand *rand.Rand
	db   *engine.DB
	keys int
	at   map[uint64]map[int]string // by version
	now  map[int]string
}

func (m *besideModel) key(i int) engine.Key {
	return engine.Key{PK: fmt.Appendf(nil, "p%d", i%17), SK: fmt.Appendf(nil, "k%05d", i)}
}

// step commits a batch, or a range delete.
func (m *besideModel) step(round int) {
	m.t.Helper()
	b := engine.NewBatch()
	next := map[int]string{}
	for k, v := range m.now {
		next[k] = v
	}
	for range 1 + m.rand.IntN(8) {
		i := m.rand.IntN(m.keys)
		if m.rand.IntN(4) == 0 {
			b.Delete(m.key(i))
			delete(next, i)
			continue
		}
		v := fmt.Sprintf("%d-%d-%0*d", round, i, m.rand.IntN(200), 0)
		b.Put(m.key(i), []byte(v))
		next[i] = v
	}
	ok(m.t, m.db.Apply(context.Background(), b))
	m.now = next
	m.at[m.db.Metrics().LastVersion] = next
}

// check compares a reader with the model at the version that the reader says it has.
func (m *besideModel) check(r *engine.DB) uint64 {
	m.t.Helper()
	s := snapshotOf(m.t, r)
	defer s.Close()
	m.checkSnapshot(s)
	return s.Version()
}

func (m *besideModel) checkSnapshot(s *engine.Snapshot) {
	m.t.Helper()
	want, known := m.at[s.Version()]
	if !known {
		m.t.Fatalf("the reader is at version %d, which the writer never had", s.Version())
	}
	got := map[string]string{}
	for it, err := range s.Scan(context.Background(), engine.Scan{}) {
		ok(m.t, err)
		got[string(it.Key.SK)] = string(it.Value)
	}
	for i := range m.keys {
		k := m.key(i)
		if got[string(k.SK)] != want[i] {
			m.t.Fatalf("version %d: scan has %q for %s, want %q", s.Version(), got[string(k.SK)],
				k.SK, want[i])
		}
	}
	i := m.rand.IntN(m.keys)
	v, err := s.Get(m.key(i))
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	}
	ok(m.t, err)
	if string(v) != want[i] {
		m.t.Fatalf("version %d: get has %q for %d, want %q", s.Version(), v, i, want[i])
	}
}

// A database is read while it is written: each state that a reader sees is one of the writer's, at
// most as old as its last refresh, whatever the writer flushes and merges, and snapshots stay.
//
// Promise (readers): A reader beside the writer sees whole commits, and goes on.
func TestReadersBesideTheWriter(t *testing.T) {
	dir := t.TempDir()
	w, err := engine.Open(dir, &engine.Options{Durability: engine.Process})
	ok(t, err)
	m := &besideModel{t: t, rand: testutil.Rand(t), db: w, keys: 300,
		at: map[uint64]map[int]string{0: {}}}
	reader := func() *engine.DB {
		r := openDir(t, dir, &engine.Options{ReadOnly: true})
		return r
	}
	readers := []*engine.DB{reader()}
	var old []*engine.Snapshot
	for round := range testutil.Effort(100, 20_000) {
		m.step(round)
		switch m.rand.IntN(12) {
		case 0:
			ok(t, w.Flush(context.Background()))
		case 1:
			ok(t, w.CompactPartition(context.Background(), m.key(m.rand.IntN(m.keys)).PK))
		case 2:
			if len(readers) < 5 {
				readers = append(readers, reader())
			} else {
				i := m.rand.IntN(len(readers))
				for j := range old {
					m.checkSnapshot(old[j])
					ok(t, old[j].Close())
				}
				old = nil
				ok(t, readers[i].Close())
				readers[i] = reader()
			}
		case 3:
			s := snapshotOf(t, readers[m.rand.IntN(len(readers))])
			old = append(old, s)
		case 4:
			if len(old) > 0 {
				m.checkSnapshot(old[m.rand.IntN(len(old))])
			}
		case 5: // the writer comes again
			ok(t, w.Close())
			w = openDir(t, dir, &engine.Options{Durability: engine.Process})
			m.db = w
		}
		r := readers[m.rand.IntN(len(readers))]
		m.check(r)
		ok(t, w.Sync(context.Background()))
		ok(t, r.Refresh())
		if got, want := m.check(r), w.Metrics().LastVersion; got != want {
			t.Fatalf("a refreshed reader is at version %d, the writer at %d", got, want)
		}
		if got := r.Metrics(); got.LogBytes <= 0 || got.LogSegments <= 0 {
			t.Fatalf("a reader sees %d bytes of log in %d files", got.LogBytes, got.LogSegments)
		}
	}
	for _, s := range old {
		m.checkSnapshot(s)
		ok(t, s.Close())
	}
	for _, r := range readers {
		m.check(r)
		ok(t, r.Close())
	}
	ok(t, w.Close())
}
