package sst

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// BlockInfo describes a data block as the index knows it.
type BlockInfo struct {
	Number      int
	Offset      uint64
	StoredBytes int // on disk, without the trailer
	RawBytes    int // decoded
	Zone        zonemap.Map
	Columns     zone.Columns
}

// DistinctKeys returns the number of different keys among the file's point entries.
func (r *Reader) DistinctKeys() (uint64, error) {
	t, err := r.loadTail()
	if err != nil {
		return 0, err
	}
	return t.props.keys, nil
}

// Layout is how a file was written.
type Layout struct {
	Codec      Codec // that the writer was asked for
	FilterBits int   // 0 without filters
	BlockBytes int   // decoded size at which blocks were cut
}

// Layout returns how the file was written.
func (r *Reader) Layout() (Layout, error) {
	t, err := r.loadTail()
	if err != nil {
		return Layout{}, err
	}
	p := t.props
	return Layout{Codec: p.codec, FilterBits: p.filterBits, BlockBytes: int(p.blockBytes)}, nil
}

// Blocks calls yield for the data blocks in order until it returns false. It reads
// the index, never a data block.
func (r *Reader) Blocks(yield func(BlockInfo) bool) error {
	t, err := r.loadTail()
	if err != nil {
		return err
	}
	var x *indexBlock
	for i := range t.blocks {
		if x, err = r.partOf(t, x, i); err != nil {
			return err
		}
		zone, rest, err := x.zone(i)
		if err != nil {
			return r.named(err, t.partHandle(i/t.partBlocks).off)
		}
		h := x.handle(i)
		info := BlockInfo{
			Number: i, Offset: h.off, StoredBytes: int(h.stored), RawBytes: int(h.raw), Zone: zone,
		}
		info.Zone.First = slices.Concat(x.prefix(), zone.First)
		info.Zone.Last = slices.Concat(x.prefix(), zone.Last)
		info.Columns = t.props.columnsOf(rest)
		for range t.props.collectors {
			_, after, ok := cutBytes(rest)
			if !ok {
				return r.damagedIndex(t, i)
			}
			rest = after
		}
		if !yield(info) {
			return nil
		}
	}
	return nil
}

// Describe writes a readable account of footer, properties, filters, range
// tombstones and index.
func (r *Reader) Describe(out io.Writer) error {
	t, err := r.loadTail()
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	p, f := t.props, &t.footer
	fmt.Fprintf(w, "file            %s (%d bytes)\n", r.meta.Name(), f.size)
	fmt.Fprintf(w, "database        %x\n", f.dbid)
	fmt.Fprintf(w, "keys            %d, smallest %q, largest %q\n", p.keys, p.zone.First,
		p.zone.Last)
	fmt.Fprintf(w, "entries         %s\n", describeZone(&p.zone))
	fmt.Fprintf(w, "range deletes   %d\n", p.ranges)
	fmt.Fprintf(w, "sequence        %d to %d\n", p.minSeq, p.maxSeq)
	fmt.Fprintf(w, "codec           %v\n", p.codec)
	fmt.Fprintf(w, "data            %d blocks of %d bytes decoded, %d bytes stored\n",
		p.blocks, p.blockBytes, p.dataEnd)
	fmt.Fprintf(w, "index           %s\n", describeHandle(f.index))
	for i := range t.top.n {
		fmt.Fprintf(w, "index part %-4d from block %d, %s\n", i, i*t.partBlocks,
			describeHandle(t.partHandle(i)))
	}
	if p.filterBits == 0 {
		fmt.Fprintf(w, "filters         none\n")
	}
	for i, part := range p.partitions {
		fmt.Fprintf(w, "filter %-8d %d bits, %d keys, from block %d, %s\n",
			i, p.filterBits, part.keys, part.firstBlock, describeHandle(part.handle))
	}
	for _, c := range p.collectors {
		fmt.Fprintf(w, "collector       %s: %d bytes\n", c.name, len(c.data))
	}
	for _, v := range p.values {
		fmt.Fprintf(w, "values          %s: %d bytes\n", base.ValueName(r.meta.Stripe, v.Num),
			v.Bytes)
	}
	ranges, err := r.RangeTombstones()
	if err != nil {
		return err
	}
	for _, rt := range ranges {
		fmt.Fprintf(w, "range delete    [%q, %q) seq %d\n", rt.Start, rt.End, rt.Seq)
	}
	err = r.Blocks(func(b BlockInfo) bool {
		fmt.Fprintf(w, "block %-9d %d+%d, decoded %d, [%q, %q], %s\n",
			b.Number, b.Offset, b.StoredBytes, b.RawBytes, b.Zone.First, b.Zone.Last,
			describeZone(&b.Zone))
		return true
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

func describeHandle(h blockHandle) string {
	return fmt.Sprintf("%d+%d, decoded %d", h.off, h.stored, h.raw)
}

func describeZone(z *zonemap.Map) string {
	s := fmt.Sprintf("%d entries, %d tombstones, %d with expiry, %d bytes, seq [%d, %d]",
		z.Entries, z.Tombstones, z.TTLEntries, z.RawBytes, z.MinSeq, z.MaxSeq)
	if z.TTLEntries > 0 {
		s += fmt.Sprintf(", expiry [%d, %d]", z.MinExpiry, z.MaxExpiry)
	}
	return s
}

// ReadMeta returns the description and the database id of the file path from its
// footer and properties alone, for tools that meet a file without its manifest.
func ReadMeta(fs vfs.FS, path string) (meta base.FileMeta, dbid [16]byte, err error) {
	s, err := openSalvage(fs, path)
	if err != nil {
		return meta, dbid, err
	}
	defer s.Close()
	f, err := s.footer()
	if err != nil {
		return meta, dbid, err
	}
	r := s.r
	r.id = newFileID(f.dbid, f.num)
	raw, err := r.readBlock(f.properties, maxRawBytes, "properties")
	if err != nil {
		return meta, dbid, err
	}
	p, err := decodeProperties(raw)
	if err != nil {
		return meta, dbid, r.named(err, f.properties.off)
	}
	return p.fileMeta(&f), f.dbid, nil
}

// fileMeta returns the description that the properties of a finished file make.
func (p *properties) fileMeta(f *footer) base.FileMeta {
	z := &p.zone
	return base.FileMeta{
		Num: f.num, Stripe: f.stripe, SizeBytes: int64(f.size),
		Smallest: slices.Clone(z.First), Largest: slices.Clone(z.Last),
		MinSeq: p.minSeq, MaxSeq: p.maxSeq,
		Entries: z.Entries, Tombstones: z.Tombstones, RangeTombstones: p.ranges,
		TTLEntries: z.TTLEntries, RawBytes: z.RawBytes,
		MinExpiry: z.MinExpiry, MaxExpiry: z.MaxExpiry, Values: slices.Clone(p.values),
	}
}
