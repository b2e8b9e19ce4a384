package sst

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/pierrec/lz4/v4"
)

var ok = testutil.OK

// writerOf returns a writer of a file in memory.
func writerOf(t *testing.T, o WriterOptions) (*Writer, vfs.FS) {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create(base.SSTName(o.Stripe, o.FileNum))
	ok(t, err)
	return NewWriter(f, o), fs
}

// TestWriterOptions: defaults, and what is refused, by the first call.
func TestWriterOptions(t *testing.T) {
	o, err := new(WriterOptions).withDefaults()
	if err != nil || o.BlockBytes != 4096 || o.FileBytes != 64<<20 || o.maxRawBytes != 1<<30 ||
		o.FilterPartitionKeys != 128<<10 || o.PartBlocks != 128 ||
		o.Codec != None || o.FilterBits != 0 {
		t.Errorf("defaults %+v, %v", o, err)
	}
	set := WriterOptions{BlockBytes: 300, FileBytes: 1, FilterPartitionKeys: 1, PartBlocks: 1,
		maxRawBytes: 1}
	if o, err := set.withDefaults(); err != nil || fmt.Sprint(o) != fmt.Sprint(set) {
		t.Errorf("%+v becomes %+v, %v", set, o, err)
	}
	for _, c := range []struct {
		o    WriterOptions
		want string
	}{
		{WriterOptions{BlockBytes: 255}, "sst: block size 255 outside [256, 4194304]"},
		{WriterOptions{BlockBytes: 256}, ""},
		{WriterOptions{BlockBytes: 4 << 20}, ""},
		{WriterOptions{BlockBytes: 4<<20 + 1}, "sst: block size 4194305 outside [256, 4194304]"},
		{WriterOptions{BlockBytes: -1}, "sst: block size -1 outside [256, 4194304]"},
		{WriterOptions{Codec: Snappy}, ""},
		{WriterOptions{Codec: 4}, "sst: unknown codec(4)"},
		{WriterOptions{FilterBits: 8}, ""},
		{WriterOptions{FilterBits: 16}, ""},
		{WriterOptions{FilterBits: 1}, "sst: filter of 1 bits; 0, 8 and 16 are supported"},
		{WriterOptions{FilterBits: 9}, "sst: filter of 9 bits; 0, 8 and 16 are supported"},
		{WriterOptions{FilterBits: 17}, "sst: filter of 17 bits; 0, 8 and 16 are supported"},
		{WriterOptions{FilterPartitionKeys: 1}, ""},
		{WriterOptions{FilterPartitionKeys: -1}, "sst: filter partitions of -1 keys"},
		{WriterOptions{PartBlocks: 1}, ""},
		{WriterOptions{PartBlocks: -1}, "sst: parts of -1 blocks"},
	} {
		w, _ := writerOf(t, c.o)
		rt := base.RangeTombstone{Start: []byte("a"), End: []byte("b"), Seq: 1}
		got := w.AddRangeTombstone(rt)
		if err := w.Add(&base.Entry{Kind: base.KindDelete}); err != got {
			t.Errorf("%+v: %v, then %v", c.o, got, err)
		}
		if got == nil {
			got = errors.New("")
		} else if _, err := w.Finish(); err != got {
			t.Errorf("%+v: %v, then %v", c.o, got, err)
		}
		if got.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.o, got, c.want)
		}
	}
}

