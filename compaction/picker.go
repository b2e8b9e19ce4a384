package compaction

import (
	"math"

	"github.com/kstonedb/kstone/internal/base"
)

// RunInfo is what the picker knows about a run.
type RunInfo struct {
	ID                   uint64
	Bytes                uint64 // size of its files
	ValueBytes           uint64 // of value files that it refers to
	Entries              uint64 // point entries, tombstones included
	Tombstones           uint64 // point tombstones
	RangeTombstones      uint64
	TTLEntries           uint64 // entries with an expiry
	MinExpiry, MaxExpiry int64  // Unix milliseconds, over TTLEntries
	MaxSeq               base.SeqNum
}

// Info sums up the files of a run.
func Info(id uint64, files []*base.FileMeta) RunInfo {
	r := RunInfo{ID: id}
	for _, f := range files {
		if f.TTLEntries > 0 {
			if r.TTLEntries == 0 {
				r.MinExpiry, r.MaxExpiry = f.MinExpiry, f.MaxExpiry
			}
			r.MinExpiry = min(r.MinExpiry, f.MinExpiry)
			r.MaxExpiry = max(r.MaxExpiry, f.MaxExpiry)
		}
		r.Bytes += uint64(f.SizeBytes)
		for _, v := range f.Values {
			r.ValueBytes += v.Bytes
		}
		r.Entries += f.Entries
		r.Tombstones += f.Tombstones
		r.RangeTombstones += f.RangeTombstones
		r.TTLEntries += f.TTLEntries
		r.MaxSeq = max(r.MaxSeq, f.MaxSeq)
	}
	return r
}

// Options tune Pick. The zero value of a field means its default.
type Options struct {
	// Trigger is the number of runs from which on young runs are merged. Default 4.
	// Fewer means faster reads and more writing.
	Trigger int
	// MaxRuns is the number of runs at which a merge is made even if no runs of
	// similar size are found. Default 8.
	MaxRuns int
	// GarbagePercent: when this share of a stripe's entries are tombstones or have
	// expired, they are merged down to the bottom. Default 20.
	GarbagePercent int
	// ValueBytes is the size of the stripe's value files, and ValueGarbage what of it no run refers
	// to. Default 0: nothing is merged because of them.
	ValueBytes, ValueGarbage uint64
	// rangeTombstoneWeight is the number of tombstones that a range tombstone counts
	// for. What it really covers is not known. Default 256.
	rangeTombstoneWeight int
	// spacePercent: with Trigger runs, the bottom is included when the runs above it have
	// at least this share of its bytes. Default 75.
	spacePercent int
}

// Idle returns o changed for a time when the machine has nothing else to do: a
// twentieth of garbage is worth a merge, and so is any range tombstone that can be
// dropped.
func (o Options) Idle() Options {
	o.GarbagePercent = 5
	o.rangeTombstoneWeight = math.MaxInt32
	return o
}

// Resting returns o changed for a database that nothing is written to any more: as Idle and Read.
func (o Options) Resting() Options { return o.Idle().Read() }

// Read returns o changed for a stripe that is read often: half as many runs are merged, with the
// bottom from a quarter of its size on. At most a fifth of its bytes is there twice then. Why not
// a single run: a merge for the last few items would write everything once more.
func (o Options) Read() Options {
	o = o.withDefaults()
	o.Trigger = max(o.Trigger/2, 2)
	o.spacePercent = 25
	return o
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		p *int
		d int
	}{
		{&o.Trigger, 4},
		{&o.MaxRuns, 8},
		{&o.GarbagePercent, 20},
		{&o.rangeTombstoneWeight, 256},
		{&o.spacePercent, 75},
	} {
		if *f.p == 0 {
			*f.p = f.d
		}
	}
	o.Trigger = max(o.Trigger, 2)
	return o
}

// Reason says why a merge was picked.
type Reason string

// The reasons.
const (
	ReasonSimilar  Reason = "similar sizes"       // young runs of similar size
	ReasonMaxRuns  Reason = "too many runs"       // whatever their sizes
	ReasonSpaceAmp Reason = "space amplification" // upper runs are large for the bottom
	ReasonGarbage  Reason = "garbage"             // tombstones and expired entries
	ReasonValues   Reason = "garbage of values"   // in value files
	ReasonManual   Reason = "manual request"      // PickFull
)

// Plan names the neighbouring runs to merge, [Lo, Hi) in the list given to Pick.
type Plan struct {
	Lo, Hi int
	Bottom bool // the oldest run is among them: nothing older exists
	Reason Reason
	// Score orders the plans of several stripes; 1 or more means due, higher is more
	// urgent.
	Score float64
	Bytes uint64 // to be read, and at most to be written
}

// Pick returns the merge that a stripe needs most, if any. runs are ordered newest
// first. oldestSnapshot is the lowest sequence number that a present or future
// snapshot can use: garbage above it cannot be dropped yet and is not counted, so
// that a stripe is not merged again and again without progress.
func Pick(runs []RunInfo, o Options, nowMs int64, oldestSnapshot base.SeqNum) (Plan, bool) {
	o = o.withDefaults()
	if p, ok := pickGarbage(runs, o, nowMs, oldestSnapshot); ok {
		return p, true
	}
	if p, ok := pickValues(runs, o); ok {
		return p, true
	}
	if p, ok := pickSpace(runs, o); ok {
		return p, true
	}
	return pickYoung(runs, o)
}

