package sst

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/zonemap"
)

// TestVerifyFindsContradictions: files whose checksums are all right but whose parts
// contradict each other.
func TestVerifyFindsContradictions(t *testing.T) {
	lies := map[string]func(p *parts){
		"entry head":    func(p *parts) { p.block[blockHeaderBytes]++ },
		"zone: lowest":  func(p *parts) { p.block[8]-- },
		"key order":     func(p *parts) { repeatVersion(t, p.block) },
		"index head":    func(p *parts) { p.index[indexHeaderBytes]++ },
		"index seq":     func(p *parts) { p.index[indexRecordAt(p.index)+handleBytes]++ },
		"filter":        func(p *parts) { clear(p.filter[zonemap.FilterHeaderBytes:]) },
		"zone map":      func(p *parts) { p.index[len(p.index)-1]++ },
		"distinct keys": func(p *parts) { changeProps(t, p, func(q *properties) { q.keys-- }) },
		"zone map of the file": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.zone.RawBytes++ })
		},
		"sequence numbers": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.maxSeq++ })
		},
		"column zones of the file": func(p *parts) { addColumns(t, p, "\x13\x01", "\x00") },
		"column zones of a block":  func(p *parts) { addColumns(t, p, "\x13\x01\x00", "\x01\x05") },
		"end of data": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.dataEnd-- })
		},
	}
	for name, lie := range lies {
		p := seedParts(t)
		lie(&p)
		fs := vfs.NewMem()
		blocks := hostile{p.block, p.ranges, p.filter, p.index, p.props}
		meta, err := hostileFile(fs, p.footer, blocks)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := NewReader(ReaderOptions{FS: fs, Meta: &meta, DBID: p.footer.dbid})
		err = r.Verify(context.Background())
		if !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if word := strings.FieldsFunc(name, notLetter)[0]; !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error speaks of something else: %v", name, err)
		}
	}
}

// addColumns adds column zones, of the file and as the field of its block.
func addColumns(t *testing.T, p *parts, file, field string) {
	changeProps(t, p, func(q *properties) {
		q.collectors = append(q.collectors, collected{columnsName, []byte(file)})
	})
	p.index = append(p.index, field...)
}

func notLetter(c rune) bool { return c < 'a' || c > 'z' }

// indexRecordAt returns where the first record of an index starts.
func indexRecordAt(index []byte) int {
	x, err := openIndex(index)
	if err != nil {
		panic(err)
	}
	return int(x.offset(0))
}

// repeatVersion makes the second version of some key as new as the first.
func repeatVersion(t *testing.T, block []byte) {
	t.Helper()
	b, err := openDataBlock(block)
	ok(t, err)
	tag := func(i int) []byte {
		_, rest, ok := b.suffix(i)
		n := 0
		if _, n = binary.Uvarint(rest); !ok || n <= 0 {
			t.Fatal("no tag")
		}
		return rest[:n]
	}
	for i := range b.n - 1 {
		first, _, _ := b.suffix(i)
		second, _, _ := b.suffix(i + 1)
		if bytes.Equal(first, second) && len(tag(i)) == len(tag(i+1)) {
			kind := tag(i + 1)[0] & 3
			copy(tag(i+1), tag(i))
			tag(i + 1)[0] = tag(i + 1)[0]&^3 | kind
			return
		}
	}
	t.Fatal("no key with two versions")
}

func changeProps(t *testing.T, p *parts, change func(*properties)) {
	t.Helper()
	q, err := decodeProperties(p.props)
	ok(t, err)
	change(q)
	p.props = q.append(nil)
}

// TestPropertiesBounds: long lists of nothing are refused before they are kept.
func TestPropertiesBounds(t *testing.T) {
	for name, p := range map[string]*properties{
		"collectors":  {collectors: make([]collected, 1<<20)},
		"value files": {values: make([]base.ValueUse, 1<<20)},
	} {
		whole := p.append(nil)
		damaged := bytes.Clone(whole) // no element can be read
		for i := len(damaged) - 2<<20; i < len(damaged); i++ {
			damaged[i] = 0xff
		}
		for i, b := range [][]byte{whole, damaged} {
			n := testutil.AllocsPerRun(1, func() {
				if _, err := decodeProperties(b); err == nil {
					t.Errorf("%s: no error", name)
				}
			})
			if n > 10 {
				t.Errorf("%s, %d: %v allocations", name, i, n)
			}
		}
	}
}

