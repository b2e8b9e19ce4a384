package stripe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
)

// Retention says which versions a flush or merge must keep.
type Retention struct {
	// Snapshots are the registered snapshots, ascending.
	Snapshots []base.SeqNum
	// Horizon is the lowest sequence number that a later reader can use.
	Horizon base.SeqNum
	// NowMs is the present in Unix milliseconds, for expiry.
	NowMs int64
}

// Builder writes the files of one flush or merge at a time and keeps its buffers in
// between. It belongs to one goroutine.
type Builder struct {
	w      sst.Writer
	values sst.ValueWriter
	// Pace, if not nil, is called with the bytes about to be written; it may sleep
	// and its error aborts.
	Pace func(ctx context.Context, n int64) error
}

// Output is what a flush or a merge has written but not yet installed.
type Output struct {
	// Run describes the new run; nil if nothing was left to write.
	Run *manifest.Run
	// FlushedSeq is the stripe's highest sequence number in the flushed tables; 0
	// for a merge.
	FlushedSeq base.SeqNum
	// Replaced are the runs that the new one replaces, newest first; nil for a flush.
	Replaced []*Run
	// BytesWritten and BytesRead count file bytes; of values that are read, those decoded.
	BytesWritten, BytesRead int64

	tables []*memtable.Table
	files  []vfs.File
	names  []string
	env    *Env
}

// Freeze closes the active memtable for writers and puts an empty one in its place.
// It reports false if there was nothing to freeze. Requires: Lock held.
func (s *Stripe) Freeze() bool {
	s.install.Lock()
	defer s.install.Unlock()
	v := s.view.Load()
	if v == nil || (v.Active.Len() == 0 && !v.Active.HasRanges()) {
		return false
	}
	before := v.Active.Bytes()
	v.Active.Freeze()
	base.Yield()
	frozen := append([]*memtable.Table{v.Active}, v.Frozen...)
	// A frozen table counts with its final form, an empty one not at all.
	s.env.Memory.Add(v.Active.Bytes() - before)
	s.publish(&View{
		Active: s.newTable(), Frozen: frozen, Runs: v.Runs,
		keysBefore: v.keysBefore + v.Active.Keys(),
	})
	s.passed.Store(0)
	return true
}

// coveredMost is how many keys of a memtable a range tombstone in the same memtable may
// hide. Why: a cursor steps over them one by one, since newer versions may lie between
// them; looking for this many takes about 100 µs,
// and a millisecond more if they have yet to be put in order.
const coveredMost = 1024

// FreezeBeneath freezes the active memtable if a range tombstone over [start, end) would
// hide many of its keys. The tombstone then goes into the next memtable, and cursors
// pass over what it hides with a seek. Requires: Lock held, before the commit that the
// tombstone belongs to has a sequence number.
func (s *Stripe) FreezeBeneath(start, end []byte) bool {
	t := s.view.Load().Active
	if t.Len() < coveredMost {
		return false
	}
	n := 0
	c := t.NewCursor(base.MaxSeqNum)
	for found := c.SeekGE(start); found && n < coveredMost; found = c.Next() {
		if bytes.Compare(c.Entry().Key, end) >= 0 {
			return false
		}
		n++
	}
	return n == coveredMost && s.Freeze()
}

// Flush writes the frozen memtables as one run. It does not sync: call Output.Sync,
// commit the manifest edit, then Install. It returns nil if nothing is frozen.
func (s *Stripe) Flush(
	ctx context.Context, b *Builder, ret Retention, runID uint64,
) (*Output, error) {
	v := s.view.Load()
	if v == nil || len(v.Frozen) == 0 {
		return nil, nil
	}
	out := &Output{tables: v.Frozen, env: s.env}
	var sources []cursor.Source
	var ranges []base.RangeTombstone
	for _, t := range v.Frozen {
		out.FlushedSeq = max(out.FlushedSeq, t.MaxSeq())
		sources = append(sources, t.NewSource())
		ranges = t.RangeTombstones(ranges, base.MaxSeqNum)
	}
	bottom := len(v.Runs) == 0
	err := s.build(ctx, b, out, []piece{{sources: sources}}, s.env.UpperCodec,
		compaction.MergeOptions{
			Snapshots: ret.Snapshots, Horizon: ret.Horizon, Bottom: bottom, NowMs: ret.NowMs,
			RangeTombstones: ranges,
		}, nil, runID)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("flush %v: %w", s, err), Discard(out))
	}
	return out, nil
}

// ReadError is an error of reading the runs that a merge was to replace: damage or a
// failing disk. What was there before is as it was.
type ReadError struct{ Err error }

