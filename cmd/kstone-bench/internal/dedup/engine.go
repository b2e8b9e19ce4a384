package dedup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// enginePeers are the databases that kstone's FilterNew is compared with, if they are
// compiled in: a loop of reads of Pebble, batched reads of RocksDB.
var enginePeers = []string{"kstone", "pebble", "rocksdb"}

// database is one contestant.
type database struct {
	name    string
	store   store.Store
	workers int // of FilterNew, 0 for its choice
	fresh   []bool
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
		e, err := store.Find(name)
		if err != nil {
			continue
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
	}
	walls := make(measure.Times, len(all))
	cpus, err := measure.Turns(b.ctx, b.Repeat, len(all), func(round, i int) (float64, error) {
		keys := b.engineKeys(round*len(all) + i)
		runtime.GC()
		cpu, wall := measure.CPUTime(), time.Now()
		err := all[i].ask(keys)
		took := measure.CPUTime() - cpu
		walls[i] = append(walls[i], float64(time.Since(wall))/float64(len(keys)))
		return float64(took) / float64(len(keys)), errors.Join(err, all[i].check(len(keys)))
	})
	if err != nil {
		return err
	}
	for _, clock := range []struct {
		name  string
		times measure.Times
	}{{"processor time", cpus}, {"wall time", walls}} {
		name := fmt.Sprintf("%s keys, 90 %% new, in %s, %s",
			result.Count(uint64(b.EngineQueries)), result.Count(uint64(b.EngineRows)), clock.name)
		for i, d := range all { // the ratio is how many times as long as kstone
			if err := b.record("engine", name, d.name, b.EngineRows, result.Figures{
				figRatio: clock.times.Ratio(i, 0), nsPerKey: clock.times.Median(i),
				figPositive: 0.1}); err != nil {
				return err
			}
		}
	}
	return nil
}

const engineValueBytes = 16

// engineKey is the key of record i: numbers without order, all different.
func engineKey(i uint64) store.Key {
	const odd = 0x9e3779b97f4a7c15
	k := dataset.AppendKey(make([]byte, 0, dataset.KeyBytes), i*odd&(1<<53-1))
	return store.Key{Bytes: k, PK: len(k)}
}

// fillEngine fills a database and waits until it is done with merges.
func (b *bench) fillEngine(s store.Store) error {
	const batch = 1000
	values := slices.Repeat([][]byte{make([]byte, engineValueBytes)}, batch)
	keys := make([]store.Key, 0, batch)
	for i := range b.EngineRows {
		keys = append(keys, engineKey(uint64(i)))
		if len(keys) < batch && i+1 < b.EngineRows {
			continue
		}
		if err := errors.Join(b.ctx.Err(), s.PutBatch(keys, values[:len(keys)])); err != nil {
			return err
		}
		keys = keys[:0]
	}
	return measure.Settle(s.Flush)
}

// engineKeys are the keys of a turn, all different: one of ten is stored. Each turn has its own,
// since two contestants share a database, whose cache would know the second one's answers.
func (b *bench) engineKeys(turn int) []store.Key {
	keys := make([]store.Key, b.EngineQueries)
	first := b.rnd.IntN(b.EngineRows)
	for i := range keys {
		if i%10 == 0 {
			keys[i] = engineKey(uint64((first + i*7) % b.EngineRows))
			continue
		}
		keys[i] = engineKey(uint64(b.EngineRows + turn*len(keys) + i))
	}
	b.rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// ask has a database say which keys are new.
func (d *database) ask(keys []store.Key) (err error) {
	d.fresh = slices.Grow(d.fresh[:0], len(keys))[:len(keys)]
	if f, ok := d.store.(store.Filter); ok {
		d.fresh, err = f.FilterNew(keys, d.fresh, d.workers)
		return err
	}
	return d.store.MultiGet(keys, func(i int, value []byte) { d.fresh[i] = value == nil })
}

// check returns an error unless one key of ten is called stored.
func (d *database) check(keys int) error {
	stored := 0
	for _, fresh := range d.fresh {
		if !fresh {
			stored++
		}
	}
	if want := (keys + 9) / 10; stored != want {
		return fmt.Errorf("%s: %d of %d keys are called stored, should be %d", d.name, stored,
			keys, want)
	}
	return nil
}
