package memtable_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

// testKeys returns n different keys of 16 to 40 bytes in random order, and their
// hashes.
func testKeys(n int) ([][]byte, []uint64) {
	const letters = "abcdefghijklmnopqrstuvwxyz012345"
	rnd := rand.New(rand.NewPCG(uint64(n), 3))
	keys, hashes := make([][]byte, n), make([]uint64, n)
	for i := range keys {
		k := make([]byte, 16+rnd.IntN(25))
		for j := range k {
			k[j] = letters[rnd.Uint32()%32]
		}
		keys[i], hashes[i] = k, hashOf(k)
	}
	return keys, hashes
}

// fleet is a number of tables with the same keys spread over them.
type fleet struct {
	tabs   []*memtable.Table
	keys   [][]byte
	hashes []uint64
	value  []byte
	seq    base.SeqNum
}

func (f *fleet) of(i int) *memtable.Table { return f.tabs[f.hashes[i]%uint64(len(f.tabs))] }

func (f *fleet) empty() {
	for i := range f.tabs {
		f.tabs[i] = memtable.New(memtable.Options{})
	}
}

func (f *fleet) put(i int) {
	f.seq++
	f.of(i).Put(f.keys[i], f.hashes[i], f.seq, base.KindPut, 0, f.value, f.seq-1)
}

func (f *fleet) fill() {
	f.empty()
	for i := range f.keys {
		f.put(i)
	}
}

// shuffle changes the order of the keys, so that reads do not follow the order of the
// inserts, and packs them, so that the walk over them costs little.
func (f *fleet) shuffle() {
	order := rand.New(rand.NewPCG(5, 5)).Perm(len(f.keys))
	keys, hashes := make([][]byte, len(order)), make([]uint64, len(order))
	pack := make([]byte, 0, 40*len(order))
	for i, j := range order {
		at := len(pack)
		pack = append(pack, f.keys[j]...)
		keys[i], hashes[i] = pack[at:len(pack):len(pack)], f.hashes[j]
	}
	f.keys, f.hashes = keys, hashes
}

var shapes = []struct{ keys, tables int }{
	{128 << 10, 1}, {128 << 10, 256}, {1 << 20, 1}, {1 << 20, 256},
}

// eachShape runs f with n keys over a number of tables, full unless said otherwise.
func eachShape(b *testing.B, full bool, f func(b *testing.B, fl *fleet)) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("keys=%dK/tables=%d", s.keys>>10, s.tables), func(b *testing.B) {
			fl := &fleet{tabs: make([]*memtable.Table, s.tables), value: make([]byte, 103)}
			fl.keys, fl.hashes = testKeys(s.keys)
			if full {
				fl.fill()
				fl.shuffle()
			}
			b.ReportAllocs()
			f(b, fl)
		})
	}
}

// BenchmarkInsert fills tables from empty to full, over and over.
func BenchmarkInsert(b *testing.B) {
	eachShape(b, false, func(b *testing.B, f *fleet) {
		i := 0
		for b.Loop() {
			if i%len(f.keys) == 0 {
				f.empty()
				i = 0
			}
			f.put(i)
			i++
		}
	})
}

func BenchmarkGetHit(b *testing.B) {
	eachShape(b, true, func(b *testing.B, f *fleet) {
		var e base.Entry
		i := 0
		for b.Loop() {
			i = (i + 1) % len(f.keys)
			if !f.of(i).Get(f.keys[i], f.hashes[i], f.seq, &e) {
				b.Fatal("not found")
			}
		}
	})
}

func BenchmarkGetMiss(b *testing.B) {
	eachShape(b, true, func(b *testing.B, f *fleet) {
		var e base.Entry
		for i := range f.keys { // other keys of the same shape
			f.keys[i][0] = '_'
			f.hashes[i] = hashOf(f.keys[i])
		}
		i := 0
		for b.Loop() {
			i = (i + 1) % len(f.keys)
			if f.of(i).Get(f.keys[i], f.hashes[i], f.seq, &e) {
				b.Fatal("found")
			}
		}
	})
}

func BenchmarkOverwrite(b *testing.B) {
	eachShape(b, true, func(b *testing.B, f *fleet) {
		i := 0
		for b.Loop() {
			i = (i + 1) % len(f.keys)
			f.put(i)
		}
	})
}

func BenchmarkOverwriteHotKey(b *testing.B) {
	f := &fleet{tabs: make([]*memtable.Table, 1), value: make([]byte, 103)}
	f.keys, f.hashes = testKeys(1)
	f.fill()
	b.ReportAllocs()
	for b.Loop() {
		f.put(0)
	}
}

// BenchmarkScan is the cost of one entry of a full scan, table by table.
func BenchmarkScan(b *testing.B) {
	for _, frozen := range []bool{false, true} {
		for _, dir := range []string{"next", "prev"} {
			b.Run(fmt.Sprintf("frozen=%v/%s", frozen, dir), func(b *testing.B) {
				eachShape(b, true, func(b *testing.B, f *fleet) {
					benchScan(b, f, frozen, dir == "next")
				})
			})
		}
	}
}

func benchScan(b *testing.B, f *fleet, frozen, ascending bool) {
	for _, t := range f.tabs {
		if frozen {
			t.Freeze()
			t.NewSource()
		}
	}
	var c memtable.Cursor
	start, step := c.Last, c.Prev
	if ascending {
		start, step = c.First, c.Next
	}
	table, ok := 0, false
	for b.Loop() {
		if ok = ok && step(); ok {
			continue
		}
		f.tabs[table%len(f.tabs)].InitCursor(&c, f.seq)
		table++
		ok = start()
	}
}

func BenchmarkSeek(b *testing.B) {
	eachShape(b, true, func(b *testing.B, f *fleet) {
		var c memtable.Cursor
		i := 0
		for b.Loop() {
			i = (i + 1) % len(f.keys)
			f.of(i).InitCursor(&c, f.seq)
			c.SeekGE(f.keys[i])
		}
	})
}

// BenchmarkSource is the cost of one version of a flush.
func BenchmarkSource(b *testing.B) {
	eachShape(b, true, func(b *testing.B, f *fleet) {
		for _, t := range f.tabs {
			t.Freeze()
		}
		table := 0
		src := f.tabs[0].NewSource()
		rows := src.Rows()
		for b.Loop() {
			if rows = rows[1:]; len(rows) > 0 {
				continue
			}
			for rows = src.Rows(); len(rows) == 0; rows = src.Rows() {
				table = (table + 1) % len(f.tabs)
				src = f.tabs[table].NewSource()
			}
		}
	})
}

// BenchmarkPrefix shows what a right, an unknown and a wrong expected prefix cost
// with keys that share one.
func BenchmarkPrefix(b *testing.B) {
	const n = 128 << 10
	for _, prefix := range []string{"tenant01/", "", "zzz"} {
		b.Run("told="+prefix, func(b *testing.B) {
			keys, hashes := testKeys(n)
			for i := range keys {
				keys[i] = append([]byte("tenant01/"), keys[i]...)
				hashes[i] = hashOf(keys[i])
			}
			b.ReportAllocs()
			var tab *memtable.Table
			i := 0
			for b.Loop() {
				if i%n == 0 {
					tab, i = memtable.New(memtable.Options{Prefix: []byte(prefix)}), 0
				}
				tab.Put(keys[i], hashes[i], base.SeqNum(i+1), base.KindPut, 0, nil, 0)
				i++
			}
		})
	}
}
