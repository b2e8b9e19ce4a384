package sst

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/vfs"
)

// batchFile is a file of some blocks of the numbers from first up to last, by step, in versions
// at 10 and, of each fourth, at 20.
func batchFile(t *testing.T, first, last, step int, o WriterOptions) (vfs.FS, base.FileMeta) {
	t.Helper()
	o.BlockBytes = 256
	w, fs := writerOf(t, o)
	for i := first; i < last; i += step {
		for seq := base.SeqNum(20); seq >= 10; seq -= 10 {
			e := base.Entry{Key: batchKey(i), Seq: seq, Kind: base.KindPut, Value: make([]byte, 20)}
			if seq == 20 && i%4 != 0 {
				continue
			}
			e.Value[0] = byte(o.FileNum)
			if i%6 == 0 {
				e.Kind, e.Expiry = base.KindPutTTL, int64(i)
			}
			ok(t, w.Add(&e))
		}
	}
	meta, err := w.Finish()
	ok(t, err)
	return fs, meta
}

func batchKey(i int) []byte { return fmt.Appendf(nil, "number/%04d", i) }

// batchFiles are files of numbers, some overlapping, with one filter, with some and with
// none. No batch asks for the numbers of the fourth.
var batchFiles = []struct {
	first, last, step int
	o                 WriterOptions
}{
	{0, 40, 2, WriterOptions{FilterBits: 8}},
	{1, 60, 2, WriterOptions{FilterBits: 16, FilterPartitionKeys: 9}},
	{40, 80, 4, WriterOptions{}},
	{200, 210, 1, WriterOptions{FilterBits: 8}},
	{90, 91, 1, WriterOptions{FilterBits: 8}},
}

// openBatchFiles returns readers of the batchFiles, each with a cache and statistics of its own.
func openBatchFiles(t *testing.T, budget int64) (readers []*Reader, stats []*Stats) {
	t.Helper()
	for i, c := range batchFiles {
		c.o.FileNum = base.FileNum(i + 1)
		fs, meta := batchFile(t, c.first, c.last, c.step, c.o)
		stats = append(stats, &Stats{})
		readers = append(readers, NewReader(ReaderOptions{
			FS: fs, Meta: &meta, Cache: cache.New(budget), Stats: stats[i],
		}))
	}
	return readers, stats
}

// batchLookups asks for numbers in no order, for one of them twice, and for some that no file has.
func batchLookups() []base.Lookup {
	var ls []base.Lookup
	for _, n := range []int{17, 3, 4, 44, 5, 100, 38, 41, 4, 0, 59, 76, 61, 18, 90, 46} {
		key := batchKey(n)
		ls = append(ls, base.Lookup{Key: key, Hash: base.Hash(key, 0)})
	}
	return ls
}

// TestBatches: what groups of lookups find in several files at once, with one filter, with some
// and with none, and what that costs.
func TestBatches(t *testing.T) {
	var text strings.Builder
	for _, budget := range []int64{0, 1 << 20} {
		for _, mode := range []string{"plain", "keys", "filters", "unfiltered", "mixed"} {
			for _, snap := range []base.SeqNum{9, 10, 19, 20} {
				readers, stats := openBatchFiles(t, budget)
				fmt.Fprintf(&text, "# %s at %d, %d KiB of cache\n", mode, snap, budget>>10)
				writeBatches(t, &text, readers, mode, snap)
				for i, r := range readers {
					s := stats[i].Snapshot()
					fmt.Fprintf(&text, "file %d: %d filters asked, %d no, %d wrong, ", i+1,
						s.FilterChecks, s.FilterNegatives, s.FilterFalsePositives)
					fmt.Fprintf(&text, "%d hits, %d misses, %d reads\n", s.BlockHits,
						s.BlockMisses, s.Reads)
					ok(t, r.Close())
				}
			}
		}
	}
	checkText(t, "batches.txt", text.String())
}

// writeBatches looks numbers up twice, the second time with what is cached and with some of them
// done, and writes what each batch finds and its statistics.
func writeBatches(
	t *testing.T, text *strings.Builder, readers []*Reader, mode string, snap base.SeqNum,
) {
	t.Helper()
	b := Batch{KeysOnly: mode == "keys", FiltersOnly: mode == "filters"}
	ls := batchLookups()
	for round := range 2 {
		var which []uint32
		for i := range ls {
			if !ls[i].Done {
				which = append(which, uint32(i))
			}
		}
		for i, r := range readers {
			b.Unfiltered = mode == "unfiltered" || mode == "mixed" && i%2 == round
			b.Ask(r, ls, which, snap)
		}
		ok(t, b.Answer(ls, snap))
		checkReleased(t, &b)
		writeFound(text, ls)
		fmt.Fprintf(text, "\n%+v\n", b.Stats)
		for i := range ls {
			ls[i] = base.Lookup{Key: ls[i].Key, Hash: ls[i].Hash, Done: i%5 == 0}
		}
	}
}

// checkReleased checks that a batch that was answered keeps neither files nor blocks.
func checkReleased(t *testing.T, b *Batch) {
	t.Helper()
	for _, f := range b.files[:cap(b.files)] {
		if f.r != nil || f.t != nil {
			t.Fatal("a batch that was answered keeps a file")
		}
	}
	for _, a := range b.asks[:cap(b.asks)] {
		if a.data != nil {
			t.Fatal("a batch that was answered keeps a block")
		}
	}
}

