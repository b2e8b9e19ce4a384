package memtable

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
)

// putKey adds a version with nothing to trim.
func putKey(t *Table, key []byte, seq base.SeqNum, value []byte) {
	t.Put(key, base.Hash(key, 1), seq, base.KindPut, 0, value, 0)
}

// Chunks grow with the table: little of it is unused whatever its size, and a large table allocates
// rarely.
//
// Promise (manners): Of a memtable of 12 KiB or more at most two fifths are unused, however small
// its budget is.
func TestChunkSizes(t *testing.T) {
	for _, record := range []int{100, 1 << 10, 4 << 10, 4<<10 + 1} {
		var a arena
		seen := map[uint32]bool{}
		chunks, used := 0, 0
		for used < 1<<20 {
			before := a.heldBytes
			addr := a.alloc(record)
			if addr == 0 || seen[addr] || len(a.chunks.at(addr)) < record {
				t.Fatalf("records of %d bytes: one is at %x", record, addr)
			}
			seen[addr] = true
			used += record
			if a.heldBytes != before {
				chunks++
			}
			unused, held := int(a.heldBytes)-used, int(a.heldBytes)
			if used >= 12<<10 && unused*5 > held*2 {
				t.Errorf("records of %d bytes: %d of %d bytes are unused", record, unused, held)
			}
		}
		if chunks > 32 {
			t.Errorf("records of %d bytes: %d chunks for 1 MiB", record, chunks)
		}
	}
}

