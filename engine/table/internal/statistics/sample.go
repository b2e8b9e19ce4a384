package statistics

import (
	"container/heap"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/keycodec"
)

// Statistics of a sample. Rows come from small parts of the table that are chosen at random,
// so many parts that there is about one row of each: neighbours are alike, and would count as
// if they were alone. Entries are made of the rows, so that of every index the sample is as
// random as that of the rows, and no index is read.

// sampled looks at some rows.
func (a *analyzer) sampled(ctx context.Context) (*plan.TableStats, error) {
	s := &rowSample{t: a.t, needed: neededBy(a.t), most: a.o.SampleRows, row: a.t.Row()}
	err := a.sample(ctx, func(it *store.Sampled, rng *rand.Rand) error { return s.add(it, rng) })
	if err != nil {
		return nil, err
	}
	return a.statsOf(s)
}

// neededBy returns the columns that entries of indexes follow from.
func neededBy(t *schema.Table) (all schema.ColumnSet) {
	for _, x := range t.Indexes {
		if x.State == schema.Ready {
			all.Union(schema.Columns(slices.Concat(x.Ordinals(), x.Include)...))
			for c := range expr.Columns(x.Where) {
				all.Add(c.Ordinal)
			}
		}
	}
	return all
}

// Count estimates the number of rows of a table by a sample of so many parts.
func Count(ctx context.Context, t *schema.Table, r store.Reader, parts int) (n float64,
	err error) {
	a := &analyzer{t: t, r: r, o: Options{SampleRows: parts}}
	err = a.sample(ctx, func(it *store.Sampled, _ *rand.Rand) error {
		n += it.Weight
		return nil
	})
	return n, err
}

// sample calls f with a sample of the rows, and a source of random numbers.
func (a *analyzer) sample(ctx context.Context,
	f func(*store.Sampled, *rand.Rand) error) error {
	seed := a.o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rg := rowio.Rows(a.t)
	q := store.Sample{Parts: a.o.SampleRows, Rand: rng}
	q.From.PK, q.To.PK = rg.From, rg.To
	for it, err := range store.SampleOf(ctx, a.r, q) {
		if err != nil {
			return err
		}
		a.tell("", 1)
		if err := f(&it, rng); err != nil {
			return err
		}
	}
	return nil
}

// rowSample chooses rows out of those that it is shown, with probabilities that are
// proportional to their weights, without replacement (Efraimidis and Spirakis, 2006).
type rowSample struct {
	t      *schema.Table
	needed schema.ColumnSet
	most   int
	row    []expr.Value
	rows   []chosenRow // a heap, the row that goes next first
	count  float64     // estimated rows of the table
	bytes  float64     // of the table
}

type chosenRow struct {
	key     store.Key
	values  []expr.Value // shortened
	version uint64
	bytes   int     // of the stored value
	rank    float64 // a random number, the smaller the better
}

func (s *rowSample) Len() int           { return len(s.rows) }
func (s *rowSample) Less(i, j int) bool { return s.rows[i].rank > s.rows[j].rank }
func (s *rowSample) Swap(i, j int)      { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] }
func (s *rowSample) Push(x any)         { s.rows = append(s.rows, x.(chosenRow)) }

// Pop implements heap.Interface.
func (s *rowSample) Pop() any {
	last := s.rows[len(s.rows)-1]
	s.rows = s.rows[:len(s.rows)-1]
	return last
}

func (s *rowSample) add(it *store.Sampled, rng *rand.Rand) error {
	s.count += it.Weight
	s.bytes += it.Weight * itemBytes(&it.Item)
	rank := rng.ExpFloat64() / it.Weight
	full := len(s.rows) == s.most
	if full && rank >= s.rows[0].rank {
		return nil
	}
	if err := s.t.Decode(s.row, it.Key, it.Value, nil); err != nil {
		return err
	}
	own := chosenRow{store.Item{Key: it.Key}.Clone().Key, shortened(s.row, s.needed), it.Version,
		len(it.Value), rank}
	if !full {
		heap.Push(s, own)
		return nil
	}
	s.rows[0] = own
	heap.Fix(s, 0)
	return nil
}

// statsOf makes the statistics of the table of a sample.
func (a *analyzer) statsOf(s *rowSample) (*plan.TableStats, error) {
	hash := maphash.MakeSeed()
	keys := []*keySample{newKeySample(newRowCollector(a.t), nil, hash)}
	for _, x := range a.t.Indexes {
		if x.State == schema.Ready {
			keys = append(keys, newKeySample(newEntryCollector(a.t, x), x, hash))
		}
	}
	for _, k := range keys {
		k.step = max(1, len(s.rows)/countedKeys)
	}
	values := make([]distinctValues, len(a.t.Columns))
	columns := &columnCollector{t: a.t,
		count: func(ordinal int, value []byte) { values[ordinal].add(hash, value) }}
	for i := range s.rows {
		row := &s.rows[i]
		columns.add(row.values, row.version)
		for _, k := range keys {
			if err := k.addRow(row); err != nil {
				return nil, err
			}
		}
	}
	each := s.count / max(1, float64(len(s.rows))) // rows that one of the sample stands for
	out := &plan.TableStats{Rows: math.Round(s.count), RowBytes: s.bytes / max(1, s.count),
		Monotonic: columns.monotonic()}
	for i := range values {
		d := &values[i]
		out.Distinct = append(out.Distinct, d.estimate(math.Round(each*float64(len(d.hashes)))))
	}
	if each > 1 {
		out.Sampled = len(s.rows)
	}
	for _, k := range keys {
		out.Keys = append(out.Keys, k.stats(a.o.Counter, each))
	}
	return out, nil
}

