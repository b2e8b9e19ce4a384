package stripe

import (
	"bytes"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
)

// View is an immutable picture of a stripe: which memtables and runs make up its
// content. Memtables keep taking writes; readers tell them apart by sequence number.
type View struct {
	Active *memtable.Table
	Frozen []*memtable.Table // newest first
	Runs   []*Run            // newest first

	// ValueBytes is the size of the values in the files that the runs refer to, GarbageBytes that
	// of those that nothing refers to.
	ValueBytes, GarbageBytes int64

	// keysBefore is how many keys were put into the memtables before Active.
	keysBefore uint64

	number uint64 // among the views of the stripe

	// refs counts the stripe itself (while the view is current) and cursors. The
	// files are released when it reaches zero; it never rises from zero.
	refs atomic.Int64
}

// acquire takes a reference unless the view is already dead.
func (v *View) acquire() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives back a reference taken by Stripe.Acquire.
func (v *View) Release() {
	if v.refs.Add(-1) == 0 {
		for _, r := range v.Runs {
			r.release()
		}
	}
}

// tables calls f for the memtables, newest first.
func (v *View) tables(f func(*memtable.Table)) {
	f(v.Active)
	for _, t := range v.Frozen {
		f(t)
	}
}

// Readable returns the number of runs in front of the first that is known to be
// damaged. Only they can be merged: what a merge made of a damaged run would hide the
// damage, or lose what it hides.
func (v *View) Readable() int {
	for i, r := range v.Runs {
		if r.damaged.Load() {
			return i
		}
	}
	return len(v.Runs)
}

// Entries returns how many versions the view has, but for older ones in memtables.
func (v *View) Entries() (n int64) {
	v.tables(func(t *memtable.Table) { n += int64(t.Len()) })
	for _, r := range v.Runs {
		for _, f := range r.Files {
			n += int64(f.Meta.Entries)
		}
	}
	return n
}

// MemtableBytes returns the memory of all memtables of the view.
func (v *View) MemtableBytes() int64 {
	n := v.Active.Bytes()
	for _, t := range v.Frozen {
		n += t.Bytes()
	}
	return n
}

// Run is a sorted sequence of SST files with disjoint keys, immutable. Its range
// tombstones apply to the runs after it and to its own files.
type Run struct {
	ID    uint64
	Files []*File
	// MaxSeq is the largest sequence number in the run.
	MaxSeq base.SeqNum
	// Info describes the run to the picker of compactions.
	Info compaction.RunInfo
	// HasRanges reports that some file holds range tombstones.
	HasRanges bool

	damaged atomic.Bool // a merge has found it so

	refs   atomic.Int64 // views that contain the run
	mu     sync.Mutex   // guards loading ranges
	ranges atomic.Pointer[runRanges]
}

type runRanges struct {
	all    []base.RangeTombstone
	newest *rangedel.List // as seen by a reader of the newest versions
	maxSeq base.SeqNum    // of all
}

// appendVisible appends to dst at least what a reader of [lo, hi) at snap needs. Unless
// the snapshot is older than a tombstone it searches; runs may have thousands.
func (rr *runRanges) appendVisible(
	dst []base.RangeTombstone, lo, hi []byte, snap base.SeqNum,
) []base.RangeTombstone {
	if snap < rr.maxSeq {
		for _, t := range rr.all {
			if t.Seq <= snap {
				dst = append(dst, t)
			}
		}
		return dst
	}
	start, end, seq, found := rr.newest.Next(lo)
	for found && (hi == nil || bytes.Compare(start, hi) < 0) {
		dst = append(dst, base.RangeTombstone{Start: start, End: end, Seq: seq})
		start, end, seq, found = rr.newest.Next(end)
	}
	return dst
}

// File is an SST of a run, open for reading.
type File struct {
	Meta   *base.FileMeta
	Reader *sst.Reader
	// env and values are for drop. Why not the stripe: in a process that follows the writer, files
	// outlive the stripes of the state that they came with.
	env    *Env
	values *valueFiles
	// obsolete is set when a manifest edit has removed the file.
	obsolete atomic.Bool
	refs     atomic.Int64 // runs that have the file, and that views contain
}

