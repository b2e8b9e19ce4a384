package history

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// # Change streams
//
// A stream reads the records of the log in order, the retained ones and then the live ones, and
// waits at the end. It must show no commit that a power cut takes back, and delay no writer.
//
// The naive way: writers hand their commits to the streams, through a queue.
//
// Why it fails: a full queue either stops the writers or loses commits, and what is in it is gone
// with the process.
//
// The way taken: a stream reads the files of the log as any other reader of files, up to the synced
// seq, or to the visible seq if it says so. It pins one segment. At the end it waits for an Append,
// and then lingers: otherwise a stream that keeps up would be woken for each commit. If the commit
// is synced meanwhile, by its writer, the stream goes on. If not, no writer waits for a sync, and
// the stream runs one.
//
// Invariants: a commit is yielded whole and once, and all commits before it were. No yielded commit
// is above the bound. Nothing that a writer waits for is held while a consumer works.

// linger is the time that commits gather at the live end, and have to be synced by their writers.
const linger = time.Millisecond

// Kind is what a change is.
type Kind uint8

// Kinds of changes.
const (
	// Put: the key has the value from now on.
	Put Kind = iota + 1
	// PutExpiring: the key has the value up to a moment. No further change says that it is over.
	PutExpiring
	// Delete: the key has no value.
	Delete
	// DeleteRange: all keys of a range of one stripe have no value.
	DeleteRange
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Put:
		return "put"
	case PutExpiring:
		return "put-expiring"
	case Delete:
		return "delete"
	case DeleteRange:
		return "delete-range"
	}
	return "unknown"
}

// Change is one operation of a commit. See engine.Change.
type Change struct {
	Version   uint64
	Index, Of int
	Last      bool
	Kind      Kind
	Key       kv.Key
	Value     []byte
	Expiry    int64
	Start     []byte
	End       []byte
	Known     bool
	Before    *kv.Item

	history uint64
}

// Next returns the position after the change.
func (c *Change) Next() Position {
	return Position{Version: c.Version, Index: c.Index + 1, History: c.history}
}

// Covers reports whether a DeleteRange deletes the key.
func (c *Change) Covers(key kv.Key) bool {
	if c.Kind != DeleteRange || key.Validate() != nil {
		return false
	}
	if keycodec.Stripe(kv.PKOf(c.Start)) != keycodec.Stripe(key.PK) {
		return false // so it is for most, which are not encoded
	}
	ordered := keycodec.AppendOrdered(nil, key)
	return bytes.Compare(c.Start, ordered) <= 0 && bytes.Compare(ordered, c.End) < 0
}

// Clone returns a copy that shares no memory with c.
func (c *Change) Clone() Change {
	d := *c
	d.Key = kv.Key{PK: bytes.Clone(c.Key.PK), SK: bytes.Clone(c.Key.SK)}
	d.Value, d.Start, d.End = bytes.Clone(c.Value), bytes.Clone(c.Start), bytes.Clone(c.End)
	if c.Before != nil {
		before := c.Before.Clone()
		d.Before = &before
	}
	return d
}

// StreamOptions choose what a stream has.
type StreamOptions struct {
	Visible bool   // also what is not durable yet
	Stop    bool   // end with the newest commit
	PK      []byte // of one partition
	SK      []byte // of sort keys in it that begin so
	Prefix  []byte // of partitions that begin so
	// Passed, if not nil, is called now and then with the next position, if nothing was yielded
	// since the last call of it or of yield.
	Passed func(Position)
}

// Check returns why a stream cannot begin at a position, with a *GoneError if it is that.
func (h *History) Check(p Position) error {
	if err := p.check(); err != nil {
		return err
	}
	l := h.env.Log
	seq := base.SeqNum(max(p.Version, 1))
	newest := l.LastSeq()
	gone := &GoneError{Position: p, Oldest: uint64(h.oldest()), Newest: uint64(newest)}
	switch {
	case p.History != 0 && p.proof() > newest, p.History == 0 && seq > newest+1:
		gone.Other = true
		return gone
	case uint64(seq) < gone.Oldest && !(p.Index > 0 && uint64(seq)+1 == gone.Oldest):
		return gone
	case p.History == 0 || p.proof() == 0:
		return nil
	}
	if got := l.History(p.proof()); got != p.History {
		gone.Other = got != 0
		return gone
	}
	return nil
}

// oldest returns the version of the oldest commit that a stream finds.
func (h *History) oldest() base.SeqNum {
	return max(h.env.Log.OldestSeq(), h.limits.Since)
}

// At returns the position after a commit that is there.
func (h *History) At(seq base.SeqNum) Position {
	return Position{Version: uint64(seq) + 1, History: h.env.Log.History(seq)}
}

// stream is a Stream call.
type stream struct {
	h       *History
	o       StreamOptions
	r       *wal.Reader
	from    Position
	low, hi []byte // bounds of ordered keys that are wanted; hi nil: no bound
	all     bool
	stripe  int // of the partition that is wanted, -1: any

	ops     []wal.Op
	c       Change
	passed  int // commits without a wanted change since the last
	history uint64
	next    base.SeqNum
	end     base.SeqNum // the last commit
}

