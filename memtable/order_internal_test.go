package memtable

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"pgregory.net/rapid"
)

// TestItem holds the tree to what makes it cheap: small items that the collector
// does not look into.
func TestItem(t *testing.T) {
	if n := unsafe.Sizeof(item{}); n != 16 {
		t.Errorf("an item has %d bytes, want 16", n)
	}
	for f := range reflect.TypeFor[item]().Fields() {
		if k := f.Type.Kind(); k != reflect.Uint32 && k != reflect.Uint64 {
			t.Errorf("field %s is a %v", f.Name, k)
		}
	}
}

// TestItemOrder checks that the map from keys to items preserves their order for any
// expected prefix.
func TestItemOrder(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		short := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 254, 255}), 0, 20)
		prefix := short.Draw(t, "prefix")
		draw := func(name string) []byte {
			key := short.Draw(t, name)
			if rapid.Bool().Draw(t, name+" has the prefix") {
				key = append(bytes.Clone(prefix), key...)
			}
			return key
		}
		a, b := draw("a"), draw("b")
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		x, y := newItem(prefix, a, 1), newItem(prefix, b, 2)
		if x.prefix > y.prefix || (x.prefix == y.prefix && x.tail > y.tail) {
			t.Fatalf("%q maps to %x, the greater %q to %x", a, x, b, y)
		}
	})
}

// TestAdapt checks that a table finds the prefix of its keys whatever it was made to
// expect, a few odd keys at both ends notwithstanding.
func TestAdapt(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for i, told := range []string{
		"", "zzz", "tenant01/orders/00", "tenant01/orders/0001",
		"", "zzz", "tenant01/orders/00", "tenant01/orders/0001",
	} {
		readEarly := i < 4 // the tree grows key by key, or is made at the end
		tab := New(Options{Prefix: []byte(told)})
		for i := range 5000 {
			key := fmt.Appendf(nil, "tenant01/orders/%08d", i*7919%100_000)
			if i%200 == 1 {
				key = fmt.Appendf(nil, "%c%d", 'a'+25*(i&2)/2, i)
			}
			tab.Put(key, base.Hash(key, 1), 1, base.KindPut, 0, nil, 0)
			if readEarly {
				tab.NewCursor(1).First()
			}
		}
		tab.NewCursor(1).First()
		ties := 0
		var last item
		tab.tree.Ascend(func(it item) bool {
			if it.prefix == last.prefix && it.tail == last.tail {
				ties++
			}
			last = it
			return true
		})
		if ties > 5000/100 {
			t.Errorf("told %q: prefix %q leaves %d of 5000 keys to full comparisons",
				told, tab.prefix, ties)
		}
	}
}

// prefixAfter returns the prefix that a table expects, made to expect told, after an
// ordered read of its keys: odd ones below and above, n in all. Early: the tree grows key by
// key, else it is made at the end.
func prefixAfter(told string, n, odd int, early bool) string {
	return prefixWith(told, n, odd, odd, early)
}

func prefixWith(told string, n, below, above int, early bool) string {
	tab := New(Options{Prefix: []byte(told)})
	for i := range n {
		key := fmt.Appendf(nil, "stem/%02d/%03d", i%7, i)
		switch {
		case i < below:
			key = fmt.Appendf(nil, "a%d", i)
		case i < below+above:
			key = fmt.Appendf(nil, "z%d", i)
		}
		putKey(tab, key, 1, nil)
		if early {
			tab.NewCursor(1).First()
		}
	}
	tab.NewCursor(1).First()
	return string(tab.prefix)
}