// TestEntryLimits: the longest and largest entries are accepted, what is beyond is not.
func TestEntryLimits(t *testing.T) {
	key, value := make([]byte, MaxKeyBytes+1), make([]byte, MaxValueBytes+1)
	for _, c := range []struct {
		e    base.Entry
		want string // "" for none
	}{
		{base.Entry{Key: key[1:], Kind: base.KindPut}, ""},
		{base.Entry{Key: key, Kind: base.KindPut}, "sst: key of 196611 bytes, at most 196610 fit"},
		{base.Entry{Value: value[1:], Kind: base.KindPut}, ""},
		{base.Entry{Value: value, Kind: base.KindPut},
			"sst: value of 67108865 bytes, at most 67108864 fit"},
		{base.Entry{Seq: base.MaxSeqNum, Kind: base.KindPut}, ""},
		{base.Entry{Seq: base.MaxSeqNum + 1, Kind: base.KindPut},
			"sst: sequence number 72057594037927936 is too large"},
		{base.Entry{Kind: base.KindDelete}, ""},
		{base.Entry{Kind: base.KindPutTTL}, ""},
		{base.Entry{Kind: base.KindDelete - 1}, "sst: entry of kind unknown"},
		{base.Entry{Kind: base.KindPutTTL + 1},
			fmt.Sprintf("sst: entry of kind %v", base.KindPutTTL+1)},
		{base.Entry{Kind: base.KindDelete, Value: value[:1]}, "sst: tombstone with a value"},
		{base.Entry{Kind: base.KindPut, Value: value[:1]}, ""},
	} {
		w, _ := writerOf(t, WriterOptions{})
		text := ""
		if newKey, err := w.checkOrder(&c.e); err != nil {
			text = err.Error()
		} else if !newKey {
			t.Errorf("the first key of %d bytes is not new", len(c.e.Key))
		}
		if text != c.want {
			t.Errorf("%q, want %q", text, c.want)
		}
	}
}

// TestEntryOrder: older versions of a key may follow it, and higher keys.
func TestEntryOrder(t *testing.T) {
	w, _ := writerOf(t, WriterOptions{})
	ok(t, w.Add(&base.Entry{Key: []byte("k"), Seq: 5, Kind: base.KindPut}))
	for _, c := range []struct {
		key  string
		seq  base.SeqNum
		want string
	}{
		{"k", 5, "false <nil>"}, {"k", 4, "false <nil>"}, {"l", 9, "true <nil>"},
		{"k", 6, `false sst: entry "k" seq 6 after "k" seq 5`},
		{"j", 5, `false sst: entry "j" seq 5 after "k" seq 5`},
		{"", 1, `false sst: entry "" seq 1 after "k" seq 5`},
	} {
		newKey, err := w.checkOrder(&base.Entry{Key: []byte(c.key), Seq: c.seq, Kind: base.KindPut})
		if got := fmt.Sprint(newKey, err); got != c.want {
			t.Errorf("%q at %d: %s, want %s", c.key, c.seq, got, c.want)
		}
	}
}

// TestRangeTombstoneLimits: the longest bounds are accepted; longer ones, none at all between
// them, and too high a sequence number are not. What is refused once fails the writer.
func TestRangeTombstoneLimits(t *testing.T) {
	key := make([]byte, MaxKeyBytes+1)
	for _, c := range []struct {
		rt   base.RangeTombstone
		want string
	}{
		{base.RangeTombstone{Start: []byte("a"), End: []byte("a")},
			`sst: range tombstone ["a", "a") is empty`},
		{base.RangeTombstone{Start: []byte("b"), End: []byte("a")},
			`sst: range tombstone ["b", "a") is empty`},
		{base.RangeTombstone{End: []byte("a"), Seq: base.MaxSeqNum}, "<nil>"},
		{base.RangeTombstone{End: []byte("a"), Seq: base.MaxSeqNum + 1},
			"sst: sequence number 72057594037927936 is too large"},
		{base.RangeTombstone{End: append(key, 0)},
			"sst: range tombstone with a bound of 196612 bytes, at most 196611 fit"},
		{base.RangeTombstone{Start: append(key, 0), End: []byte("b")},
			"sst: range tombstone with a bound of 196612 bytes, at most 196611 fit"},
		{base.RangeTombstone{Start: key, End: []byte("b")}, "<nil>"},
		{base.RangeTombstone{End: key}, "<nil>"},
	} {
		w, _ := writerOf(t, WriterOptions{})
		err := w.AddRangeTombstone(c.rt)
		if fmt.Sprint(err) != c.want {
			t.Errorf("%v, want %v", err, c.want)
		}
		if again := w.Add(&base.Entry{Kind: base.KindPut}); again != err {
			t.Errorf("%v, then %v", err, again)
		}
	}
}

