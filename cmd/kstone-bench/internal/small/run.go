package small

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Case is a number of items, and of openings that write them.
type Case struct{ Items, Opens int }

// Settings say what is measured.
type Settings struct {
	Cases []Case
	Dir   string // where databases are made and removed
}

// Full are the settings of the measurements in the documents.
func Full() *Settings {
	return &Settings{Dir: os.TempDir(), Cases: []Case{{1, 1}, {40, 1}, {40, 40}, {1000, 1},
		{1000, 1000}, {100_000, 1}, {100_000, 1000}}}
}

// Quick takes the first cases only.
func (s *Settings) Quick() { s.Cases = s.Cases[:3] }

// keyBytes and valueBytes are about the sizes of an item.
const keyBytes, valueBytes = 12, 20

// Check returns an error if a case has an opening without items.
func (s *Settings) Check() error {
	for _, c := range s.Cases {
		if c.Opens < 1 || c.Items < c.Opens {
			return fmt.Errorf("%d items by %d openings: want at least one item each",
				c.Items, c.Opens)
		}
	}
	return nil
}

// Meta describes the machine and the databases.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta("small")
	for _, c := range contestants {
		m.Describe(c.name, c.module, c.settings)
	}
	return m
}

// Run measures all cases and emits a record for each database of a case.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) error {
	for _, c := range s.Cases {
		if err := s.measure(ctx, c, emit); err != nil {
			return err
		}
	}
	return nil
}

// steps are the times of a database: of opening, putting, and closing.
type steps [3][]float64

// fewRounds is how often a case of one opening is measured.
const fewRounds = 5

// measure runs one case: the databases take turns in every opening. A case of one opening is
// run several times, each in a new directory.
func (s *Settings) measure(ctx context.Context, c Case, emit func(result.Record) error,
) (err error) {
	dir, err := os.MkdirTemp(s.Dir, "kstone-bench-small-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	times := make([]steps, len(contestants))
	rounds := 1
	if c.Opens == 1 {
		rounds = fewRounds
	}
	in := ""
	for round := range rounds {
		in = filepath.Join(dir, fmt.Sprint(round))
		for i := range c.Opens {
			if err := ctx.Err(); err != nil {
				return err
			}
			items := makeItems(i*c.Items/c.Opens, (i+1)*c.Items/c.Opens)
			if err := turn(in, items, times); err != nil {
				return err
			}
		}
	}
	for j, d := range contestants {
		f := result.Figures{}
		for k, step := range stepNames {
			slices.Sort(times[j][k])
			f[step+lowMillis] = times[j][k][len(times[j][k])/10]
			f[step+millis] = report.Middle(times[j][k])
		}
		if err := look(f, filepath.Join(in, d.name)); err != nil {
			return err
		}
		err := emit(result.Record{Table: "small", Engine: d.name, Figures: f,
			Case: fmt.Sprintf("%d items by %d openings", c.Items, c.Opens)})
		if err != nil {
			return err
		}
	}
	return nil
}

// turn has every database do one opening, and adds to its times.
func turn(dir string, items []item, times []steps) error {
	for j := range contestants {
		d, err := contestants[j].run(filepath.Join(dir, contestants[j].name), items)
		if err != nil {
			return fmt.Errorf("%s: %w", contestants[j].name, err)
		}
		for k := range d {
			times[j][k] = append(times[j][k], float64(d[k].Nanoseconds())/1e6)
		}
	}
	return nil
}

func makeItems(from, to int) []item {
	items := make([]item, 0, to-from)
	for i := from; i < to; i++ {
		items = append(items, item{fmt.Appendf(nil, "user#%0*d", keyBytes-5, i),
			fmt.Appendf(nil, "%*d", valueBytes, i)})
	}
	return items
}

// run opens the database, writes the items and closes.
func (c *contestant) run(dir string, items []item) (d [3]time.Duration, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return d, err
	}
	start := time.Now()
	lap := func(i int) {
		now := time.Now()
		d[i], start = now.Sub(start), now
	}
	db, err := c.open(dir)
	if err != nil {
		return d, err
	}
	err = db.read(items[0].key)
	lap(0)
	if err == nil {
		err = db.put(items)
	}
	lap(1)
	err = errors.Join(err, db.Close())
	lap(2)
	return d, err
}

// look counts what a database has left in its directory.
func look(f result.Figures, dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f[files]++
		f[bytes] += float64(info.Size())
		if e.Name() == "RESERVE" {
			f[reserve] += float64(info.Size())
		}
		return nil
	})
}
