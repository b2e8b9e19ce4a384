package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// world is all of a database that upkeep sees: files, manifest, log and stripes are real, and
// the environment is the test's.
type world struct {
	*Upkeep
	t       *testing.T
	fs      vfs.FS
	stripes [base.NumStripes]stripe.Stripe
	env     stripe.Env

	visible   atomic.Uint64
	snapshots []base.SeqNum
	closed    atomic.Bool
	failure   atomic.Pointer[error]
	flushes   []Flush
	merges    []Merge
}

var dbid = [16]byte{1}

var errClosed = errors.New("closed")

// everyStripe are the numbers of all stripes.
var everyStripe = func() (all []uint8) {
	for i := range base.NumStripes {
		all = append(all, uint8(i))
	}
	return all
}()

// newWorld returns a world whose background work has not begun.
func newWorld(t *testing.T, fsys vfs.FS) *world {
	t.Helper()
	w := &world{t: t, fs: fsys}
	w.ok(manifest.MakeDir(fsys, "db"))
	m, err := manifest.Create(fsys, "db", &manifest.State{DBID: dbid, NextFile: 1, NextRun: 1})
	w.ok(err)
	w.env = stripe.Env{
		FS: fsys, Dir: "db", DBID: dbid, Cache: cache.New(1 << 20), Stats: &sst.Stats{},
		Files:      cache.NewFiles(func(n string) (cache.File, error) { return fsys.Open(n) }, 0),
		BlockBytes: 4096, FileBytes: 1 << 20, FilterBits: 8,
	}
	w.Upkeep = New(Env{
		FS: fsys, Dir: "db", Manifest: m, Stripes: &w.stripes,
		Logger:  slog.New(slog.DiscardHandler),
		Visible: w.seq, Horizon: w.horizon, Retain: w.retain,
		NowMs: func() int64 { return 1 }, Begin: w.begin, Writable: w.writable,
		FailForGood: func(err error) error { w.failure.Store(&err); return err },
		Flushed:     func(f Flush) { w.flushes = append(w.flushes, f) },
		Merged:      func(m Merge) { w.merges = append(w.merges, m) },
	}, Options{
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, SegmentBytes: 1 << 20, MaxRuns: 2, Workers: 1,
		FlushGroup: 4,
		OldData:    sst.Layout{Codec: w.env.BottomCodec, FilterBits: 8, BlockBytes: 4096},
	}, m.State())
	w.env.Memory, w.env.NextFile = w.MemtableBytes(), w.NextFile
	w.env.Create, w.env.Obsolete = w.CreateFile, w.Obsolete
	for i := range w.stripes {
		w.stripes[i].Init(base.StripeID(i), &w.env, nil)
	}
	o := wal.Options{
		FS: fsys, Dir: "db", DBID: dbid, SegmentBytes: 1 << 20, MaxRecordBytes: 1 << 20,
	}
	tail, err := wal.Recover(o, 0, 1, nil)
	w.ok(err)
	w.log, err = wal.Open(o, tail)
	w.ok(err)
	t.Cleanup(func() {
		w.close()
		_ = m.Close()
	})
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	ok(w.t, err)
}

func (w *world) seq() base.SeqNum { return base.SeqNum(w.visible.Load()) }

func (w *world) horizon() base.SeqNum {
	low := w.seq()
	for _, s := range w.snapshots {
		low = min(low, s)
	}
	return low
}

func (w *world) retain() stripe.Retention {
	return stripe.Retention{Snapshots: w.snapshots, Horizon: w.seq(), NowMs: 1}
}

func (w *world) begin(ctx context.Context) (context.Context, func(), error) {
	return ctx, func() {}, w.writable()
}

func (w *world) writable() error {
	if w.closed.Load() {
		return errClosed
	}
	return nil
}

// close does what a database does when it is closed.
func (w *world) close() {
	if w.closed.Swap(true) {
		return
	}
	w.Stop()
	w.ok(w.log.Close())
	w.Close(false)
}

// put commits a value under a key of a stripe.
func (w *world) put(id int, key, value string) base.SeqNum {
	w.t.Helper()
	record := wal.AppendPut(nil, []byte(key), nil, []byte(value))
	seq, err := w.log.Append(record)
	w.ok(err)
	e := base.Entry{Key: []byte(key), Seq: seq, Kind: base.KindPut, Value: []byte(value)}
	w.Grow(w.stripes[id].Put(&e, base.Hash(e.Key, 0), w.horizon()))
	w.visible.Store(uint64(seq))
	return seq
}

// runs returns the number of runs of a stripe.
func (w *world) runs(id int) int { return len(w.stripes[id].View().Runs) }

// files returns the names in the directory that match.
func (w *world) files(pattern string) (names []string) {
	all, err := w.fs.List("db")
	w.ok(err)
	for _, name := range all {
		if match, _ := filepath.Match(pattern, name); match {
			names = append(names, name)
		}
	}
	return names
}