// distinctValues counts different values of a sample. Its memory is 8 bytes for each.
type distinctValues struct{ hashes []uint64 }

func (d *distinctValues) add(seed maphash.Seed, value []byte) {
	d.hashes = append(d.hashes, maphash.Bytes(seed, value))
}

// seen returns how many different values are in the sample. Requires: estimate was called.
func (d *distinctValues) seen() (n float64) {
	for i := range d.hashes {
		if i == 0 || d.hashes[i] != d.hashes[i-1] {
			n++
		}
	}
	return n
}

// minHeavy is how often a value has to be in a sample to count as frequent.
const minHeavy = 10

// estimate estimates how many different values there are among count, by the estimator Duj1
// of Haas and Stokes, "Estimating the number of classes in a finite population", 1998: of the
// values that are in the sample once, many others are not in it at all. It supposes that
// values are about equally frequent, so, as there for Duj2a, frequent values are left out:
// all of them are in the sample.
func (d *distinctValues) estimate(count float64) float64 {
	slices.Sort(d.hashes)
	frequent, n, once, rare := 0.0, 0.0, 0.0, 0.0
	for i := 0; i < len(d.hashes); {
		j := i + 1
		for j < len(d.hashes) && d.hashes[j] == d.hashes[i] {
			j++
		}
		switch times := j - i; {
		case times >= minHeavy:
			frequent++
		case times == 1:
			once++
			fallthrough
		default:
			rare++
			n += float64(times)
		}
		i = j
	}
	if n == 0 || count <= float64(len(d.hashes)) {
		return frequent + rare
	}
	count *= n / float64(len(d.hashes)) // those of rare values
	return frequent + min(count, n*rare/(n-once+once*n/count))
}

// keySample collects the statistics of one key of a sample.
type keySample struct {
	*keyCollector
	index    *schema.Index // nil: the key of the rows
	entries  schema.Entries
	seed     maphash.Seed
	prefixes []distinctValues // of the first columns, one to all
	noted    int
	step     int         // of how many keys one is among some
	some     []sampleKey // whose values are counted
}

// sampleKey is a key with the ends of its columns.
type sampleKey struct {
	bytes []byte
	ends  []int
}

// countedKeys is how many keys of a sample have their values counted.
const countedKeys = 128

func newKeySample(c *keyCollector, x *schema.Index, seed maphash.Seed) *keySample {
	return &keySample{keyCollector: c, index: x, seed: seed,
		prefixes: make([]distinctValues, len(c.parts))}
}

// addRow adds the key of a row, or its entries.
func (k *keySample) addRow(row *chosenRow) error {
	if k.index == nil {
		err := k.keyCollector.addRow(row.key, row.bytes)
		k.note()
		return err
	}
	k.entries.Reset()
	var unfit *schema.EntryError
	err := k.index.AppendEntries(&k.entries, row.key, row.values)
	if errors.As(err, &unfit) { // the index cannot have it, and has not
		return nil
	}
	for _, e := range k.entries.List {
		if err == nil {
			err = k.addEntry(e.SK, len(e.Value)+len(e.PK))
			k.note()
		}
	}
	return err
}

// note counts the values of what was added last.
func (k *keySample) note() {
	for i, end := range k.ends {
		k.prefixes[i].add(k.seed, k.key[:end])
	}
	if k.noted++; k.noted%k.step == 0 {
		k.some = append(k.some, sampleKey{slices.Clone(k.key), slices.Clone(k.ends)})
	}
}

// distinct estimates the number of different values of the first n columns, of so many entries.
//
// A value that n entries have is found n times as often as one that a single entry has, so the
// mean of 1/n over a sample of entries is the number of values of each entry. How often values
// are in the sample itself says little about those that are in it once.
func (k *keySample) distinct(c plan.Counter, n int, entries float64) float64 {
	estimate := k.prefixes[n-1].estimate(entries)
	if c == nil || entries <= float64(k.noted) || len(k.some) == 0 {
		return estimate
	}
	sum := 0.0
	for _, key := range k.some {
		value := key.bytes[:key.ends[n-1]]
		end, _ := keycodec.PrefixEnd(nil, value)
		found, ok := c.Range(k.t, k.index, value, end, n)
		if !ok {
			return estimate
		}
		sum += 1 / max(1, found)
	}
	return max(k.prefixes[n-1].seen(), entries*sum/float64(len(k.some)))
}

// stats returns the statistics of a table in which there are each times as many rows.
func (k *keySample) stats(c plan.Counter, each float64) plan.KeyStats {
	out := k.Stats()
	taken := out.Entries
	out.Entries = math.Round(taken * each)
	for i := range out.Distinct {
		out.Distinct[i] = k.distinct(c, i+1, out.Entries)
	}
	if each > 1 {
		few := func(h plan.Heavy) bool { return h.Fraction*taken < minHeavy }
		out.Heavy = slices.DeleteFunc(out.Heavy, few)
		out.Pairs = slices.DeleteFunc(out.Pairs, few)
	}
	return out
}
