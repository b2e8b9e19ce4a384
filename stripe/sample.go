package stripe

import (
	"bytes"
	"errors"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

// pieceKeys is how many keys of a memtable make a piece.
const pieceKeys = 64

// Pieces divides the keys [lo, hi) of a stripe into small pieces, to choose some of them at
// random. It belongs to one goroutine and holds a view until Close.
//
// Why pieces of blocks: whoever chooses a key at random, or a partition, chooses rows in
// sparse places too often, or has too much to read. With boundaries every piece is as small
// as a block of each run and some keys of each memtable, wherever rows are dense. The
// boundaries are the last keys of all blocks and every 64th key of a memtable, and a piece
// is what lies after a boundary, up to the next one, whichever source that is of.
//
// Invariant: the pieces are disjoint and make up [lo, hi); each has a share in the weight,
// and they add up to Weight. A piece may have several boundaries of equal keys as its
// beginning; its share is theirs together.
type Pieces struct {
	view   *View
	lo, hi []byte
	runs   [][]pieceFile // of the view's runs: the files that overlap [lo, hi)
	keys   [][]byte      // boundaries in memtables, ascending
	perKey float64       // weight of one of keys
	first  float64       // weight of the piece that begins at lo
	weight float64       // of everything
}

// pieceFile is a file with boundaries.
type pieceFile struct {
	*File
	weight   float64 // of all its boundaries
	from, to int     // the blocks whose last keys are boundaries, both 0 if not known
}

// Piece is a range of keys, [Lo, Hi), nil Hi being no bound.
type Piece struct {
	Lo, Hi []byte
	// Share is the part of the weight for which Pick returns the piece.
	Share float64
}

// Pieces divides a range; a nil hi is no bound. Requires: lo and hi are not changed until
// Close.
func (s *Stripe) Pieces(lo, hi []byte) (*Pieces, error) {
	v := s.Acquire()
	if v == nil {
		return nil, ErrClosed
	}
	p := &Pieces{view: v, lo: lo, hi: hi}
	p.addTables()
	if err := p.addRuns(float64(s.env.BlockBytes)); err != nil {
		p.Close()
		return nil, err
	}
	p.weight += p.first
	return p, nil
}

// Close releases the view. It may be called again.
func (p *Pieces) Close() {
	if p.view != nil {
		p.view.Release()
		p.view = nil
	}
}

// Weight is the sum of the shares of all pieces: about the bytes of their entries. It is 0
// if there are none.
func (p *Pieces) Weight() float64 { return p.weight }

// addTables finds the boundaries in memtables.
func (p *Pieces) addTables() {
	size, n := 0, 0
	var c memtable.Cursor
	p.view.tables(func(t *memtable.Table) {
		t.InitCursor(&c, base.MaxSeqNum)
		for ok := c.SeekGE(p.lo); ok; ok = c.Next() {
			e := c.Entry()
			if p.hi != nil && bytes.Compare(e.Key, p.hi) >= 0 {
				break
			}
			size += len(e.Key) + len(e.Value)
			if n++; n%pieceKeys == 0 {
				p.keys = append(p.keys, e.Key)
			}
		}
	})
	c.Release()
	if n == 0 {
		return
	}
	slices.SortFunc(p.keys, bytes.Compare)
	perEntry := max(1, float64(size)/float64(n))
	p.perKey = perEntry * pieceKeys
	p.first = perEntry * max(1, float64(n%pieceKeys))
	p.weight = p.perKey * float64(len(p.keys))
}

// addRuns finds the files with boundaries. Only of files that are partly outside of the
// range the index is read.
func (p *Pieces) addRuns(blockBytes float64) error {
	for _, r := range p.view.Runs {
		var files []pieceFile
		lo, hi := r.overlap(p.lo, p.hi)
		for _, f := range r.Files[lo:hi] {
			if f.Meta.Entries == 0 {
				continue
			}
			x := pieceFile{File: f, weight: max(1, float64(f.Meta.RawBytes))}
			if len(f.Meta.Values) > 0 { // its blocks have references
				x.weight = float64(f.Meta.SizeBytes)
			}
			if err := p.restrict(&x); err != nil {
				return err
			}
			files = append(files, x)
			p.weight += x.weight
			p.first = max(p.first, blockBytes)
		}
		p.runs = append(p.runs, files)
	}
	return nil
}

// restrict leaves out of a file what is outside of the range.
func (p *Pieces) restrict(x *pieceFile) error {
	inside := bytes.Compare(x.Meta.Smallest, p.lo) >= 0 &&
		(p.hi == nil || bytes.Compare(x.Meta.Largest, p.hi) < 0)
	if inside {
		return nil
	}
	_, all, err := x.Reader.BlocksBetween(nil, nil)
	if err == nil {
		x.from, x.to, err = x.Reader.BlocksBetween(p.lo, p.hi)
	}
	if err != nil {
		return err
	}
	x.weight *= float64(x.to-x.from) / float64(max(1, all))
	return nil
}

// blocks returns which blocks of the file are boundaries.
func (x *pieceFile) blocks() (from, to int, err error) {
	if x.to == 0 {
		x.from, x.to, err = x.Reader.BlocksBetween(nil, nil)
	}
	return x.from, x.to, err
}

// Pick returns the piece at a place: 0 <= at < Weight. Each is returned for places that have
// its share in the weight.
func (p *Pieces) Pick(at float64) (Piece, error) {
	begin, err := p.boundary(at)
	if err != nil {
		return Piece{}, err
	}
	out := Piece{Lo: p.lo, Hi: p.hi, Share: p.first}
	if begin != nil {
		out.Lo = append(begin, 0)
		if out.Share, err = p.share(begin); err != nil {
			return Piece{}, err
		}
	}
	next, err := p.next(out.Lo)
	if next != nil {
		out.Hi = append(next, 0)
	}
	return out, err
}

// boundary returns a copy of the boundary at a place, nil for that before the first.
func (p *Pieces) boundary(at float64) ([]byte, error) {
	if at -= p.first; at < 0 {
		return nil, nil
	}
	if i := int(at / max(1, p.perKey)); i < len(p.keys) {
		return slices.Clone(p.keys[i]), nil
	}
	at -= p.perKey * float64(len(p.keys))
	for _, files := range p.runs {
		for i := range files {
			x := &files[i]
			if at >= x.weight {
				at -= x.weight
				continue
			}
			from, to, err := x.blocks()
			if err != nil || from == to {
				return nil, err
			}
			block := from + int(max(0, at)/x.weight*float64(to-from))
			return x.Reader.AppendLastKey(nil, min(block, to-1))
		}
	}
	return nil, nil // rounding: after everything
}

// fileAt returns the first file of a run whose largest key is at or above key.
func fileAt(files []pieceFile, key []byte) *pieceFile {
	i, _ := slices.BinarySearchFunc(files, key, func(x pieceFile, key []byte) int {
		return bytes.Compare(x.Meta.Largest, key)
	})
	if i == len(files) {
		return nil
	}
	return &files[i]
}

// share returns the weight of all boundaries with a key.
func (p *Pieces) share(key []byte) (sum float64, err error) {
	after := append(slices.Clone(key), 0)
	lo, _ := slices.BinarySearchFunc(p.keys, key, bytes.Compare)
	hi, _ := slices.BinarySearchFunc(p.keys, after, bytes.Compare)
	sum = float64(hi-lo) * p.perKey
	for _, files := range p.runs {
		x := fileAt(files, key)
		if x == nil {
			continue
		}
		from, to, err := x.Reader.BlocksBetween(key, after)
		first, last, berr := x.blocks()
		if err := errors.Join(err, berr); err != nil {
			return 0, err
		}
		if last > first {
			sum += float64(to-from) * x.weight / float64(last-first)
		}
	}
	return sum, nil
}

// next returns a copy of the first boundary at or above key, or nil in the
// range.
func (p *Pieces) next(key []byte) (next []byte, err error) {
	if i, _ := slices.BinarySearchFunc(p.keys, key, bytes.Compare); i < len(p.keys) {
		next = slices.Clone(p.keys[i])
	}
	for _, files := range p.runs {
		x := fileAt(files, key)
		if x == nil {
			continue
		}
		from, to, err := x.Reader.BlocksBetween(key, p.hi)
		if err != nil {
			return nil, err
		}
		if from == to {
			continue
		}
		last, err := x.Reader.AppendLastKey(nil, from)
		if err != nil {
			return nil, err
		}
		if next == nil || bytes.Compare(last, next) < 0 {
			next = last
		}
	}
	return next, nil
}
