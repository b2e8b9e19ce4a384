package sst

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap"
)

// Weights of the cache: how many passes of the eviction hand a block survives
// after its last use. Why: losing a part of an index or its filter costs the later reads
// of many data blocks, losing a data block only those of its keys.
const (
	dataWeight = 1
	metaWeight = 3
)

// readerBytes is about what a file takes in memory while it is part of the database, outside of
// the cache: its reader, its description and its place in runs and manifest.
const readerBytes = 800

// Reader reads one file. NewReader does no I/O; everything is loaded when it is
// first needed. In memory stays the description, which counts against the budget of the cache; the
// rest lives in the cache, where properties and 8 bytes per data block are what all else of the
// file goes with. Safe for concurrent use.
type Reader struct {
	meta    *base.FileMeta
	path    string
	seed    uint64
	anySeed bool // the seed is not known
	dbid    [16]byte
	id      fileID
	stats   *Stats
	file    *cache.Handle
	group   *cache.Group
	values  []*Reader // of the value files, in the order of meta.Values
	own     bool      // values are closed with this reader

	tail cache.Slot[*tail]
	mu   sync.Mutex // serialises loading tail

	present atomic.Uint32 // lookups in a row that found their key, up to presentEnough

	// Of a value file: by parts of the file, the places of its values in the cache, by a hash of
	// their offsets.
	kept []cache.Slot[keptValues]
}

// tail is what the end of the file says, and the places for all but data blocks.
type tail struct {
	footer footer
	props  *properties
	blocks int // data blocks

	top        indexBlock // of an index in parts, see parts.go
	partBlocks int        // data blocks of a part
	partRanks  []uint32   // entries before each part; nil if the index does not say
	ownFilters bool       // each part has one filter, with the same number

	parts   []cache.Slot[indexBlock]
	ranges  cache.Slot[[]base.RangeTombstone]
	filters []cache.Slot[zonemap.Filter]
	group   *cache.Group // of what is in these places

	known cache.Spans[rankedSpan]
}

// NewReader returns a reader of the file that o describes. It does no I/O and
// cannot fail: what is wrong with the file shows when it is read.
func NewReader(o ReaderOptions) *Reader {
	files, blocks, stats := o.Files, o.Cache, o.Stats
	if files == nil {
		open := func(name string) (cache.File, error) { return o.FS.Open(name) }
		files = cache.NewFiles(open, 1)
	}
	if blocks == nil {
		blocks = cache.New(0)
	}
	if stats == nil {
		stats = &Stats{}
	}
	path := filepath.Join(o.Dir, o.Meta.Name())
	r := &Reader{
		meta: o.Meta, path: path, seed: o.Seed, anySeed: o.SeedUnknown, dbid: o.DBID,
		id:    newFileID(o.DBID, o.Meta.Num),
		stats: stats,
		file:  files.Handle(path),
		group: blocks.NewGroup(readerBytes),
	}
	r.own = o.ValueFile == nil
	for _, u := range r.meta.Values {
		open := func() *Reader {
			v := r.valueFile(o.Dir, u.Num, u.FileBytes, files)
			roots := 1 + min(max(u.FileBytes, 0)/bytesPerRoot, maxRoots)
			v.kept = make([]cache.Slot[keptValues], roots)
			v.group = blocks.NewGroup(readerBytes + 8*roots)
			return v
		}
		if r.own {
			r.values = append(r.values, open())
		} else {
			r.values = append(r.values, o.ValueFile(u, open))
		}
	}
	return r
}

// Meta returns the description the reader was made with. It must not be changed.
func (r *Reader) Meta() *base.FileMeta { return r.meta }

// Close closes the file and gives the memory of its blocks back. Values handed out
// stay valid. Calls that need the file fail from now on, also those under way, with
// an error that wraps fs.ErrClosed; what is in memory may still be answered.
func (r *Reader) Close() error {
	r.group.Drop()
	err := r.file.Close()
	if r.own {
		for _, v := range r.values {
			err = errors.Join(err, v.Close())
		}
	}
	return err
}

// mayCover reports whether the file's description allows key at snap.
func (r *Reader) mayCover(key []byte, snap base.SeqNum) bool {
	return r.meta.Entries > 0 && snap >= r.meta.MinSeq &&
		bytes.Compare(key, r.meta.Smallest) >= 0 && bytes.Compare(key, r.meta.Largest) <= 0
}

// Find finds the newest version of key, tombstones included, with a sequence number
// of at most snap. Hash is base.Hash(key, Seed). Range tombstones are not applied.
//
// It sets every field of e but Key. The value is a view into a decoded block, or a copy, and
// stays valid as long as it is referenced; of a large value it is the reference. A cached Find does
// not allocate. The filter is not asked after many lookups that have found their keys.
func (r *Reader) Find(key []byte, hash uint64, snap base.SeqNum, e *base.Entry) (bool, error) {
	if !r.mayCover(key, snap) {
		return false, nil
	}
	t, err := r.loadTail()
	if err != nil {
		return false, err
	}
	x, i, filtered, err := r.locate(t, key, hash, snap, r.asksFilters())
	if err != nil || i < 0 {
		return false, err
	}
	b, own, err := r.blockOnce(t, x, i)
	if err != nil {
		return false, err
	}
	defer own.release()
	if filtered {
		r.stats.c.Add(statFilteredLookups, 1)
	} else {
		r.stats.c.Add(statLookups, 1)
	}
	pos, exact, ok := b.seek(key, snap)
	if ok && exact {
		var be base.Entry
		if ok = b.entry(pos, &be); ok {
			e.Value, e.Seq, e.Expiry, e.Kind = be.Value, be.Seq, be.Expiry, be.Kind
			e.Large = be.Large
			if own != nil {
				e.Value = bytes.Clone(e.Value) // the memory of the block is used again
			}
			r.noteFound(1)
			return true, nil
		}
	}
	if !ok {
		return false, r.damagedEntry(t, i, pos)
	}
	if !b.hasNewer(pos, key) {
		r.noteAbsent()
		if filtered {
			r.stats.c.Add(statFalsePositives, 1)
		}
	}
	return false, nil
}

