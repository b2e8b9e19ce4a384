package dedup

import (
	"fmt"
	"runtime"
	"slices"

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
	all, sorted []uint64
	isSorted    bool
	segments    int
	sets        [][]uint64
}

func (d *data) layout() string {
	if d.isSorted {
		return "sorted"
	}
	return "unsorted"
}

// lookups measures the study's tables and what goes beyond them.
func (b *bench) lookups() error {
	configs := [][2]int{{b.Rows, 10}, {b.Rows, 20}}
	if b.Large {
		configs = append(configs, [2]int{2 * b.Rows, 20}, [2]int{3 * b.Rows, 30})
	}
	for i, c := range configs {
		d := &data{all: b.keys(c[0]), segments: c[1]}
		d.sorted = slices.Sorted(slices.Values(d.all))
		for _, d.isSorted = range []bool{true, false} {
			d.sets = cut(d.all, d.segments)
			if d.isSorted {
				d.sets = cut(d.sorted, d.segments)
			}
			steps := []func(*data) error{b.memory, b.blocks}
			if i == 0 && !d.isSorted {
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

// questions are the keys of a round.
type questions struct {
	name string
	make func() []uint64
}

func (b *bench) questionsOf(d *data) (inOrder, present, absent, mixed, outside questions) {
	n := b.Queries
	draw := func() []uint64 {
		out := make([]uint64, n)
		for i := range out {
			out[i] = d.all[b.rnd.IntN(len(d.all))]
		}
		return out
	}
	inOrder = questions{"sorted questions", func() []uint64 {
		n := min(n, len(d.sorted))
		at := b.rnd.IntN(len(d.sorted) - n + 1)
		return d.sorted[at : at+n]
	}}
	present = questions{"unsorted questions", draw}
	absent = questions{"absent keys inside the zones", func() []uint64 { return b.keys(n) }}
	mixed = questions{"90 % new", func() []uint64 {
		out := b.keys(n)
		for i := 0; i < n; i += 10 {
			out[i] = d.all[b.rnd.IntN(len(d.all))]
		}
		return out
	}}
	outside = questions{"absent keys outside the zones", func() []uint64 {
		out := b.keys(n)
		for i := range out {
			out[i] |= 1 << 63
		}
		return out
	}}
	return inOrder, present, absent, mixed, outside
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
func newSet(sets [][]uint64, opts *keyset.SegmentOptions, exact bool) (*keyset.Set, error) {
	segments, err := keyset.BuildSegments(sets, opts, 2)
	if err != nil {
		return nil, err
	}
	set := keyset.NewSet(&keyset.SetOptions{Exact: exact, MemoryBytes: 8 << 30})
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
	whole, err := newSet(d.sets, nil, false)
	if err != nil {
		return err
	}
	in := []contestant{asker("loop", l.contains), single("single", whole),
		b.batch("batch", whole)}
	if d.isSorted {
		blocks, err := newSet(d.sets, &keyset.SegmentOptions{BlockKeys: b.blockKeys(d)}, false)
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
	set, err := newSet(d.sets, &keyset.SegmentOptions{BlockKeys: b.blockKeys(d)}, false)
	if err != nil {
		return err
	}
	return b.table("blocks", d, []contestant{asker("loop", l.contains), single("single", set),
		b.batch("batch", set)})
}

// table asks the four kinds of questions of the study, and absent keys.
func (b *bench) table(table string, d *data, in []contestant) error {
	inOrder, present, absent, _, outside := b.questionsOf(d)
	figures := study[table][[2]int{len(d.all) / 1_000_000, d.segments}]
	if !d.isSorted {
		figures[0], figures[1] = figures[2], figures[3]
	}
	for i, q := range []questions{inOrder, present, absent, outside} {
		name := fmt.Sprintf("%s data, %s", d.layout(), q.name)
		c := comparison{table: table, rows: len(d.all),
			name: fmt.Sprintf("%s in %d, %s", result.Count(uint64(len(d.all))), d.segments,
				name),
			questions: q.make, contestants: in}
		if i < 2 {
			c.document = figures[i]
		}
		if err := b.compare(c); err != nil {
			return err
		}
	}
	return nil
}

// extra compares with the loop over segments on unsorted data.
func (b *bench) extra(table string, d *data, set *keyset.Set) error {
	l, err := newLoop(&b.fuse, d.sets)
	if err != nil {
		return err
	}
	_, present, absent, mixed, _ := b.questionsOf(d)
	for _, q := range []questions{absent, mixed, present} {
		err := b.compare(comparison{table: table, rows: len(d.all),
			name: q.name, questions: q.make,
			contestants: []contestant{asker("loop", l.contains), b.batch("batch", set)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// stripes are four runs, each split by hash into 256.
func (b *bench) stripes(d *data) error {
	set, err := newSet(cut(d.all, 4), &keyset.SegmentOptions{Shards: 256}, false)
	if err != nil {
		return err
	}
	return b.extra("stripes", d, set)
}

// exact checks positives against stored keys; the loop does not.
func (b *bench) exact(d *data) error {
	set, err := newSet(d.sets, &keyset.SegmentOptions{StoreKeys: true}, true)
	if err != nil {
		return err
	}
	return b.extra("exact", d, set)
}

// wide has fingerprints of 16 bits; the loop has 8.
func (b *bench) wide(d *data) error {
	set, err := newSet(d.sets, &keyset.SegmentOptions{Bits: 16}, false)
	if err != nil {
		return err
	}
	if err := b.extra("16 bits", d, set); err != nil {
		return err
	}
	if err := b.finish(record("16 bits", "space", "zonemap",
		result.Figures{bitsPerKey: set.Stats().BitsPerKey()}), len(d.all)); err != nil {
		return err
	}
	one, err := newSet(d.sets[:1], &keyset.SegmentOptions{Bits: 16}, false)
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
	return b.finish(record("16 bits", "false positives of a segment", "zonemap",
		result.Figures{percent: 100 * float64(passed) / float64(asked)}), len(d.all))
}

// growth has the same sorted data in 10, 20 and 30 segments.
func (b *bench) growth(d *data) error {
	var in []contestant
	for _, n := range []int{10, 20, 30} {
		set, err := newSet(cut(d.sorted, n), nil, false)
		if err != nil {
			return err
		}
		in = append(in, b.batch(fmt.Sprintf("%d segments", n), set))
	}
	_, present, _, _, _ := b.questionsOf(d)
	return b.compare(comparison{table: "growth", name: "sorted data, " + present.name,
		rows: len(d.all), questions: present.make, contestants: in})
}

// dense has the integers without gaps, and every third one.
func (b *bench) dense() error {
	for _, step := range []uint64{1, 3} {
		d := &data{segments: 10, all: make([]uint64, b.Rows)}
		for i := range d.all {
			d.all[i] = uint64(i) * step
		}
		d.sorted = slices.Clone(d.all)
		d.sets = cut(d.sorted, d.segments)
		l, err := newLoop(&b.fuse, d.sets)
		if err != nil {
			return err
		}
		set, err := newSet(d.sets, nil, false)
		if err != nil {
			return err
		}
		inOrder, present, _, _, _ := b.questionsOf(d)
		for _, q := range []questions{inOrder, present} {
			if err := b.compare(comparison{table: "dense", rows: b.Rows,
				name:      fmt.Sprintf("every integer of %d, %s", step, q.name),
				questions: q.make, contestants: []contestant{asker("loop", l.contains),
					single("single", set), b.batch("batch", set)}}); err != nil {
				return err
			}
		}
	}
	return nil
}
