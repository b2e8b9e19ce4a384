package tables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Settings say what is measured.
type Settings struct {
	Engines []string
	Rows    int
	Repeat  int           // rounds
	Turn    time.Duration // of an engine in a round of a case
	Short   time.Duration // of a turn where kstone is compared with itself
	Dir     string        // where databases are made and removed
}

// Full are the settings of the measurements in the documents.
func Full() *Settings {
	return &Settings{Engines: Engines(), Rows: 200_000, Repeat: 7, Turn: 250 * time.Millisecond,
		Short: 2 * time.Millisecond, Dir: os.TempDir()}
}

// Quick takes a tenth of the rows and shorter turns.
func (s *Settings) Quick() { s.Rows, s.Repeat, s.Turn = 20_000, 3, 60*time.Millisecond }

// Check returns an error if an engine is unknown, or a number makes no sense.
func (s *Settings) Check() error {
	_, err := find(s.Engines)
	if s.Rows < leastRows || s.Rows > mostRows || s.Repeat < 1 || s.Turn <= 0 || s.Short <= 0 {
		err = errors.Join(err, fmt.Errorf("-n %d -repeat %d, turns of %v and %v: want %d to %d "+
			"rows, one round and turns longer than nothing", s.Rows, s.Repeat, s.Turn, s.Short,
			leastRows, mostRows))
	}
	return err
}

// leastRows lets every answer have its full size. mostRows keeps products of row numbers in
// an int64.
const (
	leastRows = 100
	mostRows  = 1_000_000_000
)

// ownRounds is how many times as many rounds there are where kstone is compared with itself:
// those turns are short.
const ownRounds = 15

// bench is one run.
type bench struct {
	Settings
	ctx     context.Context
	emit    func(result.Record) error
	engines []engine
	data    *data
	dir     string
}

// Run measures everything and emits a record for each turn.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) (err error) {
	b := &bench{Settings: *s, ctx: ctx, emit: emit, data: newData(s.Rows)}
	if b.engines, err = find(s.Engines); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(s.Dir, "kstone-tables-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	for _, p := range phases {
		if err := b.phase(p); err != nil {
			return err
		}
		runtime.GC()
	}
	return errors.Join(b.spans(), b.shards())
}

// Meta describes the machine and the engines.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta("tables")
	m.Rounds, m.Records, m.Seconds = s.Repeat, uint64(s.Rows), s.Turn.Seconds()
	m.WriteBuffer, m.Cache = bufferBytes, cacheBytes
	engines, _ := find(s.Engines)
	for _, e := range engines {
		m.Describe(e.name, e.module, e.tuning)
	}
	return m
}

// phase is a table that is loaded, and what is measured with it.
type phase struct {
	indexes int
	sync    bool
}

// phases in their order. Reads are measured in the first one.
var phases = []phase{{3, false}, {1, false}, {0, false}, {3, true}, {1, true}, {0, true}}

// contestant is an engine with its table.
type contestant struct {
	engine
	store
	next int64 // id of the row to be inserted next
}

// phase opens a table in every engine, measures, and removes the tables.
func (b *bench) phase(p phase) (err error) {
	d := b.data
	if p.sync { // what was loaded hardly matters to a disk that is waited for
		d = newData(max(leastRows, b.Rows/10))
	}
	var all []*contestant
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
		err = errors.Join(err, os.RemoveAll(b.dir))
	}()
	for i, e := range b.engines {
		dir := filepath.Join(b.dir, fmt.Sprint(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		st, err := e.open(b.ctx, settings{dir: dir, indexes: p.indexes, sync: p.sync})
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		c := &contestant{engine: e, store: st, next: d.n + 1}
		all = append(all, c)
		if err := b.load(c, d); err != nil {
			return fmt.Errorf("%s: loading: %w", e.name, err)
		}
	}
	runtime.GC()
	if p == phases[0] {
		if err := b.reads(all); err != nil {
			return err
		}
	}
	return b.inserts(p, all, d)
}

// loadBatch is the number of rows in a transaction of loading.
const loadBatch = 1000

func (b *bench) load(c *contestant, d *data) error {
	rows := make([]Row, 0, loadBatch)
	for id := int64(1); id <= d.n; id++ {
		rows = append(rows, d.row(id))
		if len(rows) == loadBatch || id == d.n {
			if err := errors.Join(b.ctx.Err(), c.insert(b.ctx, rows)); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	if err := c.settle(b.ctx); err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}
