package dedup

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// The study's figures: seconds to build, and MiB.
var (
	studyBuild = map[int]float64{160_000: 0.004, 500_000: 0.015, 1_600_000: 0.051,
		5_000_000: 0.17, 10_000_000: 0.36, 50_000_000: 2, 100_000_000: 5}
	studyMiB = map[int]float64{160_000: 0.18, 500_000: 0.55, 1_600_000: 1.72, 5_000_000: 5.37,
		10_000_000: 10.75, 50_000_000: 53.69, 100_000_000: 107.37}
)

// builds measures building and space.
func (b *bench) builds() error {
	for _, n := range b.Builds {
		if err := b.build(n); err != nil {
			return err
		}
		b.fuse = xorfilter.BinaryFuseBuilder{} // some 25 bytes a key
		runtime.GC()
	}
	return nil
}

// mostTwoSegments bounds the memory of building two segments, 70 bytes a key.
const mostTwoSegments = 10_000_000

func (b *bench) build(n int) error {
	keys := b.keys(n)
	own, err := keyset.NewSegmentBuilder(nil)
	if err != nil {
		return err
	}
	var seg *keyset.Segment
	halves := [][]uint64{keys, keys} // two segments of this size
	names := []string{"library, fresh", "library, reused", "zonemap, reused", "one at a time",
		"two at a time"}
	if n > mostTwoSegments {
		names = names[:3]
	}
	times := make([][]float64, len(names))
	// Three rounds at least: in the first a builder is not reused but new.
	for range min(b.Repeat, max(3, 20_000_000/n+1)) {
		for i, f := range []func() error{
			func() error { _, err := xorfilter.NewBinaryFuse[uint8](keys); return err },
			func() error { _, err := xorfilter.BuildBinaryFuse[uint8](&b.fuse, keys); return err },
			func() error { own.AddAll(keys); seg, err = own.Build(); return err },
			func() error { _, err := keyset.BuildSegments(halves, nil, 1); return err },
			func() error { _, err := keyset.BuildSegments(halves, nil, 2); return err },
		}[:len(names)] {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			cpu, wall := measure.ThreadTime(), time.Now()
			if err := f(); err != nil {
				return err
			}
			took := float64(measure.ThreadTime() - cpu)
			if i > 2 {
				took = float64(time.Since(wall)) / 2 // other goroutines work
			}
			times[i] = append(times[i], took/float64(n))
		}
	}
	for i, name := range names {
		base := 0
		if i > 2 {
			base = 3
		}
		r := record("build", result.Count(uint64(n)), name, result.Figures{
			figRatio: ratio(times[base], times[i]), nsPerKey: report.Middle(times[i]),
			figStudy: studyBuild[n] * 1e9 / float64(n)})
		if err := b.finish(r, n); err != nil {
			return err
		}
	}
	return b.finish(record("space", result.Count(uint64(n)), "zonemap", result.Figures{
		bitsPerKey: 8 * float64(seg.FilterBytes()) / float64(n),
		figStudy:   studyMiB[n] * (8 << 20) / float64(n)}), n)
}

// ratio is the median of a/b by rounds.
func ratio(a, b []float64) float64 {
	ratios := make([]float64, len(b))
	for i := range b {
		ratios[i] = a[i] / b[i]
	}
	return report.Middle(ratios)
}

// opens measures opening a saved filter.
func (b *bench) opens() error {
	n := min(6_400_000, b.Rows)
	keys := b.keys(n)
	segments, err := keyset.BuildSegments([][]uint64{keys}, nil, 1)
	if err != nil {
		return err
	}
	name := filepath.Join(b.Dir, "kstone-bench.segment")
	if err := segments[0].Save(name); err != nil {
		return err
	}
	defer os.Remove(name)
	f, err := xorfilter.BuildBinaryFuse[uint8](&b.fuse, keys)
	if err != nil {
		return err
	}
	var saved bytes.Buffer
	if err := f.Save(&saved); err != nil {
		return err
	}
	var library, mapped, checked []float64
	for range 5 * b.Repeat {
		start := time.Now()
		if _, err := xorfilter.LoadBinaryFuse[uint8](bytes.NewReader(saved.Bytes())); err != nil {
			return err
		}
		library = append(library, float64(time.Since(start))/1e6)
		start = time.Now()
		seg, err := keyset.OpenSegment(name)
		if err != nil {
			return err
		}
		mapped = append(mapped, float64(time.Since(start))/1e6)
		if err := seg.Verify(); err != nil {
			return err
		}
		checked = append(checked, float64(time.Since(start))/1e6)
	}
	for _, c := range []struct {
		name  string
		times []float64
	}{{"library, from memory", library}, {"mapped", mapped},
		{"mapped, and checksums compared", checked}} {
		r := record("open", result.Count(uint64(n)), c.name, result.Figures{
			figRatio: ratio(library, c.times), millis: report.Middle(slices.Clone(c.times))})
		if err := b.finish(r, n); err != nil {
			return err
		}
	}
	return nil
}