// Stream yields the changes from a position on until yield returns false or ctx ends. A change is
// valid during the call. The error is the cause of ctx, a *GoneError, or that of the log.
func (h *History) Stream(ctx context.Context, from Position, o StreamOptions,
	yield func(*Change) bool) (err error) {
	if err := h.Check(from); err != nil {
		return err
	}
	s := &stream{h: h, o: o, from: from, next: base.SeqNum(max(from.Version, 1)), stripe: -1}
	s.bound()
	s.history, s.end = from.History, base.MaxSeqNum
	if o.Stop {
		s.end = h.env.Log.LastSeq()
	}
	s.r = h.env.Log.NewReader(s.next)
	defer func() { err = errors.Join(err, s.r.Close()) }()
	for {
		limit := min(h.limit(o.Visible), s.end)
		for {
			rec, ok, err := s.r.Next(limit)
			if errors.Is(err, wal.ErrGone) {
				return &GoneError{Position: Position{Version: uint64(s.next), History: s.history},
					Oldest: uint64(h.oldest()), Newest: uint64(h.env.Log.LastSeq())}
			}
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			s.next, s.history = rec.Seq+1, rec.History
			if more, err := s.commit(&rec, yield); err != nil || !more {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		s.report()
		if s.next > s.end {
			return nil
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// limit returns the newest commit that a stream may show.
func (h *History) limit(visible bool) base.SeqNum {
	if visible {
		return h.env.Visible()
	}
	return h.env.Log.SyncedSeq()
}

// wait returns when there may be more to show.
func (s *stream) wait(ctx context.Context) error {
	l := s.h.env.Log
	if l.LastSeq() < s.next {
		if err := l.WaitAppend(ctx, s.next-1); err != nil {
			if errors.Is(err, wal.ErrDone) {
				return kv.ErrClosed
			}
			return err
		}
	}
	if s.end == base.MaxSeqNum {
		t := time.NewTimer(linger)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if s.h.limit(s.o.Visible) >= s.next || s.o.Visible {
		return nil
	}
	return l.Sync(s.next)
}

// report calls Passed.
func (s *stream) report() {
	if s.passed > 0 && s.o.Passed != nil {
		s.o.Passed(Position{Version: uint64(s.next), History: s.history})
		s.passed = 0
	}
}

// reportEvery is how many commits without a wanted change are passed before Passed is called.
const reportEvery = 1024

// commit yields the wanted changes of a record.
func (s *stream) commit(rec *wal.Record, yield func(*Change) bool) (more bool, err error) {
	if err := s.decode(rec.Payload); err != nil {
		return false, err
	}
	last := len(s.ops) - 1
	for !s.all && last >= 0 && !s.wants(&s.ops[last]) {
		last--
	}
	begin := 0
	if uint64(rec.Seq) == s.from.Version {
		begin = s.from.Index
	}
	if last < begin {
		if s.passed++; s.passed >= reportEvery {
			s.report()
		}
		return true, nil
	}
	s.passed = 0
	for i := begin; i <= last; i++ {
		op := &s.ops[i]
		if !s.all && !s.wants(op) {
			continue
		}
		s.c = Change{Version: uint64(rec.Seq), Index: i, Of: len(s.ops), Last: i == last,
			Key: kv.Key{PK: op.PK, SK: op.SK}, Value: op.Value, Expiry: op.Expiry,
			Start: op.Start, End: op.End, history: rec.History}
		switch op.Kind {
		case base.KindPut:
			s.c.Kind = Put
		case base.KindPutTTL:
			s.c.Kind = PutExpiring
		case base.KindDelete:
			s.c.Kind = Delete
		default:
			s.c.Kind = DeleteRange
		}
		if !yield(&s.c) {
			return false, nil
		}
	}
	return true, nil
}

// decode makes ops those of a record: range deletes first.
//
// Why: a range delete spares what its own commit writes, wherever the record has it; in this order
// it does so for those that do one change after the other.
func (s *stream) decode(payload []byte) error {
	s.ops = s.ops[:0]
	ops := wal.NewOpReader(payload)
	ranges, other := 0, false
	for {
		var op wal.Op
		if more, err := ops.Next(&op); err != nil || !more {
			if ranges > 0 && other {
				slices.SortStableFunc(s.ops, func(a, b wal.Op) int {
					return rankOf(a.Kind) - rankOf(b.Kind)
				})
			}
			return err
		}
		if op.Kind == base.KindDeleteRange {
			ranges++
		} else {
			other = true
		}
		s.ops = append(s.ops, op)
	}
}

func rankOf(k base.Kind) int {
	if k == base.KindDeleteRange {
		return 0
	}
	return 1
}

// bound works out which ordered keys are wanted.
func (s *stream) bound() {
	switch {
	case s.o.PK != nil:
		s.stripe = int(keycodec.Stripe(s.o.PK))
		s.low = append(keycodec.AppendOrderedPK(nil, s.o.PK), s.o.SK...)
	case len(s.o.Prefix) > 0:
		s.low = keycodec.AppendOrderedPK(nil, s.o.Prefix)
		s.low = s.low[:len(s.low)-2] // without its end
	default:
		s.all = true
	}
	s.hi, _ = keycodec.PrefixEnd(nil, s.low)
}

// wants reports whether an operation is about a wanted key.
func (s *stream) wants(op *wal.Op) bool {
	if op.Kind == base.KindDeleteRange {
		return (s.stripe < 0 || int(keycodec.Stripe(kv.PKOf(op.Start))) == s.stripe) &&
			bytes.Compare(s.low, op.End) < 0 &&
			(s.hi == nil || bytes.Compare(op.Start, s.hi) < 0)
	}
	if s.o.PK != nil {
		return bytes.Equal(op.PK, s.o.PK) && bytes.HasPrefix(op.SK, s.o.SK)
	}
	return bytes.HasPrefix(op.PK, s.o.Prefix)
}