// TestWriterSizes: the size that a writer estimates, and when it is full.
func TestWriterSizes(t *testing.T) {
	w, _ := writerOf(t, WriterOptions{BlockBytes: 256, FilterBits: 16, FilterPartitionKeys: 6})
	sizes := []int64{w.SizeBytes()}
	note := func() { sizes = append(sizes, w.SizeBytes()) }
	for i := range 9 {
		e := base.Entry{Key: fmt.Appendf(nil, "key%d", i), Seq: 1, Kind: base.KindPut,
			Value: make([]byte, 30)}
		ok(t, w.Add(&e))
		note()
	}
	rt := base.RangeTombstone{Start: []byte("a"), End: []byte("bcd"), Seq: 1}
	ok(t, w.AddRangeTombstone(rt))
	note()
	want := []int64{120, 190, 237, 284, 333, 380, 516, 563, 612, 659, 679}
	if !slices.Equal(sizes, want) {
		t.Errorf("sizes %d, want %d", sizes, want)
	}
	same, next := &base.Entry{Key: []byte("key8")}, &base.Entry{Key: []byte("key9")}
	for _, c := range []struct {
		fileBytes int64
		maxRaw    int
		full      bool
		blocks    int
	}{
		{680, 1 << 30, false, 256},
		{679, 1 << 30, true, 256},
		{678, 1 << 30, true, 256},
		{1 << 40, 2 * w.index.sizeBytes(), true, 4 << 20},
		{1 << 40, 2*w.index.sizeBytes() + 2, false, 256},
	} {
		w.o.FileBytes, w.o.maxRawBytes = c.fileBytes, c.maxRaw
		if w.Full(next) != c.full || w.Full(nil) != c.full || w.Full(same) ||
			w.blockBytes() != c.blocks {
			t.Errorf("files of %d bytes, blocks of %d: full %v, for range tombstones %v, for the "+
				"same key %v; blocks of %d bytes", c.fileBytes, c.maxRaw, w.Full(next), w.Full(nil),
				w.Full(same), w.blockBytes())
		}
	}
	w, _ = writerOf(t, WriterOptions{})
	if err := w.AddRangeTombstone(rt); err != nil || w.rangesLen != 4+16 {
		t.Fatal(w.rangesLen, err)
	}
	for maxRaw, full := range map[int]bool{40: true, 41: true, 42: false} {
		if w.o.maxRawBytes = maxRaw; w.Full(same) != full {
			t.Errorf("%d bytes of range tombstones, blocks of %d: full %v", w.rangesLen, maxRaw,
				!full)
		}
	}
}

// TestFinishedWriters: nothing is added to a finished file, nor is one finished that is
// empty, too long, or such that a block could not be written.
func TestFinishedWriters(t *testing.T) {
	w, _ := writerOf(t, WriterOptions{})
	if _, err := w.Finish(); err == nil || w.Add(&base.Entry{Kind: base.KindPut}) != err {
		t.Errorf("an empty file: %v", err)
	}
	w, fs := writerOf(t, WriterOptions{FileNum: 3})
	e := base.Entry{Key: []byte("k"), Seq: 1, Kind: base.KindPut}
	ok(t, w.Add(&e))
	if meta, err := w.Finish(); err != nil || meta.Num != 3 {
		t.Fatal(meta, err)
	}
	for range 2 {
		if _, err := w.Finish(); err == nil || err.Error() != "sst: writer is finished" ||
			w.Add(&e) != err || w.AddRangeTombstone(base.RangeTombstone{End: e.Key}) != err {
			t.Errorf("a finished file: %v", err)
		}
	}
	f, err := fs.Create(base.SSTName(0, 4))
	ok(t, err)
	w.Reset(f, WriterOptions{FileNum: 4})
	ok(t, w.AddRangeTombstone(base.RangeTombstone{End: e.Key, Seq: 7}))
	if meta, err := w.Finish(); err != nil || meta.MinSeq != 7 || meta.MaxSeq != 7 ||
		meta.Entries != 0 || meta.RangeTombstones != 1 {
		t.Errorf("after a reset: %+v, %v", meta, err)
	}
	w, _ = writerOf(t, WriterOptions{})
	if w.off = math.MaxInt64; w.Add(&e) != nil {
		t.Fatal("not added")
	}
	if _, err := w.Finish(); err == nil || errors.Is(err, base.ErrLimit) {
		t.Errorf("a file that is too long: %v", err)
	}
}

