package compaction_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// replaySource delivers entries, sixteen at a time, without copying anything.
type replaySource struct{ entries []base.Entry }

func (s *replaySource) Rows() []base.Entry {
	n := min(16, len(s.entries))
	rows := s.entries[:n]
	s.entries = s.entries[n:]
	return rows
}

func (s *replaySource) Err() error { return nil }

// BenchmarkMerge reports the time per record of a merge of 1 and of 4 runs with 36
// byte keys, 100 byte records, no two of one key.
func BenchmarkMerge(b *testing.B) {
	const records = 64 << 10
	for _, k := range []int{1, 4} {
		for _, ranges := range []int{0, 16} {
			b.Run(fmt.Sprintf("runs=%d/ranges=%d", k, ranges), func(b *testing.B) {
				runs := make([][]base.Entry, k)
				for i := range records {
					key := fmt.Appendf(nil, "user#%08d\x00\x00order#%016d", i/16, i)
					r := i * 7919 % 10007 % k
					runs[r] = append(runs[r], base.Entry{
						Key: key, Value: key, Seq: base.SeqNum(i), Kind: base.KindPut,
					})
				}
				o := compaction.MergeOptions{Horizon: records, Bottom: true}
				for i := range ranges {
					o.RangeTombstones = append(o.RangeTombstones, base.RangeTombstone{
						Start: fmt.Appendf(nil, "user#%08d", i*100),
						End:   fmt.Appendf(nil, "user#%08d", i*100+1), Seq: records,
					})
				}
				b.ReportAllocs()
				for b.Loop() {
					sources := make([]cursor.Source, k)
					for i := range sources {
						sources[i] = &replaySource{entries: runs[i]}
					}
					m := compaction.NewMerge(sources, o)
					for m.Next() {
						_ = m.Entry()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
			})
		}
	}
}
