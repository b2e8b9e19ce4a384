package sst

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/zonemap"
)

// parts are the decoded blocks of a small intact file, seeds for the fuzz targets.
type parts struct {
	block, index, ranges, props, filter []byte
	footer                              footer
}

func seedParts(tb testing.TB) parts {
	tb.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create("seed")
	ok(tb, err)
	w := NewWriter(f, WriterOptions{FilterBits: 8, FileNum: 7})
	for i := range 20 {
		e := base.Entry{
			Key: fmt.Appendf(nil, "pk/key%02d", i/2), Seq: base.SeqNum(50 - i), Kind: base.KindPut,
			Value: fmt.Appendf(nil, "value %d", i),
		}
		if i%5 == 0 {
			e.Kind, e.Expiry = base.KindPutTTL, int64(i)-7
		}
		if i%7 == 0 {
			e.Kind, e.Value, e.Expiry = base.KindDelete, nil, 0
		}
		ok(tb, w.Add(&e))
	}
	rt := base.RangeTombstone{Start: []byte("a"), End: []byte("b"), Seq: 3}
	ok(tb, w.AddRangeTombstone(rt))
	if _, err := w.Finish(); err != nil {
		tb.Fatal(err)
	}
	meta, dbid, err := ReadMeta(fs, "seed")
	ok(tb, err)
	ok(tb, fs.Rename("seed", meta.Name()))
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta, DBID: dbid})
	t, err := r.loadTail()
	ok(tb, err)
	p := parts{footer: t.footer}
	read := func(h blockHandle) []byte {
		raw, err := r.readBlock(h, maxRawBytes, "block")
		ok(tb, err)
		return raw
	}
	p.index, p.ranges = read(t.footer.index), read(t.footer.ranges)
	p.props = read(t.footer.properties)
	p.filter = read(t.props.partitions[0].handle)
	x, err := openIndex(p.index)
	ok(tb, err)
	p.block = read(x.handle(0))
	return p
}

func requireCorrupt(tb testing.TB, err error) {
	tb.Helper()
	if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
		tb.Fatalf("error of another class: %v", err)
	}
}

func FuzzDataBlock(f *testing.F) {
	block := seedParts(f).block
	f.Add(block, []byte("pk/key03"), uint64(40))
	// Cut where the first entry begins, and a byte to both sides: such a block has none.
	n, shared := binary.LittleEndian.Uint32(block[4:]), binary.LittleEndian.Uint32(block[16:])
	first := blockHeaderBytes + 8*int(n) + int(shared)
	for _, end := range []int{first - 1, first, first + 1} {
		f.Add(block[:end:end], []byte("pk/key03"), uint64(40))
	}
	f.Fuzz(func(t *testing.T, data, key []byte, snap uint64) {
		defer testutil.Watch(data, key, snap)()
		b, err := openDataBlock(data)
		if err != nil {
			requireCorrupt(t, err)
			return
		}
		if int(b.offset(0)) >= len(data) {
			t.Fatal("the first entry lies after the block")
		}
		var e base.Entry
		for i := range b.n {
			if b.entry(i, &e) && len(e.Key)+len(e.Value) > len(data) {
				t.Fatal("an entry larger than its block")
			}
		}
		pos, exact, ok := b.seek(key, base.SeqNum(snap))
		if pos < 0 || pos > b.n || (ok && exact && pos == b.n) {
			t.Fatalf("seek to %d of %d", pos, b.n)
		}
	})
}

func FuzzIndexBlock(f *testing.F) {
	f.Add(seedParts(f).index, []byte("pk/key03"), uint64(40))
	f.Fuzz(func(t *testing.T, data, key []byte, snap uint64) {
		defer testutil.Watch(data, key, snap)()
		x, err := openIndex(data)
		if err != nil {
			requireCorrupt(t, err)
			return
		}
		if i, _ := x.find(key, base.SeqNum(snap)); i < 0 || i > x.n {
			t.Fatalf("found %d of %d", i, x.n)
		}
		for i := range x.n {
			_ = x.handle(i).check(1<<40, maxDataBytes)
			x.lastSuffix(i)
			_, _, err := x.zone(i)
			requireCorrupt(t, err)
		}
	})
}

func FuzzFooter(f *testing.F) {
	foot := seedParts(f).footer
	f.Add(foot.append(nil), foot.size)
	f.Fuzz(func(t *testing.T, data []byte, size uint64) {
		defer testutil.Watch(data, size)()
		got, err := decodeFooter(data, int64(size))
		if err != nil {
			requireCorrupt(t, err)
			return
		}
		if !bytes.Equal(got.append(nil), data) {
			t.Fatal("a footer that a writer would not write")
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add(seedParts(f).props)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testutil.Watch(data)()
		p, err := decodeProperties(data)
		if err != nil {
			requireCorrupt(t, err)
			return
		}
		for _, part := range p.partitions {
			p.partitionOf(int(part.firstBlock))
		}
		again, err := decodeProperties(p.append(nil))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(p) {
			t.Fatalf("%v comes back as %v, %v", p, again, err)
		}
	})
}

func FuzzRanges(f *testing.F) {
	f.Add(seedParts(f).ranges)
	bound := make([]byte, maxBoundBytes)
	f.Add(appendRanges(nil, []base.RangeTombstone{
		{Start: bound[1:], End: bound, Seq: base.MaxSeqNum}, {Start: bound, End: []byte{1}},
	}))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testutil.Watch(data)()
		list, err := decodeRanges(data)
		requireCorrupt(t, err)
		for _, rt := range list {
			if bytes.Compare(rt.Start, rt.End) >= 0 {
				t.Fatalf("empty range %v", rt)
			}
		}
	})
}

