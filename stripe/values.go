package stripe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/sst"
)

// # Value files
//
// Values from Env.LargeValue bytes on lie in value files of the stripe, and SSTs refer to them. The
// log and the memtables have the values themselves.
//
// The naive way: a log of values beside the tree, as WiscKey has it, with a count of the garbage in
// each of its files. Why it fails: a value is written and synced twice before it is acknowledged,
// or the tree may be durable without it; counts that are changed apart from the tree are wrong
// after a crash; and to find garbage the cleaner looks every key up.
//
// The way taken: a flush writes the values next to its SST, under the same edit of the manifest. A
// merge carries references over, so that it reads and writes no values. Each SST says how many
// bytes its entries refer to in each value file. So the SSTs of a state say how much of it is
// garbage: there is no count that could be wrong. A merge of all runs rewrites the values of the
// files that have the most garbage. Files that it drops references to stay as they are.
//
// Invariants: a value file is named by a state as long as an SST of it refers to it, and its
// number is never used again. Both are written and synced before the edit that names them. A view
// keeps its SSTs, and an SST keeps the value files: the file goes when the last SST that refers to
// it has been dropped, see valueFiles. A lookup without a reference on its view that reads a file
// that is gone, or is another by now, fails at the checksum and begins again.

// Rules for rewriting, of the value files of a stripe.
const (
	// garbagePercent of the bytes may be garbage after a merge of all runs.
	garbagePercent = 10
	// maxSmallFiles is how many of less than smallFileBytes are left alone, of less than half of
	// Env.FileBytes where that is less. Half of them, the smallest, become one. Why not fewer: with
	// values of 64 KiB and buffers of 8 MiB, which make a file for each value, overwriting writes
	// 2.3 times its bytes with 64 files, and 3.0 times with 16.
	maxSmallFiles  = 32
	smallFileBytes = 1 << 20
	// An output of fewer values of the least size, or of fewer bytes, has all values in SSTs.
	fewValues     = 16
	fewValueBytes = 64 << 10
)

// valueFiles has the value files of a stripe open, each as long as an SST that needs it is: what
// lookups have read of it stays in the cache when a merge replaces the SSTs.
type valueFiles struct {
	mu   sync.Mutex
	uses map[base.FileNum]valueUse // Guarded by mu.
}

type valueUse struct {
	reader *sst.Reader
	ssts   int
	// kept: an SST was dropped that the manifest may still name, because the database was closed.
	kept bool
}

// open returns a reader of a value file for an SST, see sst.ReaderOptions.
func (v *valueFiles) open(u base.ValueUse, open func() *sst.Reader) *sst.Reader {
	v.mu.Lock()
	defer v.mu.Unlock()
	use := v.uses[u.Num]
	if use.ssts++; use.reader == nil {
		use.reader = open()
	}
	v.uses[u.Num] = use
	return use.reader
}

// drop notes that an SST is closed, and returns the value files that no edit names any more.
func (v *valueFiles) drop(m *base.FileMeta, obsolete bool) (gone []base.FileNum) {
	if len(m.Values) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, u := range m.Values {
		use := v.uses[u.Num]
		use.ssts--
		use.kept = use.kept || !obsolete
		if use.ssts > 0 {
			v.uses[u.Num] = use
			continue
		}
		_ = use.reader.Close() // as that of the SST
		delete(v.uses, u.Num)
		if !use.kept {
			gone = append(gone, u.Num)
		}
	}
	return gone
}

// ValueFile is a value file as the SSTs of a view need it.
type ValueFile struct {
	Num              base.FileNum
	FileBytes, Bytes int64 // all of its values, and those that are referred to
}

// ValueFiles returns the value files that a view needs, by number.
func (v *View) ValueFiles() (all []ValueFile) {
	for _, r := range v.Runs {
		for _, f := range r.Files {
			for _, u := range f.Meta.Values {
				all = append(all, ValueFile{u.Num, sst.ValuesIn(u.FileBytes), int64(u.Bytes)})
			}
		}
	}
	slices.SortFunc(all, func(a, b ValueFile) int { return cmp.Compare(a.Num, b.Num) })
	n := 0
	for _, f := range all {
		if n > 0 && all[n-1].Num == f.Num {
			all[n-1].Bytes += f.Bytes
			continue
		}
		all[n] = f
		n++
	}
	return all[:n]
}

// sumValues computes the bytes of values, and those that are garbage. Why without the headers of
// files: they would be garbage that no merge can remove.
func (v *View) sumValues() {
	for _, f := range v.ValueFiles() {
		v.ValueBytes += f.FileBytes
		v.GarbageBytes += f.FileBytes - f.Bytes
	}
}

// RewriteBytes returns how many bytes of values a merge of all runs of v writes again.
func (s *Stripe) RewriteBytes(v *View) int64 {
	_, n := s.toRewrite(v)
	return n
}

