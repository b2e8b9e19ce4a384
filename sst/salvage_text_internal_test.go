package sst

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// salvageCase is a file of one partition, with its blocks.
type salvageCase struct {
	meta    base.FileMeta
	id      Identity
	b       []byte
	names   []string
	handles []blockHandle
}

func salvageCaseOf(t *testing.T, codec Codec, valueBytes, n int) salvageCase {
	t.Helper()
	id := Identity{Num: 7, Stripe: base.StripeID(keycodec.Stripe([]byte("p")))}
	w, fs := writerOf(t, WriterOptions{Stripe: id.Stripe, FileNum: 7, BlockBytes: 512, Codec: codec,
		FilterBits: 8})
	for i := range n {
		key := keycodec.Key{PK: []byte("p"), SK: fmt.Appendf(nil, "%04d", i)}
		e := base.Entry{
			Key: keycodec.AppendOrdered(nil, key), Seq: base.SeqNum(i + 1), Kind: base.KindPut,
			Value: bytes.Repeat([]byte{byte(10 + i)}, valueBytes),
		}
		ok(t, w.Add(&e))
		if i < 2 {
			rt := base.RangeTombstone{Start: e.Key, End: append(e.Key, 0), Seq: 300}
			ok(t, w.AddRangeTombstone(rt))
		}
	}
	meta, err := w.Finish()
	ok(t, err)
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta})
	defer r.Close()
	b := make([]byte, meta.SizeBytes)
	ok(t, r.readAt(b, 0, "file"))
	names, handles := handlesIn(t, r)
	return salvageCase{meta, id, b, names, handles}
}

// salvageText says what is salvaged of a file.
func salvageText(t *testing.T, fs vfs.FS, name string, id Identity, known *base.FileMeta) string {
	t.Helper()
	s, err := Salvage(fs, name, id, known)
	if err != nil {
		return err.Error() + "\n"
	}
	defer s.Close()
	var out strings.Builder
	fmt.Fprintf(&out, "%d entries up to %d, %d range tombstones, blocks at", s.Entries, s.MaxSeq,
		len(s.Ranges))
	for _, h := range s.blocks {
		fmt.Fprintf(&out, " %d", h.off)
	}
	out.WriteByte('\n')
	for _, l := range s.Lost {
		what := fmt.Sprintf("[%q, %q]", l.First, l.Last)
		if l.Ranges {
			what = "range tombstones"
		}
		fmt.Fprintf(&out, "  lost at %d: %s, %d entries: %v\n", l.Offset, what, l.Entries, l.Err)
	}
	n := uint64(0)
	src := s.NewSource()
	for range cursor.All(src) {
		n++
	}
	if n != s.Entries || src.Err() != nil || len(src.Rows()) > 0 {
		t.Errorf("%d of %d entries come back: %v", n, s.Entries, src.Err())
	}
	return out.String()
}

// damage is a change of the bytes of a file.
type damage struct {
	what   string
	change func(b []byte) []byte
}

// flip changes a byte in each of some blocks.
func (c *salvageCase) flip(b []byte, blocks ...int) []byte {
	for _, i := range blocks {
		b[c.handles[i].off+3] ^= 1
	}
	return b
}

