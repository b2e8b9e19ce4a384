package sst

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Verify reads the whole file and checks every checksum, the order of all keys, the
// heads and prefixes of the blocks, every zone map against the entries, that the
// filters know every key, and all counts. It reads past the cache. The first damage
// found is returned as *corrupt.Error; a done ctx ends the work with its error.
func (r *Reader) Verify(ctx context.Context) error {
	t, err := r.readTail() // not the copy in memory
	if err != nil {
		return err
	}
	v := verifier{r: r, t: t, part: -1, uses: map[base.FileNum]uint64{}}
	for p := range t.parts {
		x, err := r.readPart(t, p)
		if err != nil {
			return err
		}
		v.parts = append(v.parts, x)
	}
	for _, f := range r.values {
		if err := f.verifyValueHeader(); err != nil {
			return err
		}
	}
	if err := v.layout(); err != nil {
		return err
	}
	if r.meta.RangeTombstones > 0 {
		list, _, err := r.readRanges(t)
		if err != nil {
			return err
		}
		v.ranges = list
	}
	for p := range v.parts {
		v.x = &v.parts[p]
		for i := v.x.first; i < v.x.end(); i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := v.block(i); err != nil {
				return err
			}
		}
		if err := v.partTotals(p); err != nil {
			return err
		}
	}
	return v.totals()
}

// verifier carries what Verify knows of the blocks so far.
type verifier struct {
	r     *Reader
	t     *tail
	parts []indexBlock
	x     *indexBlock // the one of the current block
	seq   sequential

	part   int // filter partition of the current block
	filter zonemap.Filter
	ranges []base.RangeTombstone

	key     []byte // last key seen
	lastSeq base.SeqNum
	keys    uint64
	uses    map[base.FileNum]uint64 // see Writer.uses
	value   []byte                  // memory of large values
	zone    zonemap.Map             // of all blocks before the part
	inPart  zonemap.Map             // of its blocks so far
	handle  blockHandle             // current block
}

func (v *verifier) fail(what string, want, got any) error {
	return corrupt.New(v.r.path, int64(v.handle.off), what, want, got)
}

// layout checks that the blocks cover the file without gap or overlap.
func (v *verifier) layout() error {
	var end uint64
	follow := func(h blockHandle, what string) error {
		if h.off != end {
			return corrupt.New(v.r.path, int64(h.off), what, fmt.Sprintf("offset %d", end), h.off)
		}
		end = h.end()
		return nil
	}
	for _, x := range v.parts {
		for i := x.first; i < x.end(); i++ {
			if err := follow(x.handle(i), "data block"); err != nil {
				return err
			}
		}
	}
	f := &v.t.footer
	v.handle = f.properties
	if end != v.t.props.dataEnd {
		return v.fail("end of data", end, v.t.props.dataEnd)
	}
	if f.ranges != (blockHandle{}) {
		if err := follow(f.ranges, "range tombstone block"); err != nil {
			return err
		}
	}
	for _, p := range v.t.props.partitions {
		if err := follow(p.handle, "filter"); err != nil {
			return err
		}
	}
	for p := range v.t.top.n {
		if err := follow(v.t.top.handle(p), "index part"); err != nil {
			return err
		}
	}
	if err := follow(f.index, "index"); err != nil {
		return err
	}
	if err := follow(f.properties, "properties"); err != nil {
		return err
	}
	if end+footerBytes != f.size {
		return v.fail("end of properties", f.size-footerBytes, end)
	}
	return nil
}

// block checks data block i against the index and the filter.
func (v *verifier) block(i int) error {
	v.handle = v.x.handle(i)
	if !v.seq.holds(v.handle) {
		if err := v.seq.fill(v.r, v.t, v.handle, sourceReadBytes); err != nil {
			return err
		}
	}
	raw, err := v.seq.decode(v.r, v.handle)
	if err != nil {
		return err
	}
	b, err := openDataBlock(raw)
	if err != nil {
		return v.r.named(err, v.handle.off)
	}
	if v.t.props.filterBits != 0 {
		if p := v.t.props.partitionOf(i); p != v.part {
			if v.filter, err = v.r.readFilter(v.t, p); err != nil {
				return err
			}
			v.part = p
		}
	}
	var zone zonemap.MapBuilder
	for j := range b.n {
		if err := v.entry(&b, j, &zone); err != nil {
			return err
		}
	}
	return v.blockTotals(i, &b, zone.Map())
}

// entry checks entry j of a block against its neighbours.
func (v *verifier) entry(b *dataBlock, j int, zone *zonemap.MapBuilder) error {
	var be base.Entry
	if !b.entry(j, &be) {
		return v.fail("data block", "a whole entry", j)
	}
	if h := head4(be.Key); h != b.head(j) {
		return v.fail("entry head", hex32(h), hex32(b.head(j)))
	}
	key := slices.Concat(b.prefix(), be.Key)
	first := v.zone.Entries == 0 && v.inPart.Entries == 0 && j == 0
	c := bytes.Compare(v.key, key)
	if !first && (c > 0 || (c == 0 && v.lastSeq <= be.Seq)) {
		return v.fail("key order", fmt.Sprintf("after %q seq %d", v.key, v.lastSeq),
			fmt.Sprintf("%q seq %d", key, be.Seq))
	}
	if first || c != 0 {
		v.keys++
	}
	if v.t.props.filterBits != 0 && !v.filter.Contains(base.Hash(key, v.r.seed)) {
		return v.fail("filter", fmt.Sprintf("key %q", key), "its denial")
	}
	v.key, v.lastSeq = key, be.Seq
	valueBytes := len(be.Value)
	if be.Large {
		if _, err := v.r.Value(&v.value, be.Value); err != nil {
			return err
		}
		ref, _ := decodeRef(be.Value)
		v.uses[ref.num] += ref.bytes()
		valueBytes = int(ref.h.raw)
	}
	zone.Add(&base.Entry{Key: key, Seq: be.Seq, Expiry: be.Expiry, Kind: be.Kind}, valueBytes)
	return nil
}

