package commit

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// Replay puts the operations of log records into the memtables.
//
// One goroutine, the caller's, reads, checks and decodes records; workers insert the
// operations. A worker owns the stripes whose number is its own modulo the number of
// workers, so that the operations of a stripe are applied in log order, by one
// goroutine. What can be wrong with a record is found while it is decoded: inserting
// cannot fail, and the first error in log order is the one that is returned.
//
// Operations travel in chunks: copies of payloads, since those are gone with the next
// record, and for each worker a list of the operations in them. The chunks circulate,
// so their number bounds the memory and how far the reader gets ahead.
type Replay struct {
	env     ReplayEnv
	flushed [base.NumStripes]base.SeqNum
	ops     int

	chunk   *replayChunk // being filled
	free    chan *replayChunk
	workers []replayWorker
	wg      sync.WaitGroup
}

const (
	// replayChunkBytes and replayChunkOps end a chunk, whichever comes first. Why: it
	// must be worth two switches between goroutines and stay in a core's cache.
	replayChunkBytes = 128 << 10
	replayChunkOps   = 1024
	// replayChunks is how many there are.
	replayChunks = 8
	// maxReplayWorkers bounds the workers: one reader cannot feed more.
	maxReplayWorkers = 8
)

// replayChunk is a piece of the log.
type replayChunk struct {
	payload []byte         // copies of records
	ops     [][]replayOp   // by worker, views into payload or into one large record
	count   int            // of ops
	pending sync.WaitGroup // workers that are not done with it
}

type replayOp struct {
	seq    base.SeqNum
	stripe uint8
	op     wal.Op
}

type replayWorker struct {
	ins   Inserter
	index int
	in    chan *replayChunk
	floor base.SeqNum // what is read of the past needs the versions above
	grown int64
}

// ReplayEnv is where a replay puts operations.
type ReplayEnv struct {
	Stripes *[base.NumStripes]stripe.Stripe
	Hash    func(key []byte) uint64
	Memory  *atomic.Int64 // grows by what the memtables take
	// Floor is the lowest seq at which anybody reads later, if the past is kept, or MaxSeqNum.
	Floor base.SeqNum
}

// NewReplay starts the workers of a replay, which leaves out what is in files: the commits of each
// stripe up to the seq in flushed. Finish ends them.
func NewReplay(env ReplayEnv, flushed *[base.NumStripes]base.SeqNum) *Replay {
	r := &Replay{env: env, flushed: *flushed, free: make(chan *replayChunk, replayChunks)}
	r.workers = make([]replayWorker, min(runtime.GOMAXPROCS(0), maxReplayWorkers))
	for range replayChunks {
		r.free <- &replayChunk{ops: make([][]replayOp, len(r.workers))}
	}
	for i := range r.workers {
		w := &r.workers[i]
		*w = replayWorker{ins: Inserter{env.Stripes, env.Hash, nil}, index: i, floor: env.Floor,
			in: make(chan *replayChunk, replayChunks)}
		r.wg.Go(w.run)
	}
	return r
}

// Apply takes over one record. It is called in log order; payload is only read during
// the call.
func (r *Replay) Apply(_ wal.SegmentNum, seq base.SeqNum, payload []byte) error {
	if len(payload) > replayChunkBytes {
		return r.applyLarge(seq, payload)
	}
	if r.chunk != nil && len(r.chunk.payload)+len(payload) > replayChunkBytes {
		r.send()
	}
	c := r.current()
	start := len(c.payload)
	c.payload = append(c.payload, payload...)
	before := c.count
	ops := wal.NewOpReader(c.payload[start:])
	for more := true; more; {
		var err error
		if more, err = r.decode(c, seq, &ops); err != nil {
			return err
		}
	}
	if c.count == before {
		c.payload = c.payload[:start] // nothing in it that is not flushed
	}
	if c.count >= replayChunkOps {
		r.send()
	}
	return nil
}

// applyLarge passes on a record that no chunk holds: without a copy, in pieces, waiting
// after each until the workers are done with it.
func (r *Replay) applyLarge(seq base.SeqNum, payload []byte) error {
	r.send()
	c := r.current()
	ops := wal.NewOpReader(payload)
	for more := true; more; {
		var err error
		if more, err = r.decode(c, seq, &ops); err != nil {
			return err
		}
		if c.count >= replayChunkOps || !more {
			r.deliver(c)
			c.pending.Wait()
			c.reset()
		}
	}
	return nil
}

// current returns the chunk to fill, after waiting for one that is free.
func (r *Replay) current() *replayChunk {
	if r.chunk == nil {
		c := <-r.free
		c.pending.Wait()
		if c.payload == nil { // most logs take one
			// Never grown: operations are views into it.
			c.payload = make([]byte, 0, replayChunkBytes)
		}
		c.reset()
		r.chunk = c
	}
	return r.chunk
}

