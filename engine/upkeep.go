package engine

import (
	"cmp"
	"context"

	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
)

// Flush writes all memtables to SSTs and returns when they are durable.
func (db *DB) Flush(ctx context.Context) error {
	if err := cmp.Or(usable(ctx), db.writable()); err != nil {
		return err
	}
	ctx, end, err := db.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return db.upkeep.Flush(ctx)
}

// Compact flushes and merges every stripe down to one run, dropping everything that
// no reader can see any more. A stripe that is such a run already is written again only if
// the options about files (Compression and the like) have changed. Reads and writes go on.
// Stripes that cannot be merged because they are damaged, or too large for the space there
// is, are left as they are and reported in the error.
func (db *DB) Compact(ctx context.Context) error {
	all := make([]uint8, len(db.stripes))
	for i := range all {
		all[i] = uint8(i)
	}
	return db.compactStripes(ctx, all)
}

// CompactPartition is Compact of the stripe that partition pk is in, with the other partitions
// of that stripe: about 1/256 of the database. A range of partitions lies in all stripes, so
// there is nothing between the two.
func (db *DB) CompactPartition(ctx context.Context, pk []byte) error {
	if err := usable(ctx); err != nil {
		return err
	}
	if err := (Key{PK: pk}).Validate(); err != nil {
		return keyError("compact", err)
	}
	return db.compactStripes(ctx, []uint8{keycodec.Stripe(pk)})
}

// compactStripes is Compact of some stripes.
func (db *DB) compactStripes(ctx context.Context, todo []uint8) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	ctx, end, err := db.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return db.upkeep.MergeStripes(ctx, todo)
}

// makeUpkeep makes the upkeep of a database in the given state, which flushes so many stripes
// at a time.
func (db *DB) makeUpkeep(state *manifest.State, flushGroup int) {
	o := &db.opts
	env := upkeep.Env{
		FS: db.fs, Dir: db.dir, Manifest: db.manifest, Stripes: &db.stripes, Logger: o.Logger,
		Visible: db.reads.Visible, Horizon: db.reads.Horizon, Retain: db.reads.Retention,
		NowMs: db.reads.MergeNowMs, Begin: db.calls.begin, Writable: db.writable,
		FailForGood: db.failForGood,
		Flushed: func(f upkeep.Flush) {
			if o.Events.Flushed != nil {
				o.Events.Flushed(FlushEvent(f))
			}
		},
		Merged: func(m upkeep.Merge) {
			if o.Events.Compacted != nil {
				o.Events.Compacted(CompactionEvent(m))
			}
		},
		Stalled: o.Events.Stalled,
	}
	if db.leases != nil {
		env.Leases = db.leases.Floor
	}
	if o.RetainBytes > 0 {
		env.LogReleased = func() { db.history.Trim() }
		env.LogGiveUp = func() { db.history.GiveUp() }
		env.LogShare = func() (float64, string) {
			if db.followed.Load() {
				return 0, "" // a follower is a consumer, which moves after its commits
			}
			return db.history.Share()
		}
	}
	db.upkeep = upkeep.New(env, upkeep.Options{
		MemtableBytes: o.MemtableBytes, LogBytes: o.LogBytes,
		SegmentBytes: segmentBytes(o.LogBytes), MaxRuns: o.MaxRuns,
		Workers: o.CompactionWorkers, MergeBytesPerSecond: o.CompactionBytesPerSecond,
		ReaderBytes: o.ReaderBytes, ReaderAge: o.ReaderAge,
		FlushGroup: flushGroup, NoReserve: o.InMemory || o.ReadOnly,
		OldData: sst.Layout{
			Codec: codec(o.BottomCompression), FilterBits: max(o.FilterBits, 0),
			BlockBytes: o.BlockBytes,
		},
	}, state)
}
