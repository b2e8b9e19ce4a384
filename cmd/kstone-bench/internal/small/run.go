package small

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// Case is a number of items, and of openings that write them.
type Case struct{ Items, Opens int }

// Cases are those of the table.
func Cases() []Case {
	return []Case{{1, 1}, {40, 1}, {40, 40}, {1000, 1}, {1000, 1000}, {100_000, 1},
		{100_000, 1000}}
}

// Settings say what is measured.
type Settings struct {
	Cases []Case
	Dir   string // where databases are made and removed
}

// keyBytes and valueBytes are about the sizes of an item.
const keyBytes, valueBytes = 12, 20

// Row is what a case has cost a database. Times are medians over the openings, tenth
// percentiles beside them: those say more on a machine that is busy with other work.
type Row struct {
	Database string `json:"database"`
	Items    int    `json:"items"`
	Opens    int    `json:"opens"`
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"` // sizes of the files
	// Reserve is what of Bytes is space that is reserved for a full disk.
	Reserve int64 `json:"reserve,omitempty"`
	Open    Time  `json:"open"`
	Put     Time  `json:"put"` // of the items of one opening, in one commit
	Close   Time  `json:"close"`
}

// Time is of one step, in milliseconds.
type Time struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
}

// Run measures all cases and writes raw output to out.
func Run(ctx context.Context, s Settings, out, progress io.Writer,
) (rows []Row, meta report.Meta, err error) {
	meta = report.NewMeta(nil)
	raw := json.NewEncoder(out)
	if err := raw.Encode(map[string]report.Meta{"meta": meta}); err != nil {
		return nil, meta, err
	}
	for _, c := range s.Cases {
		if c.Opens < 1 || c.Items < c.Opens {
			return rows, meta, fmt.Errorf("%d items by %d openings: want at least one item each",
				c.Items, c.Opens)
		}
		more, err := s.measure(ctx, c)
		if err != nil {
			return rows, meta, err
		}
		for _, r := range more {
			fmt.Fprintf(progress, "%d items by %d openings: %s: %d files, %d bytes, "+
				"open %.2f ms, put %.2f ms, close %.2f ms\n", r.Items, r.Opens, r.Database, r.Files,
				r.Bytes, r.Open.Median, r.Put.Median, r.Close.Median)
			if err := raw.Encode(r); err != nil {
				return rows, meta, err
			}
		}
		rows = append(rows, more...)
	}
	return rows, meta, nil
}

// steps are the times of a database: of opening, putting, and closing.
type steps [3][]float64

// fewRounds is how often a case of one opening is measured.
const fewRounds = 5

// measure runs one case: the databases take turns in every opening. A case of one opening is
// run several times, each in a new directory.
func (s Settings) measure(ctx context.Context, c Case) (rows []Row, err error) {
	dir, err := os.MkdirTemp(s.Dir, "kstone-bench-small-")
	if err != nil {
		return nil, err
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
				return nil, err
			}
			items := makeItems(i*c.Items/c.Opens, (i+1)*c.Items/c.Opens)
			if err := turn(in, items, times); err != nil {
				return nil, err
			}
		}
	}
	for j := range contestants {
		r := Row{Database: contestants[j].name, Items: c.Items, Opens: c.Opens,
			Open: summary(times[j][0]), Put: summary(times[j][1]), Close: summary(times[j][2])}
		if err := r.look(filepath.Join(in, r.Database)); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
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

func summary(ms []float64) Time {
	slices.Sort(ms)
	return Time{Low: ms[len(ms)/10], Median: ms[len(ms)/2]}
}

// look counts what a database has left in its directory.
func (r *Row) look(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		r.Files++
		r.Bytes += info.Size()
		if e.Name() == "RESERVE" {
			r.Reserve += info.Size()
		}
		return nil
	})
}