// Error implements error.
func (e *ReadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Compact merges the runs of the plan, which must have been picked from the runs of
// the given view, into one. It does not sync, as Flush. A run that turns out to be
// damaged is marked, see View.Readable; the error is a *ReadError then.
func (s *Stripe) Compact(
	ctx context.Context, b *Builder, v *View, plan compaction.Plan, ret Retention, runID uint64,
) (*Output, error) {
	out := &Output{Replaced: v.Runs[plan.Lo:plan.Hi], env: s.env}
	var ranges []base.RangeTombstone
	for _, r := range out.Replaced {
		ts, err := r.RangeTombstones()
		if err != nil {
			return nil, fmt.Errorf("compact %v: %w", s, r.readError(err))
		}
		ranges = append(ranges, ts...)
	}
	var rewrite map[base.FileNum]bool
	full := s.env.Full != nil && s.env.Full()
	if len(out.Replaced) == len(v.Runs) && (!full || plan.Reason == compaction.ReasonValues) {
		rewrite, _ = s.toRewrite(v)
	}
	// Why not a flush onto an empty stripe: its data is the youngest that there is.
	codec := s.env.UpperCodec
	if plan.Bottom {
		codec = s.env.BottomCodec
	}
	whole := len(ranges) > 0 || plan.Reason == compaction.ReasonManual
	pieces, err := s.pieces(out, whole, codec, ret)
	if err == nil {
		err = s.build(ctx, b, out, pieces, codec, compaction.MergeOptions{
			Snapshots: ret.Snapshots, Horizon: ret.Horizon, Bottom: plan.Bottom, NowMs: ret.NowMs,
			RangeTombstones: ranges,
		}, rewrite, runID)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compact %v: %w", s, err), Discard(out))
	}
	return out, nil
}

// readError marks the run if it is damaged, and gives err its class.
func (r *Run) readError(err error) error {
	if errors.Is(err, corrupt.ErrCorrupt) {
		r.damaged.Store(true)
	}
	return &ReadError{err}
}

// build makes the pieces the files of out.
func (s *Stripe) build(
	ctx context.Context, b *Builder, out *Output, pieces []piece, codec sst.Codec,
	o compaction.MergeOptions, rewrite map[base.FileNum]bool, runID uint64,
) error {
	o.Done = ctx.Done()
	of := outFile{stripe: s, builder: b, out: out, codec: codec}
	f := fileSeries{outFile: of}
	v := valueSeries{
		outFile: of, w: &b.values, sizes: map[base.FileNum]int64{}, from: map[base.FileNum]*Run{},
		least: s.leastLarge(out, len(rewrite)), rewrite: rewrite,
	}
	v.carry(out.Replaced)
	for i := range pieces {
		p := &pieces[i]
		if p.moved != nil {
			if err := f.finish(ctx); err != nil {
				return err
			}
			f.metas = append(f.metas, p.moved.Meta)
			continue
		}
		if err := f.merge(ctx, &v, compaction.NewMerge(p.sources, o)); err != nil {
			return p.readError(err)
		}
	}
	if err := errors.Join(f.finish(ctx), v.finish(ctx), v.describe(f.metas)); err != nil {
		return err
	}
	if len(f.metas) > 0 {
		out.Run = &manifest.Run{ID: runID, Files: f.metas}
	}
	return nil
}

// merge writes what a merge gives.
func (f *fileSeries) merge(ctx context.Context, v *valueSeries, m *compaction.Merge) error {
	w := &f.builder.w
	for _, t := range m.RangeTombstones() {
		if err := f.next(ctx, nil); err != nil {
			return err
		}
		if err := w.AddRangeTombstone(t); err != nil {
			return err
		}
	}
	for m.Next() {
		e := m.Entry()
		if err := v.place(ctx, e); err != nil {
			return err
		}
		if err := f.next(ctx, e); err != nil {
			return err
		}
		if err := w.Add(e); err != nil {
			return err
		}
	}
	if err := m.Err(); !errors.Is(err, compaction.ErrStopped) {
		return err
	}
	return context.Cause(ctx)
}

// outFile is the file that a series of files of an output is at.
type outFile struct {
	stripe  *Stripe
	builder *Builder
	out     *Output
	codec   sst.Codec

	open  bool
	file  vfs.File // the last one
	num   base.FileNum
	paced int64 // bytes of the open file that Pace has seen
}

// paceBytes is how much a merge writes between two calls of Builder.Pace.
const paceBytes = 256 << 10

// create begins the next file.
func (f *outFile) create(name func(base.StripeID, base.FileNum) string) (err error) {
	env := f.stripe.env
	f.num = env.NextFile()
	path := filepath.Join(env.Dir, name(f.stripe.id, f.num))
	if f.file, err = env.Create(path); err != nil {
		return err
	}
	f.out.files = append(f.out.files, f.file)
	f.out.names = append(f.out.names, path)
	f.open, f.paced = true, 0
	return nil
}

// grown reports the bytes written since the last call, if they are many.
func (f *outFile) grown(ctx context.Context, size int64) error {
	if size-f.paced < paceBytes {
		return nil
	}
	return f.pace(ctx, size)
}

// pace reports the bytes written since the last call and starts their writeback, so
// that the sync at the end finds little left to do.
func (f *outFile) pace(ctx context.Context, size int64) error {
	from := f.paced
	f.paced = size
	if w, ok := f.file.(vfs.Writebacker); ok {
		if err := w.StartWriteback(from, size-from); err != nil {
			return err
		}
	}
	if f.builder.Pace != nil {
		return f.builder.Pace(ctx, size-from)
	}
	return nil
}

// complete gives the file, which may have been longer and recycled, its size.
func (f *outFile) complete(ctx context.Context, size int64) error {
	was, err := f.file.Size()
	if err == nil && was != size {
		err = f.file.Truncate(size)
	}
	if err != nil {
		return err
	}
	f.out.BytesWritten += size
	return f.pace(ctx, size)
}

// fileSeries writes a sorted sequence of entries into files of limited size.
//
// Invariant: all versions of a key are in one file. The range tombstones of a run come
// before its entries: in its first file or, if they fill more than one, in the first few.
type fileSeries struct {
	outFile
	metas []*base.FileMeta
}

func (f *fileSeries) start() error {
	if err := f.create(base.SSTName); err != nil {
		return err
	}
	env := f.stripe.env
	o := sst.WriterOptions{
		FileNum: f.num, Stripe: f.stripe.id, BlockBytes: env.BlockBytes, FileBytes: env.FileBytes,
		Codec: f.codec, FilterBits: env.FilterBits, Seed: env.Seed, DBID: env.DBID,
		PartBlocks: env.PartBlocks,
	}
	if describe := env.Describe.Load(); describe != nil {
		o.Describe = *describe
	}
	f.builder.w.Reset(f.file, o)
	return nil
}

// next makes sure that there is an open file with room for e or, if that is nil, for a
// range tombstone.
func (f *fileSeries) next(ctx context.Context, e *base.Entry) error {
	if f.open && f.builder.w.Full(e) {
		if err := f.finish(ctx); err != nil {
			return err
		}
	}
	if !f.open {
		return f.start()
	}
	return f.grown(ctx, f.builder.w.SizeBytes())
}

func (f *fileSeries) finish(ctx context.Context) error {
	if !f.open {
		return nil
	}
	f.open = false
	meta, err := f.builder.w.Finish()
	if err != nil {
		return err
	}
	f.metas = append(f.metas, &meta)
	return f.complete(ctx, meta.SizeBytes)
}

// Sync makes the files durable and closes them. The directory is the caller's to
// sync.
func (o *Output) Sync() error {
	var errs []error
	for _, f := range o.files {
		errs = append(errs, f.Sync(), f.Close())
	}
	o.files = nil
	return vfs.FirstOf(errs)
}

// Discard closes and removes the files of outputs that will not be installed.
func Discard(outs ...*Output) error {
	var errs []error
	for _, o := range outs {
		for _, f := range o.files {
			errs = append(errs, f.Close())
		}
		for _, n := range o.names {
			errs = append(errs, o.env.FS.Remove(n))
		}
		o.files, o.names = nil, nil
	}
	if err := vfs.FirstOf(errs); err != nil {
		return fmt.Errorf("remove what was written: %w", err)
	}
	return nil
}

// Install publishes the output: flushed memtables or merged runs give way to the new
// run. Requires: the manifest edit is committed.
func (s *Stripe) Install(o *Output) {
	s.install.Lock()
	defer s.install.Unlock()
	v := s.view.Load()
	if v == nil {
		return
	}
	base.Yield()
	next := &View{Active: v.Active, keysBefore: v.keysBefore}
	// Tables frozen since the flush are newer, hence in front. Why a copy into a new
	// array: a part of the old slice would keep the flushed ones in memory.
	next.Frozen = append([]*memtable.Table(nil), v.Frozen[:len(v.Frozen)-len(o.tables)]...)
	s.env.Memory.Add(-o.TableBytes())
	if o.tables != nil {
		s.prefix = o.tables[0].CommonPrefix()
	}
	if o.tables != nil && o.Run != nil {
		next.Runs = append(next.Runs, s.openRun(o.Run, nil))
	}
	for i := 0; i < len(v.Runs); i++ {
		if len(o.Replaced) == 0 || v.Runs[i] != o.Replaced[0] {
			next.Runs = append(next.Runs, v.Runs[i])
			continue
		}
		if o.Run != nil {
			next.Runs = append(next.Runs, s.openRun(o.Run, o.Replaced))
		}
		o.retire()
		i += len(o.Replaced) - 1
	}
	s.publish(next)
}

// retire marks the files that are not named any more.
func (o *Output) retire() {
	for _, r := range o.Replaced {
		for _, f := range r.Files {
			if o.Run == nil || !slices.Contains(o.Run.Files, f.Meta) {
				f.obsolete.Store(true)
			}
		}
	}
}

// TableBytes returns the memory of the flushed memtables.
func (o *Output) TableBytes() (n int64) {
	for _, t := range o.tables {
		n += t.Bytes()
	}
	return n
}

// MinSeq returns the lowest sequence number that is only in memtables, leaving out
// those that o (which may be nil) has written; ok is false if there is none.
func (s *Stripe) MinSeq(o *Output) (low base.SeqNum, ok bool) {
	v := s.view.Load()
	if v == nil {
		return 0, false
	}
	low = base.MaxSeqNum
	v.tables(func(t *memtable.Table) {
		written := o != nil && slices.Contains(o.tables, t)
		if !written && (t.Len() > 0 || t.HasRanges()) {
			low, ok = min(low, t.MinSeq()), true
		}
	})
	return low, ok
}
