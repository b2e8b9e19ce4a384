package sst

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
)

// Identity says which file of which database the blocks of a file belong to: it is part
// of all their checksums.
type Identity struct {
	DBID   [16]byte
	Num    base.FileNum
	Stripe base.StripeID
}

// ReadIdentity returns what the footer of a file says about itself. An error of the
// footer is a *corrupt.Error.
func ReadIdentity(fs vfs.FS, path string) (Identity, error) {
	s, err := openSalvage(fs, path)
	if err != nil {
		return Identity{}, err
	}
	defer s.r.file.Close()
	f, err := s.footer()
	return Identity{DBID: f.dbid, Num: f.num, Stripe: f.stripe}, err
}

// LostBlock is a part of a file that cannot be read.
type LostBlock struct {
	Offset int64
	// First and Last bound the keys in it, in ordered form; nil if not known. They are
	// exact if the index is intact, and otherwise the neighbours' keys.
	First, Last []byte
	Entries     uint64 // 0 if not known
	// Ranges: what is lost are the range tombstones of the file.
	Ranges bool
	Err    error // a *corrupt.Error, or what reading said
}

// Salvaged is what can be read of a file.
type Salvaged struct {
	Entries uint64 // in intact blocks
	MaxSeq  base.SeqNum
	Ranges  []base.RangeTombstone
	Lost    []LostBlock

	fs     vfs.FS
	r      *Reader
	id     Identity
	values map[base.FileNum]*Reader // value files that were needed
	lost   map[string]bool          // references to values that cannot be read
	apart  []LostBlock              // those values: of blocks that are there
	blocks []blockHandle            // intact, in key order
	last   []byte                   // key of the last entry of blocks
	lastAt base.SeqNum
}

// Salvage reads every block of a file that is provably whole, if need be without
// footer, properties and index, which the checksums of the blocks make possible: they
// prove database, file and offset. Known describes the file, if a manifest does; nil is
// allowed. Errors of single blocks are in Lost; an error is returned only if there is
// no such file. Close must be called.
func Salvage(fs vfs.FS, path string, id Identity, known *base.FileMeta) (*Salvaged, error) {
	s, err := openSalvage(fs, path)
	if err != nil {
		return nil, err
	}
	s.id, s.r.id, s.r.dbid = id, newFileID(id.DBID, id.Num), id.DBID
	s.r.meta.Stripe = id.Stripe
	again := func() {
		*s = Salvaged{fs: fs, r: s.r, id: id, values: s.values, lost: s.lost}
	}
	if err := s.byIndex(known); err != nil {
		again()
		s.byScan(known, err)
	} else if err := s.compareWhole(known); err != nil {
		again()
		s.loseAll(known, err)
	}
	s.Lost = append(s.Lost, s.apart...)
	return s, nil
}

// Close closes the file.
func (s *Salvaged) Close() error {
	err := s.r.file.Close()
	for _, f := range s.values {
		err = errors.Join(err, f.file.Close())
	}
	return err
}

func openSalvage(fs vfs.FS, path string) (*Salvaged, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("sst: %w", err)
	}
	files := cache.NewFiles(func(name string) (cache.File, error) { return fs.Open(name) }, 1)
	r := &Reader{path: path, stats: &Stats{}, file: files.Handle(path),
		meta: &base.FileMeta{SizeBytes: info.SizeBytes}}
	return &Salvaged{fs: fs, r: r, values: map[base.FileNum]*Reader{}, lost: map[string]bool{}}, nil
}

// footer reads the last bytes of the file. Why not first a look at the size: of what is not a
// regular file it says nothing, while the error of the read says what it is.
func (s *Salvaged) footer() (footer, error) {
	size := s.r.meta.SizeBytes
	buf := make([]byte, footerBytes)
	if err := s.r.readAt(buf, max(0, size-footerBytes), "footer"); err != nil {
		return footer{}, err
	}
	f, err := decodeFooter(buf, size)
	return f, s.r.namedAt(err)
}

