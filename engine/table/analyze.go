package table

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// AnalyzeOptions say how Analyze reads. Nil reads everything.
type AnalyzeOptions struct {
	// SampleRows is about how many rows, and entries of each index, are looked at; 0 is
	// all. Keys are read over in any case, and counted exactly.
	SampleRows int
	Progress   func(Progress)
}

// Analyze collects the statistics of a table in one snapshot, stores them in the database,
// and has queries planned anew with them. Writers are not held up.
func (db *DB) Analyze(ctx context.Context, table string, o *AnalyzeOptions) (*plan.TableStats,
	error) {
	if o == nil {
		o = new(AnalyzeOptions)
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	t, err := snap.Table(table)
	if err != nil {
		return nil, err
	}
	st, err := snap.stateOf(t.core)
	if err != nil {
		return nil, err
	}
	a := &analyzer{t: st.schema, r: snap.snap, o: o, seed: maphash.MakeSeed()}
	stats, err := a.rows(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range st.schema.Indexes {
		if x.State != schema.Ready {
			continue
		}
		k, err := a.index(ctx, x)
		if err != nil {
			return nil, err
		}
		stats.Keys = append(stats.Keys, k)
	}
	for i := range stats.Keys {
		k := &stats.Keys[i]
		ordinals := st.schema.KeyOrdinals()
		if x := indexByID(st.schema, k.Index); x != nil {
			ordinals = x.Ordinals()
		}
		k.Monotonic = slices.Contains(stats.Monotonic, ordinals[0])
	}
	return stats, db.saveStats(ctx, t.core, stats)
}

// saveStats stores statistics under the next epoch.
func (db *DB) saveStats(ctx context.Context, core *tableCore, s *plan.TableStats) error {
	db.schemaMu.Lock()
	defer db.schemaMu.Unlock()
	st, err := core.present()
	if err != nil {
		return err
	}
	s.Epoch = 1
	if old := core.stats.Load(); old != nil {
		s.Epoch = old.Epoch + 1
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var set store.WriteSet
	set.Put(catalogueKey(markStats, st.schema.ID), data)
	if err := db.saveCatalogue(ctx, &set); err != nil {
		return err
	}
	core.stats.Store(s)
	return nil
}

// analyzer reads a table.
type analyzer struct {
	t    *schema.Table
	r    store.Reader
	o    *AnalyzeOptions
	seed maphash.Seed
	done int64
}

// sampled returns which part of a range is looked at, 1 if all of it.
func (a *analyzer) sampled(ctx context.Context, rg store.Range) (float64, error) {
	if a.o.SampleRows <= 0 {
		return 1, nil
	}
	n, err := store.Count(ctx, a.r, rg)
	if err != nil || n <= int64(a.o.SampleRows) {
		return 1, err
	}
	return float64(a.o.SampleRows) / float64(n), nil
}

// takes says whether a key is in a sample of that part of all keys.
func (a *analyzer) takes(key store.Key, part float64) bool {
	if part >= 1 {
		return true
	}
	h := maphash.Bytes(a.seed, key.PK) ^ 31*maphash.Bytes(a.seed, key.SK)
	return float64(h>>11)/(1<<53) < part
}

// rows reads the rows.
func (a *analyzer) rows(ctx context.Context) (*plan.TableStats, error) {
	rg := rowRange(a.t)
	rg.Unordered = true
	part, err := a.sampled(ctx, rg)
	if err != nil {
		return nil, err
	}
	key := append(slices.Clone(a.t.PK), a.t.SK...)
	c := newKeyCollector(a.t, 0, key)
	columns := newColumnCollector(a.t)
	row, count, taken, size := a.t.Row(), 0.0, 0.0, 0.0
	for it, err := range a.r.Scan(ctx, rg) {
		if err != nil {
			return nil, err
		}
		count++
		size += float64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
		a.tell("", 1)
		if !a.takes(it.Key, part) {
			continue
		}
		taken++
		head := len(a.t.AppendRowPrefix(nil))
		c.key = append(append(c.key[:0], it.Key.PK[head:]...), it.Key.SK...)
		if err := c.add(len(it.Value) + head); err != nil {
			return nil, err
		}
		if err := a.t.Decode(row, it.Key, it.Value, nil); err != nil {
			return nil, err
		}
		columns.add(row, it.Version)
	}
	s := &plan.TableStats{Rows: count, RowBytes: size / max(1, count)}
	s.Keys = append(s.Keys, c.stats(count))
	s.Distinct = columns.distinct(count, taken)
	s.Monotonic = columns.monotonic()
	return s, nil
}

// index reads the entries of an index.
func (a *analyzer) index(ctx context.Context, x *schema.Index) (plan.KeyStats, error) {
	rg := entryRange(x)
	rg.Unordered = true
	part, err := a.sampled(ctx, rg)
	if err != nil {
		return plan.KeyStats{}, err
	}
	var key []schema.KeyColumn
	for _, k := range x.Columns {
		key = append(key, k.KeyColumn)
	}
	c, count := newKeyCollector(a.t, x.ID, key), 0.0
	for it, err := range a.r.Scan(ctx, rg) {
		if err != nil {
			return plan.KeyStats{}, err
		}
		count++
		a.tell(x.Name, 1)
		if !a.takes(it.Key, part) {
			continue
		}
		c.key = append(c.key[:0], it.Key.SK...)
		if err := c.add(len(it.Value) + len(it.Key.PK)); err != nil {
			return plan.KeyStats{}, err
		}
	}
	return c.stats(count), nil
}

func (a *analyzer) tell(index string, n int64) {
	if a.done += n; a.o.Progress != nil && a.done%10_000 == 0 {
		a.o.Progress(Progress{Table: a.t.Name, Index: index, What: "analyze", Done: a.done})
	}
}

// keyCollector collects the statistics of one key.
type keyCollector struct {
	*plan.Collector
	t     *schema.Table
	index uint32
	parts []schema.KeyColumn
	key   []byte
	ends  []int
	taken float64
}

func newKeyCollector(t *schema.Table, index uint32, parts []schema.KeyColumn) *keyCollector {
	return &keyCollector{Collector: plan.NewCollector(index, len(parts)), t: t, index: index,
		parts: parts}
}

// add adds c.key; what follows its columns does not count.
func (c *keyCollector) add(more int) error {
	c.ends = c.ends[:0]
	rest, null := c.key, false
	for i, k := range c.parts {
		v, left, err := c.t.Columns[k.Ordinal].DecodeField(rest, k)
		if err != nil {
			return err
		}
		rest = left
		null = null || i == 0 && v.IsNull()
		c.ends = append(c.ends, len(c.key)-len(rest))
	}
	columns := c.ends[len(c.ends)-1]
	c.Add(c.key[:columns], c.ends, null, more+len(rest))
	c.taken++
	return nil
}

// stats returns the statistics of a key with so many entries.
func (c *keyCollector) stats(count float64) plan.KeyStats {
	k := c.Stats()
	k.Entries = count
	for i, d := range k.Distinct {
		k.Distinct[i] = scaled(d, c.taken, count)
	}
	return k
}

// scaled estimates how many different values there are among count, of which a sample of
// taken has d: if most of the sample's are different, so are most of all.
func scaled(d, taken, count float64) float64 {
	if taken == 0 || taken >= count || d < taken/2 {
		return d
	}
	return d * count / taken
}

// columnCollector collects the statistics of columns.
type columnCollector struct {
	t        *schema.Table
	sketches []*plan.Sketch
	buf      []byte
	// versions and values are a sample of rows in the order of writing: of columns that a
	// key can begin with.
	versions []uint64
	values   [][]expr.Value
	seen     int
}

// orderSample is how many rows are looked at to see which columns grow.
const orderSample = 2048

func newColumnCollector(t *schema.Table) *columnCollector {
	c := &columnCollector{t: t}
	for range t.Columns {
		c.sketches = append(c.sketches, new(plan.Sketch))
	}
	return c
}

func (c *columnCollector) add(row []expr.Value, version uint64) {
	for i, v := range row {
		if c.t.Columns[i].Dropped || c.t.Columns[i].List || v.IsNull() {
			continue
		}
		c.buf = append(c.buf[:0], v.Canonical().String()...)
		c.sketches[i].Add(c.buf)
	}
	// Every row at first, then every second one, every fourth …: the sample hardly grows.
	c.seen++
	step := 1
	for n := c.seen / orderSample; n > 0; n /= 2 {
		step *= 2
	}
	if c.seen%step != 0 {
		return
	}
	own := slices.Clone(row)
	schema.CloneRow(own)
	c.versions, c.values = append(c.versions, version), append(c.values, own)
}

// distinct returns the number of different values of each column.
func (c *columnCollector) distinct(count, taken float64) (all []float64) {
	for _, s := range c.sketches {
		all = append(all, scaled(min(s.Count(), taken), taken, count))
	}
	return all
}

// monotonic returns the columns of which later rows have larger values.
func (c *columnCollector) monotonic() (all []int) {
	order := make([]int, len(c.versions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case c.versions[a] < c.versions[b]:
			return -1
		case c.versions[a] > c.versions[b]:
			return 1
		}
		return 0
	})
	for column := range c.t.Columns {
		if !c.t.Columns[column].Dropped && c.grows(order, column) {
			all = append(all, column)
		}
	}
	return all
}

// Of pairs of rows written one after the other, this many are needed, and this part of
// them has to grow.
const (
	growPairs = 100
	growPart  = 0.95
)

func (c *columnCollector) grows(order []int, column int) bool {
	pairs, up := 0, 0
	for i := 1; i < len(order); i++ {
		if c.versions[order[i-1]] == c.versions[order[i]] {
			continue
		}
		before, now := c.values[order[i-1]][column], c.values[order[i]][column]
		if before.IsNull() || now.IsNull() {
			continue
		}
		pairs++
		if expr.Order(before, now) < 0 {
			up++
		}
	}
	return pairs >= growPairs && float64(up) >= growPart*float64(pairs)
}
