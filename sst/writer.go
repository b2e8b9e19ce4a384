package sst

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/zonemap"
)

// Writer writes one file from entries in order. It streams: beside buffers of a
// few hundred kilobytes it holds the index and, until Finish, about one byte per
// key and filter byte of finished filters and 30 bytes per key of the one being
// built. After an error every further call returns the same error. A Writer belongs
// to one goroutine at a time and can be used again through Reset.
type Writer struct {
	blockFile
	o WriterOptions

	block     blockBuilder
	raw       []byte // decoded form of the block being finished
	blockZone zonemap.MapBuilder
	index     indexBuilder // by data block
	parts     indexBuilder // by part of the index
	ranges    []base.RangeTombstone
	rangesLen int // upper bound of the decoded length of their block

	uses    map[base.FileNum]uint64 // bytes of value files that entries refer to
	filters filterSet
	columns columnsWriter
	props   properties

	firstKey []byte
	lastKey  []byte
	lastSeq  base.SeqNum
	started  bool // an entry was added
}

// NewWriter returns a writer that appends to f, an empty file. Invalid options are
// reported by the first call.
func NewWriter(f vfs.File, o WriterOptions) *Writer {
	w := &Writer{}
	w.Reset(f, o)
	return w
}

// Reset starts another file and keeps the buffers. It may be called at any time; an
// unfinished file is left as it is.
func (w *Writer) Reset(f vfs.File, o WriterOptions) {
	w.f = f
	w.o, w.err = o.withDefaults()
	w.id = newFileID(o.DBID, o.FileNum)
	w.out, w.off = keep(w.out), 0
	w.block.reset()
	w.raw = keep(w.raw)
	w.blockZone.Reset()
	w.index.reset()
	w.parts.reset()
	w.ranges, w.rangesLen = nil, 0
	w.filters.reset(w.o.FilterBits, w.o.FilterPartitionKeys, w.o.PartBlocks)
	w.columns.reset(w.o.Describe)
	clear(w.uses)
	w.props = properties{
		codec:      w.o.Codec,
		filterBits: w.o.FilterBits,
		seedCheck:  seedCheck(o.Seed),
		blockBytes: uint64(w.o.BlockBytes),
	}
	w.firstKey, w.lastKey, w.lastSeq, w.started = w.firstKey[:0], w.lastKey[:0], 0, false
}

// Add appends an entry; its slices are copied. Entries come by key ascending, then
// sequence number descending. An entry with the key and the sequence number of the
// previous one is dropped: no read could ever see it, the first one shows.
func (w *Writer) Add(e *base.Entry) error {
	if w.err != nil {
		return w.err
	}
	newKey, err := w.checkOrder(e)
	if err != nil {
		w.err = err
		return err
	}
	if !newKey && e.Seq == w.lastSeq {
		return nil
	}
	valueBytes := len(e.Value)
	if e.Large {
		if valueBytes = w.use(e.Value); w.err != nil {
			return w.err
		}
	}
	size := len(e.Key) + len(e.Value) + entryOverheadBytes
	if !w.block.empty() && w.block.sizeBytes()+size > w.blockBytes() {
		if err := w.finishBlock(); err != nil {
			return err
		}
	}
	if newKey {
		w.props.keys++
		w.lastKey = append(w.lastKey[:0], e.Key...)
		if w.o.FilterBits != 0 {
			w.filters.hash = base.Hash(e.Key, w.o.Seed)
		}
	}
	if !w.started {
		w.started = true
		w.firstKey = append(w.firstKey, e.Key...)
	}
	if w.o.FilterBits != 0 && (newKey || w.block.empty()) {
		w.filters.add()
	}
	w.lastSeq = e.Seq
	w.block.add(e)
	w.blockZone.Add(e, valueBytes)
	return nil
}

// use counts what a reference needs of its value file, and returns the length of the value.
func (w *Writer) use(ref []byte) int {
	v, ok := decodeRef(ref)
	if !ok || v.num == 0 {
		w.err = fmt.Errorf("sst: %x is no reference to a value", ref)
		return 0
	}
	if w.uses == nil {
		w.uses = map[base.FileNum]uint64{}
	}
	w.uses[v.num] += v.bytes()
	return int(v.h.raw)
}