func (c *replayChunk) reset() {
	c.payload, c.count = c.payload[:0], 0
	for i := range c.ops {
		c.ops[i] = c.ops[i][:0]
	}
}

// send passes the chunk on. It goes to the end of the line of the free ones at once;
// current waits for the workers when it comes to its turn.
func (r *Replay) send() {
	if c := r.chunk; c != nil {
		r.chunk = nil
		r.deliver(c)
		r.free <- c
	}
}

func (r *Replay) deliver(c *replayChunk) {
	for i := range r.workers {
		if len(c.ops[i]) > 0 {
			c.pending.Add(1)
			r.workers[i].in <- c
		}
	}
}

// decode adds the next operation of a record to the chunk, unless a flush has written
// it already, and reports whether there was one.
func (r *Replay) decode(c *replayChunk, seq base.SeqNum, ops *wal.OpReader) (bool, error) {
	o := replayOp{seq: seq}
	more, err := ops.Next(&o.op)
	if err != nil || !more {
		return false, err
	}
	if o.stripe, err = stripeOf(seq, &o.op); err != nil {
		return false, err
	}
	if seq <= r.flushed[o.stripe] {
		return true, nil
	}
	w := int(o.stripe) % len(r.workers)
	c.ops[w] = append(c.ops[w], o)
	c.count++
	r.ops++
	return true, nil
}

// stripeOf returns the stripe of an operation.
func stripeOf(seq base.SeqNum, op *wal.Op) (uint8, error) {
	if op.Kind == base.KindDeleteRange {
		return keycodec.Stripe(kv.PKOf(op.Start)), nil
	}
	key := keycodec.Key{PK: op.PK, SK: op.SK}
	if err := key.Validate(); err != nil {
		return 0, fmt.Errorf("log record %d: %w", seq, err)
	}
	return keycodec.Stripe(key.PK), nil
}

// Operations returns the number of operations that were not in files.
func (r *Replay) Operations() int { return r.ops }

// Finish waits until everything applied so far is in the memtables. The replay is
// over then. It must be called whatever became of the recovery.
func (r *Replay) Finish() {
	r.send()
	for i := range r.workers {
		close(r.workers[i].in)
	}
	r.wg.Wait()
	for i := range r.workers {
		r.env.Memory.Add(r.workers[i].grown)
	}
}

func (w *replayWorker) run() {
	for c := range w.in {
		for i := range c.ops[w.index] {
			o := &c.ops[w.index][i]
			w.grown += w.ins.insert(o.stripe, o.seq, &o.op, min(o.seq, w.floor))
		}
		c.pending.Done()
	}
}

// Inserter puts operations of log records into memtables. It belongs to one goroutine.
type Inserter struct {
	Stripes *[base.NumStripes]stripe.Stripe
	Hash    func(key []byte) uint64
	key     []byte
}

// Insert puts the operations of one record into the memtables, and returns by how many bytes they
// grew. It leaves out those that are in files: of each stripe up to the seq in flushed. Horizon is
// the lowest seq at which anybody reads now or later.
func (in *Inserter) Insert(seq base.SeqNum, payload []byte, horizon base.SeqNum,
	flushed func(id uint8) base.SeqNum) (grown int64, err error) {
	ops := wal.NewOpReader(payload)
	var op wal.Op
	for {
		more, err := ops.Next(&op)
		if err != nil || !more {
			return grown, err
		}
		id, err := stripeOf(seq, &op)
		if err != nil {
			return grown, err
		}
		if seq > flushed(id) {
			grown += in.insert(id, seq, &op, horizon)
		}
	}
}

// insert puts an operation into its stripe's memtable.
func (in *Inserter) insert(id uint8, seq base.SeqNum, op *wal.Op, horizon base.SeqNum) int64 {
	s := &in.Stripes[id]
	// A log may hold more for one stripe than a memtable can. Not within a record: a
	// number is flushed or it is not.
	if a := s.View().Active; a.Bytes() > memtable.MaxBytes/2 && a.MaxSeq() < seq {
		s.Freeze()
	}
	if op.Kind == base.KindDeleteRange {
		if s.View().Active.MaxSeq() < seq {
			s.FreezeBeneath(op.Start, op.End)
		}
		return s.DeleteRange(base.RangeTombstone{Start: op.Start, End: op.End, Seq: seq})
	}
	in.key = keycodec.AppendOrdered(in.key[:0], keycodec.Key{PK: op.PK, SK: op.SK})
	e := base.Entry{Key: in.key, Seq: seq, Kind: op.Kind, Expiry: op.Expiry, Value: op.Value}
	return s.Put(&e, in.Hash(in.key), horizon)
}