// noFooter changes a byte of the footer.
func noFooter(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

func unchanged(b []byte) []byte { return b }

// lastData returns the number of the last data block.
func (c *salvageCase) lastData() int { return len(c.handles) - 5 }

// damagesOfEachBlock lack one block, alone or with the footer, or end with it.
func (c *salvageCase) damagesOfEachBlock() (list []damage) {
	for i, name := range c.names {
		end := c.handles[i].end()
		list = append(list,
			damage{"without " + name, func(b []byte) []byte { return c.flip(b, i) }},
			damage{"without footer and " + name, func(b []byte) []byte {
				return noFooter(c.flip(b, i))
			}},
			damage{"up to the end of " + name, func(b []byte) []byte { return b[:end] }},
			damage{"almost up to the end of " + name, func(b []byte) []byte { return b[:end-1] }})
	}
	return list
}

// damagesOfSeveralBlocks lack blocks in more than one place.
func (c *salvageCase) damagesOfSeveralBlocks() []damage {
	last := c.lastData()
	ranges := last + 1
	return []damage{
		{"without footer and blocks 1, 2 and 4", func(b []byte) []byte {
			return noFooter(c.flip(b, 1, 2, 4))
		}},
		{"without footer, the first and the last block", func(b []byte) []byte {
			return noFooter(c.flip(b, 0, last))
		}},
		{"without footer, a block and the range tombstones", func(b []byte) []byte {
			return noFooter(c.flip(b, 2, ranges))
		}},
		{"up to the end of the data, without a block", func(b []byte) []byte {
			return c.flip(b, 2)[:c.handles[last].end()]
		}},
		{"up to the end of the range tombstones, without a block", func(b []byte) []byte {
			return c.flip(b, 2)[:c.handles[ranges].end()]
		}},
		{"a block and the range tombstones", func(b []byte) []byte {
			return c.flip(b, 2, ranges)
		}},
	}
}

// damagesOfTheWhole leave almost nothing, add something, or move blocks.
func (c *salvageCase) damagesOfTheWhole() []damage {
	end := c.handles[0].end()
	return []damage{
		{"nothing", func([]byte) []byte { return nil }},
		{"zeros", func(b []byte) []byte { return make([]byte, len(b)) }},
		{"the trailer of the first block alone", func(b []byte) []byte {
			return b[end-trailerBytes : end]
		}},
		{"more bytes", func(b []byte) []byte { return append(b, "more"...) }},
		{"other blocks at the end", func(b []byte) []byte {
			return append(b, b[:c.handles[2].off]...)
		}},
		{"blocks in the wrong order", func(b []byte) []byte {
			swapBlocks(c, b, 0, 1)
			return b
		}},
		{"blocks in the wrong order, no footer", func(b []byte) []byte {
			swapBlocks(c, b, 0, 1)
			return noFooter(b)
		}},
	}
}

// TestSalvageAccounts: what is salvaged of files that are damaged in all sorts of places, and
// what the account of the losses says, with the manifest's description and without.
func TestSalvageAccounts(t *testing.T) {
	var text strings.Builder
	for _, codec := range []Codec{None, LZ4} {
		c := salvageCaseOf(t, codec, 40, 50)
		fs := vfs.NewMem()
		try := func(d damage, id Identity) {
			ok(t, vfstest.WriteFile(fs, "file", d.change(bytes.Clone(c.b))))
			with := salvageText(t, fs, "file", id, &c.meta)
			without := salvageText(t, fs, "file", id, nil)
			if fmt.Fprintf(&text, "# %v, %s\n%s", codec, d.what, with); with != without {
				fmt.Fprintf(&text, "# %v, %s, without a description\n%s", codec, d.what, without)
			}
		}
		for _, d := range slices.Concat(
			[]damage{{"intact", unchanged}, {"no footer", noFooter}},
			c.damagesOfEachBlock(), c.damagesOfSeveralBlocks(), c.damagesOfTheWhole(),
		) {
			try(d, c.id)
		}
		other := c.id
		other.Num++
		try(damage{"of another number", unchanged}, other)
		fmt.Fprint(&text, salvageText(t, fs, "none", other, nil))
	}
	checkText(t, "salvage.txt", text.String())
}

// swapBlocks puts each of two blocks into the place of the other, under right checksums, if they
// have the same length.
func swapBlocks(c *salvageCase, b []byte, i, j int) {
	x, y := c.handles[i], c.handles[j]
	if x.stored != y.stored {
		return
	}
	id := newFileID([16]byte{}, 7)
	n := uint64(x.stored)
	one, two := bytes.Clone(b[x.off:x.off+n+5]), bytes.Clone(b[y.off:y.off+n+5])
	copy(b[x.off:], binary.LittleEndian.AppendUint32(two, id.checksum(two, x.off)))
	copy(b[y.off:], binary.LittleEndian.AppendUint32(one, id.checksum(one, y.off)))
}

// TestSalvageOfCraftedIndexes: an index that contradicts itself is no index; the blocks are found
// without it. Blocks that it has wrong bounds for are found with it.
func TestSalvageOfCraftedIndexes(t *testing.T) {
	var text transcript
	c := salvageCaseOf(t, None, 40, 12)
	h := c.handles[len(c.handles)-2]
	fs := vfs.NewMem()
	for at := range h.raw {
		b := bytes.Clone(c.b)
		b[h.off+uint64(at)] ^= 0x41
		payload := b[h.off : h.off+uint64(h.raw)]
		id := newFileID([16]byte{}, 7)
		copy(b[h.off:], id.appendTrailer(payload, 0, None, len(payload), h.off))
		ok(t, vfstest.WriteFile(fs, "file", b))
		account := salvageText(t, fs, "file", c.id, &c.meta)
		text.add(fmt.Sprint(at), strings.ReplaceAll(strings.TrimSpace(account), "\n", ";"))
	}
	text.flush()
	checkText(t, "salvage-index.txt", text.String())
}

// TestSalvageReads: around a place that cannot be read, 4 KiB are given up, elsewhere pieces of
// 64 KiB are read.
func TestSalvageReads(t *testing.T) {
	c := salvageCaseOf(t, None, 3900, 36)
	broken := errors.New("bad sector")
	name := c.meta.Name()
	mem := memOf(t, c.meta, c.b)
	var reads []string
	fs := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind != vfstest.OpReadAt {
			return nil
		}
		reads = append(reads, fmt.Sprintf("%d+%d", op.Offset, op.Len))
		for _, at := range []int64{70_000, c.meta.SizeBytes - 50} {
			if op.Offset <= at && at < op.Offset+op.Len {
				return broken
			}
		}
		return nil
	})
	text := salvageText(t, fs, name, c.id, &c.meta)
	checkText(t, "salvage-reads.txt", strings.Join(reads, "\n")+"\n"+text)
}