// compareWhole returns how a file that was read by its index differs from its description: then it
// is of another history of the database, as a copy that was written to makes one, and nothing in it
// is of this one.
func (s *Salvaged) compareWhole(known *base.FileMeta) error {
	if known == nil {
		return nil
	}
	entries := s.Entries
	for i := range s.Lost {
		if !s.Lost[i].Ranges {
			entries += s.Lost[i].Entries
		}
	}
	if entries != known.Entries {
		return corrupt.New(s.r.path, 0, "entry count", known.Entries, entries)
	}
	if len(s.Lost) == 0 && s.MaxSeq != known.MaxSeq {
		return corrupt.New(s.r.path, 0, "sequence numbers", known.MaxSeq, s.MaxSeq)
	}
	return nil
}

// byIndex reads the blocks that the index names. An error says why there is no index.
func (s *Salvaged) byIndex(known *base.FileMeta) error {
	f, err := s.footer()
	if err != nil {
		return err
	}
	if own := (Identity{f.dbid, f.num, f.stripe}); own != s.id {
		return corrupt.New(s.r.path, s.r.meta.SizeBytes-footerBytes, "file identity",
			base.SSTName(s.id.Stripe, s.id.Num), base.SSTName(own.Stripe, own.Num))
	}
	x, err := s.index(f.index)
	if err != nil {
		return err
	}
	if f.partBlocks == 0 {
		err = s.takeBlocks(x, f.index.off)
	}
	for i := 0; i < x.n && f.partBlocks > 0 && err == nil; i++ {
		h := x.handle(i)
		var part indexBlock
		if part, err = s.index(h); err == nil {
			err = s.takeBlocks(part, h.off)
		}
	}
	if err != nil {
		return err
	}
	if f.ranges != (blockHandle{}) {
		if err := s.takeRanges(f.ranges); err != nil {
			s.loseRanges(int64(f.ranges.off), known, err)
		}
	}
	return nil
}

// index reads a block of the index.
func (s *Salvaged) index(h blockHandle) (indexBlock, error) {
	raw, err := s.r.readBlock(h, maxRawBytes, "index")
	if err != nil {
		return indexBlock{}, err
	}
	x, err := openIndex(raw)
	return x, s.r.named(err, h.off)
}

// takeBlocks reads the data blocks of an index, or of a part of it, at off.
func (s *Salvaged) takeBlocks(x indexBlock, off uint64) error {
	prefix := x.prefix()
	for i := range x.n {
		zone, _, err := x.zone(i)
		if err != nil {
			return s.r.named(err, off)
		}
		h := x.handle(i)
		raw, err := s.r.readBlock(h, maxDataBytes, "data block")
		if err == nil {
			err = s.r.named(s.take(raw, h), h.off)
		}
		if err != nil {
			s.Lost = append(s.Lost, LostBlock{
				Offset: int64(h.off), Err: err, Entries: zone.Entries,
				First: slices.Concat(prefix, zone.First), Last: slices.Concat(prefix, zone.Last),
			})
		}
	}
	return nil
}

func (s *Salvaged) takeRanges(h blockHandle) error {
	raw, err := s.r.readBlock(h, maxRawBytes, "range tombstone block")
	if err != nil {
		return err
	}
	list, err := decodeRanges(raw)
	if err != nil {
		return s.r.named(err, h.off)
	}
	s.Ranges = list
	for _, t := range list {
		s.MaxSeq = max(s.MaxSeq, t.Seq)
	}
	return nil
}

func (s *Salvaged) loseRanges(off int64, known *base.FileMeta, err error) {
	l := LostBlock{Offset: off, Ranges: true, Err: err}
	if known != nil {
		l.Entries = known.RangeTombstones
	}
	s.Lost = append(s.Lost, l)
}