// checkOrder checks e and reports whether it starts a new key.
func (w *Writer) checkOrder(e *base.Entry) (newKey bool, err error) {
	switch {
	case len(e.Key) > MaxKeyBytes:
		return false, fmt.Errorf("sst: key of %d bytes, at most %d fit", len(e.Key), MaxKeyBytes)
	case len(e.Value) > MaxValueBytes:
		return false, fmt.Errorf("sst: value of %d bytes, at most %d fit", len(e.Value),
			MaxValueBytes)
	case e.Seq > base.MaxSeqNum:
		return false, fmt.Errorf("sst: sequence number %d is too large", e.Seq)
	case e.Kind < base.KindDelete || e.Kind > base.KindPutTTL:
		return false, fmt.Errorf("sst: entry of kind %v", e.Kind)
	case e.Kind == base.KindDelete && (len(e.Value) > 0 || e.Large):
		return false, errors.New("sst: tombstone with a value")
	case !w.started:
		return true, nil
	}
	c := bytes.Compare(w.lastKey, e.Key)
	if c > 0 || (c == 0 && w.lastSeq < e.Seq) {
		return false, fmt.Errorf("sst: entry %q seq %d after %q seq %d",
			e.Key, e.Seq, w.lastKey, w.lastSeq)
	}
	return c != 0, nil
}

// AddRangeTombstone adds a range tombstone; its slices are copied. Tombstones may
// come at any time before Finish, in any order.
func (w *Writer) AddRangeTombstone(rt base.RangeTombstone) error {
	if w.err != nil {
		return w.err
	}
	switch {
	case bytes.Compare(rt.Start, rt.End) >= 0:
		w.err = fmt.Errorf("sst: range tombstone [%q, %q) is empty", rt.Start, rt.End)
	case max(len(rt.Start), len(rt.End)) > maxBoundBytes:
		w.err = fmt.Errorf("sst: range tombstone with a bound of %d bytes, at most %d fit",
			max(len(rt.Start), len(rt.End)), maxBoundBytes)
	case rt.Seq > base.MaxSeqNum:
		w.err = fmt.Errorf("sst: sequence number %d is too large", rt.Seq)
	}
	if w.err == nil {
		rt.Start, rt.End = bytes.Clone(rt.Start), bytes.Clone(rt.End)
		w.ranges = append(w.ranges, rt)
		w.rangesLen += len(rt.Start) + len(rt.End) + rangeOverheadBytes
	}
	return w.err
}

// Full reports whether what comes next belongs in another file: this one has reached
// WriterOptions.FileBytes, or one of its blocks half of what readers accept. All versions
// of a key stay in one file, so e, the next entry, does not if it continues a key. Nil
// stands for a range tombstone.
func (w *Writer) Full(e *base.Entry) bool {
	if w.SizeBytes() < w.o.FileBytes && !w.crowded() {
		return false
	}
	return e == nil || !w.started || !bytes.Equal(w.lastKey, e.Key)
}

// crowded reports whether the index or the range tombstones have half of what readers
// accept in one block. Why half: the versions of a key that follow still need room.
func (w *Writer) crowded() bool {
	return max(w.indexBytes(), w.rangesLen) >= w.o.maxRawBytes/2
}

// indexBytes estimates the size of the index.
func (w *Writer) indexBytes() int { return w.index.sizeBytes() + w.columns.most }

// blockBytes is the size at which a data block is cut. Why larger in a crowded file: it
// goes on as long as there are versions of one key, and each block takes room in the index.
func (w *Writer) blockBytes() int {
	if w.crowded() {
		return max(w.o.BlockBytes, maxBlockBytes)
	}
	return w.o.BlockBytes
}

// SizeBytes estimates how long the file would be if it were finished now. It is
// exact up to the compression of the block being filled and of the index.
func (w *Writer) SizeBytes() int64 {
	n := int64(w.off) + int64(len(w.out)+w.block.sizeBytes()+w.indexBytes())
	return n + int64(w.filters.sizeBytes()+w.rangesLen) + footerBytes
}

// Finish completes the file and returns its description. It neither syncs nor
// closes the file. A file without entries and range tombstones is an error.
func (w *Writer) Finish() (base.FileMeta, error) {
	if w.err == nil {
		w.err = w.finish()
	}
	if w.err != nil {
		return base.FileMeta{}, w.err
	}
	w.err = errors.New("sst: writer is finished")
	f := footer{num: w.o.FileNum, stripe: w.o.Stripe, size: w.off}
	return w.props.fileMeta(&f), nil
}

