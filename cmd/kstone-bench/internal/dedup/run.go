package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
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
	// Builds are the numbers of keys of which filters are built.
	Builds []int
}

// Full are the sizes of the study.
func Full() Settings {
	return Settings{Rows: 64_000_000, Repeat: 5, Queries: 2 << 20, Dir: os.TempDir(),
		EngineRows: 10_000_000, EngineQueries: 1_000_000,
		Builds: []int{160_000, 500_000, 1_600_000, 5_000_000, 10_000_000, 50_000_000, 100_000_000}}
}

func (s Settings) validate() error {
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
	w     *writer
	rnd   *rand.Rand
	fuse  xorfilter.BinaryFuseBuilder
	found keyset.Bitmap
}

// Run measures everything, writes raw output to out and a line for each figure to
// progress, and returns the rows.
func Run(ctx context.Context, s Settings, out, progress io.Writer) ([]Row, report.Meta, error) {
	meta := report.NewMeta(nil)
	meta.Repeats, meta.Records = s.Repeat, uint64(s.Rows)
	if err := s.validate(); err != nil {
		return nil, meta, err
	}
	w, err := newWriter(out, progress, meta)
	if err != nil {
		return nil, meta, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := &bench{Settings: s, ctx: ctx, w: w, rnd: rand.New(rand.NewPCG(20, 26)),
		found: keyset.NewBitmap(s.Queries)}
	for _, step := range []func() error{b.builds, b.lookups, b.dense, b.opens,
		b.engines} {
		if err := step(); err != nil {
			return w.rows, meta, err
		}
		runtime.GC()
	}
	return w.rows, meta, nil
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

func millions(n int) string {
	if n < 1_000_000 {
		return fmt.Sprintf("%d K", n/1000)
	}
	return fmt.Sprintf("%g M", float64(n)/1e6)
}