// TestDecompressBounds: a few bytes that claim to be a gigabyte cost nothing.
func TestDecompressBounds(t *testing.T) {
	payload := []byte{0x10, 'a', 1, 0}
	n := testutil.AllocsPerRun(10, func() {
		if _, err := decompress(nil, LZ4, payload, 1<<30); err == nil {
			t.Fatal("no error")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	h := blockHandle{off: 0, stored: 10, raw: 10*maxRatio + 1}
	if h.check(1<<40, maxRawBytes) {
		t.Error("a ratio that no codec reaches is accepted")
	}
}

// wrongProperties are right by themselves and contradict what the file has.
var wrongProperties = []struct {
	want   string // the error, after "corrupt "
	change func(q *properties)
}{
	{"index in 000-7.sst at offset 501: want 2, got 1", func(q *properties) { q.blocks++ }},
	{"filter in 000-7.sst at offset 420: want 16, got 8",
		func(q *properties) { q.filterBits = 16 }},
	{"range tombstones in 000-7.sst at offset 404: want 2, got 1",
		func(q *properties) { q.ranges++ }},
	{"layout in 000-7.sst at offset 583: want blocks in order, got 5000",
		func(q *properties) { q.dataEnd = 5000 }},
	{"properties in 000-7.sst at offset 583: want no more blocks and keys than entries, got 20",
		func(q *properties) { q.blocks = 21 }},
	{"properties in 000-7.sst at offset 583: want no more blocks and keys than entries, got 20",
		func(q *properties) { q.keys = 21 }},
	{"properties in 000-7.sst at offset 583: want blocks for the entries, got 0",
		func(q *properties) { q.blocks, q.filterBits, q.partitions = 0, 0, nil }},
}

// TestContradictions: properties that are right by themselves and contradict the file.
func TestContradictions(t *testing.T) {
	for _, c := range wrongProperties {
		p := seedParts(t)
		changeProps(t, &p, c.change)
		if err := verifyParts(p); err == nil || err.Error() != "corrupt "+c.want {
			t.Errorf("%v, want corrupt %s", err, c.want)
		}
	}
}

// verifyParts returns what opening and verifying a file of some parts ends with.
func verifyParts(p parts) error {
	fs := vfs.NewMem()
	blocks := hostile{p.block, p.ranges, p.filter, p.index, p.props}
	meta, err := hostileFile(fs, p.footer, blocks)
	if err != nil {
		return err
	}
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta, DBID: p.footer.dbid})
	return r.Verify(context.Background())
}

// TestLowestSeqOfBlock: a block whose header has a lower sequence number than its entries.
func TestLowestSeqOfBlock(t *testing.T) {
	p := seedParts(t)
	b, err := openDataBlock(p.block)
	ok(t, err)
	var w blockBuilder
	for i := range b.n {
		var e base.Entry
		b.entry(i, &e)
		w.add(&base.Entry{Key: append(bytes.Clone(b.prefix()), e.Key...), Seq: e.Seq,
			Kind: e.Kind, Expiry: e.Expiry, Value: e.Value})
	}
	w.minSeq--
	p.block = w.appendBlock(nil)
	const want = "corrupt lowest sequence number in 000-7.sst at offset 0: want 31, got 30"
	if err := verifyParts(p); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOtherDescriptions: a file that is not as its description in the manifest.
func TestOtherDescriptions(t *testing.T) {
	meta, _, b := craftedFile(t)
	for what, change := range map[string]func(m *base.FileMeta){
		"bytes":          func(m *base.FileMeta) { m.RawBytes++ },
		"lowest expiry":  func(m *base.FileMeta) { m.MinExpiry-- },
		"highest expiry": func(m *base.FileMeta) { m.MaxExpiry++ },
	} {
		m := meta
		change(&m)
		err := openBytes(t, m, b, 0).Verify(context.Background())
		checkContains(t, "other "+what, err, "corrupt description in 000-7.sst at offset 702")
	}
}

func checkContains(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestGaps: bytes between the last blocks that belong to none.
func TestGaps(t *testing.T) {
	meta, _, b := craftedFile(t)
	f, err := decodeFooter(b[len(b)-footerBytes:], meta.SizeBytes)
	ok(t, err)
	f.size += 3
	meta.SizeBytes += 3
	h := f.properties

	gap := append(bytes.Clone(b[:h.end()]), 0, 0, 0)
	err = openBytes(t, meta, f.append(gap), 0).Verify(context.Background())
	checkContains(t, "a gap before the footer", err, "corrupt end of properties")

	payload := bytes.Clone(b[h.off : h.off+uint64(h.raw)])
	f.properties.off += 3
	id := newFileID(f.dbid, f.num)
	moved := id.appendTrailer(payload, 0, None, len(payload), f.properties.off)
	gap = append(append(bytes.Clone(b[:h.off]), 0, 0, 0), moved...)
	err = openBytes(t, meta, f.append(gap), 0).Verify(context.Background())
	checkContains(t, "a gap before the properties", err,
		"corrupt properties in 000-7.sst at offset 705")
}

// TestByteAfterIndex: an empty index with a byte after it.
func TestByteAfterIndex(t *testing.T) {
	index := make([]byte, indexHeaderBytes+1)
	index[0], index[indexHeaderBytes] = 1, 7
	_, err := openIndex(index)
	const want = "corrupt index at offset 16: want no further bytes, got 1"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
