package stripe

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/sst"
)

// # Moved files
//
// Keys that rise, such as times and numbers that count up, make runs that begin after the end of
// each other. A merge would write their files as they are.
//
// The naive way: files that overlap no other go over into the new run.
//
// Why it fails: a stripe gets a file with each flush, and would have thousands of them; each has
// an index and filters of its own, and if not all stay open, lookups open them again.
//
// The way taken: a file is moved if it has so much of the bytes of the merge that Env.RunFiles like
// it are all, or half of Env.FileBytes. So a run has few small files, and an item is written again
// each time that its stripe has become RunFiles times as large.
//
// A file that was moved belongs to two runs until the views of the older one are gone. It is the
// same File, whose refs count them, and it is obsolete only if no run of the new state has it.
//
// Invariant: a merge without moves would give readers the same. So nothing in a moved file can be
// dropped, no range tombstone of the merge is about it, and it is written as the options say.

// minMovedBytes is the least that a file has that is moved, unless Env.FileBytes is small.
const minMovedBytes = fewValueBytes

// piece is a part of a flush or a merge, in the order of keys: a file that is moved, or sources
// that are merged, newest first.
type piece struct {
	moved   *File
	sources []cursor.Source
	runs    []*Run // of the sources, nil of those of a flush
}

// cluster is files of a merge that overlap, by run.
type cluster struct {
	files   []runFile
	largest []byte
}

type runFile struct {
	run int
	*File
}

// pieces divides the merge of runs. A single piece has all of it if whole.
func (s *Stripe) pieces(out *Output, whole bool, codec sst.Codec, ret Retention) ([]piece, error) {
	var files []runFile
	var total int64
	for i, r := range out.Replaced {
		for _, f := range r.Files {
			files = append(files, runFile{i, f})
			whole = whole || len(f.Meta.Values) > 0
			total += f.Meta.SizeBytes
		}
	}
	var all []piece
	var rest []runFile // of the piece that comes next
	add := func() {
		if len(rest) > 0 {
			all, rest = append(all, out.merged(rest)), nil
		}
	}
	for _, c := range clusters(files, whole) {
		if len(c.files) == 1 && !whole {
			f := c.files[0]
			moves, err := s.moves(f.File, total, codec, ret)
			if err != nil {
				return nil, out.Replaced[f.run].readError(err)
			}
			if moves {
				add()
				all = append(all, piece{moved: f.File})
				continue
			}
		}
		rest = append(rest, c.files...)
	}
	add()
	return all, nil
}

// clusters returns the files in the order of their keys, those that overlap together; whole, all
// together, by run.
func clusters(files []runFile, whole bool) (all []cluster) {
	if whole {
		return []cluster{{files: files}}
	}
	slices.SortStableFunc(files, func(a, b runFile) int {
		return bytes.Compare(a.Meta.Smallest, b.Meta.Smallest)
	})
	for _, f := range files {
		if n := len(all); n > 0 && bytes.Compare(f.Meta.Smallest, all[n-1].largest) <= 0 {
			c := &all[n-1]
			c.files = append(c.files, f)
			if bytes.Compare(f.Meta.Largest, c.largest) > 0 {
				c.largest = f.Meta.Largest
			}
			continue
		}
		all = append(all, cluster{files: []runFile{f}, largest: f.Meta.Largest})
	}
	return all
}

// merged returns the piece that merges files, and counts them as read.
func (o *Output) merged(files []runFile) (p piece) {
	for i, r := range o.Replaced {
		var of []cursor.Source
		for _, f := range files {
			if f.run == i {
				o.BytesRead += f.Meta.SizeBytes
				of = append(of, f.Reader.NewSourceOf(len(o.Replaced)))
			}
		}
		if len(of) > 0 {
			p.sources = append(p.sources, compaction.Concat(of...))
			p.runs = append(p.runs, r)
		}
	}
	return p
}

// moves reports whether a file that overlaps no other of a merge of so many bytes is moved.
func (s *Stripe) moves(f *File, total int64, codec sst.Codec, ret Retention) (bool, error) {
	m, env := f.Meta, s.env
	large := m.SizeBytes >= env.FileBytes/2
	if !large && (m.SizeBytes < minMovedBytes || m.SizeBytes*int64(env.RunFiles) < total) {
		return false, nil
	}
	if m.SizeBytes < s.leastApart() { // its large values may be in it: see leastLarge
		return false, nil
	}
	if m.Tombstones > 0 || m.TTLEntries > 0 && m.MinExpiry <= ret.NowMs {
		return false, nil
	}
	keys, err := f.Reader.DistinctKeys()
	if err != nil || keys != m.Entries {
		return false, err
	}
	l, err := f.Reader.Layout()
	want := sst.Layout{Codec: codec, FilterBits: env.FilterBits, BlockBytes: env.BlockBytes}
	return err == nil && l == want, err
}

// readError returns the error of reading a source of the piece, marking its run; else err.
func (p *piece) readError(err error) error {
	for i, r := range p.runs {
		if rerr := p.sources[i].Err(); rerr != nil {
			err = r.readError(rerr)
		}
	}
	return err
}

// openRun opens a run. Files that others have, too, are shared.
func (s *Stripe) openRun(r *manifest.Run, others []*Run) *Run {
	files := make([]*File, len(r.Files))
	for i, m := range r.Files {
		files[i] = fileOf(others, m.Num)
		if files[i] == nil {
			files[i] = s.openFile(m)
		}
		files[i].refs.Add(1)
	}
	return newRun(r.ID, files)
}

// fileOf returns a file of the runs, nil if none has it.
func fileOf(runs []*Run, num base.FileNum) *File {
	for _, r := range runs {
		for _, f := range r.Files {
			if f.Meta.Num == num {
				return f
			}
		}
	}
	return nil
}
