package sst_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// benchEntries returns n sorted entries of about 29 bytes of key and 103 of value,
// as in the measurements that the design rests on.
func benchEntries(n int) []base.Entry {
	rnd := rand.New(rand.NewPCG(42, 0))
	list := make([]base.Entry, n)
	for i := range list {
		list[i] = base.Entry{
			Key:  fmt.Appendf(nil, "user#%016x/%d", rnd.Uint64(), 10_000+rnd.IntN(90_000)),
			Seq:  base.SeqNum(i + 1),
			Kind: base.KindPut,
			Value: fmt.Appendf(nil, `{"id":%d,"name":"name-%x","city":"Brescia","score":%d,`+
				`"tags":["a%d","b%d"],"active":true,"x":%d}`,
				i, rnd.Uint32(), rnd.IntN(100_000), rnd.IntN(100), rnd.IntN(100), rnd.Uint32()),
		}
	}
	slices.SortFunc(list, compareEntries)
	// Side by side in memory, as a merge finds them in decoded blocks.
	arena := make([]byte, 0, 160*n)
	for i := range list {
		list[i].Key = place(&arena, list[i].Key)
		list[i].Value = place(&arena, list[i].Value)
	}
	return list
}

// place copies b to the end of an arena.
func place(arena *[]byte, b []byte) []byte {
	start := len(*arena)
	*arena = append(*arena, b...)
	return (*arena)[start:len(*arena):len(*arena)]
}

// benchSet is a set of files that together hold entries, each file a key range.
type benchSet struct {
	readers []*sst.Reader
	probes  []probe
	stats   sst.Stats
}

// probe is a key to look for. Probes are in random order and side by side in
// memory, so that fetching them costs next to nothing.
type probe struct {
	r   *sst.Reader
	key []byte
}

