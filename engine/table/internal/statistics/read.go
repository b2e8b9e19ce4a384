package statistics

import (
	"context"
	"slices"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Options say what is read.
type Options struct {
	SampleRows int    // how many rows are looked at, chosen at random; 0: all
	Seed       uint64 // chooses the rows; 0 is a random choice
	// Counter, if not nil, counts how many entries have the values of a row of the sample.
	Counter plan.Counter
	// Progress, if not nil, is called now and then, with the index that is read, "" for the
	// rows, and how much was read.
	Progress func(index string, done int64)
}

// Collect reads a table and returns its statistics, without an epoch.
func Collect(ctx context.Context, t *schema.Table, r store.Reader, o Options) (
	stats *plan.TableStats, err error) {
	a := &analyzer{t: t, r: r, o: o}
	if o.SampleRows > 0 {
		stats, err = a.sampled(ctx)
	} else {
		stats, err = a.everything(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i := range stats.Keys {
		k := &stats.Keys[i]
		ordinals := t.KeyOrdinals()
		if x := t.IndexByID(k.Index); x != nil {
			ordinals = x.Ordinals()
		}
		k.Monotonic = slices.Contains(stats.Monotonic, ordinals[0])
	}
	return stats, nil
}

// analyzer reads a table.
type analyzer struct {
	t    *schema.Table
	r    store.Reader
	o    Options
	done int64
}

// everything reads all rows and all entries.
func (a *analyzer) everything(ctx context.Context) (*plan.TableStats, error) {
	s, err := a.rows(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range a.t.Indexes {
		if x.State != schema.Ready {
			continue
		}
		k, err := a.index(ctx, x)
		if err != nil {
			return nil, err
		}
		s.Keys = append(s.Keys, k)
	}
	return s, nil
}

// rows reads the rows.
func (a *analyzer) rows(ctx context.Context) (*plan.TableStats, error) {
	rg := rowio.Rows(a.t)
	rg.Unordered = true
	sketches := make([]plan.Sketch, len(a.t.Columns))
	c, columns := newRowCollector(a.t), &columnCollector{t: a.t,
		count: func(ordinal int, value []byte) { sketches[ordinal].Add(value) }}
	row, size := a.t.Row(), 0.0
	for it, err := range a.r.Scan(ctx, rg) {
		if err != nil {
			return nil, err
		}
		size += itemBytes(&it)
		a.tell("", 1)
		if err := c.addRow(it.Key, len(it.Value)); err != nil {
			return nil, err
		}
		if err := a.t.Decode(row, it.Key, it.Value, nil); err != nil {
			return nil, err
		}
		columns.add(row, it.Version)
	}
	k := c.Stats()
	out := &plan.TableStats{Rows: k.Entries, RowBytes: size / max(1, k.Entries),
		Keys: []plan.KeyStats{k}, Monotonic: columns.monotonic()}
	for i := range sketches {
		out.Distinct = append(out.Distinct, min(sketches[i].Count(), k.Entries))
	}
	return out, nil
}

func itemBytes(it *store.Item) float64 {
	return float64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
}

// index reads the entries of an index.
func (a *analyzer) index(ctx context.Context, x *schema.Index) (plan.KeyStats, error) {
	rg := rowio.Entries(x)
	rg.Unordered = true
	c := newEntryCollector(a.t, x)
	for it, err := range a.r.Scan(ctx, rg) {
		if err != nil {
			return plan.KeyStats{}, err
		}
		a.tell(x.Name, 1)
		if err := c.addEntry(it.Key.SK, len(it.Value)+len(it.Key.PK)); err != nil {
			return plan.KeyStats{}, err
		}
	}
	return c.Stats(), nil
}

func (a *analyzer) tell(index string, n int64) {
	if a.done += n; a.o.Progress != nil && a.done%10_000 == 0 {
		a.o.Progress(index, a.done)
	}
}