// toRewrite chooses the value files whose values a merge of all runs writes again, and returns how
// many bytes that is.
func (s *Stripe) toRewrite(v *View) (chosen map[base.FileNum]bool, bytes int64) {
	if v.ValueBytes == 0 {
		return nil, 0
	}
	files, garbage := v.ValueFiles(), v.GarbageBytes
	chosen = map[base.FileNum]bool{}
	slices.SortFunc(files, func(a, b ValueFile) int { // the most garbage by bytes first
		return cmp.Compare(float64(a.Bytes)/float64(a.FileBytes),
			float64(b.Bytes)/float64(b.FileBytes))
	})
	for _, f := range files {
		if garbage*100 <= v.ValueBytes*garbagePercent {
			break
		}
		chosen[f.Num] = true
		bytes += f.Bytes
		garbage -= f.FileBytes - f.Bytes
	}
	small := slices.DeleteFunc(files[len(chosen):], func(f ValueFile) bool {
		return f.FileBytes >= min(smallFileBytes, s.env.FileBytes/2)
	})
	if n := len(small); n > maxSmallFiles {
		slices.SortFunc(small, func(a, b ValueFile) int { return cmp.Compare(a.Bytes, b.Bytes) })
		for _, f := range small[:n/2] {
			chosen[f.Num] = true
			bytes += f.Bytes
		}
	}
	return chosen, bytes
}

// valueSeries writes the large values of one flush or merge.
type valueSeries struct {
	outFile
	w     *sst.ValueWriter
	sizes map[base.FileNum]int64 // of all value files, also of those that are carried over
	ref   []byte

	least   int // size of values that are kept apart, 0 for none
	rewrite map[base.FileNum]bool
	from    map[base.FileNum]*Run // with a reader of a file
}

// leastLarge returns the size from which the values of an output are kept apart, 0 for none. A
// flush or merge of little leaves them to the next merge. Why: with small write buffers each flush
// would make a value file for each of its stripes, which costs more than writing the values again.
func (s *Stripe) leastLarge(out *Output, rewrites int) int {
	if rewrites == 0 && out.TableBytes()+out.BytesRead < s.leastApart() {
		return 0
	}
	return s.env.LargeValue
}

// leastApart is of how many bytes an output is whose large values are kept apart.
func (s *Stripe) leastApart() int64 { return int64(min(fewValues*s.env.LargeValue, fewValueBytes)) }

// carry notes the value files that the merged runs refer to.
func (s *valueSeries) carry(runs []*Run) {
	for _, r := range runs {
		for _, f := range r.Files {
			for _, u := range f.Meta.Values {
				s.sizes[u.Num], s.from[u.Num] = u.FileBytes, r
			}
		}
	}
}

// place puts the value of e where it belongs. It may change e.
func (s *valueSeries) place(ctx context.Context, e *base.Entry) error {
	if e.Large {
		num := sst.ValueFile(e.Value)
		if !s.rewrite[num] {
			return nil
		}
		value, err := s.from[num].value(num, e.Value)
		if err != nil {
			return err
		}
		s.out.BytesRead += int64(len(value))
		e.Value, e.Large = value, false
	}
	if s.least == 0 || len(e.Value) < s.least {
		return nil
	}
	if s.open && s.w.SizeBytes() >= s.stripe.env.FileBytes {
		if err := s.finish(ctx); err != nil {
			return err
		}
	}
	if !s.open {
		if err := s.create(base.ValueName); err != nil {
			return err
		}
		s.w.Reset(s.file, s.stripe.env.DBID, s.num, s.codec)
	}
	var err error
	if s.ref, err = s.w.Add(s.ref[:0], e.Value); err != nil {
		return err
	}
	e.Value, e.Large = s.ref, true
	return s.grown(ctx, s.w.SizeBytes())
}

// finish completes the open file.
func (s *valueSeries) finish(ctx context.Context) error {
	if !s.open {
		return nil
	}
	s.open = false
	size, err := s.w.Finish()
	if err != nil {
		return err
	}
	s.sizes[s.num] = size
	return s.complete(ctx, size)
}

// describe completes the descriptions of the SSTs.
func (s *valueSeries) describe(metas []*base.FileMeta) error {
	for _, m := range metas {
		for i := range m.Values {
			u := &m.Values[i]
			size, ok := s.sizes[u.Num]
			if !ok {
				return fmt.Errorf("reference to unknown value file %d", u.Num)
			}
			u.FileBytes = size
		}
	}
	return nil
}

// value reads a large value that a run refers to.
func (r *Run) value(num base.FileNum, ref []byte) ([]byte, error) {
	for _, f := range r.Files {
		for _, u := range f.Meta.Values {
			if u.Num != num {
				continue
			}
			value, err := f.Reader.Value(nil, ref)
			if err != nil {
				return nil, r.readError(err)
			}
			return value, nil
		}
	}
	return nil, fmt.Errorf("no file of run %d refers to value file %d", r.ID, num)
}