func newBenchSet(b *testing.B, n, files int, o sst.WriterOptions, budget int64) *benchSet {
	b.Helper()
	entries := benchEntries(n)
	fs := vfs.NewMem()
	s := &benchSet{}
	blocks := cache.New(budget)
	per := n / files
	for i := range files {
		o.FileNum = base.FileNum(i + 1)
		meta := build(b, fs, o, entries[i*per:(i+1)*per])
		ro := readerOptions(fs, meta)
		ro.Cache, ro.Stats = blocks, &s.stats
		s.readers = append(s.readers, sst.NewReader(ro))
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var arena []byte
	for range min(n, 1<<18) {
		i := rnd.IntN(per * files)
		s.probes = append(s.probes, probe{s.readers[i/per], place(&arena, entries[i].Key)})
	}
	for _, r := range s.readers { // fill the cache
		c := r.NewCursor(base.MaxSeqNum)
		for ok := c.First(); ok; ok = c.Next() {
			continue
		}
	}
	return s
}

// BenchmarkGet reads random keys. The size decides: with many keys every access
// misses the processor's caches.
func BenchmarkGet(b *testing.B) {
	for _, c := range []struct {
		name  string
		keys  int
		files int
		o     sst.WriterOptions
		cache int64
	}{
		{"hit/10K", 10_000, 1, sst.WriterOptions{Codec: sst.LZ4, FilterBits: 8}, 1 << 30},
		{"hit/1M", 1_000_000, 128, sst.WriterOptions{Codec: sst.LZ4, FilterBits: 8}, 1 << 30},
		{"cold-lz4-16K/100K", 100_000, 8, sst.WriterOptions{Codec: sst.LZ4, FilterBits: 8},
			1 << 20},
		{"cold-lz4-4K/100K", 100_000, 8, sst.WriterOptions{
			Codec: sst.LZ4, FilterBits: 8, BlockBytes: 4096,
		}, 2 << 20},
		{"cold-none-16K/100K", 100_000, 8, sst.WriterOptions{FilterBits: 8}, 1 << 20},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newBenchSet(b, c.keys, c.files, c.o, c.cache)
			var e base.Entry
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p := &s.probes[i%len(s.probes)]
				i++
				found, err := p.r.Get(p.key, base.Hash(p.key, testSeed), base.MaxSeqNum, &e)
				if !found || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// BenchmarkGetMiss reads keys that the filters turn away.
func BenchmarkGetMiss(b *testing.B) {
	for _, c := range []struct{ keys, files int }{{10_000, 1}, {1_000_000, 128}} {
		b.Run(fmt.Sprint(c.keys), func(b *testing.B) {
			o := sst.WriterOptions{Codec: sst.LZ4, FilterBits: 8}
			s := newBenchSet(b, c.keys, c.files, o, 1<<30)
			var e base.Entry
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p := &s.probes[i%len(s.probes)]
				i++
				_, err := p.r.Get(p.key, base.Hash(p.key, testSeed+1), base.MaxSeqNum, &e)
				ok(b, err)
			}
		})
	}
}

// BenchmarkCursor scans from the cache and from files, both ways.
func BenchmarkCursor(b *testing.B) {
	scan := func(b *testing.B, s *benchSet, back bool) {
		b.ReportAllocs()
		var c sst.Cursor
		file, ok := 0, false
		for b.Loop() {
			if !ok {
				s.readers[file%len(s.readers)].InitCursor(&c, base.MaxSeqNum)
				if file++; back {
					ok = c.Last()
				} else {
					ok = c.First()
				}
			} else if back {
				ok = c.Prev()
			} else {
				ok = c.Next()
			}
		}
	}
	lz4 := sst.WriterOptions{Codec: sst.LZ4}
	set := func(b *testing.B, o sst.WriterOptions, budget int64) *benchSet {
		return newBenchSet(b, 200_000, 16, o, budget)
	}
	b.Run("next/cached", func(b *testing.B) { scan(b, set(b, lz4, 1<<30), false) })
	b.Run("prev/cached", func(b *testing.B) { scan(b, set(b, lz4, 1<<30), true) })
	b.Run("next/cold-lz4", func(b *testing.B) { scan(b, set(b, lz4, 1<<20), false) })
	b.Run("next/cold-none", func(b *testing.B) {
		scan(b, set(b, sst.WriterOptions{}, 1<<20), false)
	})
	b.Run("seek20/cached", func(b *testing.B) {
		s := set(b, lz4, 1<<30)
		var c sst.Cursor
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			p := &s.probes[i%len(s.probes)]
			i++
			p.r.InitCursor(&c, base.MaxSeqNum)
			ok := c.SeekGE(p.key)
			for range 19 {
				ok = ok && c.Next()
			}
		}
	})
}

// BenchmarkSource reads a file as a compaction does.
func BenchmarkSource(b *testing.B) {
	for _, codec := range []sst.Codec{sst.None, sst.LZ4, sst.Zstd, sst.Snappy} {
		b.Run(codec.String(), func(b *testing.B) {
			s := newBenchSet(b, 100_000, 1, sst.WriterOptions{Codec: codec}, 0)
			b.ReportAllocs()
			src := s.readers[0].NewSource()
			rows := src.Rows()
			for b.Loop() { // an entry each time
				if rows = rows[1:]; len(rows) > 0 {
					continue
				}
				if rows = src.Rows(); len(rows) == 0 {
					src = s.readers[0].NewSource()
					rows = src.Rows()
				}
			}
			b.SetBytes(int64(s.readers[0].Meta().RawBytes) / 100_000)
		})
	}
}

// BenchmarkWrite writes files; bytes are those of keys and values.
func BenchmarkWrite(b *testing.B) {
	entries := benchEntries(60_000)
	for _, c := range []struct {
		name string
		o    sst.WriterOptions
	}{
		{"none-nofilter", sst.WriterOptions{}},
		{"none", sst.WriterOptions{FilterBits: 8}},
		{"lz4", sst.WriterOptions{FilterBits: 8, Codec: sst.LZ4}},
		{"lz4-4K", sst.WriterOptions{FilterBits: 8, Codec: sst.LZ4, BlockBytes: 4096}},
		{"zstd", sst.WriterOptions{FilterBits: 8, Codec: sst.Zstd}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var w sst.Writer
			var meta base.FileMeta
			rounds := 0
			b.ReportAllocs()
			for b.Loop() {
				w.Reset(discard{}, writerOptions(c.o))
				meta = fill(b, &w, entries)
				rounds++
			}
			b.SetBytes(int64(meta.RawBytes))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*len(entries)), "ns/entry")
			b.ReportMetric(float64(meta.RawBytes)/float64(meta.SizeBytes), "ratio")
		})
	}
}

// discard is a file that takes writes only.
type discard struct{ vfs.File }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Name() string                { return "discard" }
