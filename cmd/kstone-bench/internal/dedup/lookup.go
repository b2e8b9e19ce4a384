package dedup

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// study has the study's figures by rows in millions and segments: sorted data with
// sorted and unsorted questions, unsorted data with both.
var study = map[string]map[[2]int][4]float64{
	"memory": {{64, 10}: {11, 49, 235, 233}, {128, 20}: {18, 71, 431, 426},
		{192, 30}: {30, 97, 600, 612}, {64, 20}: {15, 66, 388, 394}},
	"blocks": {{64, 10}: {28, 118, 101, 360}, {128, 20}: {43, 160, 169, 619},
		{192, 30}: {57, 185, 248, 906}, {64, 20}: {40, 153, 162, 592}},
}

// data is one key set in one layout.
type data struct {
	layout      string // "sorted" or "unsorted"
	all, sorted []uint64
	segments    int
	sets        [][]uint64
}

// lookups measures the study's tables and what goes beyond them.
func (b *bench) lookups() error {
	configs := [][2]int{{b.Rows, 10}, {b.Rows, 20}}
	if b.Large {
		configs = append(configs, [2]int{2 * b.Rows, 20}, [2]int{3 * b.Rows, 30})
	}
	for i, c := range configs {
		all := b.keys(c[0])
		sorted := slices.Sorted(slices.Values(all))
		for _, d := range []*data{{"sorted", all, sorted, c[1], cut(sorted, c[1])},
			{"unsorted", all, sorted, c[1], cut(all, c[1])}} {
			steps := []func(*data) error{b.memory, b.blocks}
			if i == 0 && d.layout == "unsorted" {
				steps = append(steps, b.stripes, b.exact, b.wide)
			} else if i == 0 {
				steps = append(steps, b.growth)
			}
			for _, step := range steps {
				if err := step(d); err != nil {
					return err
				}
				runtime.GC()
			}
		}
	}
	return nil
}

// Questions: what the keys of a round are.
const (
	inOrder = "sorted questions"
	present = "unsorted questions"
	absent  = "absent keys inside the zones"
	mixed   = "90 % new"
	outside = "absent keys outside the zones"
)

func (b *bench) questions(d *data, kind string) []uint64 {
	if kind == inOrder {
		n := min(b.Queries, len(d.sorted))
		at := b.rnd.IntN(len(d.sorted) - n + 1)
		return d.sorted[at : at+n]
	}
	out := b.keys(b.Queries)
	for i := range out {
		switch {
		case kind == present, kind == mixed && i%10 == 0:
			out[i] = d.all[b.rnd.IntN(len(d.all))]
		case kind == outside:
			out[i] |= 1 << 63
		}
	}
	return out
}

// answers bounds how many keys may be called present.
func answers(kind string, keys int) (least, most int) {
	switch kind {
	case inOrder, present:
		return keys, keys
	case mixed:
		return (keys + 9) / 10, keys
	case outside:
		return 0, 0
	}
	return 0, keys
}

// contestant asks about keys and returns how many it calls present.
type contestant struct {
	name string
	ask  func(keys []uint64) (int, error)
}

// compare lets the contestants take turns. The first is what ratios are to; study is the
// figure that the study has of it.
func (b *bench) compare(table, name string, d *data, kind string, study float64,
	in []contestant) error {
	positive := make([]float64, len(in))
	var keys []uint64
	last := -1
	times, err := measure.Turns(b.ctx, b.Repeat, len(in), func(round, i int) (float64, error) {
		if round != last {
			keys, last = b.questions(d, kind), round
		}
		start := measure.ThreadTime()
		n, err := in[i].ask(keys)
		took := measure.ThreadTime() - start
		positive[i] = float64(n) / float64(len(keys))
		if least, most := answers(kind, len(keys)); err == nil && (n < least || n > most) {
			err = fmt.Errorf("%s: %d of %d keys are called present", in[i].name, n, len(keys))
		}
		return float64(took) / float64(len(keys)), err
	})
	if err != nil {
		return fmt.Errorf("%s, %s: %w", table, name, err)
	}
	for i, c := range in {
		f := result.Figures{nsPerKey: times.Median(i), figRatio: times.Ratio(0, i),
			figPositive: positive[i]}
		if study > 0 && i == 0 {
			f[figStudy] = study
		}
		if err := b.record(table, name, c.name, len(d.all), f); err != nil {
			return err
		}
	}
	return nil
}

func asker(name string, contains func(uint64) bool) contestant {
	return contestant{name, func(keys []uint64) (n int, err error) {
		for _, k := range keys {
			if contains(k) {
				n++
			}
		}
		return n, nil
	}}
}

func (b *bench) batch(name string, set *keyset.Set) contestant {
	return contestant{name, func(keys []uint64) (int, error) {
		err := set.ContainsBatch(keys, b.found)
		return b.found[:(len(keys)+63)/64].Count(), err
	}}
}

func single(name string, set *keyset.Set) contestant {
	return contestant{name, func(keys []uint64) (n int, err error) {
		for _, k := range keys {
			yes, err := set.Contains(k)
			if err != nil {
				return n, err
			}
			if yes {
				n++
			}
		}
		return n, nil
	}}
}

// newSet builds segments, with two goroutines, and a set that is ready.
func newSet(sets [][]uint64, opts keyset.SegmentOptions) (*keyset.Set, error) {
	segments, err := keyset.BuildSegments(sets, &opts, 2)
	if err != nil {
		return nil, err
	}
	set := keyset.NewSet(&keyset.SetOptions{Exact: opts.StoreKeys, MemoryBytes: 8 << 30})
	err = set.Append(segments...)
	set.Prepare()
	return set, err
}