// TestDeadChunks: chunks without records stay until they are an eighth of the arena. Then they
// go, their numbers are used again, and readers keep the pictures that they have.
func TestDeadChunks(t *testing.T) {
	for _, c := range []struct {
		chunks int
		held   []int // chunks, after one record after the other is released
	}{
		{8, []int{7, 6, 5, 4, 3, 2, 1, 0}},
		{9, []int{9, 7, 6, 5, 4, 3, 2, 1, 0}},
		{17, []int{17, 17, 14, 14, 12, 12, 10, 10, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
	} {
		var a arena
		var addrs []uint32
		for i := range c.chunks {
			addrs = append(addrs, a.adopt(bytes.Repeat([]byte{byte(i)}, 32<<10)))
		}
		picture := a.chunks
		var held []int
		for _, addr := range addrs {
			a.release(addr)
			held = append(held, int(a.heldBytes>>15))
		}
		if !slices.Equal(held, c.held) {
			t.Errorf("%d chunks: %d held, want %d", c.chunks, held, c.held)
		}
		for i, addr := range addrs {
			if picture.at(addr)[0] != byte(i) {
				t.Errorf("%d chunks: a reader loses number %d", c.chunks, i)
			}
			if a.chunks[addr>>16] != nil {
				t.Errorf("%d chunks: number %d stays", c.chunks, i)
			}
		}
		for range addrs {
			if again := a.adopt(make([]byte, 32<<10)); !slices.Contains(addrs, again) {
				t.Errorf("%d chunks: %x is a new address", c.chunks, again)
			}
		}
		if n := len(a.chunks); n != c.chunks+1 || a.heldBytes != int64(c.chunks)<<15 {
			t.Errorf("%d chunks: %d numbers, %d bytes held", c.chunks, n, a.heldBytes)
		}
	}
}

// TestCurrentChunkDies: the chunk being filled stays without records, and goes when the next
// one takes its place.
func TestCurrentChunkDies(t *testing.T) {
	var a arena
	first := a.alloc(1 << 10)
	a.release(first)
	if len(a.dead) > 0 || a.chunks[first>>16] == nil {
		t.Error("the chunk being filled goes")
	}
	if next := a.alloc(2 << 10); next>>16 != first>>16 {
		t.Error("the chunk being filled is left")
	}
	a.release(first)
	large := a.alloc(8 << 10) // does not fit into 4 KiB
	if a.chunks[first>>16] != nil || large>>16 == first>>16 {
		t.Error("the chunk stays when another takes its place")
	}
	live := a.alloc(8 << 10) // a new chunk, while the one before has records
	if live>>16 == large>>16 || a.chunks[large>>16] == nil {
		t.Error("a chunk with records goes")
	}
}

// TestMostChunks: MaxBytes fits into the chunk indexes even if every record has a chunk of its
// own, and what does not fit is no silent damage.
func TestMostChunks(t *testing.T) {
	if most := int64(maxChunks-1) * (maxSharedRecord + 1); most < MaxBytes || maxChunks != 1<<16 {
		t.Errorf("%d bytes in %d chunks, MaxBytes is %d", most, maxChunks, MaxBytes)
	}
	a := arena{chunks: make(chunkTable, maxChunks-1), live: make([]uint32, maxChunks-1)}
	if addr := a.adopt([]byte("the last one")); addr != (maxChunks-1)<<16 {
		t.Errorf("the last chunk is at %x", addr)
	}
	defer func() {
		if recover() == nil {
			t.Error("there are more chunks than addresses")
		}
	}()
	a.adopt([]byte("one too many"))
}

// TestRecordBytes: what a key and its versions take in addition to their bytes.
func TestRecordBytes(t *testing.T) {
	tab := New(Options{})
	used := 0
	check := func(what string, want int) {
		t.Helper()
		if got := tab.arena.used - used; got != want {
			t.Errorf("%s: %d bytes, want %d", what, got, want)
		}
		used = tab.arena.used
	}
	key, value := []byte("key"), []byte("value")
	hash := base.Hash(key, 1)
	tab.Put(key, hash, 1, base.KindPut, 0, value, 0)
	check("a key with a value", 12+3+16+5)
	tab.Put(key, hash, 2, base.KindPut, 0, value, 1)
	check("a value", 16+5)
	tab.Put(key, hash, 3, base.KindPutTTL, -1, value, 1)
	check("a value with an expiry", 24+5)
	tab.Put(key, hash, 4, base.KindDelete, 9, value, 1)
	check("a tombstone", 16)
	tab.Put([]byte("other"), base.Hash([]byte("other"), 1), 5, base.KindPutTTL, 1, value, 1)
	check("a key with an expiry", 12+5+24+5)
}

// TestIndexSize: the hash index has 64 slots at first, and twice as many where more than three
// quarters would be taken.
func TestIndexSize(t *testing.T) {
	var x hashIndex
	want := 64
	for n := 1; n <= 1000; n++ {
		x.insert(uint64(n)<<32|uint64(n), uint32(n))
		for 4*n > 3*want {
			want *= 2
		}
		if len(x.slots()) != want || x.taken != n || x.heldBytes() != int64(8*want) {
			t.Fatalf("%d keys in %d slots of %d bytes, want %d", n, len(x.slots()), x.heldBytes(),
				want)
		}
	}
}

// TestBytesAreTheSum: Bytes is what the parts of a table hold. It follows the order of the keys
// at every 32nd, and everything else at once.
func TestBytesAreTheSum(t *testing.T) {
	tab := New(Options{Prefix: []byte("the prefix")})
	const tombstone = 4 * int64(unsafe.Sizeof(base.RangeTombstone{}))
	sum := func() int64 {
		n := int64(unsafe.Sizeof(*tab)) + int64(len(tab.prefix)) + tab.arena.heldBytes +
			int64(8*len(tab.index.slots())) + int64(4*cap(tab.fresh))
		if tab.tree != nil {
			n += int64(28 * tab.tree.Len())
		}
		for _, rt := range tab.ranges {
			n += int64(len(rt.Start)+len(rt.End)) + tombstone
		}
		return n
	}
	steps := 0
	for i := range 3000 {
		before, held := tab.Bytes(), tab.arena.heldBytes
		putKey(tab, fmt.Appendf(nil, "key %d", i*7919%3000), 1, nil)
		want := before
		if tab.Len()%32 == 1 || tab.arena.heldBytes != held {
			want = sum()
			steps++
		}
		if got := tab.Bytes(); got != want {
			t.Fatalf("key %d: %d bytes, want %d", i, got, want)
		}
		switch i {
		case 1000, 1400:
			if now := tab.Bytes(); !tab.NewCursor(1).First() || tab.Bytes() != now {
				t.Fatal("a read changes the bytes")
			}
			putKey(tab, []byte("key 0"), 1, make([]byte, 20*i)) // in place of another
			if got := tab.Bytes(); got != sum() {
				t.Fatalf("a large value after a read: %d bytes, want %d", got, sum())
			}
		case 2000: // a chunk of its own
			putKey(tab, []byte("large"), 1, make([]byte, 17_000))
			if got := tab.Bytes(); got != sum() {
				t.Fatalf("a large value: %d bytes, want %d", got, sum())
			}
		case 2500:
			tab.DeleteRange(base.RangeTombstone{Start: []byte("a"), End: []byte("bcd"), Seq: 2})
			if tab.rangeBytes != 1+3+tombstone {
				t.Fatalf("a range tombstone of %d bytes", tab.rangeBytes)
			}
		}
	}
	if steps < 90 || steps > 120 {
		t.Errorf("Bytes was measured %d times", steps)
	}
	held := sum() - int64(4*cap(tab.fresh)) - int64(28*tab.tree.Len())
	tab.Freeze()
	if got, want := tab.Bytes(), held+16*3001; got != want {
		t.Errorf("frozen: %d bytes, want %d", got, want)
	}
	now := tab.Bytes()
	tab.Freeze()
	if tab.NewSource(); tab.Bytes() != now {
		t.Error("the source of a frozen table changes its bytes")
	}
}

// TestReleasedMemory: a cursor that is released keeps nothing of the table, and a table nothing
// of a key that was sought.
func TestReleasedMemory(t *testing.T) {
	tab := New(Options{})
	for i := range 100 {
		putKey(tab, fmt.Appendf(nil, "%03d", i), 1, nil)
	}
	c := tab.NewCursor(1)
	if !c.SeekGE([]byte("050")) || !c.SeekLT([]byte("050")) || tab.probe != nil {
		t.Errorf("the table keeps the key %q", tab.probe)
	}
	if len(tab.fresh) > 0 {
		t.Errorf("%d keys in the tree are kept as new", len(tab.fresh))
	}
	c.Release()
	if c.t != nil || c.chunks != nil || c.Entry().Key != nil || c.Next() || c.Prev() {
		t.Error("the cursor keeps the table")
	}
	tab.Freeze()
	tab.NewSource()
	if tab.tree != nil || tab.fresh != nil {
		t.Error("a frozen table keeps its tree")
	}
	unread := New(Options{})
	putKey(unread, []byte("k"), 1, nil)
	unread.Freeze()
	if unread.NewSource(); unread.fresh != nil {
		t.Error("a frozen table keeps its new keys")
	}
}

// TestChainLength: how many versions a key has, where the horizon is some commits after. They
// are looked through after eight overwrites, then after as many as there were.
func TestChainLength(t *testing.T) {
	for lag, want := range map[base.SeqNum]string{
		1: "1 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2",
		2: "1 2 3 4 5 6 7 8 3 4 5 6 7 8 9 10 3 4 5 6 7 8 9 10 3 4 5 6 7 8",
		9: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 10 11 12 13 14 15 16 17 18 10 11 12 13 14",
	} {
		tab := New(Options{})
		var got []byte
		for seq := base.SeqNum(1); seq <= 30; seq++ {
			tab.Put([]byte("k"), 0, seq, base.KindPut, 0, nil, seq-min(seq, lag))
			got = fmt.Appendf(got, "%d ", tab.Versions())
		}
		if got = bytes.TrimSpace(got); string(got) != want {
			t.Errorf("lag %d: versions\n%s, want\n%s", lag, got, want)
		}
	}
}

// TestRangesParts: parts of range tombstones are few, however many there are.
func TestRangesParts(t *testing.T) {
	var tab Table
	for i := range 5000 {
		tab.DeleteRange(base.RangeTombstone{Start: []byte("a"), End: []byte("b"),
			Seq: base.SeqNum(i + 1)})
		if got := tab.CoverSeq([]byte("a"), base.MaxSeqNum); got != base.SeqNum(i+1) {
			t.Fatalf("%d range tombstones cover at %d", i+1, got)
		}
	}
	if parts := *tab.parts.Load(); len(parts) > 8 || 5000-parts[len(parts)-1].end >= maxLoose {
		t.Errorf("%d parts of 5000 range tombstones", len(parts))
	}
}
