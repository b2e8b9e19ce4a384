// Command ship compares shipping of a kstone database with litestream's of an SQLite database, on
// the same machine and to a directory: what it costs writers, how much a lost machine costs, how
// many bytes are put, and how long a restore takes.
//
// Of `-rounds 4 -span 2s -samples 8`, rows of 116 bytes, each a commit, SQLite in WAL mode with
// litestream 0.5.18, on two processors that others kept busy (load 30 to 45):
//
//	                                                 kstone            SQLite, litestream
//	commits a second, without and with shipping      146,530, 141,283  10,536, 4,305
//	processor time of a commit, in µs                3.3, 3.1          45, 108
//	lost with the machine, median and most of 8, s   0.40, 1.00        0.36, 0.96
//	put for 10,000 changed rows, by their bytes      1.05 ×            134 ×
//	restore of 1,000,000 rows, in s                  1.2 to 2.9        3.2 to 4.7
//	synced copy of the destination, by that time     1.9 to 3.2        0.05 to 0.16
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// subject is a database that is shipped to a directory.
type subject interface {
	// Put makes one commit of a row.
	Put(id, now int64, value []byte) error
	Ship(dest string) error
	// Settle returns when all rows are at the destination; Stop also ends shipping.
	Settle() error
	Stop() error
	Close() error
	// Restore makes a new database, and returns its rows and the newest time among them.
	Restore(dest, to string) (rows int, newest int64, took time.Duration, err error)
}

const valueBytes = 100

type bench struct {
	dir           string
	rows, rounds  int
	span          time.Duration
	rate, samples int
	parts         string
	name          string
	s             subject
}

func main() {
	var b bench
	flag.StringVar(&b.dir, "dir", os.TempDir(), "where databases are made and removed")
	flag.IntVar(&b.rows, "rows", 1_000_000, "rows of the restored database")
	flag.IntVar(&b.rounds, "rounds", 5, "turns with and without shipping")
	flag.DurationVar(&b.span, "span", 4*time.Second, "length of a turn")
	flag.IntVar(&b.rate, "rate", 1000, "commits a second while the lag is measured")
	flag.IntVar(&b.samples, "samples", 10, "moments at which the machine is lost")
	only := flag.String("only", "kstone,sqlite", "subjects")
	flag.StringVar(&b.parts, "parts", "cost,lag,bytes", "what is measured")
	flag.Parse()
	for i, open := range []func(string) (subject, error){openKstone, openSQLite} {
		b.name = []string{"kstone", "sqlite"}[i]
		if !strings.Contains(*only, b.name) {
			continue
		}
		if err := b.run(open); err != nil {
			fmt.Fprintln(os.Stderr, b.name, err)
			os.Exit(1)
		}
	}
}