// FuzzStoredBlock decompresses arbitrary payloads under a valid checksum.
func FuzzStoredBlock(f *testing.F) {
	var c compressor
	raw := bytes.Repeat([]byte("some text "), 30)
	for _, codec := range []Codec{None, LZ4, Zstd, Snappy} {
		payload, codec, err := c.compress(nil, raw, codec)
		ok(f, err)
		f.Add(payload, uint8(codec), uint32(len(raw)))
	}
	f.Fuzz(func(t *testing.T, payload []byte, codec uint8, raw uint32) {
		defer testutil.Watch(payload, codec, raw)()
		id := fileID(1)
		b := id.appendTrailer(bytes.Clone(payload), 0, Codec(codec), int(raw), 5)
		h := blockHandle{off: 5, stored: uint32(len(payload)), raw: raw}
		if !h.check(int64(h.end()), 1<<20) {
			return
		}
		got, err := id.decode(nil, b, h, "block")
		if err != nil {
			requireCorrupt(t, err)
		} else if len(got) != int(raw) {
			t.Fatalf("%d bytes instead of %d", len(got), raw)
		}
	})
}

// FuzzHostileFile puts arbitrary decoded blocks into a file whose checksums are all
// right: nothing may panic or hang.
func FuzzHostileFile(f *testing.F) {
	p := seedParts(f)
	f.Add(p.block, p.index, p.ranges, p.props, p.filter, []byte("pk/key04"))
	f.Fuzz(func(t *testing.T, block, index, ranges, props, filter, key []byte) {
		defer testutil.Watch(block, index, ranges, props, filter, key)()
		tryHostileFile(t, p.footer, hostile{block, ranges, filter, index, props}, key)
	})
}

// hostile are the decoded blocks of a file in their order: data, ranges, filter, index,
// properties.
type hostile [5][]byte

// tryHostileFile reads a file of these blocks in every way: it ends, with damage or without.
func tryHostileFile(t *testing.T, foot footer, blocks hostile, key []byte) {
	t.Helper()
	fs := vfs.NewMem()
	meta, err := hostileFile(fs, foot, blocks)
	if err != nil {
		requireCorrupt(t, err)
		return
	}
	r := NewReader(ReaderOptions{
		FS: fs, Meta: &meta, DBID: foot.dbid, Cache: cache.New(1 << 20),
	})
	defer r.Close()
	limit := len(blocks[0])*len(blocks[3]) + 10
	var e base.Entry
	_, err = r.Get(key, base.Hash(key, 0), 40, &e)
	requireCorrupt(t, err)
	c := r.NewCursor(40)
	steps := 0
	for ok := c.First(); ok; ok = c.Next() {
		if steps++; steps > limit {
			t.Fatal("a scan without end")
		}
	}
	for ok := c.SeekLT(key); ok; ok = c.Prev() {
		if steps++; steps > 2*limit {
			t.Fatal("a scan without end")
		}
	}
	requireCorrupt(t, c.Err())
	s := r.NewSource()
	for range cursor.All(s) {
		if steps++; steps > 3*limit {
			t.Fatal("a source without end")
		}
	}
	requireCorrupt(t, s.Err())
	_, err = r.RangeTombstones()
	requireCorrupt(t, err)
	requireCorrupt(t, r.Verify(context.Background()))
	requireCorrupt(t, r.Describe(io.Discard))
}

// hostileFile stores the blocks at the places where the seed file has them if the lengths are
// the same.
func hostileFile(fs vfs.FS, foot footer, blocks hostile) (base.FileMeta, error) {
	id := newFileID(foot.dbid, foot.num)
	var out []byte
	handles := make([]blockHandle, len(blocks))
	for i, raw := range blocks {
		off := len(out)
		handles[i] = blockHandle{off: uint64(off), stored: uint32(len(raw)), raw: uint32(len(raw))}
		out = id.appendTrailer(append(out, raw...), off, None, len(raw), uint64(off))
	}
	foot.ranges, foot.index, foot.properties = handles[1], handles[3], handles[4]
	foot.size = uint64(len(out)) + footerBytes
	name := base.SSTName(foot.stripe, foot.num)
	if err := vfstest.WriteFile(fs, name, foot.append(out)); err != nil {
		return base.FileMeta{}, err
	}
	meta, _, err := ReadMeta(fs, name)
	return meta, err
}

// TestHostileSeed: the seed of FuzzHostileFile is an intact file, so that mutations
// reach every decoder.
func TestHostileSeed(t *testing.T) {
	p := seedParts(t)
	fs := vfs.NewMem()
	meta, err := hostileFile(fs, p.footer, hostile{p.block, p.ranges, p.filter, p.index, p.props})
	ok(t, err)
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta, DBID: p.footer.dbid})
	ok(t, r.Verify(context.Background()))
	if _, err := zonemap.Open(p.filter); err != nil {
		t.Fatal(err)
	}
}

// TestCraftedBlocks: under right checksums, every beginning and every changed byte of each block
// is damage, or harmless.
func TestCraftedBlocks(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	p := seedParts(t)
	whole := hostile{p.block, p.ranges, p.filter, p.index, p.props}
	for i, block := range whole {
		testutil.EachChange(block, func(b []byte) {
			changed := whole
			changed[i] = b
			tryHostileFile(t, p.footer, changed, []byte("pk/key04"))
		})
	}
}