func (b *bench) blockKeys(d *data) int {
	return max(1, len(d.all)/d.segments/blocksPerSegment)
}

// memory is a filter for each segment.
func (b *bench) memory(d *data) error {
	l, err := newLoop(&b.fuse, d.sets)
	if err != nil {
		return err
	}
	whole, err := newSet(d.sets, keyset.SegmentOptions{})
	if err != nil {
		return err
	}
	in := []contestant{asker("loop", l.contains), single("single", whole),
		b.batch("batch", whole)}
	if d.layout == "sorted" {
		blocks, err := newSet(d.sets, keyset.SegmentOptions{BlockKeys: b.blockKeys(d)})
		if err != nil {
			return err
		}
		in = append(in, b.batch("batch, blocks", blocks))
	}
	return b.table("memory", d, in)
}

// blocks is a filter for each block, found by its zone map.
func (b *bench) blocks(d *data) error {
	l, err := newBlockLoop(&b.fuse, d.sets, b.blockKeys(d))
	if err != nil {
		return err
	}
	set, err := newSet(d.sets, keyset.SegmentOptions{BlockKeys: b.blockKeys(d)})
	if err != nil {
		return err
	}
	return b.table("blocks", d, []contestant{asker("loop", l.contains), single("single", set),
		b.batch("batch", set)})
}

// table asks the two kinds of questions of the study, and absent keys.
func (b *bench) table(table string, d *data, in []contestant) error {
	figures := study[table][[2]int{len(d.all) / 1_000_000, d.segments}]
	of := figures[:2]
	if d.layout == "unsorted" {
		of = figures[2:]
	}
	for i, kind := range []string{inOrder, present, absent, outside} {
		name := fmt.Sprintf("%s in %d, %s data, %s", result.Count(uint64(len(d.all))), d.segments,
			d.layout, kind)
		document := 0.0
		if i < len(of) {
			document = of[i]
		}
		if err := b.compare(table, name, d, kind, document, in); err != nil {
			return err
		}
	}
	return nil
}

// extra compares with the loop over segments on unsorted data.
func (b *bench) extra(table string, d *data, sets [][]uint64, o keyset.SegmentOptions) error {
	set, err := newSet(sets, o)
	if err != nil {
		return err
	}
	l, err := newLoop(&b.fuse, d.sets)
	if err != nil {
		return err
	}
	in := []contestant{asker("loop", l.contains), b.batch("batch", set)}
	for _, kind := range []string{absent, mixed, present} {
		if err := b.compare(table, kind, d, kind, 0, in); err != nil {
			return err
		}
	}
	if o.Bits == 0 {
		return nil
	}
	return b.record(table, "space", "zonemap", len(d.all),
		result.Figures{bitsPerKey: set.Stats().BitsPerKey()})
}

// stripes are four runs, each split by hash into 256.
func (b *bench) stripes(d *data) error {
	return b.extra("stripes", d, cut(d.all, 4), keyset.SegmentOptions{Shards: 256})
}

// exact checks positives against stored keys; the loop does not.
func (b *bench) exact(d *data) error {
	return b.extra("exact", d, d.sets, keyset.SegmentOptions{StoreKeys: true})
}

// wide has fingerprints of 16 bits; the loop has 8.
func (b *bench) wide(d *data) error {
	o := keyset.SegmentOptions{Bits: 16}
	if err := b.extra("16 bits", d, d.sets, o); err != nil {
		return err
	}
	one, err := newSet(d.sets[:1], o)
	if err != nil {
		return err
	}
	passed, asked := 0, 0
	for range 5 {
		keys := b.keys(b.Queries)
		if err := one.ContainsBatch(keys, b.found); err != nil {
			return err
		}
		passed += b.found.Count()
		asked += len(keys)
	}
	return b.record("16 bits", "false positives of a segment", "zonemap", len(d.all),
		result.Figures{percent: 100 * float64(passed) / float64(asked)})
}

// growth has the same sorted data in 10, 20 and 30 segments.
func (b *bench) growth(d *data) error {
	var in []contestant
	for _, n := range []int{10, 20, 30} {
		set, err := newSet(cut(d.sorted, n), keyset.SegmentOptions{})
		if err != nil {
			return err
		}
		in = append(in, b.batch(fmt.Sprintf("%d segments", n), set))
	}
	return b.compare("growth", "sorted data, "+present, d, present, 0, in)
}

// dense has the integers without gaps, and every third one.
func (b *bench) dense() error {
	for _, step := range []uint64{1, 3} {
		all := make([]uint64, b.Rows)
		for i := range all {
			all[i] = uint64(i) * step
		}
		d := &data{"sorted", all, slices.Clone(all), 10, nil}
		d.sets = cut(d.sorted, d.segments)
		l, err := newLoop(&b.fuse, d.sets)
		if err != nil {
			return err
		}
		set, err := newSet(d.sets, keyset.SegmentOptions{})
		if err != nil {
			return err
		}
		for _, kind := range []string{inOrder, present} {
			name := fmt.Sprintf("every integer of %d, %s", step, kind)
			err := b.compare("dense", name, d, kind, 0,
				[]contestant{asker("loop", l.contains), single("single", set),
					b.batch("batch", set)})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
