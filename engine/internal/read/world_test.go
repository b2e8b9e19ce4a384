package read

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

var ctx = context.Background()

// world is all of a database that reads see: stripes and log are real, the commits are the
// test's.
type world struct {
	*State
	t       *testing.T
	stripes [base.NumStripes]stripe.Stripe
	env     stripe.Env
	now     atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	fsys := vfs.NewMem()
	w.ok(manifest.MakeDir(fsys, "db"))
	w.env = stripe.Env{
		FS: fsys, Dir: "db", Cache: cache.New(1 << 20), Stats: &sst.Stats{},
		Files:      cache.NewFiles(func(n string) (cache.File, error) { return fsys.Open(n) }, 0),
		BlockBytes: 4096, FileBytes: 1 << 20, FilterBits: 8, Memory: new(atomic.Int64),
		Create: fsys.Create,
	}
	files := base.FileNum(0)
	w.env.NextFile = func() base.FileNum { files++; return files }
	w.now.Store(1)
	w.State = New(Env{
		Stripes: &w.stripes, BlockBytes: 4096, SlotBytes: 1 << 20, ImageBytes: 1 << 20,
		NowMs: w.now.Load,
	})
	for i := range w.stripes {
		w.stripes[i].Init(base.StripeID(i), &w.env, nil)
	}
	o := wal.Options{FS: fsys, Dir: "db", SegmentBytes: 1 << 20, MaxRecordBytes: 1 << 20}
	tail, err := wal.Recover(o, 0, 1, nil)
	w.ok(err)
	log, err := wal.Open(o, tail)
	w.ok(err)
	w.Start(log)
	t.Cleanup(func() { _ = log.Close() })
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	ok(w.t, err)
}

func ordered(pk string) []byte { return keycodec.AppendOrdered(nil, keycodec.Key{PK: []byte(pk)}) }

// put commits a value under the key of a partition without sort key.
func (w *world) put(pk, value string) base.SeqNum {
	seq := w.begin(pk, value)
	w.Publish(seq)
	return seq
}

// begin is put without the last step: the commit is unfinished.
func (w *world) begin(pk, value string) base.SeqNum {
	return w.write(base.Entry{Key: ordered(pk), Kind: base.KindPut, Value: []byte(value)})
}

// write is begin of any version of the key of a partition without sort key.
func (w *world) write(e base.Entry) base.SeqNum {
	key, _, err := keycodec.DecodeOrdered(e.Key, nil)
	w.ok(err)
	e.Seq, err = w.log.Append(wal.AppendPut(nil, key.PK, nil, e.Value))
	if err != nil {
		w.t.Error(err)
	}
	w.TouchKey(keycodec.Stripe(key.PK), e.Key, e.Kind == base.KindDelete, e.Seq)
	w.Note(keycodec.Stripe(key.PK), e.Key)
	w.stripes[keycodec.Stripe(key.PK)].Put(&e, w.Hash(e.Key), w.Horizon())
	return e.Seq
}

// flushStripe writes what a stripe has in memtables as a run, of the number after runs.
func (w *world) flushStripe(id uint8, runs *uint64) {
	s := &w.stripes[id]
	s.Lock()
	s.Freeze()
	s.Unlock()
	*runs++
	out, err := s.Flush(ctx, new(stripe.Builder), w.Retention(), *runs)
	if w.ok(err); out != nil {
		s.Install(out)
	}
}
