package sst

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap"
)

// tailReadBytes is how much of a file's end is read at once to get footer and
// properties together.
const tailReadBytes = 4 << 10

// scratch holds buffers for the stored form of compressed blocks.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxScratchBytes bounds the buffers kept in scratch.
const maxScratchBytes = 1 << 20

// readAt fills p from off. A file that ends too early is damage.
func (r *Reader) readAt(p []byte, off int64, what string) error {
	n, err := r.file.ReadAt(p, off)
	r.stats.c.Add(statReads, 1)
	r.stats.c.Add(statReadBytes, uint64(n))
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt.New(r.path, off, what, fmt.Sprintf("%d bytes", len(p)),
			fmt.Sprintf("end of file after %d", n))
	}
	return fmt.Errorf("sst: read %s at %d: %w", r.path, off, err)
}

// named puts the file's name into a decoder's error, and the offset of the block
// that was decoded.
func (r *Reader) named(err error, off uint64) error {
	if err == nil {
		return nil
	}
	var c *corrupt.Error
	if errors.As(err, &c) && c.File == "" {
		located := *c
		located.File, located.Offset = r.path, int64(off)
		return &located
	}
	return err
}

// readBlock reads and decodes one block into new memory.
func (r *Reader) readBlock(h blockHandle, maxRaw uint32, what string) ([]byte, error) {
	return r.readInto(nil, h, maxRaw, what)
}

