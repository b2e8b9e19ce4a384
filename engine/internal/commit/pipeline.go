// Package commit is the one way into a database: batches of writes and conditions, the pipeline
// that makes a batch one record of the log and one seq, and the replay of the log into the
// memtables.
//
// A Pipeline knows the stripes, the log, the readers' state, which a commit publishes its seq to
// and reads its conditions from, and the upkeep, which admits writers. All else that it asks of a
// database is in its Env.
//
// Lock order: stripe write locks in ascending order, then the log's mutex, then a memtable's
// mutex. Those of upkeep are taken with none of them held.
package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// Env is all that a commit may touch of a database. It does not change after New. The function
// is called concurrently.
type Env struct {
	Stripes *[base.NumStripes]stripe.Stripe
	Reads   *read.State
	Upkeep  *upkeep.Upkeep
	// FlushRecords is the number of records at which a memtable is flushed, 0 for none.
	FlushRecords int
	NowMs        func() int64
}

// Pipeline brings batches into one open database. Its methods may be called concurrently, but
// for Start and Close.
type Pipeline struct {
	env      Env
	log      *wal.Log // nil until Start
	counters counters
}

// New returns a pipeline that is ready for Replay. The stripes need not be initialised yet.
func New(env Env) *Pipeline { return &Pipeline{env: env} }

// Start makes the pipeline ready for Commit.
func (p *Pipeline) Start(log *wal.Log) {
	p.log, p.counters.first = log, log.LastSeq()
	for i := range p.env.Stripes {
		p.limitRanges(&p.env.Stripes[i])
	}
}

// Close refuses commits and reads from now on, and waits for the commits that hold locks.
func (p *Pipeline) Close() {
	p.env.Reads.Close()
	for i := range p.env.Stripes {
		p.env.Stripes[i].Lock()
		//lint:ignore SA2001 a barrier: there is nothing to guard
		p.env.Stripes[i].Unlock()
	}
}

// Terms are how a commit is made.
type Terms struct {
	Sync    bool          // return when it is durable
	MaxWait time.Duration // for upkeep to catch up; 0 means no bound
}

// Guard is a check that runs under the locks of a commit, before anything is logged. If it
// returns an error nothing is written. It may change the batch, within its stripes; what it adds
// it must Seal.
type Guard struct {
	Stripes base.StripeSet // to lock, and not written
	Check   func() error
}

// Commit brings a batch into the database, also that of a single write: it becomes one log
// record under one sequence number. The guard may be nil. If ctx ends before the record is in
// the log, nothing is written. If a condition does not hold, nothing is written, and the error is
// an *UnmetError. The caller has made sure that the database is writable.
//
// Order: admission; stripe locks, ascending; guard; conditions; log (assigns the number);
// memtables; unlock; publish the number; upkeep; wait for the sync. Readers are never blocked:
// they take none of these locks but a memtable's, for moments.
func (p *Pipeline) Commit(ctx context.Context, b *Batch, t Terms, g *Guard) error {
	if len(b.ops) == 0 && g == nil && !b.hasConds() {
		return p.Unchanged(t)
	}
	// What only has conditions needs no room.
	if len(b.ops) > 0 && !p.env.Upkeep.Free() {
		err := p.env.Upkeep.Admit(ctx, b.logBytes(), b.deletesOnly(), t.MaxWait)
		if err != nil {
			return err
		}
	}
	start := p.counters.start(p.log.LastSeq())
	if b.ttls || b.ranges {
		b.seal(p.env.NowMs())
	}
	locks := &b.stripes
	if g != nil {
		all := b.stripes
		all.Union(&g.Stripes)
		locks = &all
	}
	locks.Each(func(id uint8) { p.env.Stripes[id].Lock() })
	seq, grown, err := p.commitLocked(ctx, b, g)
	locks.Each(func(id uint8) { p.env.Stripes[id].Unlock() })
	if err != nil || seq == 0 {
		return p.refused(t, err)
	}
	return p.committed(seq, grown, b, t, start)
}

// Unchanged ends a write that makes no commit, because there is nothing to write. At Sync it
// makes durable what was acknowledged before, as a commit would. Why: a caller that gets "it is
// there already" at Sync relies on it, and the item may be one that was written without.
func (p *Pipeline) Unchanged(t Terms) error {
	if !t.Sync {
		return nil
	}
	return p.env.Upkeep.Fail(p.log.Sync(p.log.LastSeq()))
}

// refused ends a commit that writes nothing. If a condition does not hold it is Unchanged; any
// other error is returned as it is.
func (p *Pipeline) refused(t Terms, err error) error {
	if _, unmet := err.(*UnmetError); unmet || err == nil {
		if serr := p.Unchanged(t); serr != nil {
			return serr
		}
	}
	return err
}

// committed makes an inserted commit visible and, at Sync, waits until it is durable.
func (p *Pipeline) committed(
	seq base.SeqNum, grown int64, b *Batch, t Terms, start time.Duration,
) error {
	base.Yield()
	p.env.Reads.Publish(seq)
	// Not before: other commits wait for this one to be visible, and upkeep asks the log.
	p.env.Upkeep.Grow(grown)
	p.counters.commit(len(b.ops))
	if t.Sync {
		if err := p.log.Sync(seq); err != nil {
			return p.env.Upkeep.Fail(err)
		}
	}
	p.counters.done(start)
	return nil
}

