package sst

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

var writeTexts = flag.Bool("texts", false, "write the texts in testdata that tests compare with")

// checkText compares what a test has seen with a file in testdata.
func checkText(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *writeTexts {
		ok(t, os.WriteFile(path, []byte(got), 0o666))
	}
	want, err := os.ReadFile(path)
	ok(t, err)
	gots, wants := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gots), len(wants)) {
		var g, w string
		if i < len(gots) {
			g = gots[i]
		}
		if i < len(wants) {
			w = wants[i]
		}
		if g != w {
			t.Fatalf("%s, line %d:\n%s\nwant\n%s\n(if that is meant: go test -run '^%s$' -texts)",
				path, i+1, g, w, t.Name())
		}
	}
}

// transcript gathers lines. Those that say the same of places in a row, whatever is there
// instead, become one.
type transcript struct {
	strings.Builder
	first, last       string // places
	text              string
	firstGot, lastGot string
}

func (s *transcript) add(place, text string) {
	text, got, _ := strings.Cut(text, ", got ")
	if text != s.text {
		s.flush()
		s.first, s.text, s.firstGot = place, text, got
	}
	s.last, s.lastGot = place, got
}

func (s *transcript) flush() {
	if s.text != "" {
		fmt.Fprintf(s, "%s: %s", join(s.first, s.last), s.text)
		if s.lastGot != "" {
			fmt.Fprintf(s, ", got %s", join(s.firstGot, s.lastGot))
		}
		s.WriteByte('\n')
	}
	s.text = ""
}

func join(first, last string) string {
	if first == last {
		return first
	}
	return first + " to " + last
}

// changesOf calls try with b cut at every place, and with every byte changed in four ways.
func changesOf(b []byte, try func(place string, changed []byte)) {
	for n := range b {
		try(fmt.Sprintf("cut at %d", n), bytes.Clone(b[:n]))
	}
	try("one byte more", append(bytes.Clone(b), 0))
	for at, was := range b {
		for _, now := range []byte{was + 1, was - 1, was ^ 0x80, 0xff} {
			changed := bytes.Clone(b)
			changed[at] = now
			try(fmt.Sprint(at), changed)
		}
	}
}

// TestDecoders: what decoders say of every beginning and of every changed byte of what they
// decode. Errors say where, what was wanted, and what is there.
func TestDecoders(t *testing.T) {
	p := seedParts(t)
	tail, err := decodeProperties(p.props)
	ok(t, err)
	tail.collectors = []collected{{"one", []byte("12")}, {"", nil}}
	tail.partitions = append(tail.partitions, filterPartition{firstBlock: 2, keys: 1})
	tail.blocks = 4
	foot := p.footer.append(nil)
	var s transcript
	for _, d := range []struct {
		name   string
		b      []byte
		decode func(b []byte) string
	}{
		{"footer", foot, func(b []byte) string {
			if len(b) == footerBytes && b[88] == foot[88] { // else see what a wrong one does
				binary.LittleEndian.PutUint32(b[88:], footerChecksum(b[:88], b[92:]))
			}
			return said(decodeFooter(b, int64(p.footer.size)))
		}},
		{"properties", tail.append(nil), func(b []byte) string {
			return said(decodeProperties(b))
		}},
		{"range tombstones", p.ranges, func(b []byte) string { return said(decodeRanges(b)) }},
		{"index", smallIndex(t), func(b []byte) string {
			x, err := openIndex(b)
			text := said(x, err)
			for i := range x.n {
				if _, ok := x.lastSuffix(i); !ok {
					text += fmt.Sprintf(", no last key of block %d", i)
				}
			}
			return text
		}},
		{"data block", p.block, func(b []byte) string {
			block, err := openDataBlock(b)
			text := said(block, err)
			for i := range block.n {
				var e, parsed base.Entry
				ok := block.entry(i, &e)
				same := block.parse(block.bytes(i), &parsed)
				if same != ok || ok && !sameParsed(&e, &parsed) {
					text += fmt.Sprintf(", entry %d is parsed as %v", i, parsed)
				}
				if !ok {
					text += fmt.Sprintf(", no entry %d", i)
				}
			}
			if len(text) > 200 {
				text = text[:200] + "..."
			}
			return text
		}},
	} {
		if got := d.decode(bytes.Clone(d.b)); got != "ok" {
			t.Errorf("%s: %s", d.name, got)
		}
		fmt.Fprintf(&s, "# %s, %d bytes\n", d.name, len(d.b))
		changesOf(d.b, func(place string, changed []byte) { s.add(place, d.decode(changed)) })
		s.flush()
	}
	checkText(t, "decoders.txt", s.String())
}