// TestSalvageErrors: no operation that fails is taken for the end of a file.
func TestSalvageErrors(t *testing.T) {
	c := salvageCaseOf(t, None, 40, 50)
	broken := errors.New("bad sector")
	name := c.meta.Name()
	mem := memOf(t, c.meta, c.b)
	for what, read := range map[string]func(fs vfs.FS) error{
		"salvage": func(fs vfs.FS) error {
			s, err := Salvage(fs, name, c.id, &c.meta)
			if err != nil {
				return err
			}
			found := uint64(0)
			src := s.NewSource()
			for range cursor.All(src) {
				found++
			}
			if len(s.Lost) > 0 {
				err = s.Lost[0].Err
			}
			again := src.Rows()
			if found < c.meta.Entries && src.Err() == nil && err == nil || len(again) > 0 {
				t.Errorf("%d entries, no error, then %v", found, again)
			}
			return errors.Join(err, src.Err(), s.Close())
		},
		"identity": func(fs vfs.FS) error { _, err := ReadIdentity(fs, name); return err },
		"description": func(fs vfs.FS) error {
			meta, id, err := ReadMeta(fs, name)
			if empty := meta.Num == 0; empty != (err != nil) || id != [16]byte{} {
				t.Errorf("%+v, %v", meta, err)
			}
			return err
		},
	} {
		for n := int64(1); ; n++ {
			p := &vfstest.FailPlan{At: n, Err: broken}
			p.Match = func(op vfstest.Op) bool { return op.Kind != vfstest.OpClose }
			err := read(vfstest.NewFault(mem, p.Hook))
			_, failed := p.Failed()
			// Without footer or index the whole file is read, and nothing may be lost.
			noIndex := what == "salvage" && 2 <= n && n <= 4
			if failed != errors.Is(err, broken) && !(noIndex && err == nil) {
				t.Errorf("%s, operation %d of %d fails: %v", what, n, p.Count(), err)
			}
			if !failed {
				break
			}
		}
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files stay open", n)
	}
}