// drop closes a file that no view contains any more, and deletes it if a manifest edit has removed
// it (rather than the database being closed).
func (f *File) drop() {
	_ = f.Reader.Close() // read-only: nothing can be lost
	obsolete := f.obsolete.Load()
	if obsolete {
		f.env.Obsolete(f.Meta.Name())
	}
	for _, num := range f.values.drop(f.Meta, obsolete) {
		f.env.Obsolete(base.ValueName(f.Meta.Stripe, num))
	}
}

// after reports whether all keys of the file come after key.
func (f *File) after(key []byte) bool { return bytes.Compare(f.Meta.Smallest, key) > 0 }

func newRun(id uint64, files []*File) *Run {
	metas := make([]*base.FileMeta, len(files))
	for i, f := range files {
		metas[i] = f.Meta
	}
	info := compaction.Info(id, metas)
	return &Run{
		ID: id, Files: files, Info: info, MaxSeq: info.MaxSeq, HasRanges: info.RangeTombstones > 0,
	}
}

func (r *Run) release() {
	if r.refs.Add(-1) > 0 {
		return
	}
	for _, f := range r.Files {
		if f.refs.Add(-1) == 0 {
			f.drop()
		}
	}
}

// Bytes returns the size of the run's files.
func (r *Run) Bytes() (n int64) {
	for _, f := range r.Files {
		n += f.Meta.SizeBytes
	}
	return n
}

// find returns the index of the first file whose largest key is at or above key.
func (r *Run) find(key []byte) int {
	if len(r.Files) == 1 {
		if bytes.Compare(r.Files[0].Meta.Largest, key) < 0 {
			return 1
		}
		return 0
	}
	return sort.Search(len(r.Files), func(i int) bool {
		return bytes.Compare(r.Files[i].Meta.Largest, key) >= 0
	})
}

// loadRanges returns the run's range tombstones, read on first use.
func (r *Run) loadRanges() (*runRanges, error) {
	if rr := r.ranges.Load(); rr != nil {
		return rr, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rr := r.ranges.Load(); rr != nil {
		return rr, nil
	}
	rr := &runRanges{}
	for _, f := range r.Files {
		if f.Meta.RangeTombstones == 0 {
			continue
		}
		ts, err := f.Reader.RangeTombstones()
		if err != nil {
			return nil, err
		}
		rr.all = append(rr.all, ts...)
	}
	for i := range rr.all {
		rr.maxSeq = max(rr.maxSeq, rr.all[i].Seq)
	}
	rr.newest = rangedel.Build(rr.all, base.MaxSeqNum)
	r.ranges.Store(rr)
	return rr, nil
}

// RangeTombstones returns the run's range tombstones.
func (r *Run) RangeTombstones() ([]base.RangeTombstone, error) {
	if !r.HasRanges {
		return nil, nil
	}
	rr, err := r.loadRanges()
	if err != nil {
		return nil, err
	}
	return rr.all, nil
}

// coverSeq returns the newest sequence number, at most snap, of a range tombstone
// over key, or 0.
func (r *Run) coverSeq(key []byte, snap base.SeqNum) (base.SeqNum, error) {
	rr, err := r.loadRanges()
	if err != nil {
		return 0, err
	}
	if seq := rr.newest.CoverSeq(key); seq <= snap {
		return seq, nil
	}
	var best base.SeqNum
	for i := range rr.all {
		best = max(best, CoverSeq(&rr.all[i], key, snap))
	}
	return best, nil
}

// CoverSeq returns t.Seq if t is visible at snap and covers key, else 0.
func CoverSeq(t *base.RangeTombstone, key []byte, snap base.SeqNum) base.SeqNum {
	if t.Seq <= snap && bytes.Compare(t.Start, key) <= 0 && bytes.Compare(key, t.End) < 0 {
		return t.Seq
	}
	return 0
}
