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

// TestAdapt checks that a table finds the prefix of its keys whatever it was told to
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
