package read

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

// Overlay is the side of a transaction that reads know: its uncommitted writes, which lie over
// the stripes as a newest source, and the set of what it has read. It belongs to one goroutine.
type Overlay struct {
	state    *State
	at       *Moment // that the transaction reads
	readOnly bool    // nothing depends on what is read

	tables [base.NumStripes]*memtable.Table // the writes; nil for none
	writes base.SeqNum                      // operations so far, numbers of versions in tables

	keys    []readKey
	spans   []readSpan
	stripes base.StripeSet // of keys and spans
}

// readKey is a key that was looked up.
type readKey struct {
	stripe uint8
	key    []byte
}

// readSpan is a range of one stripe that was iterated over. It counts as read as a whole,
// whatever part the loop got to see.
type readSpan struct {
	stripe uint8
	span   base.Span
}

// overlayBase numbers a transaction's own writes above every real commit.
const overlayBase base.SeqNum = 1 << 55

// Init prepares the zero Overlay for a transaction at a moment. Nothing depends on what a
// transaction reads that is readOnly.
func (o *Overlay) Init(s *State, at *Moment, readOnly bool) {
	o.state, o.at, o.readOnly = s, at, readOnly
}

// Put adds a write of one key. The key and the value are copied.
func (o *Overlay) Put(id uint8, e *base.Entry) {
	o.writes++
	o.table(id).Put(e.Key, o.state.Hash(e.Key), overlayBase+o.writes, e.Kind, e.Expiry, e.Value, 0)
}

// DeleteSpans adds one write that deletes ranges. Ownership: the overlay keeps their bounds.
func (o *Overlay) DeleteSpans(spans ...StripeSpan) {
	o.writes++
	for _, s := range spans {
		o.table(s.Stripe).DeleteRange(base.RangeTombstone{
			Start: s.Lo, End: s.Hi, Seq: overlayBase + o.writes,
		})
	}
}

func (o *Overlay) table(id uint8) *memtable.Table {
	if o.tables[id] == nil {
		o.tables[id] = memtable.New(memtable.Options{Seed: o.state.env.Seed})
	}
	return o.tables[id]
}

// Stripes returns the stripes of all that was read.
func (o *Overlay) Stripes() base.StripeSet { return o.stripes }

// answer answers a lookup of a key of a stripe from the overlay's own writes and reports
// whether they decide it. If not, the key counts as read.
func (o *Overlay) answer(id uint8, f *base.Lookup) bool {
	if t := o.tables[id]; t != nil && written(t, f) {
		return true
	}
	if !o.readOnly {
		o.keys = append(o.keys, readKey{id, bytes.Clone(f.Key)})
		o.stripes.Add(id)
	}
	return false
}

// written sets f to what was written about its key, with version 0, and reports whether
// anything was.
func written(t *memtable.Table, f *base.Lookup) bool {
	var cover base.SeqNum
	if t.HasRanges() {
		cover = t.CoverSeq(f.Key, base.MaxSeqNum)
	}
	var e base.Entry
	found := t.Get(f.Key, f.Hash, base.MaxSeqNum, &e)
	if !found && cover == 0 {
		return false
	}
	f.Set(&e)
	f.Seq = 0
	f.Found = found && e.Seq >= cover
	return true
}

// note notes that the transaction depends on all keys of the span.
func (o *Overlay) note(id uint8, s base.Span) {
	if !o.readOnly {
		o.spans = append(o.spans, readSpan{id, s.Clone()})
		o.stripes.Add(id)
	}
}

// Changed looks for a commit after the moment that has changed what was read. It returns the
// ordered key and the seq of one, or 0 if there is none. Requires: Stripes are locked.
func (o *Overlay) Changed() (key []byte, seq base.SeqNum, err error) {
	since := o.at.node.seq
	for _, r := range o.keys {
		s := &o.state.env.Stripes[r.stripe]
		if seq, err = s.ChangedSince(r.key, o.state.Hash(r.key), since); err != nil || seq > 0 {
			return r.key, seq, o.failed(err)
		}
	}
	for _, r := range o.spans {
		s := &o.state.env.Stripes[r.stripe]
		if key, seq, err = s.ChangedIn(r.span.Lo, r.span.Hi, since); err != nil || seq > 0 {
			return key, seq, o.failed(err)
		}
	}
	return nil, 0, nil
}

// failed is State.Error of an error, nil without one.
func (o *Overlay) failed(err error) error {
	if err != nil {
		err = o.state.Error(err)
	}
	return err
}