// smallIndex is an index of a few blocks, with a guide.
func smallIndex(t *testing.T) []byte {
	t.Helper()
	var w indexBuilder
	for i, key := range []string{"pk/a", "pk/equal heads/1", "pk/equal heads/2", "pk/equal heads/3",
		"pk/equal heads/4", "pk/z"} {
		zone := zonemap.Map{First: []byte(key), Last: []byte(key), Entries: 1, MinSeq: 3, MaxSeq: 3}
		h := blockHandle{off: uint64(100 * i), stored: 91, raw: 91}
		w.add(h, zone, 3)
	}
	raw, ok := wholeIndex(&w)
	if !ok {
		t.Fatal("no index")
	}
	return raw
}

func said(_ any, err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func sameParsed(a, b *base.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Seq == b.Seq &&
		a.Expiry == b.Expiry && a.Kind == b.Kind
}

// craftedFile is a small file of some blocks that is not compressed.
func craftedFile(t *testing.T) (base.FileMeta, []base.Entry, []byte) {
	t.Helper()
	return craftedParts(t, 0)
}

// craftedParts is craftedFile with parts of that many blocks.
func craftedParts(t *testing.T, blocks int) (base.FileMeta, []base.Entry, []byte) {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create("file")
	ok(t, err)
	w := NewWriter(f, WriterOptions{FileNum: 7, BlockBytes: 256, FilterBits: 8,
		FilterPartitionKeys: 4, PartBlocks: blocks, Describe: oneGroup})
	var entries []base.Entry
	for i := range 14 {
		e := base.Entry{
			Key: fmt.Appendf(nil, "pk/key%02d", i/2), Seq: base.SeqNum(50 - i), Kind: base.KindPut,
			Value: bytes.Repeat([]byte{byte(i)}, 16),
		}
		switch i {
		case 3:
			e.Kind, e.Expiry = base.KindPutTTL, 1000
		case 7, 12:
			e.Kind, e.Value = base.KindDelete, nil
		}
		entries = append(entries, e)
		ok(t, w.Add(&e))
	}
	for seq := base.SeqNum(3); seq < 5; seq++ {
		rt := base.RangeTombstone{Start: []byte("a"), End: []byte("b"), Seq: seq}
		ok(t, w.AddRangeTombstone(rt))
	}
	meta, err := w.Finish()
	ok(t, err)
	b := make([]byte, meta.SizeBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return meta, entries, b
}

// oneGroup describes all as rows of a group.
func oneGroup(items *zone.Items, b *zone.ColumnsBuilder) { b.Rows(1, items.Len()) }

func entryText(e *base.Entry) string {
	return fmt.Sprintf("%q@%d %v %d %q\n", e.Key, e.Seq, e.Kind, e.Expiry, e.Value)
}

// memOf returns a file system with b as a file.
func memOf(t *testing.T, meta base.FileMeta, b []byte) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	ok(t, vfstest.WriteFile(fs, meta.Name(), b))
	return fs
}

// openBytes returns a reader of b as a file.
func openBytes(t *testing.T, meta base.FileMeta, b []byte, cacheBytes int64) *Reader {
	t.Helper()
	return NewReader(ReaderOptions{
		FS: memOf(t, meta, b), Meta: &meta, Cache: cache.New(cacheBytes),
	})
}

// waysToRead are the names of readings.
var waysToRead = slices.Sorted(maps.Keys(readings(&Reader{}, make([]base.Entry, 20))))

// reading is a way to read a file. It returns what it has read and how that ended.
type reading = func() (string, error)

// readings are all ways to read a file.
func readings(r *Reader, entries []base.Entry) map[string]reading {
	ways := wholeReadings(r)
	maps.Copy(ways, layoutReadings(r, entries))
	for suffix, snap := range map[string]base.SeqNum{"45": 45, "": base.MaxSeqNum} {
		ways["get"+suffix] = getReading(r, entries, snap)
		for name, b := range map[string]Batch{
			"batch": {}, "keys": {KeysOnly: true}, "filters": {FiltersOnly: true},
			"unfiltered": {Unfiltered: true},
		} {
			ways[name+suffix] = batchReading(r, entries, snap, b)
		}
		for name, walk := range cursorReadings(r, entries, snap) {
			ways[name+suffix] = walk
		}
	}
	return ways
}

// wholeReadings read all of something.
func wholeReadings(r *Reader) map[string]reading {
	return map[string]reading{
		"ranges": func() (string, error) {
			list, err := r.RangeTombstones()
			return fmt.Sprint(list), err
		},
		"describe": func() (string, error) {
			var out strings.Builder
			err := r.Describe(&out)
			return out.String(), err
		},
		"source": func() (text string, err error) {
			s := r.NewSource()
			for e := range cursor.All(s) {
				text += entryText(e)
			}
			if again := s.Rows(); len(again) > 0 {
				text += "goes on"
			}
			return text, s.Err()
		},
		"verify": func() (string, error) { return "", r.Verify(context.Background()) },
	}
}

// layoutReadings read where things are and how many there are.
func layoutReadings(r *Reader, entries []base.Entry) map[string]reading {
	return map[string]reading{
		"layout": func() (string, error) {
			layout, err := r.Layout()
			keys, err2 := r.DistinctKeys()
			if fmt.Sprint(err) != fmt.Sprint(err2) {
				err = fmt.Errorf("several errors: %w, %w", err, err2)
			}
			return fmt.Sprint(layout, keys), err
		},
		"between": func() (string, error) {
			from, to, err := r.BlocksBetween(entries[5].Key, entries[11].Key)
			if err != nil || from == to {
				return fmt.Sprint(from), err
			}
			last, err := r.AppendLastKey([]byte("last "), from)
			return fmt.Sprintf("%d %d %q", from, to, last), err
		},
		"blocks": func() (text string, err error) {
			err = r.Blocks(func(b BlockInfo) bool {
				_, known := b.Columns.Column(2, 0)
				text += fmt.Sprintf("%d at %d, %v\n", b.Number, b.Offset, known)
				return true
			})
			return text, err
		},
	}
}

// getReading gets each entry by its key.
func getReading(r *Reader, entries []base.Entry, snap base.SeqNum) reading {
	return func() (text string, err error) {
		for _, e := range entries {
			hash := base.Hash(e.Key, 0)
			got := base.Entry{Key: e.Key}
			ok, err := r.Get(e.Key, hash, snap, &got)
			if err != nil {
				return text, err
			}
			text += fmt.Sprintln(ok, entryText(&got))
		}
		return text, nil
	}
}

// batchReading looks all entries up in one batch.
func batchReading(r *Reader, entries []base.Entry, snap base.SeqNum, b Batch) reading {
	return func() (string, error) {
		var ls []base.Lookup
		var which []uint32
		for i, e := range entries {
			ls = append(ls, base.Lookup{Key: e.Key, Hash: base.Hash(e.Key, 0)})
			which = append(which, uint32(i))
		}
		b.Ask(r, ls, which, snap)
		err := b.Answer(ls, snap)
		text := fmt.Sprintf("%+v, %d left\n", b.Stats, len(b.asks)+len(b.files))
		for _, l := range ls {
			text += fmt.Sprintf("%s %v %v %d %v %d %x\n", l.Key, l.Done, l.Found, l.Seq, l.Kind,
				l.Expiry, l.Value)
		}
		return text, err
	}
}

// cursorReadings walk through a file from either end and from its middle.
func cursorReadings(r *Reader, entries []base.Entry, snap base.SeqNum) map[string]reading {
	c := r.NewCursor(snap)
	walk := func(first, step func() bool) reading {
		return func() (text string, err error) {
			for ok := first(); ok; ok = step() {
				text += entryText(c.Entry())
			}
			return text, c.Err()
		}
	}
	middle := entries[7].Key
	return map[string]reading{
		"first": walk(c.First, c.Next),
		"last":  walk(c.Last, c.Prev),
		"up":    walk(func() bool { return c.SeekGE(middle) }, c.Next),
		"down":  walk(func() bool { return c.SeekLT(middle) }, c.Prev),
	}
}

// readAll reads a file in all ways, each with an empty cache, and returns what was read
// and what was said, by way.
func readAll(t *testing.T, meta base.FileMeta, entries []base.Entry, b []byte, budget int64,
) (read, said map[string]string) {
	t.Helper()
	read, said = map[string]string{}, map[string]string{}
	for _, way := range waysToRead {
		r := openBytes(t, meta, b, budget)
		text, err := readings(r, entries)[way]()
		read[way] = text
		if err != nil {
			said[way] = err.Error()
		}
		ok(t, r.Close())
	}
	return read, said
}

// handlesIn returns the blocks of a file by name, in their order.
func handlesIn(t *testing.T, r *Reader) (names []string, handles []blockHandle) {
	t.Helper()
	tail, err := r.loadTail()
	ok(t, err)
	add := func(name string, h blockHandle) {
		names, handles = append(names, name), append(handles, h)
	}
	var x *indexBlock
	for i := range tail.blocks {
		if x, err = r.partOf(tail, x, i); err != nil {
			t.Fatal(err)
		}
		add(fmt.Sprint("block ", i), x.handle(i))
	}
	add("ranges", tail.footer.ranges)
	for i, p := range tail.props.partitions {
		add(fmt.Sprint("filter ", i), p.handle)
	}
	for i := range tail.top.n {
		add(fmt.Sprint("index part ", i), tail.partHandle(i))
	}
	add("index", tail.footer.index)
	add("properties", tail.footer.properties)
	return names, handles
}

// TestCraftedFiles: what each way of reading a file says of every changed byte under a right
// checksum. What contradicts nothing is read as it is.
func TestCraftedFiles(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	meta, entries, b := craftedFile(t)
	checkText(t, "crafted.txt", accounts(t, meta, entries, b, ""))
	meta, entries, b = craftedParts(t, 1)
	checkText(t, "craftedparts.txt", accounts(t, meta, entries, b, "index"))
}

// accounts changes every byte of the blocks whose names begin so.
func accounts(
	t *testing.T, meta base.FileMeta, entries []base.Entry, b []byte, begin string,
) string {
	t.Helper()
	whole := openBytes(t, meta, b, 1<<20)
	intact, errs := readAll(t, meta, entries, b, 1<<20)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var s transcript
	for _, way := range waysToRead {
		fmt.Fprintf(&s, "# %s\n%s\n", way, strings.TrimSuffix(intact[way], "\n"))
	}
	names, handles := handlesIn(t, whole)
	for i, h := range handles {
		if !strings.HasPrefix(names[i], begin) {
			continue
		}
		fmt.Fprintf(&s, "# %s, %d bytes at %d\n", names[i], h.raw, h.off)
		for at := range uint64(h.raw) {
			if v := b[h.off+at]; v == b[h.off+at+1] && v == b[h.off+at+2] && v > 4 {
				continue // inside of a value
			}
			changed := bytes.Clone(b)
			changed[h.off+at] ^= []byte{1, 0x80}[at%2]
			payload := changed[h.off : h.off+uint64(h.raw)]
			copy(changed[h.off:], whole.id.appendTrailer(payload, 0, None, len(payload), h.off))
			text := account(t, intact, meta, entries, changed, 1<<20)
			s.add(fmt.Sprint(at), text)
			if strings.HasPrefix(names[i], "block") && at < blockHeaderBytes {
				if plain := account(t, intact, meta, entries, changed, 0); plain != text {
					t.Errorf("byte %d of %s, without a cache: %s, with one: %s", at, names[i],
						plain, text)
				}
			}
		}
		s.flush()
	}
	return s.String()
}

// account says of each way of reading a file what is not as in the intact one.
func account(
	t *testing.T, intact map[string]string, meta base.FileMeta, entries []base.Entry, b []byte,
	budget int64,
) string {
	t.Helper()
	read, errs := readAll(t, meta, entries, b, budget)
	ways := map[string][]string{}
	for way, text := range read {
		switch err := errs[way]; {
		case err != "":
			ways[err] = append(ways[err], way)
		case text != intact[way]:
			ways["other content"] = append(ways["other content"], way)
		}
	}
	var out []string
	for what, list := range ways {
		slices.Sort(list)
		names := strings.Join(list, " ")
		if len(list) == len(waysToRead) {
			names = "all"
		}
		out = append(out, fmt.Sprintf("%s: %s", names, what))
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "; ")
}