func (w *Writer) finish() error {
	if !w.started && len(w.ranges) == 0 {
		return errors.New("sst: a file needs at least one entry or range tombstone")
	}
	if !w.block.empty() {
		if err := w.finishBlock(); err != nil {
			return err
		}
	}
	w.props.blocks = uint64(len(w.index.recs))
	w.props.dataEnd = w.offset()
	f := footer{dbid: w.o.DBID, num: w.o.FileNum, stripe: w.o.Stripe}
	w.finishBounds()
	var err error
	if len(w.ranges) > 0 {
		sortRanges(w.ranges)
		w.raw = appendRanges(w.raw[:0], w.ranges)
		f.ranges, err = w.writeBlock("range tombstone block", w.raw, w.metaCodec(), w.o.maxRawBytes)
		if err != nil {
			return err
		}
	}
	if err := w.finishFilters(); err != nil {
		return err
	}
	w.props.collectors = w.columns.appendFile(nil)
	for _, num := range slices.Sorted(maps.Keys(w.uses)) {
		w.props.values = append(w.props.values, base.ValueUse{Num: num, Bytes: w.uses[num]})
	}
	if err := w.finishIndex(&f); err != nil {
		return err
	}
	if err := w.props.check(); err != nil {
		return fmt.Errorf("sst: properties that no reader accepts: %w", err)
	}
	w.raw = w.props.append(w.raw[:0])
	f.properties, err = w.writeBlock("properties", w.raw, None, w.o.maxRawBytes)
	if err != nil {
		return err
	}
	f.size = w.offset() + footerBytes
	w.out = f.append(w.out)
	return w.flush()
}

// finishBounds computes the bounds of the whole file: of keys from the entries, of
// sequence numbers from entries and ranges.
func (w *Writer) finishBounds() {
	p := &w.props
	p.zone.First, p.zone.Last = w.firstKey, w.lastKey
	p.ranges = uint64(len(w.ranges))
	if w.started {
		p.minSeq, p.maxSeq = p.zone.MinSeq, p.zone.MaxSeq
	}
	for i, t := range w.ranges {
		if i == 0 && !w.started {
			p.minSeq, p.maxSeq = t.Seq, t.Seq
			continue
		}
		p.minSeq, p.maxSeq = min(p.minSeq, t.Seq), max(p.maxSeq, t.Seq)
	}
}

// metaCodec is the codec of index and range tombstones: read when a file is opened, so
// always one that decodes fast.
func (w *Writer) metaCodec() Codec {
	if w.o.Codec == Zstd {
		return LZ4
	}
	return w.o.Codec
}

// finishBlock encodes the pending entries as a data block.
func (w *Writer) finishBlock() error {
	w.raw = w.block.appendBlock(w.raw[:0])
	if err := w.filters.finishBlock(len(w.index.recs)); err != nil {
		w.err = err
		return err
	}
	h, err := w.writeBlock("data block", w.raw, w.o.Codec, maxDataBytes)
	if err != nil {
		return err
	}
	w.columns.finishBlock(&w.block)
	zone := w.blockZone.Map()
	w.index.add(h, zone, w.lastSeq)
	zone.First, zone.Last = nil, nil // the file's keys are set in finishBounds
	w.props.zone.Merge(&zone)
	w.blockZone.Reset()
	w.block.reset()
	w.raw = keep(w.raw)
	return nil
}

// finishFilters writes the filters after the data.
func (w *Writer) finishFilters() error {
	if w.o.FilterBits == 0 {
		return nil
	}
	if err := w.filters.finishPartition(); err != nil {
		return err
	}
	start := 0
	for i, end := range w.filters.ends {
		h, err := w.writeBlock("filter", w.filters.encoded[start:end], None, w.o.maxRawBytes)
		if err != nil {
			return err
		}
		w.filters.parts[i].handle = h
		start = end
	}
	w.props.partitions = w.filters.parts
	return nil
}

// finishIndex writes the index: its parts, if there are several, and the block that footer f
// names.
func (w *Writer) finishIndex(f *footer) (err error) {
	n := len(w.index.recs)
	var p indexPart
	if n <= w.o.PartBlocks {
		p.next(&w.index, n)
		f.index, err = w.writeIndex("index", &w.index, &p, &w.columns)
		return err
	}
	f.partBlocks = uint32(w.o.PartBlocks)
	for p.to < n {
		p.next(&w.index, w.o.PartBlocks)
		h, err := w.writeIndex("index part", &w.index, &p, &w.columns)
		if err != nil {
			return err
		}
		w.parts.add(h, p.zone, w.index.recs[p.to-1].lastSeq)
	}
	p = indexPart{}
	p.next(&w.parts, len(w.parts.recs))
	f.index, err = w.writeIndex("index", &w.parts, &p, &columnsWriter{})
	return err
}

// writeIndex writes a block of the index.
func (w *Writer) writeIndex(what string, x *indexBuilder, p *indexPart, c *columnsWriter,
) (blockHandle, error) {
	var ok bool
	if w.raw, ok = x.appendBlock(w.raw[:0], p, c); !ok {
		return blockHandle{}, tooLarge(what, w.indexBytes(), w.o.maxRawBytes)
	}
	return w.writeBlock(what, w.raw, w.metaCodec(), w.o.maxRawBytes)
}

// tooLarge is the error of a block that no reader would accept.
func tooLarge(what string, bytes, most int) error {
	return fmt.Errorf("sst: %s of %d bytes, readers accept %d: %w", what, bytes, most,
		base.ErrLimit)
}
