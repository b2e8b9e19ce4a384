package dedup

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
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
	two := func(workers int) func() error {
		return func() error { _, err := keyset.BuildSegments(halves, nil, workers); return err }
	}
	ways := []struct {
		name  string
		build func() error
	}{
		{"library, fresh", func() error {
			_, err := xorfilter.NewBinaryFuse[uint8](keys)
			return err
		}},
		{"library, reused", func() error {
			_, err := xorfilter.BuildBinaryFuse[uint8](&b.fuse, keys)
			return err
		}},
		{"zonemap, reused", func() error { own.AddAll(keys); seg, err = own.Build(); return err }},
		{"one at a time", two(1)},
		{"two at a time", two(2)},
	}
	if n > mostTwoSegments {
		ways = ways[:3]
	}
	// Three rounds at least: in the first a builder is not reused but new.
	times, err := measure.Turns(b.ctx, min(b.Repeat, max(3, 20_000_000/n+1)), len(ways),
		func(_, i int) (float64, error) {
			cpu, wall := measure.ThreadTime(), time.Now()
			err := ways[i].build()
			took := float64(measure.ThreadTime() - cpu)
			if i > 2 {
				took = float64(time.Since(wall)) / 2 // other goroutines work
			}
			return took / float64(n), err
		})
	for i, w := range ways {
		if err != nil {
			return err
		}
		base := 0
		if i > 2 {
			base = 3
		}
		err = b.record("build", result.Count(uint64(n)), w.name, n, result.Figures{
			figRatio: times.Ratio(base, i), nsPerKey: times.Median(i),
			figStudy: studyBuild[n] * 1e9 / float64(n)})
	}
	if err != nil {
		return err
	}
	return b.record("space", result.Count(uint64(n)), "zonemap", n, result.Figures{
		bitsPerKey: 8 * float64(seg.FilterBytes()) / float64(n),
		figStudy:   studyMiB[n] * (8 << 20) / float64(n)})
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
	ways := []struct {
		name string
		open func() error
	}{
		{"library, from memory", func() error {
			_, err := xorfilter.LoadBinaryFuse[uint8](bytes.NewReader(saved.Bytes()))
			return err
		}},
		{"mapped", func() error { _, err := keyset.OpenSegment(name); return err }},
		{"mapped, and checksums compared", func() error {
			seg, err := keyset.OpenSegment(name)
			if err != nil {
				return err
			}
			return seg.Verify()
		}},
	}
	times, err := measure.Turns(b.ctx, 5*b.Repeat, len(ways), func(_, i int) (float64, error) {
		start := time.Now()
		err := ways[i].open()
		return float64(time.Since(start)) / 1e6, err
	})
	for i, w := range ways {
		if err != nil {
			return err
		}
		err = b.record("open", result.Count(uint64(n)), w.name, n, result.Figures{
			figRatio: times.Ratio(0, i), millis: times.Median(i)})
	}
	return err
}
