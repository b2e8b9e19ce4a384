// Package dedup measures how package keyset finds out which keys are new, beside the
// obvious loop over segments with the filters of the library, on the tables of a study
// of primary-key deduplication with zone maps and binary fuse filters. All contestants of
// a case run in one process, in turns; figures are medians over the rounds, of the
// processor time of the thread (wall time where the system does not count it, and where two
// goroutines build).
package dedup

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// Settings say what is measured.
type Settings struct {
	Rows    int  // in 10 and 20 segments
	Large   bool // also 2 and 3 times the rows, in 20 and 30 segments
	Repeat  int
	Queries int // keys that are asked in a round
	Dir     string
	// Records in each database, and keys of a round; no databases if EngineRows is 0.
	EngineRows, EngineQueries int
	// Builds are the numbers of keys in the filters that are built.
	Builds []int
}

// Full are the sizes of the study.
func Full() *Settings {
	return &Settings{Rows: 64_000_000, Repeat: 5, Queries: 2 << 20, Dir: os.TempDir(),
		EngineRows: 10_000_000, EngineQueries: 1_000_000,
		Builds: []int{160_000, 500_000, 1_600_000, 5_000_000, 10_000_000, 50_000_000, 100_000_000}}
}

// Check returns an error if a number makes no sense.
func (s *Settings) Check() error {
	if s.Rows < 1000 || s.Repeat < 1 || s.Queries < 1 {
		return errors.New("dedup: at least 1000 rows, one round and one question")
	}
	if s.EngineRows < 0 || s.EngineRows > 0 && s.EngineQueries < 1 {
		return errors.New("dedup: databases without rows or without questions")
	}
	return nil
}

// blocksPerSegment is what the study has.
const blocksPerSegment = 40

// bench is one run.
type bench struct {
	Settings
	ctx   context.Context
	emit  func(result.Record) error
	rnd   *rand.Rand
	fuse  xorfilter.BinaryFuseBuilder
	found keyset.Bitmap
}

// Quick takes sizes for a minute.
func (s *Settings) Quick() {
	s.Rows, s.Repeat, s.Queries, s.Builds = 1_000_000, 3, 1<<18, s.Builds[:3]
	s.EngineRows, s.EngineQueries = 500_000, 100_000
}

// Meta describes the machine.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta("dedup")
	m.Rounds, m.Records = s.Repeat, uint64(s.Rows)
	return m
}

// Run measures everything and emits a record, of the medians of all rounds, for each
// contestant of a case.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := &bench{Settings: *s, ctx: ctx, emit: emit, rnd: rand.New(rand.NewPCG(20, 26)),
		found: keyset.NewBitmap(s.Queries)}
	for _, step := range []func() error{b.builds, b.lookups, b.dense, b.opens,
		b.engines} {
		if err := step(); err != nil {
			return err
		}
		runtime.GC()
	}
	return nil
}

// keys returns n random keys of the lower half of the range, so that others lie outside
// of every zone.
func (b *bench) keys(n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = b.rnd.Uint64() >> 1
	}
	return keys
}

// cut cuts keys into so many segments.
func cut(keys []uint64, segments int) [][]uint64 {
	size := (len(keys) + segments - 1) / segments
	return slices.Collect(slices.Chunk(keys, size))
}

// record emits the figures of a contestant, which are medians over the rounds.
func (b *bench) record(table, name, contestant string, rows int, f result.Figures) error {
	f[figRows], f[report.Rounds] = float64(rows), float64(b.Repeat)
	return b.emit(result.Record{Table: table, Case: name, Engine: contestant, Figures: f})
}
