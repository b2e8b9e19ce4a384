package exec

import (
	"bytes"
	"context"
	"slices"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/store"
)

// read puts the items of the access into s, in the order the plan wants.
func (a *access) read(s *sink) error {
	n := a.node
	switch {
	case len(n.Streams) == 0:
		return nil
	case a.shared:
		return a.readShared(s)
	case n.Skip != nil:
		return a.readSkipping(s)
	case n.Merge && len(n.Streams) > 1:
		if r, ok := a.mergedRange(); ok {
			return a.scan(r, s.take)
		}
		return a.readMerged(s)
	case n.Ordered || len(n.Streams) == 1:
		return a.readInTurn(n.Streams, s)
	}
	return a.readInTurn(a.inStoreOrder(), s)
}

// scan reads the items of a range.
func (a *access) scan(r store.Range, take func(*store.Block) bool) error {
	a.countSeeks(r)
	r.Limit = a.rangeLimit()
	if len(r.Spans) > 1 && len(r.PKs) == 1 {
		l := lastTaken{limit: r.Limit, take: take}
		defer func() { a.counts.Seeks -= l.spansAfter(r.Spans, r.Reverse) }()
		take = l.block
	}
	if r.MayHold = a.mayHold(); r.MayHold != nil {
		r.Blocks = &store.BlockCounts{}
		defer func() { a.counts.Blocks.Add(*r.Blocks) }()
	}
	return store.Blocks(a.ctx, a.reader, r, take)
}

// lastTaken is how far a scan of several spans of a partition has come, which are searched one
// after the other.
type lastTaken struct {
	limit, taken int
	stopped      bool
	sk           []byte
	take         func(*store.Block) bool
}

func (l *lastTaken) block(b *store.Block) bool {
	n := b.Len()
	if it, err := b.Item(n - 1); err == nil {
		l.sk = append(l.sk[:0], it.Key.SK...)
	}
	l.taken += n
	l.stopped = !l.take(b)
	return !l.stopped
}

// spansAfter returns how many spans were not searched.
func (l *lastTaken) spansAfter(all []store.Span, reverse bool) (n int64) {
	if !l.stopped && (l.limit == 0 || l.taken < l.limit) {
		return 0
	}
	for _, s := range all {
		after := bytes.Compare(s.Start, l.sk) > 0
		if reverse {
			after = s.End != nil && bytes.Compare(s.End, l.sk) <= 0
		}
		if after {
			n++
		}
	}
	return n
}

// items makes a scan put one item after the other. What is wrong with a key ends it, and goes into
// failed.
func items(failed *error, put func(store.Item) bool) func(*store.Block) bool {
	return func(b *store.Block) bool {
		for i := range b.Len() {
			it, err := b.Item(i)
			if err != nil {
				*failed = err
				return false
			}
			if !put(it) {
				return false
			}
		}
		return true
	}
}

// mayHold returns what blocks are tested for, nil if they are not.
func (a *access) mayHold() func(store.Zone) bool {
	switch zones := a.node.Zones; {
	case a.wants == nil && zones == nil:
		return nil
	case a.wants == nil:
		return zones.MayHold
	case zones == nil:
		return a.wants.mayHold
	default:
		return func(z store.Zone) bool { return zones.MayHold(z) && a.wants.mayHold(z) }
	}
}

// countSeeks counts the positions that a range makes the store search.
func (a *access) countSeeks(r store.Range) {
	seeks := 1
	if r.Kind == store.KindPartitions {
		seeks = 0
		for i := range r.PKs {
			seeks += max(1, len(r.SpansOf(i)))
		}
	}
	a.counts.Seeks += int64(seeks)
}

// rangeLimit is how many items of a range are needed at most, 0 without a limit: where
// nothing leaves out items, as many as rows.
func (a *access) rangeLimit() int {
	n := a.node
	if n.Limit < 0 || n.Limit >= mostLimit || a.filter.some || a.residual.some || n.Skip != nil {
		return 0
	}
	return int(n.Limit)
}

// mostLimit bounds the limits that are passed to the store.
const mostLimit = 1 << 30

// spans returns ranges as the store wants them, ascending.
func (a *access) spans(ranges []spans.Range) []store.Span {
	return a.appendSpans(make([]store.Span, 0, len(ranges)), ranges)
}

// appendSpans is spans, after those that are there.
func (a *access) appendSpans(out []store.Span, ranges []spans.Range) []store.Span {
	n := len(out)
	for _, r := range ranges {
		out = append(out, store.Span{Start: r.Lo, End: r.Hi})
	}
	if a.node.Reverse {
		slices.Reverse(out[n:])
	}
	return out
}

