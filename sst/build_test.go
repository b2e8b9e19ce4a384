package sst_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/sst"
)

var ok, wantIs = testutil.OK, testutil.WantIs

var testDBID = [16]byte{'t', 'e', 's', 't', 15: 1}

const testSeed = 0x5eed

// compareEntries orders as files do: key ascending, sequence number descending.
func compareEntries(a, b base.Entry) int {
	return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
}

// writerOptions returns options with the test's identity filled in.
func writerOptions(o sst.WriterOptions) sst.WriterOptions {
	o.DBID, o.Seed = testDBID, testSeed
	if o.FileNum == 0 {
		o.FileNum = 7
	}
	return o
}

// build writes a file into fs and returns its description.
func build(
	tb testing.TB, fs vfs.FS, o sst.WriterOptions, entries []base.Entry,
	ranges ...base.RangeTombstone,
) base.FileMeta {
	tb.Helper()
	f, err := fs.Create(base.SSTName(o.Stripe, writerOptions(o).FileNum))
	ok(tb, err)
	defer f.Close()
	return fill(tb, sst.NewWriter(f, writerOptions(o)), entries, ranges...)
}

func fill(
	tb testing.TB, w *sst.Writer, entries []base.Entry, ranges ...base.RangeTombstone,
) base.FileMeta {
	tb.Helper()
	for i := range entries {
		ok(tb, w.Add(&entries[i]))
	}
	for _, rt := range ranges {
		ok(tb, w.AddRangeTombstone(rt))
	}
	estimate := w.SizeBytes()
	meta, err := w.Finish()
	ok(tb, err)
	if meta.SizeBytes > estimate*5/4+1024 {
		tb.Errorf("file of %d bytes, the writer estimated %d", meta.SizeBytes, estimate)
	}
	return meta
}

// readerOptions returns options for a file of build, with a cache of its own.
func readerOptions(fs vfs.FS, meta base.FileMeta) sst.ReaderOptions {
	return sst.ReaderOptions{
		FS: fs, Meta: &meta, Cache: cache.New(64 << 20), Seed: testSeed, DBID: testDBID,
		Stats: &sst.Stats{},
	}
}

// contents returns the bytes of a file.
func contents(tb testing.TB, fs vfs.FS, name string) []byte {
	tb.Helper()
	b, err := vfstest.ReadFile(fs, name)
	ok(tb, err)
	return b
}

// store writes bytes as a file, replacing it.
func store(tb testing.TB, fs vfs.FS, name string, b []byte) {
	tb.Helper()
	ok(tb, vfstest.WriteFile(fs, name, b))
}

// generator makes random sorted entries.
type generator struct {
	rnd       *rand.Rand
	keys      int    // distinct keys
	versions  int    // at most so many versions of a key
	prefix    string // of every key
	longKeys  bool   // now and then a key whose head says nothing
	valueMax  int
	hugeValue int // now and then a value of this size
}

func (g *generator) entries() []base.Entry {
	var list []base.Entry
	for range g.keys {
		key := []byte(g.prefix)
		switch g.rnd.IntN(6) {
		case 0: // short, with zeros that padding could hide
			for range g.rnd.IntN(5) {
				key = append(key, byte(g.rnd.IntN(3)))
			}
		case 1:
			if g.longKeys {
				key = append(key, bytes.Repeat([]byte("same partition "), 1+g.rnd.IntN(20))...)
			}
			fallthrough
		default:
			key = fmt.Appendf(key, "user%05d/%x", g.rnd.IntN(3*g.keys), g.rnd.IntN(300))
		}
		for range 1 + g.rnd.IntN(g.versions) {
			list = append(list, g.entry(key))
		}
	}
	slices.SortStableFunc(list, compareEntries)
	return slices.CompactFunc(list, func(a, b base.Entry) bool { return compareEntries(a, b) == 0 })
}

func (g *generator) entry(key []byte) base.Entry {
	e := base.Entry{Key: key, Seq: base.SeqNum(1 + g.rnd.IntN(1000)), Kind: base.KindPut}
	switch g.rnd.IntN(6) {
	case 0:
		e.Kind = base.KindDelete
		return e
	case 1:
		e.Kind, e.Expiry = base.KindPutTTL, g.rnd.Int64N(4e12)-1e12
	}
	n := g.rnd.IntN(g.valueMax + 1)
	if g.hugeValue > 0 && g.rnd.IntN(50) == 0 {
		n = g.hugeValue
	}
	e.Value = make([]byte, n)
	for i := range e.Value { // compressible, unless tiny
		e.Value[i] = byte('a' + g.rnd.IntN(4))
	}
	return e
}

// visible returns the entries that a cursor at snap shows.
func visible(entries []base.Entry, snap base.SeqNum) []base.Entry {
	var out []base.Entry
	for _, e := range entries {
		if e.Seq > snap || (len(out) > 0 && bytes.Equal(out[len(out)-1].Key, e.Key)) {
			continue
		}
		out = append(out, e)
	}
	return out
}

// sameEntry compares all fields of two entries.
func sameEntry(got, want *base.Entry) bool {
	return bytes.Equal(got.Key, want.Key) && sameVersion(got, want)
}

// sameVersion is sameEntry without the key.
func sameVersion(got, want *base.Entry) bool {
	return bytes.Equal(got.Value, want.Value) && got.Seq == want.Seq &&
		got.Expiry == want.Expiry && got.Kind == want.Kind &&
		(got.Value == nil) == (want.Kind == base.KindDelete)
}
