package table

import (
	"context"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table/internal/statistics"
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
	live, err := db.Table(table)
	if err != nil {
		return nil, err
	}
	written := live.core.fresh.written.Load()
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	t, err := snap.Table(table)
	if err != nil {
		return nil, err
	}
	st, err := snap.stateOf(ctx, t.core)
	if err != nil {
		return nil, err
	}
	read := statistics.Options{SampleRows: o.SampleRows, Seed: o.Seed, Counter: db.counter()}
	if o.Progress != nil {
		read.Progress = func(index string, done int64) {
			o.Progress(Progress{Table: st.Schema.Name, Index: index, What: "analyze", Done: done})
		}
	}
	stats, err := statistics.Collect(ctx, st.Schema, snap.snap, read)
	if err != nil {
		return nil, err
	}
	stats.At = db.Now()
	if err := db.saveStats(ctx, t.core, stats); err != nil {
		return stats, err
	}
	t.core.fresh.analyzed(stats.Rows, written)
	return stats, nil
}

// saveStats stores statistics under the next epoch.
func (db *DB) saveStats(ctx context.Context, core *tableCore, s *plan.TableStats) error {
	if err := db.schemaMu.lock(ctx); err != nil {
		return err
	}
	defer db.schemaMu.unlock()
	st, err := core.present()
	if err != nil {
		return err
	}
	set, err := core.nextStats(st.Schema, s)
	if err != nil {
		return err
	}
	if err := db.saveCatalogue(ctx, set); err != nil {
		return err
	}
	core.stats.Store(s)
	return nil
}
