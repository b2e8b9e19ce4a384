package stats

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sort"
)

// sampleSize is how many keys a Collector keeps to make the histogram of.
const sampleSize = 64 * HistogramSteps

// maxBoundBytes bounds the keys of a histogram, and maxHeavyBytes those of frequent values: keys of
// 64 KiB would make a hundred MiB while they are collected, and ten in the catalogue.
const (
	maxBoundBytes = 128
	maxHeavyBytes = 1024
)

// Collector makes the statistics of one key from its entries, in any order, in bounded
// memory. It belongs to one goroutine.
type Collector struct {
	index    uint32
	entries  float64
	bytes    float64
	nulls    float64
	sketches []*Sketch
	sample   [][]byte
	least    []byte   // key
	most     []byte   // key
	heavy    frequent // first columns
	pairs    frequent // the first two
	rng      *rand.Rand
}

// NewCollector returns a collector for a key of so many columns; index is the
// schema.Index.ID, or 0 for the key of the rows.
func NewCollector(index uint32, columns int) *Collector {
	c := &Collector{index: index, heavy: newFrequent(), pairs: newFrequent()}
	c.rng = rand.New(rand.NewPCG(uint64(index), 1))
	for range columns {
		c.sketches = append(c.sketches, new(Sketch))
	}
	return c
}

// Add counts an entry. Its key is the encoded columns; the i-th ends at ends[i], and
// null reports whether the first column is NULL.
func (c *Collector) Add(key []byte, ends []int, null bool, valueBytes int) {
	c.entries++
	c.bytes += float64(len(key) + valueBytes)
	if null {
		c.nulls++
	}
	for i := range min(len(ends), len(c.sketches)) {
		c.sketches[i].Add(key[:ends[i]])
	}
	if len(ends) > 0 && !null && ends[0] <= maxHeavyBytes {
		c.heavy.add(key[:ends[0]])
	}
	if len(ends) > 1 && ends[1] <= maxHeavyBytes {
		c.pairs.add(key[:ends[1]])
	}
	c.take(key)
}

// take is reservoir sampling.
func (c *Collector) take(key []byte) {
	bound := key[:min(len(key), maxBoundBytes)]
	if c.least == nil || bytes.Compare(bound, c.least) < 0 {
		c.least = append(make([]byte, 0, len(bound)), bound...)
	}
	if bytes.Compare(bound, c.most) > 0 {
		c.most = append(c.most[:0], bound...)
	}
	if len(c.sample) < sampleSize {
		c.sample = append(c.sample, bytes.Clone(bound))
		return
	}
	if i := c.rng.Int64N(int64(c.entries)); i < sampleSize {
		c.sample[i] = append(c.sample[i][:0], bound...)
	}
}

// spaces is how many candidates for frequent values are kept: more than are reported,
// so that those are right.
const spaces = 4 * HeavyHitters

// frequent counts values by the space-saving algorithm (Metwally, Agrawal, El Abbadi, 2005),
// which drops half of the candidates at a time: counts may be too large by floor.
type frequent struct {
	counts map[string]float64
	floor  float64
}

func newFrequent() frequent { return frequent{counts: map[string]float64{}} }

func (f *frequent) add(value []byte) {
	if _, ok := f.counts[string(value)]; !ok && len(f.counts) >= 2*spaces {
		f.dropRare()
	}
	if old, ok := f.counts[string(value)]; ok {
		f.counts[string(value)] = old + 1
		return
	}
	f.counts[string(value)] = f.floor + 1
}

func (f *frequent) dropRare() {
	counts := make([]float64, 0, len(f.counts))
	for _, n := range f.counts {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	f.floor = counts[len(counts)/2]
	for v, n := range f.counts {
		if n <= f.floor {
			delete(f.counts, v)
		}
	}
}

// Stats returns the statistics of what was added.
func (c *Collector) Stats() Key {
	k := Key{Index: c.index, Entries: c.entries}
	if c.entries == 0 {
		return k
	}
	k.EntryBytes, k.Nulls = c.bytes/c.entries, c.nulls/c.entries
	for _, s := range c.sketches {
		k.Distinct = append(k.Distinct, min(c.entries, max(1, s.Count())))
	}
	k.Histogram = c.histogram()
	k.Heavy = c.heavy.list(c.entries, c.sketches[0].Count())
	if len(c.sketches) > 1 {
		k.Pairs = c.pairs.list(c.entries, c.sketches[1].Count())
	}
	return k
}

func (c *Collector) histogram() (h Histogram) {
	keys := slices.Clone(c.sample)
	slices.SortFunc(keys, bytes.Compare)
	steps := min(HistogramSteps, len(keys)-1)
	for i := range steps + 1 {
		if steps > 0 {
			h.Bounds = append(h.Bounds, bytes.Clone(keys[i*(len(keys)-1)/steps]))
		}
	}
	if n := len(h.Bounds); n > 0 {
		h.Bounds[0], h.Bounds[n-1] = bytes.Clone(c.least), bytes.Clone(c.most)
	}
	return h
}

// list returns the values, of so many entries with so many values, that certainly are frequent:
// at least twice as often as the average one. Of a few values it returns each.
func (f *frequent) list(entries, values float64) []Heavy {
	var heavy []Heavy
	least := 2 * entries / values
	if f.floor == 0 && len(f.counts) <= HeavyHitters {
		least = 0
	}
	for v, n := range f.counts {
		if certain := n - f.floor; certain >= least {
			heavy = append(heavy, Heavy{Key: []byte(v), Fraction: min(1, certain/entries)})
		}
	}
	sort.Slice(heavy, func(i, j int) bool {
		if heavy[i].Fraction != heavy[j].Fraction {
			return heavy[i].Fraction > heavy[j].Fraction
		}
		return bytes.Compare(heavy[i].Key, heavy[j].Key) < 0
	})
	return heavy[:min(len(heavy), HeavyHitters)]
}
