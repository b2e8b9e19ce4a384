package commit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

var ctx = context.Background()

var dbid = [16]byte{1}

// world is all of a database that commits see: stripes, log, readers' state and upkeep are real,
// and the environments are the test's. Nothing runs in the background.
type world struct {
	*Pipeline
	t       *testing.T
	stripes [base.NumStripes]stripe.Stripe
	env     stripe.Env
	reads   *read.State
	failure atomic.Pointer[error]
	// onDisk is called for every operation on a file of the log; nil for none.
	onDisk atomic.Pointer[func(vfstest.Op) error]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if f := w.onDisk.Load(); f != nil {
			return (*f)(op)
		}
		return nil
	})
	w.ok(manifest.MakeDir(fsys, "db"))
	state := &manifest.State{DBID: dbid, NextFile: 1, NextRun: 1}
	m, err := manifest.Create(fsys, "db", state)
	w.ok(err)
	now := func() int64 { return 1000 }
	w.reads = read.New(read.Env{Stripes: &w.stripes, BlockBytes: 4096, NowMs: now})
	u := upkeep.New(upkeep.Env{
		FS: fsys, Dir: "db", Manifest: m, Stripes: &w.stripes,
		Logger:  slog.New(slog.DiscardHandler),
		Visible: w.reads.Visible, Horizon: w.reads.Horizon, Retain: w.reads.Retention, NowMs: now,
		Begin: func(ctx context.Context) (context.Context, func(), error) {
			return ctx, func() {}, nil
		},
		Writable:    func() error { return nil },
		FailForGood: func(err error) error { w.failure.Store(&err); return err },
	}, upkeep.Options{
		MemtableBytes: 1 << 30, LogBytes: 1 << 30, SegmentBytes: 1 << 20, MaxRuns: 4, Workers: 1,
		FlushGroup: 1, NoReserve: true,
	}, m.State())
	w.env = stripe.Env{
		FS: fsys, Dir: "db", DBID: dbid, Cache: cache.New(1 << 20), Stats: &sst.Stats{},
		Files:      cache.NewFiles(func(n string) (cache.File, error) { return fsys.Open(n) }, 0),
		BlockBytes: 4096, FileBytes: 1 << 20, FilterBits: 8,
		Memory: u.MemtableBytes(), NextFile: u.NextFile, Create: u.CreateFile,
		Obsolete: u.Obsolete,
	}
	for i := range w.stripes {
		w.stripes[i].Init(base.StripeID(i), &w.env, nil)
	}
	o := wal.Options{
		FS: fsys, Dir: "db", DBID: dbid, SegmentBytes: 1 << 20, MaxRecordBytes: 1 << 20,
	}
	tail, err := wal.Recover(o, 0, 1, nil)
	w.ok(err)
	log, err := wal.Open(o, tail)
	w.ok(err)
	w.Pipeline = New(Env{Stripes: &w.stripes, Reads: w.reads, Upkeep: u, NowMs: now})
	w.reads.Start(log)
	w.Start(log)
	u.Start(log)
	t.Cleanup(func() {
		u.Stop()
		_ = log.Close()
		u.Close(true)
		_ = m.Close()
	})
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	testutil.OK(w.t, err)
}

// intercept calls f for every operation on a file from now on.
func (w *world) intercept(f func(vfstest.Op) error) { w.onDisk.Store(&f) }

func key(pk string) keycodec.Key { return keycodec.Key{PK: []byte(pk)} }

// put returns a batch of one put.
func put(pk, value string) *Batch {
	var b Batch
	b.Put(key(pk), []byte(value), Lifetime{})
	return &b
}

// newest returns the newest value of a key, whether it is visible or not, "" for none.
func (w *world) newest(pk string) string {
	w.t.Helper()
	k := keycodec.AppendOrdered(nil, key(pk))
	var e base.Entry
	_, err := w.stripes[keycodec.Stripe([]byte(pk))].Get(k, w.reads.Hash(k), base.MaxSeqNum, &e)
	w.ok(err)
	return string(e.Value)
}
