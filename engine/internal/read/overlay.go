package read

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/engine/internal/kv"
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
	// At these lengths keys and spans are rid of what is there twice.
	fullKeys, fullSpans int
}

// minFull is how many keys or spans there are at least before some are looked for that are there
// twice.
const minFull = 1 << 12

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

// reaches reports whether a key is in the span or right at its end.
func (r *readSpan) reaches(key []byte) bool {
	return r.span.Hi == nil || bytes.Compare(key, r.span.Hi) <= 0
}

// Init prepares the zero Overlay for a transaction at a moment. Nothing depends on what a
// transaction reads that is readOnly.
func (o *Overlay) Init(s *State, at *Moment, readOnly bool) {
	o.state, o.at, o.readOnly = s, at, readOnly
}

// Put adds a write of one key. The key and the value are copied.
func (o *Overlay) Put(id uint8, e *base.Entry) {
	o.writes++
	o.table(id).Put(e.Key, o.state.Hash(e.Key), kv.OwnWrites+o.writes, e.Kind, e.Expiry, e.Value, 0)
}

// DeleteSpans adds one write that deletes ranges. Ownership: the overlay keeps their bounds.
func (o *Overlay) DeleteSpans(spans ...StripeSpan) {
	o.writes++
	for _, s := range spans {
		o.table(s.Stripe).DeleteRange(base.RangeTombstone{
			Start: s.Lo, End: s.Hi, Seq: kv.OwnWrites + o.writes,
		})
	}
}

// DeleteSpansOn is DeleteSpans of the ranges in some stripes.
func (o *Overlay) DeleteSpansOn(on *base.StripeSet, spans []StripeSpan) {
	var some []StripeSpan
	for _, s := range spans {
		if on.Has(s.Stripe) {
			some = append(some, s)
		}
	}
	o.DeleteSpans(some...)
}

// Forget removes all writes on some stripes. What was read stays noted.
func (o *Overlay) Forget(stripes *base.StripeSet) {
	stripes.Each(func(id uint8) { o.tables[id] = nil })
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
		if len(o.keys) >= max(minFull, o.fullKeys) {
			o.compactKeys()
		}
	}
	return false
}

// compactKeys removes keys that are there twice. Why: a transaction that lives long may read the
// same ones again and again.
func (o *Overlay) compactKeys() {
	slices.SortFunc(o.keys, func(a, b readKey) int { return bytes.Compare(a.key, b.key) })
	o.keys = slices.CompactFunc(o.keys,
		func(a, b readKey) bool { return bytes.Equal(a.key, b.key) })
	o.fullKeys = 2 * len(o.keys)
}

// compactSpans joins spans that overlap.
func (o *Overlay) compactSpans() {
	slices.SortFunc(o.spans, func(a, b readSpan) int {
		return cmp.Or(cmp.Compare(a.stripe, b.stripe), bytes.Compare(a.span.Lo, b.span.Lo))
	})
	kept := o.spans[:0]
	for _, s := range o.spans {
		if n := len(kept); n > 0 && kept[n-1].stripe == s.stripe && kept[n-1].reaches(s.span.Lo) {
			if last := &kept[n-1].span; last.Hi != nil &&
				(s.span.Hi == nil || bytes.Compare(s.span.Hi, last.Hi) > 0) {
				last.Hi = s.span.Hi
			}
			continue
		}
		kept = append(kept, s)
	}
	clear(o.spans[len(kept):])
	o.spans = kept
	o.fullSpans = 2 * len(o.spans)
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
		if len(o.spans) >= max(minFull, o.fullSpans) {
			o.compactSpans()
		}
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
