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

// TestVerifyFindsLies: files whose checksums are all right but whose parts
// contradict each other.
func TestVerifyFindsLies(t *testing.T) {
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
		r := NewReader(ReaderOptions{FS: fs, Meta: meta, DBID: p.footer.dbid})
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	h := q.partitions[0].handle
	change(q)
	q.partitions[0].handle = h
	p.props = q.append(nil)
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

// TestContradictions: parts of a file that are right by themselves and say different things.
func TestContradictions(t *testing.T) {
	for want, change := range map[string]func(p *parts){
		"corrupt index in 000-7.sst at offset 501: want 2, got 1": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.blocks++ })
		},
		"corrupt filter in 000-7.sst at offset 420: want 16, got 8": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.filterBits = 16 })
		},
		"corrupt range tombstones in 000-7.sst at offset 404: want 2, got 1": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.ranges++ })
		},
		"corrupt layout in 000-7.sst at offset 583: want blocks in order, got 5000": func(p *parts) {
			changeProps(t, p, func(q *properties) { q.dataEnd = 5000 })
		},
		"corrupt properties in 000-7.sst at offset 583: want no more blocks and keys than entries, " +
			"got 20": func(p *parts) { changeProps(t, p, func(q *properties) { q.blocks = 21 }) },
		"corrupt properties in 000-7.sst at offset 583: want no more blocks and keys than entries, got " +
			"20 (keys)": func(p *parts) { changeProps(t, p, func(q *properties) { q.keys = 21 }) },
		"corrupt properties in 000-7.sst at offset 583: want blocks for the entries, got 0": func(
			p *parts) {
			q, err := decodeProperties(p.props)
			if err != nil {
				t.Fatal(err)
			}
			q.blocks, q.filterBits, q.partitions = 0, 0, nil
			p.props = q.append(nil)
		},
		"corrupt lowest sequence number in 000-7.sst at offset 0: want 31, got 30": func(p *parts) {
			b, err := openDataBlock(p.block)
			if err != nil {
				t.Fatal(err)
			}
			var w blockBuilder
			for i := range b.n {
				var e blockEntry
				b.entry(i, &e)
				w.add(&base.Entry{Key: append(bytes.Clone(b.prefix()), e.suffix...), Seq: e.seq,
					Kind: e.kind, Expiry: e.expiry, Value: e.value})
			}
			w.minSeq--
			p.block = w.appendBlock(nil)
		},
	} {
		p := seedParts(t)
		change(&p)
		fs := vfs.NewMem()
		blocks := hostile{p.block, p.ranges, p.filter, p.index, p.props}
		meta, err := hostileFile(fs, p.footer, blocks)
		if err == nil {
			r := NewReader(ReaderOptions{FS: fs, Meta: meta, DBID: p.footer.dbid})
			err = r.Verify(context.Background())
		}
		if want, _, _ = strings.Cut(want, " (keys)"); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	meta, _, b := craftedFile(t)
	for what, change := range map[string]func(m *base.FileMeta){
		"bytes":          func(m *base.FileMeta) { m.RawBytes++ },
		"lowest expiry":  func(m *base.FileMeta) { m.MinExpiry-- },
		"highest expiry": func(m *base.FileMeta) { m.MaxExpiry++ },
	} {
		m := meta
		change(&m)
		err := openBytes(t, m, b, 0).Verify(context.Background())
		if err == nil || !strings.Contains(err.Error(),
			"corrupt description in 000-7.sst at offset 702") {
			t.Errorf("other %s: %v", what, err)
		}
	}
	f, err := decodeFooter(b[len(b)-footerBytes:], meta.SizeBytes)
	if err != nil {
		t.Fatal(err)
	}
	f.size += 3
	meta.SizeBytes += 3
	end := f.properties.end()
	gap := f.append(append(bytes.Clone(b[:end]), 0, 0, 0))
	err = openBytes(t, meta, gap, 0).Verify(context.Background())
	if err == nil || !strings.Contains(err.Error(), "corrupt end of properties") {
		t.Errorf("a gap before the footer: %v", err)
	}
	h := f.properties
	payload := bytes.Clone(b[h.off : h.off+uint64(h.raw)])
	f.properties.off += 3
	moved := newFileID(f.dbid, f.num).appendTrailer(payload, 0, None, len(payload),
		f.properties.off)
	gap = append(append(bytes.Clone(b[:h.off]), 0, 0, 0), moved...)
	err = openBytes(t, meta, f.append(gap), 0).Verify(context.Background())
	if err == nil || !strings.Contains(err.Error(),
		"corrupt properties in 000-7.sst at offset 705") {
		t.Errorf("a gap before the properties: %v", err)
	}
	if _, err := openIndex(append(make([]byte, 0, 17), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0,
		7)); err == nil ||
		err.Error() != "corrupt index at offset 16: want no further bytes, got 1" {
		t.Errorf("an empty index with a byte behind: %v", err)
	}
}
