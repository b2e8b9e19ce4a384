package plan

import (
	"bytes"
	"iter"
	"slices"

	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/keycodec"
)

// streamsOf turns finished spans into what is read, in reading order. ok is false if the
// order of the path cannot be had from them: a span leaves open a column that every stream
// has to fix, or there are too many streams.
func (p *path) streamsOf(set spans.Set, most int) (streams []Stream, ok bool) {
	ok = true
	if p.fixed > 0 {
		for _, s := range set.Spans {
			ok = ok && s.Points >= p.fixed
		}
	}
	switch {
	case p.spread() == nil && ok && p.fixed > 0:
		streams, ok = p.anewStreams(set)
	case p.spread() == nil:
		streams = p.rowStreams(set, true)
	case ok && p.fixed > 0:
		streams = p.prefixStreams(set)
	default:
		streams = p.bucketStreams(set, 0)
	}
	if p.reverse {
		slices.Reverse(streams)
		for i := range streams {
			streams[i].Ranges = slices.Clone(streams[i].Ranges) // buckets may share them
			slices.Reverse(streams[i].Ranges)
		}
	}
	return streams, ok && (!p.ordered || !p.merges(streams) || len(streams) <= most)
}

// merges says whether ordered streams have to be merged: those of partition keys follow each
// other, unless every stream is to begin again.
func (p *path) merges(streams []Stream) bool {
	return p.ordered && len(streams) > 1 && (p.spread() != nil || p.fixed > 0)
}

// bucketStreams makes one stream for each bucket.
func (p *path) bucketStreams(set spans.Set, prefix int) (streams []Stream) {
	x := p.spread()
	for _, part := range spans.Shard(x, set) {
		streams = append(streams, Stream{Bucket: part.Bucket, Prefix: prefix,
			PK: x.BucketPK(nil, part.Bucket), Ranges: part.Ranges})
	}
	return streams
}

// prefixStreams makes streams for each combination of values of the first columns.
func (p *path) prefixStreams(set spans.Set) (streams []Stream) {
	for n, group := range p.combinations(set) {
		streams = append(streams, p.bucketStreams(group, n)...)
	}
	return streams
}

// combinations yields the spans for each combination of values of the first columns, which are
// fixed, and the length of its encoding.
func (p *path) combinations(set spans.Set) iter.Seq2[int, spans.Set] {
	return func(yield func(int, spans.Set) bool) {
		for all := set.Spans; len(all) > 0; {
			head, _ := spans.SplitFields(all[0].Lo, p.key.Fields[:p.fixed])
			n := 1
			for n < len(all) && bytes.HasPrefix(all[n].Lo, head) {
				n++
			}
			set.Spans, all = all[:n], all[n:]
			if !yield(len(head), set) {
				return
			}
		}
	}
}

// anewStreams makes streams of rows for each combination of values of the first columns, to be
// merged by what follows those. ok is false if that cannot be done: streams of whole partition
// keys, which are merged by sort keys, and streams of ranges of partition keys are not compared
// with each other, and the columns fixed end where one of the two begins.
func (p *path) anewStreams(set spans.Set) (streams []Stream, ok bool) {
	t := p.rel.table
	for n, group := range p.combinations(set) {
		n += len(t.AppendRowPrefix(nil))
		for _, s := range p.rowStreams(group, false) {
			whole := s.PK != nil
			if whole != (p.fixed >= len(t.PK)) {
				return nil, false
			}
			if s.Prefix = n; whole {
				s.Prefix = n - len(s.PK)
			}
			streams = append(streams, s)
		}
	}
	return streams, true
}

// rowStreams makes a stream for each partition key that is fixed, and streams of ranges
// of partition keys between them. With split, short ranges become partition keys.
func (p *path) rowStreams(set spans.Set, split bool) (streams []Stream) {
	t := p.rel.table
	prefix := t.AppendRowPrefix(nil)
	for _, span := range set.Spans {
		one := set
		one.Spans = []spans.Span{span}
		keys := spans.SplitPrimary(one, p.key.Fields[:len(t.PK)], split)
		for _, part := range keys.Partitions {
			streams = addPartition(streams, prefix, part, len(t.SK) > 0)
		}
		for _, r := range keys.Intervals {
			r.Lo = slices.Concat(prefix, r.Lo)
			if r.Hi == nil {
				r.Hi, _ = keycodec.PrefixEnd(nil, prefix)
			} else {
				r.Hi = slices.Concat(prefix, r.Hi)
			}
			if n := len(streams); n > 0 && streams[n-1].PK == nil {
				streams[n-1].Ranges = append(streams[n-1].Ranges, r)
				continue
			}
			streams = append(streams, Stream{Bucket: -1, Ranges: []spans.Range{r}})
		}
	}
	return streams
}

func addPartition(streams []Stream, prefix []byte, part spans.KeyPartition, sk bool) []Stream {
	pk := slices.Concat(prefix, part.PK)
	if !sk {
		return append(streams, Stream{Bucket: -1, PK: pk})
	}
	ranges := slices.Clone(part.Ranges)
	if n := len(streams); n > 0 && bytes.Equal(streams[n-1].PK, pk) {
		streams[n-1].Ranges = append(streams[n-1].Ranges, ranges...)
		return streams
	}
	return append(streams, Stream{Bucket: -1, PK: pk, Ranges: ranges})
}