// blockTotals checks the index record of block i.
func (v *verifier) blockTotals(i int, b *dataBlock, totals zonemap.Map) error {
	want, rest, err := v.x.zone(i)
	if err != nil {
		return v.r.named(err, v.partAt(i))
	}
	for _, c := range v.t.props.collectors {
		field, after, ok := cutBytes(rest)
		if !ok {
			return v.fail("collector bytes", "a whole field", "truncated bytes")
		}
		if c.name == columnsName {
			if _, err := zone.OpenColumns(c.data); err != nil {
				return v.r.named(err, v.t.footer.properties.off)
			}
			if err := v.t.props.columns.Block(field).Check(); err != nil {
				return v.r.named(err, v.partAt(i))
			}
		}
		rest = after
	}
	if len(rest) != 0 {
		return v.fail("index record", "no further bytes", len(rest))
	}
	p := v.x.prefix()
	want.First, want.Last = slices.Concat(p, want.First), slices.Concat(p, want.Last)
	switch {
	case !sameZone(&totals, &want):
		return v.fail("zone map", describeZone(&want), describeZone(&totals))
	case v.x.head(i-v.x.first) != base.KeyHead(totals.Last[len(p):]):
		return v.fail("index head", base.KeyHead(totals.Last[len(p):]), v.x.head(i-v.x.first))
	case v.x.lastSeq(i) != v.lastSeq:
		return v.fail("index sequence number", uint64(v.lastSeq), uint64(v.x.lastSeq(i)))
	case b.minSeq != totals.MinSeq:
		return v.fail("lowest sequence number", uint64(totals.MinSeq), uint64(b.minSeq))
	}
	// A copy: the zone's keys belong to its builder.
	totals.First, totals.Last = bytes.Clone(totals.First), bytes.Clone(totals.Last)
	v.inPart.Merge(&totals)
	return nil
}

// partAt returns where the part of the index with a block is.
func (v *verifier) partAt(block int) uint64 { return v.t.partHandle(block / v.t.partBlocks).off }

// partTotals checks the record of part p in an index of parts.
func (v *verifier) partTotals(p int) error {
	totals := v.inPart
	v.inPart = zonemap.Map{}
	v.zone.Merge(&totals)
	if v.t.top.n == 0 {
		return nil
	}
	v.handle = v.t.footer.index
	x := &v.t.top
	want, rest, err := x.zone(p)
	if err != nil {
		return v.r.named(err, v.handle.off)
	}
	shared := x.prefix()
	want.First, want.Last = slices.Concat(shared, want.First), slices.Concat(shared, want.Last)
	switch {
	case len(rest) != 0:
		return v.fail("index record", "no further bytes", len(rest))
	case !sameZone(&totals, &want):
		return v.fail("zone map of a part", describeZone(&want), describeZone(&totals))
	case x.head(p) != base.KeyHead(totals.Last[len(shared):]):
		return v.fail("index head", base.KeyHead(totals.Last[len(shared):]), x.head(p))
	case x.lastSeq(p) != v.lastSeq:
		return v.fail("index sequence number", uint64(v.lastSeq), uint64(x.lastSeq(p)))
	}
	return nil
}

// totals checks properties and description against all entries.
func (v *verifier) totals() error {
	v.handle = v.t.footer.properties
	p := v.t.props
	if !sameZone(&v.zone, &p.zone) {
		return v.fail("zone map of the file", describeZone(&p.zone), describeZone(&v.zone))
	}
	if v.keys != p.keys {
		return v.fail("distinct keys", p.keys, v.keys)
	}
	for _, u := range p.values {
		if v.uses[u.Num] != u.Bytes {
			return v.fail("use of "+base.ValueName(v.r.meta.Stripe, u.Num), u.Bytes, v.uses[u.Num])
		}
	}
	w := Writer{ranges: v.ranges, started: v.zone.Entries > 0}
	w.props.zone = v.zone
	w.finishBounds()
	m := v.r.meta
	if w.props.minSeq != m.MinSeq || w.props.maxSeq != m.MaxSeq {
		return v.fail("sequence numbers", []base.SeqNum{m.MinSeq, m.MaxSeq},
			[]base.SeqNum{w.props.minSeq, w.props.maxSeq})
	}
	if v.zone.RawBytes != m.RawBytes || v.zone.MinExpiry != m.MinExpiry ||
		v.zone.MaxExpiry != m.MaxExpiry {
		return v.fail("description", describeZone(&v.zone), fmt.Sprintf("%d bytes, expiry [%d, %d]",
			m.RawBytes, m.MinExpiry, m.MaxExpiry))
	}
	return nil
}

func sameZone(a, b *zonemap.Map) bool {
	x, y := *a, *b
	x.First, x.Last, y.First, y.Last = nil, nil, nil, nil
	return bytes.Equal(a.First, b.First) && bytes.Equal(a.Last, b.Last) &&
		describeZone(&x) == describeZone(&y)
}