// TestCodecs: the codec of each block of a file. Index and range tombstones are never Zstd,
// filters and properties are not compressed.
func TestCodecs(t *testing.T) {
	for codec, want := range map[Codec]string{
		None:   "[none none none none none none]",
		LZ4:    "[lz4 none lz4 none lz4 none]",
		Snappy: "[snappy none snappy none snappy none]",
		Zstd:   "[zstd none lz4 none lz4 none]",
	} {
		w, fs := writerOf(t, WriterOptions{Codec: codec, FilterBits: 8, BlockBytes: 4096,
			FileNum: 1})
		for i := range 100 {
			e := base.Entry{Key: fmt.Appendf(nil, "%0200d", i), Seq: 1, Kind: base.KindPut,
				Value: make([]byte, 100)}
			if i == 99 { // a block that does not become smaller
				e.Value = make([]byte, 5000)
				rnd := rand.New(rand.NewPCG(1, 1))
				for j := range e.Value {
					e.Value[j] = byte(rnd.Uint32())
				}
			}
			ok(t, w.Add(&e))
			rt := base.RangeTombstone{Start: e.Key, End: append(e.Key, 0), Seq: 1}
			ok(t, w.AddRangeTombstone(rt))
		}
		meta, err := w.Finish()
		ok(t, err)
		r := NewReader(ReaderOptions{FS: fs, Meta: &meta})
		_, handles := handlesIn(t, r)
		var got []Codec
		for _, h := range handles {
			b := []byte{0}
			ok(t, r.readAt(b, int64(h.end()-trailerBytes), "codec"))
			got = append(got, Codec(b[0]))
		}
		if n := len(got); n < 6 || fmt.Sprint(append(got[:1:1], got[n-5:]...)) != want {
			t.Errorf("%v: codecs %v, want %s", codec, got, want)
		}
		ok(t, r.Close())
	}
}

// TestWorthwhile: a block is stored compressed if that saves more than an eighth.
func TestWorthwhile(t *testing.T) {
	for raw, want := range map[int]int{1: 0, 2: 1, 7: 6, 8: 6, 9: 7, 16: 13, 4096: 3583} {
		if got := worthwhile(raw); got != want {
			t.Errorf("%d bytes: at most %d, want %d", raw, got, want)
		}
	}
}

// TestCompress: a block is stored as the codec has it if that is worthwhile, else as it is, and
// comes back.
func TestCompress(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	noise := make([]byte, 300)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	var c compressor
	for codec, payload := range payloads(t, &c) {
		exact := 0
		for _, n := range []int{1, 2, 3, 200, 201, 202, 205} {
			for zeros := 0; zeros <= n; zeros++ {
				raw := append(bytes.Clone(noise[:n-zeros]), make([]byte, zeros)...)
				want, wantCodec := payload(raw), codec
				if len(want) == worthwhile(n) {
					exact++
				}
				if len(want) > worthwhile(n) || len(want) == 0 || worthwhile(n) < 1 {
					want, wantCodec = raw, None
				}
				what := fmt.Sprintf("%v, %d of %d bytes zero", codec, zeros, n)
				got, gotCodec, err := c.compress([]byte("before"), raw, codec)
				if err != nil || gotCodec != wantCodec || !bytes.HasPrefix(got, []byte("before")) {
					t.Fatalf("%s: %v, %v", what, gotCodec, err)
				}
				if got = got[len("before"):]; len(got) != len(want) {
					t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
				}
				if gotCodec != None {
					checkDecompress(t, what, gotCodec, got, raw)
				}
			}
		}
		if exact == 0 {
			t.Errorf("%v: no payload is as long as it may be", codec)
		}
	}
}

// payloads are what the libraries make of a block.
func payloads(t *testing.T, c *compressor) map[Codec]func(raw []byte) []byte {
	t.Helper()
	ok(t, c.openZstd())
	return map[Codec]func(raw []byte) []byte{
		Snappy: func(raw []byte) []byte { return s2.EncodeSnappy(nil, raw) },
		Zstd:   func(raw []byte) []byte { return c.zstd.EncodeAll(raw, nil) },
		LZ4: func(raw []byte) []byte {
			dst := make([]byte, 2*len(raw)+100)
			var lz lz4.Compressor
			n, err := lz.CompressBlock(raw, dst)
			ok(t, err)
			return dst[:n]
		},
	}
}