// TestPrefixChoice: the keys without the ends decide about the expected prefix, as soon as there
// are enough of them; it leaves out four bytes, and is left as it is if those are enough.
func TestPrefixChoice(t *testing.T) {
	for _, c := range []struct {
		told   string
		n, odd int
		early  bool
		want   string
	}{
		{"z", 31, 0, false, "z"},
		{"z", 32, 0, false, "st"}, // what the keys share is "stem/0"
		{"z", 32, 2, false, "st"},
		{"z", 32, 3, false, ""},
		{"z", 63, 0, true, "z"},
		{"z", 64, 0, true, "st"},
		{"z", 64, 4, true, "st"},
		{"z", 64, 5, true, ""},
		{"z", 65, 5, true, ""},
		{"", 32, 0, false, "st"},
		{"s", 32, 0, false, "st"},
		{"st", 32, 0, false, "st"},
		{"stem/0", 32, 0, false, "stem/0"},
		{"stem/01", 32, 0, false, "st"},
	} {
		if got := prefixAfter(c.told, c.n, c.odd, c.early); got != c.want {
			t.Errorf("told %q, %d keys, twice %d odd ones, early %v: prefix %q, want %q", c.told,
				c.n, c.odd, c.early, got, c.want)
		}
	}
	for _, c := range []struct {
		n, below, above int
		early           bool
		want            string
	}{
		{32, 2, 0, false, "st"}, {32, 3, 0, false, ""}, {32, 0, 2, false, "st"}, {32, 0, 3, false,
			""},
		{64, 4, 0, true, "st"}, {64, 5, 0, true, ""}, {64, 0, 4, true, "st"}, {64, 0, 5, true, ""},
	} {
		if got := prefixWith("z", c.n, c.below, c.above, c.early); got != c.want {
			t.Errorf("%d keys, %d below, %d above: prefix %q, want %q", c.n, c.below, c.above, got,
				c.want)
		}
	}
	unread := New(Options{Prefix: []byte("z")})
	for i := range 32 {
		putKey(unread, fmt.Appendf(nil, "stem/%02d", i), 1, nil)
	}
	unread.Freeze()
	if unread.NewSource(); string(unread.prefix) != "s" {
		t.Errorf("a table that was never read: prefix %q", unread.prefix)
	}
	tab := New(Options{})
	for _, c := range []struct {
		low, high, old, want string
		changed              bool
	}{
		{"abcd1", "abcd2", "", "", false},
		{"abcde1", "abcde2", "", "a", true},
		{"abc1", "abc2", "x", "", true},
		{"abcd1", "abcd2", "x", "", true},
	} {
		tab.prefix = []byte(c.old)
		changed := tab.suitPrefixLocked([]byte(c.low), []byte(c.high))
		if string(tab.prefix) != c.want || changed != c.changed {
			t.Errorf("%q to %q, was %q: prefix %q, want %q", c.low, c.high, c.old, tab.prefix,
				c.want)
		}
	}
}

// TestPrefixChecks: the tree's keys are looked at when there are 64 of them, and eight times as
// many, up to 32,768.
func TestPrefixChecks(t *testing.T) {
	tab := New(Options{})
	want := 64
	for n := 1; n <= 32<<10; n++ {
		putKey(tab, fmt.Appendf(nil, "%06d", n*7919%100_000), 1, nil)
		for _, edge := range []int{64, 512, 4 << 10, 32 << 10} {
			if n == edge {
				want *= 8
			}
			if n == 32<<10 {
				want = 0
			}
			if near := n == edge-1 || n == edge; near && !tab.NewCursor(1).First() {
				t.Fatal("no key")
			}
		}
		if n < maxFresh && len(tab.fresh) > 0 {
			continue // it is done by the next read
		}
		if tab.adaptAt != want {
			t.Fatalf("%d keys: the next check is at %d, want %d", n, tab.adaptAt, want)
		}
	}
}

// TestFreshKeys: up to 8,192 keys wait for an ordered read. The next one brings them into the
// tree; if there is one, it goes there itself.
func TestFreshKeys(t *testing.T) {
	tab := New(Options{})
	add := func(n int) {
		for range n {
			putKey(tab, fmt.Appendf(nil, "%06d", tab.Len()*7919%100_000), 1, nil)
		}
	}
	check := func(fresh, tree, adaptAt int) {
		t.Helper()
		n := -1
		if tab.tree != nil {
			n = tab.tree.Len()
		}
		if len(tab.fresh) != fresh || n != tree || tab.adaptAt != adaptAt {
			t.Errorf("%d keys: %d wait, %d in the tree, checked at %d, want %d, %d and %d",
				tab.Len(),
				len(tab.fresh), n, tab.adaptAt, fresh, tree, adaptAt)
		}
	}
	add(8192)
	check(8192, -1, 64)
	add(1)
	check(1, 8192, 32<<10)
	add(8191)
	check(8192, 8192, 32<<10)
	add(1)
	check(8192, 8193, 32<<10)

	tab = New(Options{})
	add(63)
	tab.NewCursor(1).First()
	check(0, 63, 64)
	add(8192)
	check(8192, 63, 64)
	add(1)
	check(8192, 64, 512)
}

