package dedup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// enginePeers are the databases that kstone's FilterNew is compared with, if they are
// compiled in: a loop of reads of Pebble, batched reads of RocksDB.
var enginePeers = []string{"kstone", "pebble", "rocksdb"}

// database is one contestant and what its rounds took.
type database struct {
	name      string
	store     store.Store
	workers   int // of FilterNew, 0 for its choice
	cpu, wall []float64
	fresh     []bool
}

// settleLimit bounds the wait for a database to be done with background work.
const settleLimit = 15 * time.Minute

// settle waits until the databases are done with merges.
func settle() error {
	if !measure.AwaitIdle(settleLimit) {
		return fmt.Errorf("databases are still busy after %v", settleLimit)
	}
	return nil
}

// engines measures databases that all store the same records.
func (b *bench) engines() (err error) {
	if b.EngineRows == 0 {
		return nil
	}
	dir, err := os.MkdirTemp(b.Dir, "kstone-bench-dedup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var all []*database
	for _, name := range enginePeers {
		if !slices.Contains(store.Names(), name) {
			continue
		}
		e, err := store.Find(name)
		if err != nil {
			return err
		}
		s, err := e.Open(store.Config{Dir: filepath.Join(dir, name), Writers: 1,
			WriteBufferBytes: 64 << 20, CacheBytes: 256 << 20,
			DataBytes: int64(b.EngineRows) * (dataset.KeyBytes + engineValueBytes)})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		all = append(all, &database{name: name, store: s})
		if _, ok := s.(store.Filter); ok {
			all = append(all, &database{name: name + ", one worker", store: s, workers: 1})
		}
		if err := b.fillEngine(s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := settle(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := settle(); err != nil {
		return err
	}
	for round := range b.Repeat {
		keys := b.engineKeys(round)
		err := measure.Rotate(b.ctx, round, len(all), func(i int) error {
			return b.askEngine(all[i], keys)
		})
		if err != nil {
			return err
		}
	}
	return b.engineRows(all)
}

const engineValueBytes = 16

// engineKey is the key of record i: numbers without order, all different.
func engineKey(i uint64) store.Key {
	const odd = 0x9e3779b97f4a7c15
	k := dataset.AppendKey(make([]byte, 0, dataset.KeyBytes), i*odd&(1<<53-1))
	return store.Key{Bytes: k, PK: len(k)}
}

func (b *bench) fillEngine(s store.Store) error {
	const batch = 1000
	value := make([]byte, engineValueBytes)
	values := slices.Repeat([][]byte{value}, batch)
	keys := make([]store.Key, 0, batch)
	for i := range b.EngineRows {
		keys = append(keys, engineKey(uint64(i)))
		if len(keys) < batch && i+1 < b.EngineRows {
			continue
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if err := s.PutBatch(keys, values[:len(keys)]); err != nil {
			return err
		}
		keys = keys[:0]
	}
	return s.Flush()
}

// engineKeys are the keys of a round, all different: one of ten is stored.
func (b *bench) engineKeys(round int) []store.Key {
	keys := make([]store.Key, b.EngineQueries)
	first := b.rnd.IntN(b.EngineRows)
	for i := range keys {
		if i%10 == 0 {
			keys[i] = engineKey(uint64((first + i*7) % b.EngineRows))
			continue
		}
		keys[i] = engineKey(uint64(b.EngineRows + round*len(keys) + i))
	}
	b.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// askEngine has a database say which keys are new, and checks that it is right.
func (b *bench) askEngine(d *database, keys []store.Key) error {
	d.fresh = slices.Grow(d.fresh[:0], len(keys))[:len(keys)]
	cpu, wall := measure.CPUTime(), time.Now()
	var err error
	if f, ok := d.store.(store.Filter); ok {
		d.fresh, err = f.FilterNew(keys, d.fresh, d.workers)
	} else {
		err = d.store.MultiGet(keys, func(i int, value []byte) { d.fresh[i] = value == nil })
	}
	tookWall, tookCPU := time.Since(wall), measure.CPUTime()-cpu
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	stored := 0
	for _, fresh := range d.fresh {
		if !fresh {
			stored++
		}
	}
	if want := (len(keys) + 9) / 10; stored != want {
		return fmt.Errorf("%s: %d of %d keys are called stored, should be %d", d.name, stored,
			len(keys), want)
	}
	d.cpu = append(d.cpu, float64(tookCPU)/float64(len(keys)))
	d.wall = append(d.wall, float64(tookWall)/float64(len(keys)))
	return nil
}

func (b *bench) engineRows(all []*database) error {
	for _, clock := range []string{"processor time", "wall time"} {
		times := func(d *database) []float64 {
			if clock == "wall time" {
				return d.wall
			}
			return d.cpu
		}
		for i, d := range all {
			r := record("engine", fmt.Sprintf("%s keys, 90 %% new, in %s, %s",
				result.Count(uint64(b.EngineQueries)), result.Count(uint64(b.EngineRows)), clock),
				d.name, result.Figures{figRatio: 1, figPositive: 0.1})
			if i > 0 { // how many times as long as kstone
				r.Figures[figRatio] = ratio(times(d), times(all[0]))
			}
			r.Figures[nsPerKey] = report.Middle(slices.Clone(times(d)))
			if err := b.finish(r, b.EngineRows); err != nil {
				return err
			}
		}
	}
	return nil
}
