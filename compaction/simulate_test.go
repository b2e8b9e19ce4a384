package compaction_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

// simulation fills one stripe with flushes of some size and merges whenever Pick
// wants to. Bytes are those of unique items: overwrites is the chance that an item
// replaces one that is in the bottom already, which a full merge drops.
type simulation struct {
	runs       []compaction.RunInfo
	nextID     uint64
	flushed    uint64
	written    uint64
	maxRuns    int
	sumRuns    int
	steps      int
	overwrites float64
	maxAmp     float64 // bytes on disk by bytes of live items
}

func (s *simulation) flush(bytes uint64, o compaction.Options) {
	s.nextID++
	s.flushed += bytes
	s.written += bytes
	r := compaction.RunInfo{ID: s.nextID, Bytes: bytes, Entries: bytes / 116}
	s.runs = append([]compaction.RunInfo{r}, s.runs...)
	for merges := 0; ; merges++ {
		p, ok := compaction.Pick(s.runs, o, 0, 0)
		if !ok {
			break
		}
		if merges > 10 {
			panic("picker does not come to rest")
		}
		s.merge(p)
	}
	s.steps++
	s.sumRuns += len(s.runs)
	s.maxRuns = max(s.maxRuns, len(s.runs))
	var disk uint64
	for _, r := range s.runs {
		disk += r.Bytes
	}
	bottom := s.runs[len(s.runs)-1].Bytes
	upper := disk - bottom
	live := float64(bottom) + float64(upper)*(1-s.overwrites)
	if s.steps > 8 {
		s.maxAmp = max(s.maxAmp, float64(disk)/live)
	}
}

func (s *simulation) merge(p compaction.Plan) {
	out := compaction.RunInfo{ID: s.runs[p.Lo].ID}
	for _, r := range s.runs[p.Lo:p.Hi] {
		out.Bytes += r.Bytes
		out.Entries += r.Entries
	}
	if p.Bottom {
		// Of the upper runs only what is not an overwrite adds to the bottom.
		bottom := s.runs[p.Hi-1].Bytes
		out.Bytes = bottom + uint64(float64(out.Bytes-bottom)*(1-s.overwrites))
	}
	s.written += out.Bytes
	rest := append([]compaction.RunInfo{out}, s.runs[p.Hi:]...)
	s.runs = append(s.runs[:p.Lo:p.Lo], rest...)
}

func (s *simulation) amp() float64  { return float64(s.written) / float64(s.flushed) }
func (s *simulation) mean() float64 { return float64(s.sumRuns) / float64(s.steps) }

// TestSimulatedFill reports and bounds write amplification, number of runs and
// space amplification of a stripe for fills of different lengths. The first is the
// fill of 2 million items of 116 bytes: a stripe gets five flushes.
func TestSimulatedFill(t *testing.T) {
	for _, tt := range []struct {
		name       string
		flushes    int
		overwrites float64
		maxWrite   float64
		maxRuns    int
		maxSpace   float64
	}{
		{"2M items", 5, 0, 2.0, 3, 1},
		{"10M items", 23, 0, 3.2, 5, 1},
		{"100M items", 227, 0, 6.2, 7, 1},
		{"1G items", 2270, 0, 8.5, 7, 1},
		{"overwrites, tiny stripe", 200, 0.95, 3, 5, 2.5},
		{"overwrites, large stripe", 2270, 0.5, 8, 7, 1.4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(tt.flushes)))
			s := simulation{overwrites: tt.overwrites}
			for range tt.flushes {
				s.flush(150<<10+r.Uint64N(100<<10), compaction.Options{})
			}
			t.Logf("%d flushes: write amplification %.2f, runs mean %.1f max %d end %d, space %.2f",
				tt.flushes, s.amp(), s.mean(), s.maxRuns, len(s.runs), s.maxAmp)
			if s.amp() > tt.maxWrite || s.maxRuns > tt.maxRuns || s.maxAmp > tt.maxSpace {
				t.Errorf("want at most: write amplification %.2f, runs %d, space %.2f",
					tt.maxWrite, tt.maxRuns, tt.maxSpace)
			}
		})
	}
}

// A stripe that gets no more writes comes to rest after a few merges, whatever is
// in it, and however long a snapshot pins part of it.
//
// Promise (reads and writes): Stripes do not come to rest too late or merge for ever. Also
// `TestSimulatedFill` in `compaction`.
func TestPickComesToRest(t *testing.T) {
	first := testutil.Seed(t)
	for i := range uint64(5000) {
		seed := first + i
		r := rand.New(rand.NewPCG(seed, 3))
		o := compaction.Options{}
		if r.IntN(2) == 0 {
			o = o.Idle()
		}
		const now = 1000
		snapshot := base.SeqNum(r.IntN(100))
		runs := make([]compaction.RunInfo, r.IntN(12))
		for i := range runs {
			runs[i] = randomInfo(r)
		}
		first := len(runs)
		for merges := 0; ; merges++ {
			p, ok := compaction.Pick(runs, o, now, snapshot)
			if !ok {
				break
			}
			if p.Lo < 0 || p.Hi > len(runs) || p.Lo >= p.Hi || p.Score < 1 ||
				p.Bottom != (p.Hi == len(runs)) || (p.Hi-p.Lo == 1 && !p.Bottom) {
				t.Fatalf("seed %d: bad plan %+v of %d runs", seed, p, len(runs))
			}
			if merges > first {
				t.Fatalf("seed %d: merge %d of %d runs: %+v, %+v", seed, merges, first, p, runs)
			}
			out := worstMerge(runs[p.Lo:p.Hi], p.Bottom, now, snapshot)
			runs = slices.Concat(runs[:p.Lo], []compaction.RunInfo{out}, runs[p.Hi:])
		}
	}
}

func randomInfo(r *rand.Rand) compaction.RunInfo {
	i := compaction.RunInfo{Entries: 1 + r.Uint64N(1000), MaxSeq: base.SeqNum(r.IntN(200))}
	i.Bytes = i.Entries * 100
	if r.IntN(2) == 0 {
		i.Tombstones = r.Uint64N(i.Entries + 1)
	}
	if r.IntN(4) == 0 {
		i.RangeTombstones = 1
	}
	if r.IntN(3) == 0 {
		i.TTLEntries = i.Entries - i.Tombstones
		i.MinExpiry = r.Int64N(2000)
		i.MaxExpiry = i.MinExpiry + r.Int64N(1000)
	}
	return i
}

// worstMerge describes the result of a merge that could drop as little as possible.
func worstMerge(in []compaction.RunInfo, bottom bool, now int64, snapshot base.SeqNum,
) compaction.RunInfo {
	out := compaction.RunInfo{MinExpiry: now + 1, MaxExpiry: now + 1}
	for _, r := range in {
		out.Bytes += r.Bytes
		out.Entries += r.Entries
		if bottom && r.MaxSeq <= snapshot {
			out.Entries -= r.Tombstones
		} else {
			out.Tombstones += r.Tombstones
			out.RangeTombstones += r.RangeTombstones
			out.MaxSeq = max(out.MaxSeq, r.MaxSeq)
		}
		switch {
		case r.MaxExpiry > now:
			out.TTLEntries += r.TTLEntries
			out.MaxExpiry = max(out.MaxExpiry, r.MaxExpiry)
		case bottom && r.MaxSeq <= snapshot:
			out.Entries -= r.TTLEntries
		default:
			out.Tombstones += r.TTLEntries
		}
	}
	return out
}
