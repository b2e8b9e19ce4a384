package stripe

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
)

// ChangedIn reports whether a key of [lo, hi) has a version or tombstone above seq; it
// returns one such key and its number, or 0. Nil hi means no upper bound. Requires:
// Lock held.
func (s *Stripe) ChangedIn(lo, hi []byte, seq base.SeqNum) ([]byte, base.SeqNum, error) {
	v := s.Acquire()
	if v == nil {
		return nil, 0, ErrClosed
	}
	defer v.Release()
	tables := append(v.Frozen[:len(v.Frozen):len(v.Frozen)], v.Active)
	for _, t := range tables {
		if t.MaxSeq() <= seq {
			continue
		}
		if k, n := changedRange(t.RangeTombstones(nil, base.MaxSeqNum), lo, hi, seq); n > 0 {
			return k, n, nil
		}
		c := t.NewCursor(base.MaxSeqNum)
		if k, n, err := changedEntry(c, lo, hi, seq); n > 0 || err != nil {
			return k, n, err
		}
	}
	for _, r := range v.Runs {
		if r.MaxSeq <= seq {
			break
		}
		ts, err := r.RangeTombstones()
		if err != nil {
			return nil, 0, err
		}
		if k, n := changedRange(ts, lo, hi, seq); n > 0 {
			return k, n, nil
		}
		if first, last := r.overlap(lo, hi); first < last {
			var c runCursor
			c.init(r, first, last, base.MaxSeqNum, 0)
			c.pruner = &pruner{from: seq + 1}
			if k, n, err := changedEntry(&c, lo, hi, seq); n > 0 || err != nil {
				return k, n, err
			}
		}
	}
	return nil, 0, nil
}

func changedRange(ts []base.RangeTombstone, lo, hi []byte, seq base.SeqNum) ([]byte, base.SeqNum) {
	for _, t := range ts {
		if t.Seq > seq && bytes.Compare(t.End, lo) > 0 &&
			(hi == nil || bytes.Compare(t.Start, hi) < 0) {
			return t.Start, t.Seq
		}
	}
	return nil, 0
}

func changedEntry(c rowCursor, lo, hi []byte, seq base.SeqNum) ([]byte, base.SeqNum, error) {
	for ok := c.SeekGE(lo); ok; ok = c.Next() {
		e := c.Entry()
		if hi != nil && bytes.Compare(e.Key, hi) >= 0 {
			break
		}
		if e.Seq > seq {
			return bytes.Clone(e.Key), e.Seq, nil
		}
	}
	return nil, 0, c.Err()
}