// partition returns the range of a stream that is one partition.
func (a *access) partition(st *plan.Stream) store.Range {
	r := store.Partition(st.PK, a.spans(st.Ranges)...)
	r.Reverse, r.KeysOnly = a.node.Reverse, a.keysOnly()
	return r
}

// interval returns the range of partition keys.
func (a *access) interval(rg spans.Range) store.Range {
	r := store.Interval(rg.Lo, rg.Hi)
	r.Reverse, r.KeysOnly = a.node.Reverse, a.keysOnly()
	r.Unordered = !a.node.Ordered && !a.node.Merge
	if a.shared {
		r.Share = a.worker.division.stripes
	}
	return r
}

// keysOnly reports whether rows are read without their values. Entries are not: those of a unique
// index have the keys of their rows in them.
func (a *access) keysOnly() bool { return a.node.KeysOnly && a.node.Index == nil }

// isPoint reports whether the stream is a single row, of a table without sort key.
func isPoint(st *plan.Stream) bool { return st.PK != nil && len(st.Ranges) == 0 }

// readInTurn reads streams one after the other, and single rows in batches.
func (a *access) readInTurn(streams []plan.Stream, s *sink) error {
	for i := 0; i < len(streams) && !s.done; i++ {
		st := &streams[i]
		if isPoint(st) {
			if a.found == nil {
				a.fetches(a.node.Table, "")
				a.fetch.keys = make([]store.Key, 0, min(usualFetch, len(streams)-i))
			}
			s.later(store.Key{PK: st.PK})
			continue
		}
		if a.node.Index == nil {
			s.finish() // single rows before
		}
		if err := a.one(st, s.take); err != nil {
			return err
		}
	}
	return nil
}

// readShared reads those streams, or stripes of the only one, that the worker gets.
func (a *access) readShared(s *sink) error {
	if a.node.Index == nil {
		return a.one(&a.node.Streams[0], s.take)
	}
	streams := a.inStoreOrder()
	for !s.done {
		i := a.worker.division.nextStream()
		if i >= len(streams) {
			break
		}
		if !a.worker.enter(int64(i)) {
			break
		}
		err := a.one(&streams[i], s.take)
		if s.finish(); err != nil {
			return err
		}
	}
	return nil
}

// one reads one stream.
func (a *access) one(st *plan.Stream, take func(*store.Block) bool) error {
	if st.PK != nil {
		if isPoint(st) {
			return a.scan(store.Point(store.Key{PK: st.PK}), take)
		}
		return a.scan(a.partition(st), take)
	}
	if len(st.Ranges) == 1 {
		return a.scan(a.interval(st.Ranges[0]), take)
	}
	more := true
	for i := 0; i < len(st.Ranges) && more; i++ {
		err := a.scan(a.interval(st.Ranges[i]), func(b *store.Block) bool {
			more = take(b)
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inStoreOrder returns the streams sorted by partition key, those of one partition as
// one: the store reads the keys it holds close together one after the other.
func (a *access) inStoreOrder() []plan.Stream {
	byPK := func(x, y plan.Stream) int { return bytes.Compare(x.PK, y.PK) }
	if slices.IsSortedFunc(a.node.Streams, byPK) {
		return a.node.Streams
	}
	streams := slices.Clone(a.node.Streams)
	slices.SortStableFunc(streams, byPK)
	return streams
}

// mergedRange returns the merge of the streams as one range of the store, which compares
// whole keys; ok is false if the streams are compared without different prefixes, or
// several are in one partition.
func (a *access) mergedRange() (r store.Range, ok bool) {
	streams := a.inStoreOrder()
	ranges := 0
	for i := range streams {
		ranges += len(streams[i].Ranges)
	}
	spans := make([]store.Span, 0, ranges) // of all streams, back to back
	r.PKs = make([][]byte, 0, len(streams))
	r.Each = make([][]store.Span, 0, len(streams))
	var prefix []byte
	for i := range streams {
		st := &streams[i]
		if st.PK == nil || isPoint(st) || i > 0 && bytes.Equal(st.PK, streams[i-1].PK) {
			return r, false
		}
		p := st.Ranges[0].Lo[:min(st.Prefix, len(st.Ranges[0].Lo))]
		if i > 0 && !bytes.Equal(p, prefix) {
			return r, false
		}
		prefix = p
		r.PKs = append(r.PKs, st.PK)
		from := len(spans)
		spans = a.appendSpans(spans, st.Ranges)
		r.Each = append(r.Each, spans[from:len(spans):len(spans)])
	}
	r.Kind, r.Reverse = store.KindPartitions, a.node.Reverse
	return r, true
}

// check returns the error of a context that has ended.
func check(ctx context.Context) error { return context.Cause(ctx) }
