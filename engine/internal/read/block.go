package read

import (
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// WalkShared is Walk of those stripes that the share gives to the iteration.
func (it *Iteration) WalkShared(share *kv.Share, reverse bool) {
	it.reverse, it.share = reverse, share
	if !it.remembered() {
		it.walkNext()
	}
}

// walkNext opens the next stripe of the share, and reports whether there is one.
func (it *Iteration) walkNext() bool {
	for {
		i, ok := kv.Take(it.share, 1, len(it.stripes))
		if !ok {
			return false
		}
		if it.stripe = it.stripes[i]; !it.bare(it.stripe) {
			it.openWalk()
			return it.err == nil
		}
		if it.err != nil {
			return false
		}
	}
}

// Stripe returns the stripe that is walked.
func (it *Iteration) Stripe() uint8 { return it.stripe }

// Block is what an iteration has at hand: rows, or plain entries.
type Block struct {
	Rows  []base.Entry
	Plain kv.Entries // nil: Rows
}

// Block moves over the next entries that are wanted, as many as are at hand, and sets b to them. It
// reports false at the end, or if Err says why it cannot go on. They are in one partition, if Part
// says so, and valid until the next call.
func (it *Iteration) Block(b *Block) bool {
	if it.image.of != nil && it.image.sorted == nil {
		if it.err = it.pause(); it.err != nil || !it.nextOfImage() {
			return false
		}
		b.Plain, b.Rows = &it.image, nil
		it.sinceOK += it.image.to - it.image.from
		return true
	}
	for {
		if it.at == len(it.rows) && it.plain() {
			if it.source.Entries(&it.entries) {
				b.Plain, b.Rows = &it.entries, nil
				it.sinceOK += it.entries.Len()
				it.err = it.pause()
				return it.err == nil
			}
			if it.err = it.source.Err(); it.err != nil || !it.advance() {
				return false
			}
			continue
		}
		if it.at == len(it.rows) && !it.refill() {
			return false
		}
		rows := it.rows[it.at:]
		it.at = len(it.rows)
		if rows = it.wantedOf(rows); len(rows) > 0 {
			b.Plain, b.Rows = nil, rows
			return true
		}
	}
}

// plain reports whether entries are read where they are: all are wanted.
func (it *Iteration) plain() bool {
	return it.err == nil && it.limit == 0 && !it.merged && it.source != nil && it.source.Plain()
}

// wantedOf returns the entries that are wanted, in memory of its own if some are not: what a source
// has shown stays as it is.
func (it *Iteration) wantedOf(rows []base.Entry) []base.Entry {
	n := 0
	for n < len(rows) && (rows[n].Kind == base.KindPut && it.from == 0 || it.wants(&rows[n])) {
		n++
	}
	if n == len(rows) {
		return rows
	}
	it.kept = append(it.kept[:0], rows[:n]...)
	for i := n + 1; i < len(rows); i++ {
		if it.wants(&rows[i]) {
			it.kept = append(it.kept, rows[i])
		}
	}
	return it.kept
}

func (it *Iteration) wants(e *base.Entry) bool { return e.Seq >= it.from && !it.expired(e) }

// Part returns the partition of all entries of the block, and the length of what their keys begin
// with before the sort key; ok is false if they are of several partitions.
func (it *Iteration) Part() (pk []byte, skip int, ok bool) {
	p := it.part
	if it.parts != nil {
		p = &it.parts[it.source.Part()]
	}
	if p == nil {
		return nil, 0, false
	}
	return p.pk, p.skip, true
}

// Count counts the items of Stripes, without reading those that files have counted, or any if they
// were counted at the same seq. Requires: no limit, no versions that are passed over, nothing left
// out by zones.
func (it *Iteration) Count() int64 {
	ids := it.stripes
	it.stripes, it.keysOnly = nil, true
	if it.err = it.pause(); it.err != nil {
		return 0
	}
	var last *atomic.Pointer[spanCount] // nil: not of the whole database, at its seq
	if it.known != nil && len(ids) == base.NumStripes && it.reader.tx == nil {
		last = &it.known.count
		if c := last.Load(); c != nil && c.seq == it.node.seq {
			it.items = c.n
			return c.n
		}
	}
	it.countEach(ids)
	if last != nil && it.err == nil && !it.timed { // nothing expires
		last.Store(&spanCount{it.node.seq, it.items})
	}
	return it.items
}

// countEach counts the items of each stripe.
func (it *Iteration) countEach(ids []uint8) {
	for _, id := range ids {
		it.sinceOK++
		if it.err = it.pause(); it.err != nil {
			break
		}
		if it.bare(id) {
			if it.err != nil {
				break
			}
			continue
		}
		if it.reader.overlay(id) == nil {
			var known *stripe.Known
			if it.known != nil {
				known = &it.known.stripes[id]
			}
			s := it.span
			n, ok, err := it.node.gen.stripes[id].Count(s.Lo, s.Hi, it.node.seq, known)
			if it.err = err; err != nil {
				break
			}
			if ok {
				it.items += n
				continue
			}
		}
		it.stripe = id
		it.openWalk()
		for it.err == nil && it.Skip() {
			it.items++
		}
		if it.err != nil {
			break
		}
	}
}