// PickFull returns the merge of all runs into one, for a manual compaction.
func PickFull(runs []RunInfo) (Plan, bool) {
	if len(runs) == 0 {
		return Plan{}, false
	}
	return plan(runs, 0, len(runs), ReasonManual, 1), true
}

func plan(runs []RunInfo, lo, hi int, reason Reason, score float64) Plan {
	return Plan{
		Lo: lo, Hi: hi, Bottom: hi == len(runs), Reason: reason, Score: score,
		Bytes: sumBytes(runs[lo:hi]),
	}
}

func sumBytes(runs []RunInfo) (n uint64) {
	for i := range runs {
		n += runs[i].Bytes
	}
	return n
}

// pickGarbage merges from the youngest run with garbage down to the bottom.
func pickGarbage(runs []RunInfo, o Options, nowMs int64, oldest base.SeqNum) (Plan, bool) {
	var garbage, entries float64
	lo := -1
	for i := range runs {
		g := runs[i].garbage(o, nowMs, oldest)
		if g > 0 && lo < 0 {
			lo = i
		}
		garbage += g
		entries += float64(runs[i].Entries)
	}
	limit := float64(o.GarbagePercent) / 100 * entries
	if garbage <= 0 || garbage < limit {
		return Plan{}, false
	}
	score := min(garbage/max(limit, 1), 10)
	return plan(runs, lo, len(runs), ReasonGarbage, max(score, 1)), true
}

// garbage estimates how many entries of a run will be gone when it is merged down
// to the bottom, or how many others they take with them.
//
// A tombstone above the oldest snapshot stays. The numbers of single tombstones are
// not known, so a run counts only when it is as a whole below the snapshot: after
// such a merge none is left, and the run is not picked for them again.
//
// Expired entries go, or become tombstones, whatever snapshots exist. Expiry times
// are taken to be spread evenly between the lowest and the highest; after the merge
// the lowest lies in the future.
func (r *RunInfo) garbage(o Options, nowMs int64, oldest base.SeqNum) float64 {
	var g float64
	if r.MaxSeq <= oldest {
		g = float64(r.Tombstones) + float64(r.RangeTombstones)*float64(o.rangeTombstoneWeight)
	}
	switch {
	case r.TTLEntries == 0 || nowMs < r.MinExpiry:
	case nowMs >= r.MaxExpiry:
		g += float64(r.TTLEntries)
	default:
		// Floats: the times may be anything, also far apart.
		span := float64(r.MaxExpiry) - float64(r.MinExpiry)
		g += float64(r.TTLEntries) * (float64(nowMs) - float64(r.MinExpiry)) / span
	}
	return g
}

// pickValues merges everything when a fifth of the value files is garbage or may be: what the
// bottom refers to, as far as the runs above may hide it. Such a merge carries most references
// over, and so writes little; it rewrites the files with the most garbage.
func pickValues(runs []RunInfo, o Options) (Plan, bool) {
	n := len(runs)
	if n == 0 || o.ValueBytes == 0 {
		return Plan{}, false
	}
	var upper uint64
	for i := range runs[:n-1] {
		upper += runs[i].ValueBytes
	}
	garbage := o.ValueGarbage + min(upper, runs[n-1].ValueBytes)
	score := 5 * float64(garbage) / float64(o.ValueBytes)
	if score < 1 {
		return Plan{}, false
	}
	return plan(runs, 0, n, ReasonValues, score), true
}

// pickSpace merges everything when the upper runs amount to their share.
func pickSpace(runs []RunInfo, o Options) (Plan, bool) {
	n := len(runs)
	if n < o.Trigger {
		return Plan{}, false
	}
	upper, bottom := sumBytes(runs[:n-1]), runs[n-1].Bytes
	limit := float64(bottom) * float64(o.spacePercent) / 100
	if float64(upper) < limit {
		return Plan{}, false
	}
	score := float64(n) / float64(o.Trigger)
	return plan(runs, 0, n, ReasonSpaceAmp, score), true
}

// pickYoung merges the youngest runs up to the last one that is no larger than
// those in front of it together. If the sizes grow too fast for that and the runs
// have become too many, it merges the younger half.
func pickYoung(runs []RunInfo, o Options) (Plan, bool) {
	n := len(runs)
	if n < o.Trigger {
		return Plan{}, false
	}
	score := float64(n) / float64(o.Trigger)
	hi, younger := 0, float64(runs[0].Bytes)
	for i := 1; i < n-1; i++ {
		if float64(runs[i].Bytes) <= younger {
			hi = i + 1
		}
		younger += float64(runs[i].Bytes)
	}
	if hi > 0 {
		return plan(runs, 0, hi, ReasonSimilar, score), true
	}
	if n < o.MaxRuns {
		return Plan{}, false
	}
	return plan(runs, 0, max(n/2, 2), ReasonMaxRuns, score), true
}