// checkDecompress checks that a payload comes back as raw, in the memory of dst if it fits there.
func checkDecompress(t *testing.T, what string, codec Codec, payload, raw []byte) {
	t.Helper()
	n := len(raw)
	for _, dst := range [][]byte{nil, make([]byte, 0, n), make([]byte, 3, n+9)} {
		back, err := decompress(dst, codec, payload, n)
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("%s: comes back otherwise, %v", what, err)
		}
		inPlace := cap(dst) > 0 && &back[0] == &dst[:1][0]
		if inPlace != (cap(dst) >= n) {
			t.Fatalf("%s: decoded into the memory that is there: %v", what, inPlace)
		}
	}
}

// TestDecompress: what is not of the length that the trailer says is damage.
func TestDecompress(t *testing.T) {
	raw := bytes.Repeat([]byte("some text "), 20)
	var c compressor
	for _, codec := range []Codec{LZ4, Snappy, Zstd} {
		payload, _, err := c.compress(nil, raw, codec)
		ok(t, err)
		for _, n := range []int{len(raw) - 1, len(raw) + 1} {
			if got, err := decompress(nil, codec, payload, n); err == nil {
				t.Errorf("%v: %d bytes, want %d", codec, len(got), n)
			} else if n > len(raw) && !errors.Is(err, errRawLength) {
				t.Errorf("%v, one byte too few: %v", codec, err)
			}
		}
		for n := range payload {
			if got, err := decompress(nil, codec, payload[:n], len(raw)); err == nil {
				t.Errorf("%v: %d bytes of %d of payload", codec, len(got), n)
			}
		}
	}
	_, err := decompress(nil, LZ4, make([]byte, 4), 4*255)
	_, err2 := decompress(nil, LZ4, make([]byte, 4), 4*255+1)
	if errors.Is(err, errRawLength) || err2 != errRawLength {
		t.Errorf("LZ4 of the highest ratio: %v, above: %v", err, err2)
	}
	large := make([]byte, 9<<20) // times the ratio more than 32 bits hold
	if _, err := decompress(nil, LZ4, large, len(large)+1); errors.Is(err, errRawLength) {
		t.Errorf("LZ4 of a large payload: %v", err)
	}
	if _, err := decompress(nil, 9, raw, 5); err == nil || err.Error() != "unknown codec(9)" {
		t.Errorf("codec 9: %v", err)
	}
}

// TestHandles: where blocks can be, and the seeds of their checksums.
func TestHandles(t *testing.T) {
	for _, c := range []struct {
		h      blockHandle
		size   int64
		maxRaw uint32
		ok     bool
	}{
		{blockHandle{10, 5, 5}, 24, 5, true},
		{blockHandle{10, 5, 5}, 23, 5, false},
		{blockHandle{10, 5, 5}, 24, 4, false},
		{blockHandle{10, 5, 4}, 24, 5, false},
		{blockHandle{10, 5, 6}, 24, 6, true},
		{blockHandle{0, 2, 2 << 16}, 11, math.MaxUint32, true},
		{blockHandle{0, 2, 2<<16 + 1}, 11, math.MaxUint32, false},
		{blockHandle{0, 0, 0}, 9, 0, true},
		{blockHandle{math.MaxUint64 - 8, 0, 0}, 24, 5, false}, // the end overflows
		{blockHandle{25, 0, 0}, 24, 5, false},
	} {
		if got := c.h.check(c.size, c.maxRaw); got != c.ok {
			t.Errorf("%+v in %d bytes, at most %d: %v", c.h, c.size, c.maxRaw, got)
		}
	}
	id := newFileID([16]byte{1, 2, 3}, 4)
	for off, want := range map[uint64]uint32{
		0: uint32(id), 0x1234: uint32(id) ^ 0x1234, 0x5_0000_0007: uint32(id) ^ 7 ^ 5<<16,
		0x30002_0000_0000: uint32(id) ^ 0x20003,
	} {
		if got := id.seed(off); got != want {
			t.Errorf("the seed at %x is %08x, want %08x", off, got, want)
		}
	}
	for h, want := range map[hex32]string{
		0: "00000000", 0x1234abcd: "1234abcd", 0xf0000009: "f0000009",
	} {
		if h.String() != want {
			t.Errorf("%s, want %s", h, want)
		}
	}
}