// presentEnough is how many lookups in a row must find their key before the filters of a file are
// left alone. Why: the filter of a key that is there costs a read or a place in the cache, and
// gives nothing; that of an absent key saves a data block. Where one key of so many is absent, both
// cost about the same.
const presentEnough = 64

// asksFilters reports whether the filters of the file are worth asking.
func (r *Reader) asksFilters() bool { return r.present.Load() < presentEnough }

// noteFound notes that as many lookups have found their key.
func (r *Reader) noteFound(n int) {
	if n > 0 && r.asksFilters() {
		r.present.Add(uint32(min(n, presentEnough)))
	}
}

// noteAbsent notes that a key is not in the file.
func (r *Reader) noteAbsent() {
	if r.present.Load() != 0 { // else other cores would lose the cache line
		r.present.Store(0)
	}
}

// hasNewer reports whether the entry in front of pos is one of key: a version newer than
// the snapshot that led to pos. A key with such versions is there, so a filter was right
// about it. Where those lie in other blocks the answer is wrong.
func (b *dataBlock) hasNewer(pos int, key []byte) bool {
	if pos == 0 {
		return false
	}
	s, _, ok := b.suffix(pos - 1)
	p := b.prefix()
	return ok && len(key) == len(p)+len(s) && bytes.HasPrefix(key, p) && bytes.HasSuffix(key, s)
}

// locate returns the block that decides about key at snap, with its part of the index; -1 if the
// file has no such version. If ask is set, the filter is asked: that of a part before the part is
// touched. filtered reports whether there was one.
func (r *Reader) locate(
	t *tail, key []byte, hash uint64, snap base.SeqNum, ask bool,
) (x *indexBlock, block int, filtered bool, err error) {
	filtered = ask && len(t.filters) > 0
	p, err := r.partFor(t, key, snap)
	if err != nil || p == len(t.parts) { // or the file's last key is newer than snap
		return nil, -1, false, err
	}
	if filtered && t.ownFilters {
		if may, err := r.askFilter(t, p, hash); err != nil || !may {
			return nil, -1, true, err
		}
	}
	if x, err = r.part(t, p); err != nil {
		return nil, -1, false, err
	}
	i, err := r.findIn(t, x, key, snap)
	if err != nil {
		return nil, -1, false, err
	}
	if i == t.blocks { // as above
		if filtered && t.ownFilters {
			r.stats.c.Add(statPassedOnly, 1)
		}
		return nil, -1, false, nil
	}
	if filtered && !t.ownFilters {
		if may, err := r.askFilter(t, t.props.partitionOf(i), hash); err != nil || !may {
			return nil, -1, true, err
		}
	}
	return x, i, filtered, nil
}

// askFilter asks the filter of a partition and counts negative answers.
func (r *Reader) askFilter(t *tail, part int, hash uint64) (bool, error) {
	f, err := r.filter(t, part)
	if err != nil {
		return false, err
	}
	if !f.Contains(hash) {
		r.stats.c.Add(statNegatives, 1)
		r.noteAbsent()
		return false, nil
	}
	return true, nil
}

// partitionOf returns the filter partition of a data block.
func (p *properties) partitionOf(block int) int {
	lo, hi := 1, len(p.partitions)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if p.partitions[mid].firstBlock <= uint64(block) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// RangeTombstones returns the file's range tombstones by start ascending, then
// sequence number descending. The slice and its keys are shared: do not change
// them. They stay valid as long as they are referenced. A file without any costs
// no I/O.
func (r *Reader) RangeTombstones() ([]base.RangeTombstone, error) {
	if r.meta.RangeTombstones == 0 {
		return nil, nil
	}
	t, err := r.loadTail()
	if err != nil {
		return nil, err
	}
	if list := t.ranges.Get(); list != nil {
		return *list, nil
	}
	list, size, err := r.readRanges(t)
	if err != nil {
		return nil, err
	}
	return *cache.Insert(t.group, &t.ranges, list, size, metaWeight), nil
}

func (r *Reader) damagedEntry(t *tail, block, entry int) error {
	off := int64(-1)
	if x := t.parts[block/t.partBlocks].Peek(); x != nil {
		off = int64(x.handle(block).off)
	}
	return r.damagedAt(off, entry)
}

func (r *Reader) damagedAt(off int64, entry int) error {
	return corrupt.New(r.path, off, "data block", "a whole entry", entry)
}

// damagedIndex is the error of the record of a data block, or of one after the last.
func (r *Reader) damagedIndex(t *tail, block int) error {
	h := t.partHandle(min(block/t.partBlocks, len(t.parts)-1))
	return corrupt.New(r.path, int64(h.off), "index", "a whole record", block)
}