func (b *bench) run(open func(string) (subject, error)) (err error) {
	dir, err := os.MkdirTemp(b.dir, "ship-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for i, measure := range []func(dir string) error{b.cost, b.lag, b.bytes} {
		part := []string{"cost", "lag", "bytes"}[i]
		if !strings.Contains(b.parts, part) {
			continue
		}
		sub := filepath.Join(dir, part)
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
		if b.s, err = open(filepath.Join(sub, "db")); err != nil {
			return err
		}
		if err := errors.Join(measure(sub), b.s.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Printf(b.name+": "+format+"\n", args...)
}

func now() int64 { return time.Now().UnixMicro() }

// cpu is the time of the processor that this process has taken.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// cost writes as fast as it can, with shipping and without in turns.
func (b *bench) cost(dir string) error {
	value := make([]byte, valueBytes)
	var rates, cpus [2][]float64
	id := int64(0)
	for round := range 2*b.rounds + 1 {
		on := round % 2
		if on == 1 {
			if err := b.s.Ship(filepath.Join(dir, "dest")); err != nil {
				return err
			}
			if err := b.s.Settle(); err != nil { // a base is not what is measured
				return err
			}
		}
		start, busy, n := time.Now(), cpu(), 0
		for ; time.Since(start) < b.span; n++ {
			id++
			if err := b.s.Put(id*7919%10_000_019, now(), value); err != nil {
				return err
			}
		}
		if round > 0 { // the first is a warm-up
			rates[on] = append(rates[on], float64(n)/time.Since(start).Seconds())
			cpus[on] = append(cpus[on], float64(cpu()-busy)/float64(n)/1000)
		}
		if on == 1 {
			if err := b.s.Stop(); err != nil {
				return err
			}
		}
	}
	b.say("cost: %.0f commits/s without shipping, %.0f with (%+.1f %%); CPU of the process per "+
		"commit %.2f µs, %.2f with (%+.1f %%)", median(rates[0]), median(rates[1]),
		100*(median(rates[1])/median(rates[0])-1), median(cpus[0]), median(cpus[1]),
		100*(median(cpus[1])/median(cpus[0])-1))
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// lag loses the machine at moments while rows are written at a rate, and restores.
func (b *bench) lag(dir string) error {
	dest := filepath.Join(dir, "dest")
	if err := b.s.Ship(dest); err != nil {
		return err
	}
	value := make([]byte, valueBytes)
	begin := time.Now()
	var lost []int64
	next := begin.Add(3 * time.Second)
	for i := int64(1); len(lost) < b.samples; i++ {
		<-time.After(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(b.rate))))
		if err := b.s.Put(i, now(), value); err != nil {
			return err
		}
		if time.Now().After(next) {
			lost = append(lost, now())
			if err := linkTree(dest, fmt.Sprint(dest, len(lost))); err != nil {
				return err
			}
			next = next.Add(time.Duration(700+rand.IntN(700)) * time.Millisecond)
		}
	}
	if err := b.s.Stop(); err != nil {
		return err
	}
	var lags []float64
	for i, at := range lost {
		_, newest, _, err := b.s.Restore(fmt.Sprint(dest, i+1), fmt.Sprint(dir, "/r", i))
		if err != nil {
			return err
		}
		lags = append(lags, float64(at-newest)/1e6)
	}
	slices.Sort(lags)
	b.say("lag: a lost machine costs %.2f s of commits (median), %.2f at most, of %d",
		lags[len(lags)/2], lags[len(lags)-1], len(lags))
	return nil
}

// bytes counts what is put for rows and for changes of few of them, and times a restore.
func (b *bench) bytes(dir string) error {
	dest := filepath.Join(dir, "dest")
	value := make([]byte, valueBytes)
	fill := func(ids func(i int) int64, n int) error {
		for i := range n {
			for j := range value {
				value[j] = byte(rand.Uint32())
			}
			if err := b.s.Put(ids(i), now(), value); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(func(i int) int64 { return int64(i) }, b.rows); err != nil {
		return err
	}
	if err := b.s.Ship(dest); err != nil {
		return err
	}
	if err := b.s.Settle(); err != nil {
		return err
	}
	full := sizeOf(dest)
	b.say("bytes: %d rows of %d bytes are %.1f MB at the destination", b.rows, 16+valueBytes,
		float64(full)/1e6)
	for _, share := range []int{1000, 100} {
		before, n := sizeOf(dest), b.rows/share
		err := fill(func(int) int64 { return rand.Int64N(int64(b.rows)) }, n)
		if err == nil {
			err = b.s.Settle()
		}
		if err != nil {
			return err
		}
		put, changed := sizeOf(dest)-before, int64(n)*(16+valueBytes)
		b.say("bytes: changes of %d rows, one a commit, of %d bytes, put %d bytes: %.2f ×", n,
			changed, put, float64(put)/float64(changed))
	}
	if err := b.s.Stop(); err != nil {
		return err
	}
	size := sizeOf(dest)
	for range 3 {
		to := filepath.Join(dir, "restored")
		rows, _, took, err := b.s.Restore(dest, to)
		if err == nil && rows != b.rows {
			err = fmt.Errorf("%d rows of %d are restored", rows, b.rows)
		}
		if err != nil {
			return err
		}
		copied, err := copyTree(dest, filepath.Join(dir, "copy"))
		if err != nil {
			return err
		}
		b.say("restore: %d rows in %v, %.0f MB/s of what is there; a synced copy of it %v: %.0f %%",
			rows, took.Round(time.Millisecond), float64(size)/1e6/took.Seconds(),
			copied.Round(time.Millisecond), 100*copied.Seconds()/took.Seconds())
		for _, name := range []string{to, to + "-wal", to + "-shm", filepath.Join(dir, "copy")} {
			if err := os.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// files calls fn with the files of a tree, and their names in another one, whose directories it
// makes. Files that go meanwhile are left out.
func files(dir, to string, fn func(path, name string, size int64) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := to + strings.TrimPrefix(path, dir)
		switch {
		case err != nil:
		case d.IsDir() && to != "":
			err = os.MkdirAll(name, 0o700)
		case !d.IsDir():
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				err = fn(path, name, info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func sizeOf(dir string) (n int64) {
	_ = files(dir, "", func(_, _ string, size int64) error { n += size; return nil })
	return n
}

// linkTree gives all files second names: neither subject changes a file in place.
func linkTree(from, to string) error {
	return files(from, to, func(path, name string, _ int64) error { return os.Link(path, name) })
}

// copyTree copies and syncs all files.
func copyTree(from, to string) (took time.Duration, err error) {
	start := time.Now()
	buf := make([]byte, 1<<20)
	err = files(from, to, func(path, name string, _ int64) error {
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(name)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, buf)
		return errors.Join(err, out.Sync(), out.Close())
	})
	return time.Since(start), err
}

var background = context.Background()
