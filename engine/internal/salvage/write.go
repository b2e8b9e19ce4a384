package salvage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// write makes the SSTs of the new database, one run for each stripe.
func (r *Repair) write(ctx context.Context) error {
	s := r.opts.State
	var files [base.NumStripes][]salvageFile
	for _, f := range r.files {
		files[f.id.Stripe] = append(files[f.id.Stripe], f)
	}
	var saved [base.NumStripes]*manifest.Run
	for i := range saved {
		run, err := r.writeStripe(ctx, base.StripeID(i), files[i])
		if err != nil {
			return fmt.Errorf("stripe %d: %w", i, err)
		}
		saved[i] = run
	}
	if err := r.to.SyncDir(r.dest); err != nil {
		return err
	}
	s.LastSeq, s.LogSeq = r.lastSeq, r.lastSeq+1
	for i, run := range saved {
		s.Stripes[i].FlushedSeq = r.lastSeq
		if run != nil {
			s.Stripes[i].Runs = []*manifest.Run{run}
		}
	}
	return nil
}

// checkEvery is how many entries pass between two looks at the context.
const checkEvery = 256

// writeStripe merges all that is intact of one stripe into a run; nil if that is nothing.
func (r *Repair) writeStripe(ctx context.Context, id base.StripeID, files []salvageFile,
) (run *manifest.Run, err error) {
	var sources []cursor.Source
	var ranges []base.RangeTombstone
	var filed base.SeqNum
	var bytes, entries int64
	for i := range files {
		f := &files[i]
		bytes += r.sizeOf(f)
		in, err := sst.Salvage(r.in, filepath.Join(r.src, f.name), f.id, f.known)
		if vfs.Unreadable(err) {
			r.lose(Loss{File: f.name, Offset: -1, What: "file", Stripe: int(id), Err: err})
			r.poorer[id] = true
			continue
		} else if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		r.Report.Files++
		entries += int64(in.Entries)
		r.Report.Entries += in.Entries + uint64(len(in.Ranges))
		r.lastSeq, r.lastFiled = max(r.lastSeq, in.MaxSeq), max(r.lastFiled, in.MaxSeq)
		filed = max(filed, in.MaxSeq)
		r.lostBlocks(f, in.Lost)
		sources = append(sources, in.NewSource())
		ranges = append(ranges, in.Ranges...)
	}
	l := &r.log[id]
	if r.gap > 0 {
		// A flush writes all of its stripe that is older than the newest that it writes.
		r.superseded += l.since(min(filed, r.gap))
	}
	l.sort()
	sources = append(sources, l)
	ranges = append(ranges, l.ranges...)
	// Why only of a whole log: after a gap a put may be there and the delete that followed
	// it not, which a merge may have dropped from the files by then.
	if old := &r.flushed[id]; r.poorer[id] && r.logWhole && len(old.entries)+len(old.ranges) > 0 {
		old.sort()
		sources = append(sources, old)
		ranges = append(ranges, old.ranges...)
		r.Doubt("stripe %d: %d operations of its lost part are saved, from the log", id,
			len(old.entries)+len(old.ranges))
	}
	m := compaction.NewMerge(sources, compaction.MergeOptions{
		Horizon: base.MaxSeqNum, Bottom: true, NowMs: r.opts.NowMs,
		RangeTombstones: ranges,
	})
	w := runWriter{r: r, stripe: id}
	defer func() { err = errors.Join(err, w.abandon()) }()
	for n := int64(0); m.Next(); n++ {
		if n%checkEvery == 0 {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			r.opts.Progress(r.done + min(bytes, bytes*n/max(entries, 1)))
		}
		if err := w.add(m.Entry()); err != nil {
			return nil, err
		}
	}
	r.done += bytes
	if err := errors.Join(m.Err(), w.finish()); err != nil || len(w.metas) == 0 {
		return nil, err
	}
	run = &manifest.Run{ID: r.opts.State.NextRun, Files: w.metas}
	r.opts.State.NextRun++
	return run, nil
}

// runWriter writes a sorted sequence of entries into the SSTs of a run.
type runWriter struct {
	r      *Repair
	stripe base.StripeID
	file   vfs.File // nil: none is open
	w      *sst.Writer
	metas  []*base.FileMeta
}

func (w *runWriter) add(e *base.Entry) error {
	if w.file != nil && w.w.Full(e) {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	return w.w.Add(e)
}

func (w *runWriter) start() (err error) {
	o := &w.r.opts
	s := o.State
	num := s.NextFile
	s.NextFile++
	w.file, err = w.r.to.Create(filepath.Join(w.r.dest, base.SSTName(w.stripe, num)))
	if err != nil {
		return err
	}
	w.w = sst.NewWriter(w.file, sst.WriterOptions{
		FileNum: num, Stripe: w.stripe, BlockBytes: o.BlockBytes, FileBytes: o.FileBytes,
		Codec: o.Codec, FilterBits: o.FilterBits, Seed: s.HashSeed, DBID: s.DBID,
	})
	return nil
}

// finish completes the open file, durably.
func (w *runWriter) finish() error {
	if w.file == nil {
		return nil
	}
	meta, err := w.w.Finish()
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return err
	}
	w.metas = append(w.metas, &meta)
	return w.abandon()
}

// abandon closes the open file, if there is one.
func (w *runWriter) abandon() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return f.Close()
}
