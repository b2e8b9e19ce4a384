package table

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// AnalyzeOptions say how Analyze reads. Nil reads everything.
type AnalyzeOptions struct {
	// SampleRows is how many rows are looked at, chosen at random; 0 is all, and so is more
	// than there are. What is read then depends on this number and not on the table: about
	// a block of each run for every row, and no index, since entries follow from rows.
	//
	// Numbers of rows and of entries, shares of frequent values and bounds of histograms are
	// right within a few per cent for 10,000 rows, within a tenth for 1000. Numbers of
	// different values are extrapolated: right within a third where the rare ones are about
	// equally frequent, and too small, up to three times, where they are not.
	SampleRows int
	// Seed chooses the rows; 0 is a random choice.
	Seed     uint64
	Progress func(Progress)
}

// Analyze collects the statistics of a table in one snapshot, stores them in the database,
// and has queries planned again with them. Writers are not held up.
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
	a := &analyzer{t: st.schema, r: snap.snap, o: o}
	var stats *plan.TableStats
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
	rg := rowRange(a.t)
	rg.Unordered = true
	c, columns := newRowCollector(a.t), newColumnCollector(a.t)
	row, size := a.t.Row(), 0.0
	for it, err := range a.r.Scan(ctx, rg) {
		if err != nil {
			return nil, err
		}
		size += itemBytes(&it)
		a.tell("", 1)
		if err := c.addRow(&it); err != nil {
			return nil, err
		}
		if err := a.t.Decode(row, it.Key, it.Value, nil); err != nil {
			return nil, err
		}
		columns.add(row, it.Version)
	}
	k := c.Stats()
	return &plan.TableStats{Rows: k.Entries, RowBytes: size / max(1, k.Entries),
		Keys: []plan.KeyStats{k}, Distinct: columns.distinct(),
		Monotonic: columns.monotonic()}, nil
}

func itemBytes(it *store.Item) float64 {
	return float64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
}

// index reads the entries of an index.
func (a *analyzer) index(ctx context.Context, x *schema.Index) (plan.KeyStats, error) {
	rg := entryRange(x)
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
		a.o.Progress(Progress{Table: a.t.Name, Index: index, What: "analyze", Done: a.done})
	}
}
