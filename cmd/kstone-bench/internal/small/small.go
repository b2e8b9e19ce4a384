// Package small measures what small databases cost: the files and bytes that a number of
// items leaves when they are written by one opening, or by as many as a command line
// makes that runs again and again, and the time of an opening, a write and a closing. The
// databases take turns within each opening, in one process, each with its defaults and with
// commits that survive a power cut.
package small

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
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

// db is what is used of a database.
type db interface {
	Get(dst []byte, k store.Key) (value []byte, ok bool, err error)
	PutBatch(keys []store.Key, values [][]byte) error
	Close() error
}

var engines = []struct{ name, settings string }{
	{"kstone", "defaults"}, {"bbolt", "defaults"},
	{"sqlite", "WAL, synchronous FULL, one table without rowid"},
	{"pebble", "defaults, synced writes"}, {"badger", "defaults, SyncWrites"},
}

func open(name, dir string) (db, error) {
	c := store.Config{Dir: dir, Sync: true, Writers: 1, Defaults: true}
	if name == "sqlite" {
		return openSQLite(c)
	}
	e, err := store.Find(name)
	if err != nil {
		return nil, err
	}
	return e.Open(c)
}

// Meta describes the machine and the databases.
func (s *Settings) Meta() result.Meta {
	m := result.NewMeta("small")
	for _, e := range engines {
		found, err := store.Find(e.name)
		if err != nil {
			found.Module = "modernc.org/sqlite"
		}
		m.Describe(e.name, found.Module, e.settings)
	}
	return m
}

// Figures of a record: what is left in the directory, and times over the openings, median and
// tenth percentile: the latter says more on a machine that is busy with other work.
const (
	files     = "files"
	bytes     = "bytes"   // sizes of the files
	reserve   = "reserve" // of these, space that is reserved for a full disk
	millis    = "_ms"
	lowMillis = "_low_ms"
)

// steps are those of an opening; what is put are its items, in one commit.
var steps = []string{"open", "put", "close"}

// Run measures all cases and emits a record for each database of a case.
func (s *Settings) Run(ctx context.Context, emit func(result.Record) error) error {
	for _, c := range s.Cases {
		if err := s.measure(ctx, c, emit); err != nil {
			return err
		}
	}
	return nil
}

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
	times := map[string][]float64{} // by engine and step
	rounds := 1
	if c.Opens == 1 {
		rounds = fewRounds
	}
	in := func(round int, name string) string { return filepath.Join(dir, fmt.Sprint(round), name) }
	for turn := range rounds * c.Opens {
		i := turn % c.Opens
		keys, values := items(i*c.Items/c.Opens, (i+1)*c.Items/c.Opens)
		err := measure.Rotate(ctx, turn, len(engines), func(n int) error {
			name := engines[n].name
			laps, err := use(name, in(turn/c.Opens, name), keys, values)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			for j, step := range steps {
				times[name+step] = append(times[name+step], laps[j].Seconds()*1e3)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, e := range engines {
		f := result.Figures{}
		for _, step := range steps {
			t := times[e.name+step]
			f[step+millis] = measure.Middle(t) // which sorts
			f[step+lowMillis] = t[len(t)/10]
		}
		dir := in(rounds-1, e.name)
		if err := errors.Join(look(f, dir), complete(e.name, dir, c.Items)); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if err := emit(result.Record{Table: "small", Engine: e.name, Figures: f,
			Case: fmt.Sprintf("%d items by %d openings", c.Items, c.Opens)}); err != nil {
			return err
		}
	}
	return nil
}

// items are about the size of those of a small database.
func items(from, to int) (keys []store.Key, values [][]byte) {
	for i := from; i < to; i++ {
		k := fmt.Appendf(nil, "user#%07d", i)
		keys = append(keys, store.Key{Bytes: k, PK: len(k)})
		values = append(values, fmt.Appendf(nil, "%20d", i))
	}
	return keys, values
}

// use opens the database, writes and closes. An opening has ended when a key can be read.
func use(name, dir string, keys []store.Key, values [][]byte) (laps [3]time.Duration, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return laps, err
	}
	start := time.Now()
	lap := func(i int) {
		now := time.Now()
		laps[i], start = now.Sub(start), now
	}
	db, err := open(name, dir)
	if err != nil {
		return laps, err
	}
	_, _, err = db.Get(nil, keys[0])
	lap(0)
	if err == nil {
		err = db.PutBatch(keys, values)
	}
	lap(1)
	err = errors.Join(err, db.Close())
	lap(2)
	return laps, err
}

// complete opens a database once more and reads all items.
func complete(name, dir string, n int) error {
	db, err := open(name, dir)
	if err != nil {
		return err
	}
	keys, values := items(0, n)
	for i, k := range keys {
		got, ok, err := db.Get(nil, k)
		if err != nil || !ok || string(got) != string(values[i]) {
			return errors.Join(fmt.Errorf("item %d of %d is %q", i, n, got), err, db.Close())
		}
	}
	return db.Close()
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

// Kind is the page.
var Kind = report.Kind{Tables: []string{"small"}, Notes: "set-up", Body: body}

// body writes a table for each case.
func body(p *report.Page) {
	columns := []report.Column{report.Text("files", "%.0f", files),
		{Head: "bytes", Of: func(_ report.Cell, r result.Record) string {
			text := fmt.Sprintf("%.0f", r.Figures[bytes])
			if v := r.Figures[reserve]; v > 0 {
				text += fmt.Sprintf(", %.0f of them reserved", v)
			}
			return text
		}}}
	for _, step := range steps {
		columns = append(columns,
			report.Text(step+", ms", "%.2f, %.2f", step+lowMillis, step+millis))
	}
	p.Printf("Times are the tenth percentile and the median.\n\n")
	for _, row := range p.Rows {
		p.Printf("## %s\n\n", row)
		p.List([]report.Row{row}, columns...)
	}
}