func (s *Salvaged) loseAll(known *base.FileMeta, err error) {
	s.Lost = []LostBlock{{
		First: known.Smallest, Last: known.Largest, Entries: known.Entries, Err: err,
	}}
	if known.RangeTombstones > 0 {
		s.loseRanges(0, known, err)
	}
}

// take adds an intact block if what is in it makes sense after those before it.
func (s *Salvaged) take(raw []byte, h blockHandle) error {
	b, err := openDataBlock(raw)
	if err != nil {
		return err
	}
	key, at, highest := bytes.Clone(s.last), s.lastAt, s.MaxSeq
	var e base.Entry
	for i := range b.n {
		if !b.entry(i, &e) {
			return corrupt.New("", 0, "data block", "a whole entry", i)
		}
		k := slices.Concat(b.prefix(), e.Key)
		c := bytes.Compare(key, k)
		if c > 0 || c == 0 && at <= e.Seq {
			return corrupt.New("", 0, "data block", "entries in order", fmt.Sprintf("%q", k))
		}
		own, _, err := keycodec.DecodeOrdered(k, nil)
		if err != nil || keycodec.Stripe(own.PK) != uint8(s.id.Stripe) {
			return corrupt.New("", 0, "data block", "keys of the stripe", fmt.Sprintf("%q", k))
		}
		key, at, highest = k, e.Seq, max(highest, e.Seq)
	}
	s.last, s.lastAt, s.MaxSeq = key, at, highest
	s.Entries += uint64(b.n)
	for i := range b.n {
		if !b.entry(i, &e) || !e.Large {
			continue
		}
		if _, err := s.salvageValue(e.Value); err != nil {
			k := slices.Concat(b.prefix(), e.Key)
			s.lost[string(e.Value)] = true
			gone := LostBlock{Offset: -1, First: k, Last: k, Entries: 1, Err: err}
			s.apart = append(s.apart, gone)
		}
	}
	s.blocks = append(s.blocks, h)
	return nil
}

// NewSource returns the entries of the intact blocks, in order. It implements
// cursor.Source.
func (s *Salvaged) NewSource() *SalvageSource { return &SalvageSource{s: s} }

// SalvageSource reads the intact blocks of a damaged file.
type SalvageSource struct {
	s     *Salvaged
	next  int // of s.blocks
	b     dataBlock
	pos   int
	entry [1]base.Entry
	err   error
}

// Err implements cursor.Source.
func (c *SalvageSource) Err() error { return c.err }

// Rows implements cursor.Source.
func (c *SalvageSource) Rows() []base.Entry {
	if c.err != nil {
		return nil
	}
	if c.pos >= c.b.n {
		if c.next >= len(c.s.blocks) {
			return nil
		}
		h := c.s.blocks[c.next]
		raw, err := c.s.r.readBlock(h, maxDataBytes, "data block")
		if err == nil {
			c.b, err = openDataBlock(raw)
			err = c.s.r.named(err, h.off)
		}
		if err != nil {
			c.err, c.b = err, dataBlock{}
			return nil
		}
		c.next, c.pos = c.next+1, 0
	}
	var e base.Entry
	for c.pos < c.b.n && c.b.entry(c.pos, &e) && e.Large && c.s.lost[string(e.Value)] {
		c.pos++
	}
	if c.pos == c.b.n {
		return c.Rows()
	}
	if !c.b.entry(c.pos, &e) {
		c.err = corrupt.New(c.s.r.path, int64(c.s.blocks[c.next-1].off), "data block",
			"a whole entry", c.pos)
		return nil
	}
	c.pos++
	if e.Large {
		if e.Value, c.err = c.s.salvageValue(e.Value); c.err != nil {
			return nil
		}
	}
	c.entry[0] = base.Entry{
		Key: slices.Concat(c.b.prefix(), e.Key), Value: e.Value, Seq: e.Seq, Expiry: e.Expiry,
		Kind: e.Kind,
	}
	return c.entry[:]
}