// Sync returns when every commit acknowledged before the call is durable. If ctx ends first,
// its error is returned and the sync goes on.
func (p *Pipeline) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.log.Sync(p.log.LastSeq()) }()
	select {
	case err := <-done:
		return p.env.Upkeep.Fail(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Seal makes a batch ready for the log that a Guard has filled. Commit does that for others.
func (b *Batch) Seal(nowMs int64) { b.seal(nowMs) }

// commitLocked logs and inserts the batch. It returns by how much the memtables have grown.
// Requires: the stripes are locked.
func (p *Pipeline) commitLocked(ctx context.Context, b *Batch, g *Guard) (seq base.SeqNum,
	grown int64, err error) {
	if p.env.Reads.Closed() {
		return 0, 0, read.ErrClosed
	}
	if g != nil {
		if err := g.Check(); err != nil {
			return 0, 0, err
		}
	}
	if b.hasConds() {
		if err := b.check(ctx, p.env.Reads); err != nil {
			return 0, 0, err
		}
	}
	if len(b.ops) == 0 || ctx.Err() != nil {
		return 0, 0, context.Cause(ctx)
	}
	if n := int64(len(b.payload)); p.env.Upkeep.MemtableBytes().Load()+n > memtable.MaxBytes/2 {
		b.stripes.Each(func(id uint8) { p.makeRoom(&p.env.Stripes[id], n) })
	}
	if b.ranges {
		p.freezeBeneath(b)
	}
	record := b.payload
	var scanned []read.StripeSpan
	if b.scans {
		if scanned, record, err = p.expand(b); err != nil || len(record) == 0 {
			return 0, 0, err
		}
	}
	if seq, err = p.log.Append(record); err != nil {
		return 0, 0, p.unlogged(err)
	}
	return seq, p.insert(b, scanned, seq), nil
}

// unlogged returns the error of a record that the log has not taken. A failure that neither a full
// disk nor the record explains makes the database read-only.
func (p *Pipeline) unlogged(err error) error {
	switch {
	case errors.Is(err, vfs.ErrNoSpace):
		return err
	case errors.Is(err, wal.ErrRecordTooLarge): // with what expand adds
		return fmt.Errorf("%w: %w", kv.ErrTooLarge, err)
	}
	return p.env.Upkeep.Fail(err)
}

// insert puts a batch that is logged into the memtables, and returns by how much they have
// grown; scanned are the ranges of its DeleteScans. Requires: the stripes are locked.
func (p *Pipeline) insert(b *Batch, scanned []read.StripeSpan, seq base.SeqNum) (grown int64) {
	horizon := p.env.Reads.Horizon()
	for i := range b.ops {
		base.Yield()
		op := &b.ops[i]
		s := &p.env.Stripes[op.stripe]
		switch op.kind {
		case KindDeleteScan: // below
		case base.KindDeleteRange:
			p.env.Reads.TouchSpan(base.Span{Lo: b.key(op), Hi: b.rangeEnd(op)}, seq)
			grown += s.DeleteRange(base.RangeTombstone{
				Start: bytes.Clone(b.key(op)), End: bytes.Clone(b.rangeEnd(op)), Seq: seq,
			})
		default:
			e := base.Entry{
				Key: b.key(op), Seq: seq, Kind: op.kind, Value: b.valueOf(op),
				Expiry: op.expiry,
			}
			p.env.Reads.TouchKey(op.stripe, e.Key, op.kind == base.KindDelete, seq)
			if op.kind != base.KindDelete {
				p.env.Reads.Note(op.stripe, e.Key)
			}
			grown += s.Put(&e, p.env.Reads.Hash(e.Key), horizon)
		}
	}
	for _, r := range scanned {
		p.env.Reads.TouchSpan(r.Span, seq)
		grown += p.env.Stripes[r.Stripe].DeleteRange(base.RangeTombstone{
			Start: r.Lo, End: r.Hi, Seq: seq,
		})
	}
	if b.ranges {
		b.stripes.Each(func(id uint8) { p.limitRanges(&p.env.Stripes[id]) })
	}
	if p.env.FlushRecords > 0 {
		// Not before the whole batch is in: a number is flushed or it is not.
		b.stripes.Each(func(id uint8) { p.limitRecords(&p.env.Stripes[id]) })
	}
	return grown
}

// limitRecords freezes the active memtable if it holds FlushRecords records. Requires: the
// stripe is locked.
func (p *Pipeline) limitRecords(s *stripe.Stripe) {
	if s.View().Active.Len() >= p.env.FlushRecords && s.Freeze() {
		p.env.Upkeep.KickFlush()
	}
}

// makeRoom freezes the active memtable if it might outgrow what a memtable can address.
// Requires: the stripe is locked.
func (p *Pipeline) makeRoom(s *stripe.Stripe, n int64) {
	if s.View().Active.Bytes()+n > memtable.MaxBytes/2 && s.Freeze() {
		p.env.Upkeep.KickFlush()
	}
}

// freezeBeneath freezes memtables in which the batch deletes large ranges. Requires: the
// stripes are locked.
func (p *Pipeline) freezeBeneath(b *Batch) {
	for i := range b.ops {
		op := &b.ops[i]
		if op.kind == base.KindDeleteRange &&
			p.env.Stripes[op.stripe].FreezeBeneath(b.key(op), b.rangeEnd(op)) {
			p.env.Upkeep.KickFlush()
		}
	}
}

// maxRanges is the number of range tombstones with which a memtable is flushed. Why:
// each read of the stripe looks at all of them, while those of a file are searched.
const maxRanges = 256

// limitRanges freezes the active memtable if it holds many range tombstones. Requires:
// the stripe is locked.
func (p *Pipeline) limitRanges(s *stripe.Stripe) {
	if s.View().Active.Ranges() >= maxRanges && s.Freeze() {
		p.env.Upkeep.KickFlush()
	}
}
