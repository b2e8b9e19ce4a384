package read

import (
	"cmp"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// Moment keeps a state of the database alive, from Take to Release.
type Moment struct {
	state *State
	node  snapNode
	nowMs int64 // the time of a moment of the past; 0: the present
	over  atomic.Int32
}

// How a Moment is over.
const (
	momentReleased = iota + 1
	momentExpired
)

// Take makes m the present. The caller must release it.
func (m *Moment) Take(s *State) error {
	if s.closed.Load() {
		return ErrClosed
	}
	m.state = s
	s.take(&m.node)
	return nil
}

// TakeAt makes m the moment of a commit of the past, and its time, and reports whether what is read
// there is kept: see State.Keep. If so, the caller must release it.
func (m *Moment) TakeAt(s *State, seq base.SeqNum, ms int64) (kept bool, err error) {
	if s.closed.Load() {
		return false, ErrClosed
	}
	s.visible.wait(min(seq, s.lastSeq()))
	m.state, m.nowMs = s, ms
	return s.snaps.registerSeq(&m.node, seq), nil
}

// Release ends the moment. It is idempotent. Reads of several items that are under way keep
// what they need.
func (m *Moment) Release() { m.end(momentReleased) }

// Expire is Release of a moment whose readers have not asked for it: they get ErrTxAge.
func (m *Moment) Expire() { m.end(momentExpired) }

func (m *Moment) end(how int32) {
	if m.over.CompareAndSwap(0, how) {
		m.state.snaps.release(&m.node)
	}
}

// err returns ErrClosed or ErrTxAge if the moment is over.
func (m *Moment) err() error {
	switch m.over.Load() {
	case 0:
		return nil
	case momentExpired:
		return kv.ErrTxAge
	}
	return ErrClosed
}

// Seq returns the seq of the newest commit in the moment.
func (m *Moment) Seq() base.SeqNum { return m.node.seq }

// Reader reads at a moment or, without one, at the present.
type Reader struct {
	state *State
	at    *Moment
	tx    *Overlay // on top, and notes what is read; nil for none
}

// Reader returns a reader at a moment, or at the present if that is nil, with an overlay on top
// if that is not nil.
func (s *State) Reader(at *Moment, tx *Overlay) Reader { return Reader{s, at, tx} }

// Check returns ErrClosed if the database is closed or the moment is released, and ErrTxAge if that
// has expired.
func (r *Reader) Check() error {
	if r.state.closed.Load() {
		return ErrClosed
	}
	if r.at != nil {
		return r.at.err()
	}
	return nil
}

// stripes returns what is read without a registration.
func (r *Reader) stripes() *[base.NumStripes]stripe.Stripe {
	if r.at != nil {
		return r.at.node.gen.stripes
	}
	return r.state.env.Stripes
}

// now returns the time that decides what has expired.
func (r *Reader) now() int64 {
	if r.at != nil && r.at.nowMs != 0 {
		return r.at.nowMs
	}
	return r.state.env.NowMs()
}

// enter registers in n the sequence number of a read of several keys. It keeps its moment
// alive, should that of the reader be released meanwhile.
func (r *Reader) enter(n *snapNode) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.at != nil {
		if err := r.state.snaps.registerAt(n, &r.at.node); err != nil {
			return cmp.Or(r.at.err(), err)
		}
		return nil
	}
	r.state.take(n)
	return nil
}

// overlay returns the uncommitted writes on a stripe, nil if there are none.
func (r *Reader) overlay(id uint8) *memtable.Table {
	if r.tx == nil {
		return nil
	}
	return r.tx.tables[id]
}
