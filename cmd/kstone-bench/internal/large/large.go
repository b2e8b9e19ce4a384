// Package large measures large values, beside their keys and apart: bytes written by loading and
// by overwriting, what is left on disk, scans of keys alone, and reads. The databases take turns,
// each with its setting for values that lie apart.
package large

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// Settings say what is measured.
type Settings struct {
	Engines     []string // with Apart at the end: values lie apart
	Sizes       []string // of values
	Bytes       int64    // of all values
	Overwrites  int      // how many times as much is overwritten, at random
	Reads       int      // at most as many bytes as there are
	Repeat      int
	WriteBuffer int64
	Cache       int64
	Dir         string // where databases are made and removed
}

// Apart ends the name of an engine that keeps values apart from their keys.
const Apart = "-apart"

// sizes are those that can be measured.
var sizes = map[string]int{"1KiB": 1 << 10, "4KiB": 4 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20}

// Full are the settings of the measurements in the documents.
func Full() *Settings {
	s := &Settings{
		Sizes: []string{"1KiB", "4KiB", "64KiB", "1MiB"}, Bytes: 256 << 20, Overwrites: 2,
		Reads: 40_000, Repeat: 1, WriteBuffer: 16 << 20, Cache: 64 << 20, Dir: os.TempDir(),
	}
	for _, name := range []string{"kstone", "pebble", "badger", "rocksdb"} {
		if _, err := store.Find(name); err != nil {
			continue
		}
		if name == result.Subject || name == "pebble" {
			s.Engines = append(s.Engines, name)
		}
		s.Engines = append(s.Engines, name+Apart)
	}
	return s
}

// Quick takes a sixteenth of the bytes, of two sizes.
func (s *Settings) Quick() { s.Bytes, s.Sizes, s.Reads = 16<<20, s.Sizes[1:3], 2000 }

// Check returns an error if a setting makes no sense.
func (s *Settings) Check() error {
	for _, name := range s.Sizes {
		if sizes[name] == 0 {
			return fmt.Errorf("-sizes %s: want some of 1KiB, 4KiB, 64KiB, 1MiB", name)
		}
	}
	for _, name := range s.Engines {
		if _, err := store.Find(strings.TrimSuffix(name, Apart)); err != nil {
			return err
		}
	}
	if s.Bytes < 4<<20 || s.Overwrites < 1 || s.Reads < 1 || s.Repeat < 1 {
		return fmt.Errorf("-bytes %d -overwrites %d -reads %d -repeat %d: want at least 4 MiB, "+
			"and 1 each", s.Bytes, s.Overwrites, s.Reads, s.Repeat)
	}
	return nil
}

// Meta describes the machine and the databases.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta("large")
	m.Rounds, m.WriteBuffer, m.Cache = s.Repeat, s.WriteBuffer, s.Cache
	for _, name := range s.Engines {
		plain := strings.TrimSuffix(name, Apart)
		found, _ := store.Find(plain)
		note := "values with their keys"
		if strings.HasSuffix(name, Apart) {
			note = "all values apart"
		}
		m.Describe(name, found.Module, note)
		if plain == result.Subject {
			m.Versions[name] = m.Commit
		} else if found.Version != nil {
			m.Versions[name] = found.Version()
		}
	}
	return m
}