// TestCursorBatches: how many keys a cursor reads at a time, after each positioning, while it
// goes on, and after it turns round.
func TestCursorBatches(t *testing.T) {
	tab := New(Options{})
	for i := range 500 {
		putKey(tab, fmt.Appendf(nil, "%03d", i), 1, nil)
	}
	c := tab.NewCursor(1)
	rows := func(ok bool, next func() bool) (sizes []int) {
		last := 0
		for ; ok && len(sizes) < 5; ok = next() {
			if c.i == 0 {
				sizes = append(sizes, c.n)
				last = c.n
			} else if c.n != last {
				t.Fatal("a batch grows")
			}
		}
		return sizes
	}
	for expected, want := range map[int]string{
		0: "[4 16 64 64 64]", -1: "[1 4 16 64 64]", 1: "[1 4 16 64 64]", 2: "[2 8 32 64 64]",
		63: "[63 64 64 64 64]", 64: "[64 64 64 64 64]", 65: "[64 64 64 64 64]",
	} {
		if tab.InitCursor(c, 1); expected != 0 {
			c.Expect(expected)
		}
		up := fmt.Sprint(rows(c.SeekGE([]byte("100")), c.Next))
		down := fmt.Sprint(rows(c.SeekLT([]byte("400")), c.Prev))
		if up != want || down != want {
			t.Errorf("%d rows expected: %s up, %s down, want %s", expected, up, down, want)
		}
	}
	tab.InitCursor(c, 1)
	if c.Expect(0); c.first != 1 {
		t.Errorf("%d rows where none is expected", c.first)
	}
	tab.InitCursor(c, 1)
	rows(c.First(), c.Next) // the last batch has 64 rows
	if turned := rows(c.Prev(), c.Prev); fmt.Sprint(turned[:3]) != "[64 4 16]" {
		t.Errorf("after a turn: batches of %v", turned)
	}
}

// TestPrefixBytes: tables and their successors expect at most 256 bytes.
func TestPrefixBytes(t *testing.T) {
	for _, n := range []int{0, 255, 256, 257, 5000} {
		key := bytes.Repeat([]byte{'k'}, n)
		tab := New(Options{Prefix: key})
		if want := min(n, 256); len(tab.prefix) != want {
			t.Errorf("a prefix of %d bytes, of %d", len(tab.prefix), n)
		}
		if n > 0 && &key[0] == &tab.prefix[0] {
			t.Error("the prefix is not copied")
		}
		putKey(tab, key, 1, nil)
		tab.Freeze()
		if got := tab.CommonPrefix(); len(got) != min(n, 256) {
			t.Errorf("keys of %d bytes share %d", n, len(got))
		}
	}
}

// TestLockedTime checks that one lock covers a bounded number of keys: a cursor that
// sees none of them must come up in between.
func TestLockedTime(t *testing.T) {
	tab := New(Options{})
	for i := range 10 * maxLooks {
		key := fmt.Appendf(nil, "%06d", i)
		tab.Put(key, base.Hash(key, 1), 9, base.KindPut, 0, nil, 0)
	}
	c := tab.NewCursor(1)
	looked := 0
	inner := c.look
	c.look = func(it item) bool {
		looked++
		return inner(it)
	}
	c.looks, c.limit = maxLooks, minBatch
	tab.walk(c, start{})
	if looked != maxLooks {
		t.Errorf("%d keys under one lock, want %d", looked, maxLooks)
	}
}

// TestDeepVersions reads a version below more than are passed under one lock.
func TestDeepVersions(t *testing.T) {
	tab := New(Options{})
	keys := []string{"a", "hot", "z"}
	for _, key := range keys {
		putKey(tab, []byte(key), 5, nil)
	}
	for seq := range base.SeqNum(10 * maxLooks) {
		putKey(tab, []byte("hot"), 6+seq, nil)
	}
	for seq := range base.SeqNum(maxLooks) { // all of them are passed, and nothing is left
		putKey(tab, []byte("new"), 6+seq, nil)
	}
	hash := base.Hash([]byte("hot"), 1)
	node := tab.index.find(tab.arena.chunks, []byte("hot"), hash)
	head := tab.arena.chunks.word(node, nodeHead)
	if ver, ok := tab.arena.chunks.visible(head, 5); ok || tab.arena.chunks.seq(ver) == 5 {
		t.Error("one step passes all versions")
	}
	for _, state := range []string{"active", "frozen"} {
		var e base.Entry
		if !tab.Get([]byte("hot"), hash, 5, &e) || e.Seq != 5 {
			t.Errorf("%s: Get finds seq %d", state, e.Seq)
		}
		if tab.Get([]byte("hot"), hash, 4, &e) {
			t.Errorf("%s: Get at 4 finds seq %d", state, e.Seq)
		}
		ls := []base.Lookup{{Key: []byte("hot"), Hash: hash}}
		if tab.GetBatch(ls, []uint32{0}, 5); ls[0].Seq != 5 {
			t.Errorf("%s: GetBatch finds seq %d", state, ls[0].Seq)
		}
		c := tab.NewCursor(5)
		got := ""
		for ok := c.First(); ok; ok = c.Next() {
			got += fmt.Sprintf("%s@%d ", c.Entry().Key, c.Entry().Seq)
		}
		for ok := c.Last(); ok; ok = c.Prev() {
			got += fmt.Sprintf("%s@%d ", c.Entry().Key, c.Entry().Seq)
		}
		if want := "a@5 hot@5 z@5 z@5 hot@5 a@5 "; got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
		if tab.NewCursor(4).First() {
			t.Errorf("%s: a cursor at 4 shows a key", state)
		}
		tab.Freeze()
	}
}
