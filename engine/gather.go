package engine

import (
	"bytes"

	"github.com/kstonedb/kstone/keycodec"
)

// Gather selects items of several partitions, ordered by sort key over all of them: what
// is spread over many partitions, so that writes do not meet in one, is read as if it
// were one partition. Items with the same sort key come in the order of their PKs, and an
// item without sort key comes before all others.
type Gather struct {
	// PKs are the partitions, in ascending order and each of them once.
	PKs [][]byte
	// Spans restrict the sort keys in all partitions: ranges in ascending order that do not
	// overlap; empty ones may stand anywhere. Their ends mean what those of SKRange do; so
	// an item without sort key is in none. No spans select all items of the partitions.
	Spans []keycodec.Span
	// Each, if not nil, takes the place of Spans and has as many lists as there are PKs:
	// Each[i] restricts partition PKs[i].
	Each [][]keycodec.Span
	// ByPartition returns the items partition by partition, which is faster: in the order
	// of PKs, then of the sort keys.
	ByPartition bool
	// Reverse turns the order around.
	Reverse bool
	// Limit ends the iteration after that many items. 0 means no limit.
	Limit int
	// After resumes after an earlier item: see CursorAfter.
	After Cursor
	// StartAfter starts after (with Reverse: before) the place of this key in the order.
	// There need not be an item of it, nor must its PK be among PKs. After takes
	// precedence.
	StartAfter Key
	// KeysOnly, Filter, MayHold and Blocks are as in Query.
	KeysOnly bool
	Filter   func(Item) bool
	MayHold  func(Zone) bool
	Blocks   *BlockCounts
}

// CursorAfter returns the cursor that resumes the gathering exactly after item, which
// must come from an iteration of the same Gather.
func (g *Gather) CursorAfter(item Item) Cursor {
	return newCursor(g.fingerprint(), item.Key)
}

// fingerprint identifies everything a cursor depends on.
func (g *Gather) fingerprint() uint32 {
	f := newFingerprint("gather")
	f.bool(g.ByPartition)
	f.bool(g.Reverse)
	f.int(len(g.PKs))
	for i, pk := range g.PKs {
		f.bytes(pk)
		if g.Each != nil && i < len(g.Each) {
			f.spans(g.Each[i])
		}
	}
	f.bool(g.Each != nil)
	if g.Each == nil {
		f.spans(g.Spans)
	}
	return f.sum()
}

func (f *fingerprinter) spans(spans []keycodec.Span) {
	f.int(len(spans))
	for _, s := range spans {
		f.bytes(s.Start)
		f.bool(s.End != nil)
		f.bytes(s.End)
	}
}

// check validates all but the position.
func (g *Gather) check() error {
	if err := checkMayHold("gather", g.MayHold, g.Filter); err != nil {
		return err
	}
	switch {
	case g.Limit < 0:
		return invalid("gather: limit %d is negative", g.Limit)
	case g.Each != nil && len(g.Each) != len(g.PKs):
		return invalid("gather: spans for %d of %d partitions", len(g.Each), len(g.PKs))
	case g.Each != nil && g.Spans != nil:
		return invalid("gather: both Spans and Each")
	}
	for i, pk := range g.PKs {
		if key := (Key{PK: pk}); key.Validate() != nil {
			return keyError("gather", key.Validate())
		}
		if i > 0 && bytes.Compare(g.PKs[i-1], pk) >= 0 {
			return invalid("gather: partition %d is not above the one before", i)
		}
	}
	if err := checkSpans(g.Spans); err != nil {
		return err
	}
	for _, spans := range g.Each {
		if err := checkSpans(spans); err != nil {
			return err
		}
	}
	return nil
}

// checkSpans checks the order of the spans; those that end before they begin hold nothing
// and may stand anywhere.
func checkSpans(spans []keycodec.Span) error {
	last := -1
	for i := range spans {
		s := &spans[i]
		if s.End != nil && bytes.Compare(s.Start, s.End) >= 0 {
			continue
		}
		if last >= 0 {
			end := spans[last].End
			if end == nil || bytes.Compare(end, s.Start) > 0 {
				return invalid("gather: span %d does not begin after the one before", i)
			}
		}
		last = i
	}
	return nil
}

// start returns the position after which to start; ok is false if that is the beginning.
func (g *Gather) start() (at Key, ok bool, err error) {
	if len(g.After) > 0 {
		at, err = g.After.position(g.fingerprint())
		return at, true, err
	}
	if g.StartAfter.PK == nil && g.StartAfter.SK == nil {
		return Key{}, false, nil
	}
	if err := g.StartAfter.Validate(); err != nil {
		return Key{}, false, keyError("gather", err)
	}
	return g.StartAfter, true, nil
}