// Run measures all sizes and emits a record for each database and round.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) error {
	for _, size := range s.Sizes {
		for round := range s.Repeat {
			err := measure.Rotate(ctx, round, len(s.Engines), func(i int) error {
				r := result.Record{Table: "large", Case: size, Engine: s.Engines[i], Round: round}
				var err error
				if r.Figures, err = s.measure(ctx, r.Engine, sizes[size]); err != nil {
					return fmt.Errorf("%s, %s: %w", r.Engine, size, err)
				}
				return emit(r)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Figures of a record.
const (
	loadWritten = "load_written" // by byte of keys and values
	loadRate    = "load_mb_per_s"
	overWritten = "overwrite_written"
	overRate    = "overwrite_mb_per_s"
	disk        = "disk" // by byte of keys and values
	keysMillis  = "keys_ms"
	getMicros   = "get_cpu_us"
)

// keyRounds is how often keys are scanned; the median counts.
const keyRounds = 5

// bench is the measurement of one database.
type bench struct {
	db     store.Store
	keys   store.KeyScanner
	values *dataset.Values
	n      uint64
	key    []byte
	value  []byte

	versions []uint32 // of records
}

func (s *Settings) measure(ctx context.Context, engine string, size int,
) (f result.Figures, err error) {
	debug.FreeOSMemory()
	dir, err := os.MkdirTemp(s.Dir, "kstone-bench-large-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name, apart := strings.CutSuffix(engine, Apart)
	c := store.Config{
		Dir: filepath.Join(dir, "db"), Writers: 1, WriteBufferBytes: s.WriteBuffer,
		CacheBytes: s.Cache, DataBytes: s.Bytes,
	}
	if apart {
		c.LargeValue = size
	}
	e, err := store.Find(name)
	if err != nil {
		return nil, err
	}
	b := bench{values: dataset.NewValues(size), n: uint64(s.Bytes / int64(size))}
	b.versions = make([]uint32, b.n)
	if err := os.Mkdir(c.Dir, 0o777); err != nil {
		return nil, err
	}
	if b.db, err = e.Open(c); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()
	var ok bool
	if b.keys, ok = b.db.(store.KeyScanner); !ok {
		return nil, errors.New("it has no scan of keys alone")
	}
	f = result.Figures{}
	order := dataset.NewPermutation(b.n, 1)
	err = b.write(ctx, f, loadWritten, loadRate, b.n, 0, order.At)
	if err != nil {
		return nil, err
	}
	draw := func(i uint64) uint64 { return dataset.Mix(i+1) % b.n }
	err = b.write(ctx, f, overWritten, overRate, b.n*uint64(s.Overwrites), 1, draw)
	if err != nil {
		return nil, err
	}
	used, err := measure.DiskBytes(c.Dir)
	if err != nil {
		return nil, err
	}
	f[disk] = float64(used) / float64(b.n) / float64(b.record())
	return f, b.read(ctx, f, min(s.Reads, int(b.n)))
}

// record is the size of a record.
func (b *bench) record() int { return dataset.KeyBytes + b.values.Size() }

// write puts n records and waits until all is merged.
func (b *bench) write(ctx context.Context, f result.Figures, written, rate string, n uint64,
	version uint32, id func(uint64) uint64) error {
	m := measure.Start()
	counter, counts := b.db.(store.WriteCounter)
	before := int64(0)
	if counts {
		before = counter.WrittenBytes()
	}
	for i := range n {
		if i%256 == 0 && ctx.Err() != nil {
			break
		}
		b.key = dataset.AppendKey(b.key[:0], id(i))
		b.value = b.values.Append(b.value[:0], id(i), version)
		b.versions[id(i)] = version
		if err := b.db.Put(store.Key{Bytes: b.key, PK: len(b.key)}, b.value); err != nil {
			return err
		}
	}
	wall := m.Elapsed().Wall
	err := measure.Settle(b.db.Flush)
	if g, ok := b.db.(store.Collector); ok && err == nil {
		err = measure.Settle(g.CollectGarbage)
	}
	u := m.Elapsed()
	if counts {
		u.WrittenBytes = counter.WrittenBytes() - before
	}
	user := float64(n) * float64(b.record())
	f[written] = float64(u.WrittenBytes) / user
	f[rate] = user / 1e6 / wall.Seconds()
	return errors.Join(err, ctx.Err())
}

// read scans keys, and reads values at random; each is checked.
func (b *bench) read(ctx context.Context, f result.Figures, reads int) error {
	var times []float64
	for range keyRounds {
		start := time.Now()
		n, err := b.keys.ScanKeys()
		if err == nil && uint64(n) != b.n {
			err = fmt.Errorf("%d keys of %d", n, b.n)
		}
		if err != nil {
			return err
		}
		times = append(times, time.Since(start).Seconds()*1e3)
	}
	f[keysMillis] = measure.Middle(times)
	if err := b.get(ctx, reads, 2); err != nil { // opens the files
		return err
	}
	m := measure.Start()
	err := b.get(ctx, reads, 3)
	f[getMicros] = m.Elapsed().CPU.Seconds() * 1e6 / float64(reads)
	return err
}

// get reads so many values; draw chooses which.
func (b *bench) get(ctx context.Context, reads int, draw uint64) error {
	for i := range uint64(reads) {
		id := dataset.Mix(i+draw<<40) % b.n
		b.key = dataset.AppendKey(b.key[:0], id)
		v, ok, err := b.db.Get(b.value[:0], store.Key{Bytes: b.key, PK: len(b.key)})
		switch {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("record %d is not there", id)
		}
		err = b.values.Check(id, v)
		if err == nil && dataset.Version(v) != b.versions[id] {
			err = fmt.Errorf("record %d is in version %d, want %d", id, dataset.Version(v),
				b.versions[id])
		}
		if err != nil {
			return err
		}
		b.value = v
	}
	return ctx.Err()
}