// readInto is readBlock into *memory, which grows as needed, if memory is not nil.
func (r *Reader) readInto(
	memory *[]byte, h blockHandle, maxRaw uint32, what string,
) ([]byte, error) {
	if !h.check(r.meta.SizeBytes, maxRaw) {
		return nil, corrupt.New(r.path, int64(h.off), what,
			"a place inside the file", fmt.Sprintf("%d+%d", h.off, h.stored))
	}
	n := int(h.stored) + trailerBytes
	if h.stored == h.raw { // not compressed: read into the memory to keep
		var buf []byte
		if memory != nil {
			buf = *memory
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if buf = buf[:n]; memory != nil {
			*memory = buf
		}
		if err := r.readAt(buf, int64(h.off), what); err != nil {
			return nil, err
		}
		payload, _, err := r.id.open(buf, h, what)
		return payload, r.named(err, h.off)
	}
	p := scratch.Get().(*[]byte)
	if cap(*p) < n {
		*p = make([]byte, n)
	}
	buf := (*p)[:n]
	var raw []byte
	if memory != nil {
		raw = *memory
	}
	err := r.readAt(buf, int64(h.off), what)
	if err == nil {
		raw, err = r.id.decode(raw, buf, h, what)
	}
	if err == nil && memory != nil {
		*memory = raw
	}
	if cap(*p) <= maxScratchBytes {
		scratch.Put(p)
	}
	return raw, r.named(err, h.off)
}

// loadTail returns footer and properties, from the cache or the file.
func (r *Reader) loadTail() (*tail, error) {
	if t := r.tail.Get(); t != nil {
		return *t, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tail.Get(); t != nil {
		return *t, nil
	}
	t, err := r.readTail()
	if err != nil {
		return nil, err
	}
	return *cache.InsertRoot(r.group, &r.tail, t, t.sizeBytes(), metaWeight, t.group), nil
}

// peekTail is loadTail that leaves the cache as it is.
func (r *Reader) peekTail() (*tail, error) {
	if t := r.tail.Peek(); t != nil {
		return *t, nil
	}
	return r.readTail()
}

// sizeBytes returns about what the tail holds.
func (t *tail) sizeBytes() int64 {
	const part, filter = 8 + 4, 8 + 32
	p := t.props
	n := int64(unsafe.Sizeof(*t)+unsafe.Sizeof(*p)) + part*int64(len(t.parts)) +
		filter*int64(len(t.filters)) + t.top.sizeBytes()
	for i := range p.collectors {
		n += int64(len(p.collectors[i].data))
	}
	return n
}

func (r *Reader) readTail() (*tail, error) {
	size := r.meta.SizeBytes
	if size < footerBytes {
		return nil, corrupt.New(r.path, 0, "file", "at least 104 bytes", size)
	}
	buf := make([]byte, min(size, tailReadBytes))
	start := size - int64(len(buf))
	if err := r.readAt(buf, start, "footer"); err != nil {
		return nil, err
	}
	f, err := decodeFooter(buf[len(buf)-footerBytes:], size)
	if err != nil {
		return nil, r.namedAt(err)
	}
	if err := r.checkIdentity(&f); err != nil {
		return nil, err
	}
	read := func(h blockHandle, what string) ([]byte, error) {
		if !h.check(size, maxRawBytes) || h.off < uint64(start) {
			return r.readBlock(h, maxRawBytes, what)
		}
		raw, err := r.id.decode(nil, buf[h.off-uint64(start):h.end()-uint64(start)], h, what)
		return raw, r.named(err, h.off)
	}
	raw, err := read(f.properties, "properties")
	if err != nil {
		return nil, err
	}
	p, err := decodeProperties(raw)
	if err != nil {
		return nil, r.named(err, f.properties.off)
	}
	if err := r.checkProperties(&f, p); err != nil {
		return nil, err
	}
	p.zone.First, p.zone.Last = r.meta.Smallest, r.meta.Largest // equal, and raw can go
	t := &tail{
		footer: f, props: p, blocks: int(p.blocks),
		filters: make([]cache.Slot[zonemap.Filter], len(p.partitions)),
		group:   r.group.Part(),
	}
	if f.partBlocks > 0 {
		raw, err = read(f.index, "index")
	}
	if err == nil {
		err = r.named(t.openParts(raw), f.index.off)
	}
	return t, err
}

// namedAt is named for errors whose offset is already one of the file.
func (r *Reader) namedAt(err error) error {
	var c *corrupt.Error
	if errors.As(err, &c) {
		c.File = r.path
	}
	return err
}

// checkIdentity compares the footer with the file that was asked for.
func (r *Reader) checkIdentity(f *footer) error {
	at := r.meta.SizeBytes - footerBytes
	switch {
	case f.dbid != r.dbid:
		want, got := hexBytes(string(r.dbid[:])), hexBytes(string(f.dbid[:]))
		return corrupt.New(r.path, at, "database id", want, got)
	case f.num != r.meta.Num:
		return corrupt.New(r.path, at+16, "file number", r.meta.Num, f.num)
	case f.stripe != r.meta.Stripe:
		return corrupt.New(r.path, at+80, "stripe", r.meta.Stripe, f.stripe)
	}
	return nil
}

// sameUse compares two uses of value files, but for the sizes of those.
func sameUse(a, b base.ValueUse) bool { return a.Num == b.Num && a.Bytes == b.Bytes }

// checkProperties compares the properties with the description of the file and
// bounds what depends on them.
func (r *Reader) checkProperties(f *footer, p *properties) error {
	m, z := r.meta, &p.zone
	fail := func(what string, want, got any) error {
		return corrupt.New(r.path, int64(f.properties.off), what, want, got)
	}
	switch {
	case !r.anySeed && p.filterBits != 0 && p.seedCheck != seedCheck(r.seed):
		return fail("hash seed", "the database's", "another")
	case z.Entries != m.Entries:
		return fail("entry count", m.Entries, z.Entries)
	case z.Tombstones != m.Tombstones:
		return fail("tombstone count", m.Tombstones, z.Tombstones)
	case z.TTLEntries != m.TTLEntries:
		return fail("ttl entry count", m.TTLEntries, z.TTLEntries)
	case p.ranges != m.RangeTombstones:
		return fail("range tombstone count", m.RangeTombstones, p.ranges)
	case p.minSeq != m.MinSeq || p.maxSeq != m.MaxSeq:
		return fail("sequence numbers", [2]base.SeqNum{m.MinSeq, m.MaxSeq},
			[2]base.SeqNum{p.minSeq, p.maxSeq})
	case !slices.EqualFunc(p.values, m.Values, sameUse):
		return fail("value files", fmt.Sprint(m.Values), fmt.Sprint(p.values))
	case string(z.First) != string(m.Smallest) || string(z.Last) != string(m.Largest):
		return fail("key range", fmt.Sprintf("[%q, %q]", m.Smallest, m.Largest),
			fmt.Sprintf("[%q, %q]", z.First, z.Last))
	case p.blocks > uint64(m.SizeBytes)/(trailerBytes+1):
		return fail("block count", "one that fits the file", p.blocks)
	case f.partBlocks > 0 && p.blocks <= uint64(f.partBlocks):
		return fail("block count", "more than a part of the index has", p.blocks)
	case p.dataEnd > f.index.off || (p.ranges > 0) != (f.ranges != blockHandle{}):
		return fail("layout", "blocks in order", p.dataEnd)
	}
	return nil
}

// filter returns the filter of a partition, from the cache or the file.
func (r *Reader) filter(t *tail, part int) (*zonemap.Filter, error) {
	if f := t.filters[part].Get(); f != nil {
		return f, nil
	}
	f, err := r.readFilter(t, part)
	if err != nil {
		return nil, err
	}
	size := int64(t.props.partitions[part].handle.raw) + trailerBytes
	return cache.Insert(t.group, &t.filters[part], f, size, metaWeight), nil
}

func (r *Reader) readFilter(t *tail, part int) (zonemap.Filter, error) {
	h := t.props.partitions[part].handle
	raw, err := r.readBlock(h, maxRawBytes, "filter")
	if err != nil {
		return zonemap.Filter{}, err
	}
	f, err := zonemap.Open(raw)
	if err != nil {
		return f, r.named(err, h.off)
	}
	if f.Bits() != t.props.filterBits {
		return f, corrupt.New(r.path, int64(h.off), "filter", t.props.filterBits, f.Bits())
	}
	return f, nil
}

func (r *Reader) readRanges(t *tail) (list []base.RangeTombstone, sizeBytes int64, err error) {
	h := t.footer.ranges
	raw, err := r.readBlock(h, maxRawBytes, "range tombstone block")
	if err != nil {
		return nil, 0, err
	}
	if list, err = decodeRanges(raw); err != nil {
		return nil, 0, r.named(err, h.off)
	}
	if uint64(len(list)) != t.props.ranges {
		return nil, 0, corrupt.New(r.path, int64(h.off), "range tombstones", t.props.ranges,
			len(list))
	}
	const perTombstone = 56 // the slice element
	return list, int64(len(raw)) + int64(len(list))*perTombstone, nil
}

// ownBlock is a data block that the cache does not keep, in memory that is used again.
type ownBlock struct {
	stored sequential
	raw    []byte // if it was compressed
	block  dataBlock
}

var ownBlocks = sync.Pool{New: func() any { return new(ownBlock) }}

// decode decodes block h, which is stored, into the memory of o, until the next call.
func (o *ownBlock) decode(r *Reader, h blockHandle) (*dataBlock, error) {
	raw, err := o.stored.view(r, h, &o.raw)
	if err != nil {
		return nil, err
	}
	o.block, err = openDataBlock(raw)
	return &o.block, r.named(err, h.off)
}

// release lets the memory be used for another block. A nil o has none.
func (o *ownBlock) release() {
	if o == nil {
		return
	}
	if base.Invariants { // what still refers to it shows
		clear(o.raw)
		clear(o.stored.buf)
	}
	ownBlocks.Put(o)
}

// maxOwnBytes bounds the blocks that are read into memory that is used again.
const maxOwnBytes = 64 << 10

// blockOnce is dataBlock for a caller that has no use for the block afterwards: a full cache takes
// one of a few, and the others are in own, which the caller releases; else own is nil.
func (r *Reader) blockOnce(
	t *tail, x *indexBlock, i int,
) (b *dataBlock, own *ownBlock, err error) {
	if b := x.slot(i).Get(); b != nil {
		return b, nil, nil
	}
	h := x.handle(i)
	if x.admits(h, false, false) {
		b, err = r.dataBlock(x, i)
		return b, nil, err
	}
	r.stats.c.Add(statBlockMisses, 1)
	own = ownBlocks.Get().(*ownBlock)
	if err = own.stored.fill(r, t, h, 0); err == nil {
		b, err = own.decode(r, h)
	}
	if err != nil {
		own.release()
		return nil, nil, err
	}
	return b, own, nil
}

// admits is Group.Admits of a block, but for a large one if its values are wanted: to copy them
// would take as long as to read it.
func (x *indexBlock) admits(h blockHandle, keysOnly, once bool) bool {
	return !keysOnly && h.raw > maxOwnBytes || x.group.Admits(int64(h.raw), once)
}

// dataBlock returns data block i, with a record in x, from the cache or the file.
func (r *Reader) dataBlock(x *indexBlock, i int) (*dataBlock, error) {
	if b := x.slot(i).Get(); b != nil {
		return b, nil
	}
	r.stats.c.Add(statBlockMisses, 1)
	h := x.handle(i)
	raw, err := r.readBlock(h, maxDataBytes, "data block")
	if err != nil {
		return nil, err
	}
	return r.keepBlock(x, i, h, raw)
}

// keepBlock opens a decoded data block and offers it to the cache.
func (r *Reader) keepBlock(x *indexBlock, i int, h blockHandle, raw []byte) (*dataBlock, error) {
	b, err := openDataBlock(raw)
	if err != nil {
		return nil, r.named(err, h.off)
	}
	return cache.Insert(x.group, x.slot(i), b, int64(cap(raw)), dataWeight), nil
}