// writeFound writes what was found, and in which file.
func writeFound(text *strings.Builder, ls []base.Lookup) {
	for _, l := range ls {
		if !l.Found {
			continue
		}
		number := l.Key[len("number/"):]
		fmt.Fprintf(text, "%s@%d %v %d", number, min(l.Seq, 99), l.Kind, l.Expiry)
		if len(l.Value) > 0 {
			fmt.Fprintf(text, " of %d", l.Value[0])
		}
		text.WriteString("; ")
	}
}

// TestFalsePositives: of absent keys that filters let through, each is counted once, with or
// without a batch.
func TestFalsePositives(t *testing.T) {
	for partitions := range 2 {
		fs, meta := batchFile(t, 0, 400, 2, WriterOptions{
			FileNum: 1, FilterBits: 8, FilterPartitionKeys: []int{0, 50}[partitions],
		})
		stats := &Stats{}
		r := NewReader(ReaderOptions{FS: fs, Meta: &meta, Cache: cache.New(1 << 20), Stats: stats})
		var ls []base.Lookup
		var which []uint32
		for i := range 3000 {
			key := fmt.Appendf(batchKey(i/10), "/%d", i%10)
			ls = append(ls, base.Lookup{Key: key, Hash: base.Hash(key, 0)})
			which = append(which, uint32(i))
		}
		var counts []uint64
		count := func() {
			s := stats.Snapshot()
			counts = append(counts, s.FilterChecks, s.FilterNegatives, s.FilterFalsePositives)
		}
		for _, l := range ls {
			var e base.Entry
			if found, err := r.Get(l.Key, l.Hash, 20, &e); found || err != nil {
				t.Fatal(found, err)
			}
		}
		count()
		for i, b := range []Batch{{}, {KeysOnly: true}} {
			b.Ask(r, ls, which, 20)
			ok(t, b.Answer(ls, 20))
			count()
			wrong := counts[2]
			if b.Stats.Probes != 3000 || b.Stats.Positives != wrong ||
				b.Stats.FalsePositives != wrong {
				t.Errorf("batch %d: %+v, %d are wrong", i, b.Stats, wrong)
			}
		}
		no, wrong := counts[1], counts[2]
		want := []uint64{3000, no, wrong, 6000, 2 * no, 2 * wrong, 9000, 3 * no, 3 * wrong}
		if wrong < 5 || no+wrong != 3000 || fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("questions, no and wrong: %d, want %d", counts, want)
		}
		ok(t, r.Close())
	}
}

// TestBatchMemory: a batch keeps a small block for the next one, and gives a large one up.
func TestBatchMemory(t *testing.T) {
	for _, c := range []struct{ size, kept int }{{256 << 10, 256 << 10}, {256<<10 + 1, 0}} {
		b := Batch{own: ownBlock{
			raw: make([]byte, c.size), stored: sequential{buf: make([]byte, c.size)},
		}}
		err := b.Answer(nil, 1)
		if raw, stored := cap(b.own.raw), cap(b.own.stored.buf); err != nil || raw != c.kept ||
			stored != c.kept {
			t.Errorf("%d and %d bytes of %d are kept, %v", raw, stored, c.size, err)
		}
	}
}

// TestBatchDamage: whichever entry of a block is damaged, a batch finds a key as Get does, or
// fails with it, and whatever is asked with it.
func TestBatchDamage(t *testing.T) {
	p := seedParts(t)
	b, err := openDataBlock(p.block)
	ok(t, err)
	failed := map[string]int{}
	for i := range b.n {
		for what, at := range map[string]int{
			"key": int(b.offset(i)), "length": int(b.offset(i)) + 1 + int(p.block[b.offset(i)]) + 1,
			"number": int(b.offset(i)) + 1 + int(p.block[b.offset(i)]),
		} {
			block := append([]byte(nil), p.block...)
			block[at] |= 0x7f
			if what == "number" {
				end := len(block)
				if i+1 < b.n {
					end = int(b.offset(i + 1))
				}
				for j := at; j < end; j++ {
					block[j] = 0xff
				}
			}
			fs := vfs.NewMem()
			meta, err := hostileFile(fs, p.footer, hostile{block, p.ranges, p.filter, p.index,
				p.props})
			ok(t, err)
			for _, mode := range []Batch{{}, {KeysOnly: true}} {
				for _, budget := range []int64{0, 1 << 20} {
					r := NewReader(ReaderOptions{
						FS: fs, Meta: &meta, DBID: p.footer.dbid, Cache: cache.New(budget),
					})
					for key := range 10 {
						name := fmt.Appendf(nil, "pk/key%02d", key)
						for _, snap := range []base.SeqNum{40, 45, base.MaxSeqNum} {
							var e base.Entry
							hash := base.Hash(name, 0)
							found, want := r.Get(name, hash, snap, &e)
							ls := []base.Lookup{{Key: name, Hash: hash}}
							m := mode
							m.Ask(r, ls, []uint32{0}, snap)
							got := m.Answer(ls, snap)
							if want != nil {
								failed[what]++
							}
							if (got != nil) != (want != nil) || found != ls[0].Found ||
								found && ls[0].Seq != e.Seq {
								t.Errorf("%s of entry %d, %s at %d: %v, %v, want %v, %v", what, i,
									name, snap, ls[0], got, e, want)
							}
						}
					}
					ok(t, r.Close())
				}
			}
		}
	}
	for _, what := range []string{"key", "length", "number"} {
		if failed[what] < 50 {
			t.Errorf("a damaged %s fails %d lookups", what, failed[what])
		}
	}
}
