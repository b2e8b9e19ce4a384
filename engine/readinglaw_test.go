package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # The law of reading
//
// A database remembers much of what a reader has found for the next ones. Whatever writes, flushes
// and merges run meanwhile, at each moment all ways of reading show the same: what lookups of the
// keys one by one find, which remember nothing. They find what was acknowledged before the moment,
// and nothing that began after it.

const (
	lawWriters = 2
	lawReaders = 2
	lawKeys    = 40 // of each writer
	lawCommits = 30 // of each writer
)

// lawWorld is a database in its first moments, when most keys are the first of their memtables.
type lawWorld struct {
	t          *testing.T
	db         *engine.DB
	beside     *engine.DB // reads it as another process would; or nil
	past       bool       // versions are retained
	apart      bool       // writers have partitions of their own
	partitions int
	keys       []*lawKey // those of each writer follow each other

	reads   atomic.Int64
	writing atomic.Int64 // writers
}

// lawKey is a key that one goroutine writes: with numbers that ascend.
type lawKey struct {
	engine.Key
	begun, done atomic.Uint64 // number times two, with one if it deletes
	deletes     atomic.Uint64 // the last number that was begun and deletes
}

// lawState is what a key has.
type lawState struct {
	number  uint64 // of a value
	there   bool
	version uint64
}

// newLawWorld returns an empty database with small buffers.
func newLawWorld(t *testing.T, rnd *rand.Rand) *lawWorld {
	o := engine.Options{
		Durability: engine.Process, FlushRecords: 1 + rnd.IntN(6), MaxRuns: 2 + rnd.IntN(3),
		BlockBytes: 1 << 10, CacheBytes: 1 << (10 + rnd.IntN(12)),
	}
	w := &lawWorld{
		t: t, past: rnd.IntN(3) == 0, apart: rnd.IntN(2) == 0,
		partitions: []int{lawKeys, 8}[rnd.IntN(2)],
	}
	if rnd.IntN(2) == 0 {
		o.LargeValue = 64
	}
	if w.past {
		o.RetainVersions = time.Hour
	}
	fsys := vfs.NewMem()
	w.db = openOn(t, fsys, o)
	if rnd.IntN(3) == 0 {
		w.beside = openOn(t, fsys, engine.Options{ReadOnly: true, Visible: true})
	}
	for i := range lawWriters * lawKeys {
		p := fmt.Sprintf("b%02d", i%w.partitions)
		if w.apart {
			p = fmt.Sprintf("b%d%d", i/lawKeys, i%w.partitions)
		}
		w.keys = append(w.keys, &lawKey{Key: pksk(p,
			fmt.Sprintf("%d-%d", i/lawKeys, i%lawKeys/w.partitions))})
	}
	return w
}

// write is a writer of its own keys.
func (w *lawWorld) write(own int, rnd *rand.Rand) {
	defer w.writing.Add(-1)
	keys := w.keys[own*lawKeys:][:lawKeys]
	for n := uint64(1); n <= lawCommits && !w.t.Failed(); n++ {
		for until := w.reads.Load() + rnd.Int64N(8) - 4; w.reads.Load() < until && !w.t.Failed(); {
			runtime.Gosched()
		}
		b, changed, deletes := w.draw(own, keys, n, rnd)
		for _, k := range changed {
			if deletes > 0 {
				k.deletes.Store(n)
			}
			k.begun.Store(n*2 + deletes)
		}
		if err := w.db.Apply(ctx, b); err != nil {
			w.t.Error(err)
		}
		for _, k := range changed {
			k.done.Store(n*2 + deletes)
		}
	}
}

// draw returns a commit of a writer, the keys that it changes, and 1 if it deletes them.
func (w *lawWorld) draw(own int, keys []*lawKey, n uint64, rnd *rand.Rand) (b *engine.Batch,
	changed []*lawKey, deletes uint64) {
	b = engine.NewBatch()
	i := rnd.IntN(len(keys))
	switch way := rnd.IntN(9); {
	case way < 2:
		changed = keys[i : i+1+rnd.IntN(min(3, len(keys)-i))]
		for _, k := range changed {
			b.Delete(k.Key)
		}
		return b, changed, 1
	case way == 2:
		for _, k := range keys {
			if bytes.Equal(k.PK, keys[i].PK) {
				changed = append(changed, k)
			}
		}
		b.DeleteRange(keys[i].PK, engine.SKBeginsWith(fmt.Appendf(nil, "%d-", own)))
		return b, changed, 1
	case way == 3 && w.apart:
		b.DeleteScan(pk(fmt.Sprintf("b%d", own)), pk(fmt.Sprintf("b%d3", own)))
		for _, k := range keys {
			if k.PK[2] < '3' {
				changed = append(changed, k)
			}
		}
		return b, changed, 1
	}
	var o []engine.ItemOption
	if rnd.IntN(16) == 0 {
		o = append(o, engine.TTL(time.Hour))
	}
	changed = keys[i : i+1+rnd.IntN(min(3, len(keys)-i))]
	for _, k := range changed {
		b.Put(k.Key, fmt.Appendf(nil, "%0*d", 1+rnd.IntN(100), n), o...)
	}
	return b, changed, 0
}

// least returns what was acknowledged of each key.
func (w *lawWorld) least() []uint64 {
	least := make([]uint64, len(w.keys))
	for i, k := range w.keys {
		least[i] = k.done.Load()
	}
	return least
}