// TestFilterPartitions: a filter has the keys of whole blocks, up to the limit.
func TestFilterPartitions(t *testing.T) {
	for limit, want := range map[int]string{
		1: "[5 5 5 5 5]", 9: "[5 5 5 5 5]", 10: "[10 10 5]", 14: "[10 10 5]", 15: "[15 10]",
		24: "[20 5]", 25: "[25]", 26: "[25]",
	} {
		var s filterSet
		s.reset(8, limit, 100)
		for i := range 25 {
			s.hash = uint64(i) * 0x9e3779b97f4a7c15
			s.add()
			if i%5 == 4 {
				ok(t, s.finishBlock(i/5))
			}
		}
		ok(t, s.finishPartition())
		if err := s.finishPartition(); err != nil { // there is nothing to finish
			t.Fatal(err)
		}
		var got []uint64
		blocks := uint64(0)
		for i, p := range s.parts {
			if got = append(got, p.keys); p.firstBlock != blocks {
				t.Errorf("limit %d: filter %d begins at block %d, want %d", limit, i, p.firstBlock,
					blocks)
			}
			blocks += p.keys / 5
		}
		if fmt.Sprint(got) != want || len(s.ends) != len(got) {
			t.Errorf("limit %d: filters of %v keys, want %s", limit, got, want)
		}
	}
}

// TestFilterReuse: filters that begin again hold nothing of those before.
func TestFilterReuse(t *testing.T) {
	var used filterSet
	build := func(s *filterSet, n int) (encoded []byte, parts string) {
		s.reset(8, 20, 100)
		for i := range n {
			s.hash = uint64(i) * 0x9e3779b97f4a7c15
			s.add()
			if i%10 == 9 {
				ok(t, s.finishBlock(i/10))
			}
		}
		if n%10 == 0 { // else it is left as it is
			ok(t, s.finishPartition())
		}
		return s.encoded, fmt.Sprint(s.parts, s.ends, s.first, s.sizeBytes() == len(s.encoded))
	}
	for _, n := range []int{45, 40, 27, 10, 20, 55, 70} {
		var fresh filterSet
		got, parts := build(&used, n)
		if want, wantParts := build(&fresh, n); !bytes.Equal(got, want) || parts != wantParts {
			t.Errorf("%d keys: %s, want %s", n, parts, wantParts)
		}
	}
	used.reset(0, 20, 100)
	used.add()
	if err := used.finishBlock(0); err != nil || len(used.parts) > 0 || used.builder.Len() > 0 {
		t.Errorf("filters of no bits: %v, %v", used.parts, err)
	}
}

// TestDescribeWithoutFilters: the account says that there are none, and an error of what it is
// written to comes back.
func TestDescribeWithoutFilters(t *testing.T) {
	fs, meta := batchFile(t, 0, 40, 2, WriterOptions{FileNum: 1})
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta})
	defer r.Close()
	var out bytes.Buffer
	err := r.Describe(&out)
	if err != nil || !bytes.Contains(out.Bytes(), []byte("filters         none\n")) {
		t.Errorf("%v in\n%s", err, out.String())
	}
	if err := r.Describe(fullWriter{}); err != errFull {
		t.Errorf("a full device: %v", err)
	}
}

var errFull = errors.New("full")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

// TestShortestFile: a footer alone can be decoded; what is not as long as it says is damage.
func TestShortestFile(t *testing.T) {
	f := footer{num: 5, size: footerBytes}
	if got, err := decodeFooter(f.append(nil), footerBytes); err != nil || got != f {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := decodeFooter(f.append(nil), footerBytes-1); err == nil {
		t.Error("a file that is shorter than its footer")
	}
}