// TestReadIdentity: a file says which it is; an error of what it says is damage.
func TestReadIdentity(t *testing.T) {
	c := salvageCaseOf(t, None, 40, 12)
	fs := vfs.NewMem()
	write := func(name string, b []byte) { ok(t, vfstest.WriteFile(fs, name, b)) }
	write("file", c.b)
	if id, err := ReadIdentity(fs, "file"); id != c.id || err != nil {
		t.Errorf("%+v, %v, want %+v", id, err, c.id)
	}
	changed := bytes.Clone(c.b)
	changed[len(c.b)-50] ^= 1
	write("changed", changed)
	write("short", c.b[:103])
	crafted := bytes.Clone(c.b)
	h := c.handles[len(c.handles)-1]
	crafted[h.off] = 9 // a version of properties
	payload := crafted[h.off : h.off+uint64(h.raw)]
	copy(payload, newFileID([16]byte{}, 7).appendTrailer(payload, 0, None, len(payload), h.off))
	write("crafted", crafted)
	want := fmt.Sprintf("unknown format version of properties in crafted at offset %d: "+
		"want 1, got 9", h.off)
	if _, _, err := ReadMeta(fs, "crafted"); fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
	write("empty", nil)
	for name, want := range map[string]string{
		"changed": fmt.Sprintf("corrupt footer checksum in changed at offset %d", len(c.b)-104),
		"short":   "corrupt footer in short at offset 0: want 104 bytes, got end of file after 103",
		"empty":   "corrupt footer in empty at offset 0: want 104 bytes, got end of file after 0",
		"none":    "sst: ",
	} {
		for _, read := range []func() error{
			func() error { _, err := ReadIdentity(fs, name); return err },
			func() error { _, _, err := ReadMeta(fs, name); return err },
		} {
			if err := read(); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := fs.OpenFiles(); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

// TestBlockScan: a block is found by its trailer, wherever it starts, for as many bytes as the
// budget has.
func TestBlockScan(t *testing.T) {
	id := newFileID([16]byte{1}, 2)
	rnd := rand.New(rand.NewPCG(2, 2))
	before := make([]byte, 50)
	for i := range before {
		before[i] = byte(rnd.Uint32())
	}
	raw := bytes.Repeat([]byte("raw bytes "), 30)
	var comp compressor
	for _, codec := range []Codec{None, LZ4} {
		b := bytes.Clone(before)
		b, _, err := comp.compress(b, raw, codec)
		ok(t, err)
		b = id.appendTrailer(b, len(before), codec, len(raw), uint64(len(before)))
		p := len(b) - trailerBytes
		n := p - len(before)
		want := blockHandle{off: 50, stored: uint32(n), raw: 300}
		search := int64(n) // what finding the block takes
		if codec != None {
			search = int64(p + p + n) // from lo, byte by byte, and again
		}
		for _, c := range []struct {
			lo, p  int
			budget int64
			ok     bool
		}{
			{50, p, int64(n), true},
			{50, p, int64(n) - 1, false},
			{0, p, search, true},
			{0, p, search - 1, false},
			{51, p, 1000, false},
			{0, p - 1, 1000, false},
		} {
			s := blockScan{id: id, b: b, budget: c.budget}
			if h, ok := s.before(c.lo, c.p); ok != c.ok || ok && h != want {
				t.Errorf("%v from %d, trailer at %d, budget %d: %+v, %v", codec, c.lo, c.p,
					c.budget, h, ok)
			}
			if c.ok && c.lo == 0 {
				if s.budget != 0 {
					t.Errorf("%v: %d of %d bytes are left", codec, s.budget, c.budget)
				}
			}
		}
	}
}