// check fails unless a state, which was read after least, is right.
func (k *lawKey) check(t *testing.T, what string, s lawState, least uint64) {
	from, deleted := least/2, least == 0 || least%2 == 1
	switch {
	case s.there && (s.number < from || s.number == from && deleted || s.number > k.begun.Load()/2):
		t.Errorf("%s: key %s %s has value %d, want one of %d to %d", what, k.PK, k.SK, s.number,
			from, k.begun.Load()/2)
	case !s.there && !deleted && k.deletes.Load() <= from:
		t.Errorf("%s: key %s %s has no value, want one from %d on", what, k.PK, k.SK, from)
	}
}

// lawMoment is a version, and what was read there.
type lawMoment struct {
	version uint64
	truth   []lawState
}

// read is a reader.
func (w *lawWorld) read(rnd *rand.Rand) {
	var moments []lawMoment
	for w.writing.Load() > 0 && !w.t.Failed() {
		w.reads.Add(1)
		least, db := w.least(), w.db
		switch way := rnd.IntN(8); {
		case way < 2:
			w.present(rnd)
			continue
		case way == 2:
			w.transaction(rnd)
			continue
		case way == 3 && w.beside != nil:
			db = w.beside
			ok(w.t, db.Refresh())
		}
		s := snapshotOf(w.t, db)
		truth := w.truth(s)
		for i, k := range w.keys {
			k.check(w.t, "lookup", truth[i], least[i])
		}
		for range 1 + rnd.IntN(6) {
			w.agrees(s, s.Version(), truth, rnd)
		}
		// Another process may show a commit a moment before that has returned.
		if w.past && db == w.db && s.Version() > 0 && rnd.IntN(4) == 0 {
			moments = append(moments, lawMoment{s.Version(), truth})
		}
		ok(w.t, s.Close())
		if n := len(moments); n > 0 && rnd.IntN(2) == 0 {
			m := moments[rnd.IntN(n)]
			s, err := w.db.SnapshotAt(m.version)
			ok(w.t, err)
			if got := w.truth(s); !slices.Equal(got, m.truth) {
				w.t.Errorf("version %d has changed", m.version)
			}
			w.agrees(s, m.version, m.truth, rnd)
			ok(w.t, s.Close())
		}
	}
}

// transaction reads in a transaction, with writes of its own, which it takes back.
func (w *lawWorld) transaction(rnd *rand.Rand) {
	tx, err := w.db.Begin(ctx, nil)
	ok(w.t, err)
	defer tx.Rollback()
	w.agrees(tx, 0, w.truth(tx), rnd)
	for range rnd.IntN(4) {
		k := w.keys[rnd.IntN(len(w.keys))].Key
		switch rnd.IntN(3) {
		case 0:
			ok(w.t, tx.Delete(k))
		case 1:
			ok(w.t, tx.DeleteRange(k.PK, engine.SKCondition{}))
		default:
			ok(w.t, tx.Put(k, []byte("1000000")))
		}
	}
	truth := w.truth(tx)
	for range 3 {
		w.agrees(tx, 0, truth, rnd)
	}
}

// truth looks each key up.
func (w *lawWorld) truth(r engine.Reader) []lawState {
	truth := make([]lawState, len(w.keys))
	for i, k := range w.keys {
		it, err := r.GetItem(k.Key)
		if !errors.Is(err, engine.ErrNotFound) {
			ok(w.t, err)
			truth[i] = stateOf(it)
		}
	}
	return truth
}

func stateOf(it engine.Item) (s lawState) {
	fmt.Sscanf(string(bytes.TrimLeft(it.Value, "0")), "%d", &s.number)
	s.there, s.version = true, it.Version
	return s
}

// present reads without a moment.
func (w *lawWorld) present(rnd *rand.Rand) {
	least, s := w.least(), lawScan(rnd)
	s.Unordered = rnd.IntN(2) == 0
	if rnd.IntN(2) == 0 {
		n, err := w.db.CountScan(ctx, s)
		ok(w.t, err)
		from, to := int64(0), int64(0)
		for i, k := range w.keys {
			if !selects(s, k.Key) {
				continue
			}
			if least[i] > 0 && least[i]%2 == 0 && k.deletes.Load() <= least[i]/2 {
				from++
			}
			if least[i]%2 == 0 && least[i] > 0 || k.begun.Load() != least[i] {
				to++
			}
		}
		if n < from || n > to {
			w.t.Errorf("count of %+v: %d, want %d to %d", s, n, from, to)
		}
		return
	}
	got := map[string]lawState{}
	for it, err := range w.db.Scan(ctx, s) {
		ok(w.t, err)
		got[string(it.Key.PK)+" "+string(it.Key.SK)] = stateOf(it)
	}
	for i, k := range w.keys {
		if selects(s, k.Key) {
			k.check(w.t, fmt.Sprintf("scan %+v", s), got[string(k.PK)+" "+string(k.SK)], least[i])
		}
	}
}

// The law of reading holds in the first moments of many databases.
func TestReadersAgreeBesideWriters(t *testing.T) {
	rnd := testutil.Rand(t)
	for range testutil.Effort(8, 4000) {
		w := newLawWorld(t, rnd)
		w.writing.Store(lawWriters)
		var all sync.WaitGroup
		for i := range lawWriters + lawReaders {
			r := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			all.Go(func() {
				if i < lawWriters {
					w.write(i, r)
				} else {
					w.read(r)
				}
			})
		}
		all.Wait()
		if w.beside != nil {
			mustClose(t, w.beside)
		}
		if mustClose(t, w.db); t.Failed() {
			return
		}
	}
}
