package read

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// shortScan reads three items from a key on, which makes the map of slots if it is repeated.
func (w *world) shortScan(pk string) []string {
	it := begun(w.t, w.Reader(nil, nil), 3)
	it.Stripes(everyStripe, base.Span{Lo: ordered(pk)})
	it.Read(base.Span{Lo: ordered(pk)}, false)
	var pks []string
	for len(pks) < 3 && it.Next() {
		pks = append(pks, string(it.Item.Key.PK))
	}
	w.ok(it.Err())
	it.Close()
	return pks
}

// makeSlots scans until there is a map, or often enough.
func (w *world) makeSlots() *slotMap {
	for range minSlotScans + base.NumStripes {
		if m := w.making.usable.Load(); m != nil {
			return m
		}
		w.shortScan("")
	}
	return w.making.usable.Load()
}

// The slot of a key is the number of anchors that are not above it.
func TestSlotOfKey(t *testing.T) {
	rng := testutil.Rand(t)
	key := func() []byte {
		k := []byte("common")[:rng.IntN(7)]
		for range rng.IntN(12) {
			k = append(slices.Clip(k), byte(rng.IntN(3)))
		}
		return k
	}
	for range 300 {
		var keys [][]byte
		for range rng.IntN(20) * rng.IntN(40) {
			keys = append(keys, key())
		}
		slices.SortFunc(keys, bytes.Compare)
		var anchors []byte
		var ends []uint32
		for _, k := range keys {
			anchors = append(anchors, k...)
			ends = append(ends, uint32(len(anchors)))
		}
		m := newSlotMap(anchors, ends, slotKeys)
		for range 50 {
			k := key()
			want := sort.Search(len(keys), func(i int) bool {
				return bytes.Compare(keys[i], k) > 0
			})
			from := rng.IntN(want + 1)
			if got := m.slotFrom(from, k); got != want {
				t.Fatalf("slot of %q from %d on is %d, want %d", k, from, got, want)
			}
			if got := m.slot(k); got != want {
				t.Fatalf("%q has slot %d of %q, want %d", k, got, keys, want)
			}
		}
	}
}

// Short scans open few stripes once there is a map. A map that is not used goes with a flush.
func TestShortScansOpenFewStripes(t *testing.T) {
	w := newWorld(t)
	for i := range 4000 {
		w.put(fmt.Sprintf("p%04d", i), "v")
	}
	m := w.makeSlots()
	if m == nil {
		t.Fatal("there is no map")
	}
	it := begun(t, w.Reader(nil, nil), 3)
	it.Stripes(everyStripe, base.Span{})
	it.Read(base.Span{}, false)
	if _, n := m.stripesOf(0, it.windows.slots); it.windows.m != m || n > 40 {
		t.Errorf("a window has %d stripes", n)
	}
	it.Close()
	w.Retention()
	if w.making.usable.Load() != m {
		t.Error("a map in use went")
	}
	w.now.Add(slotIdleMs + 1)
	w.Retention()
	if w.making.usable.Load() != nil || w.making.noting.Load() != nil {
		t.Error("a map without use stays")
	}
}

// A map is not used before a commit is inserted that began when nobody noted keys.
func TestSlotsWaitForCommits(t *testing.T) {
	w := newWorld(t)
	for i := range 1000 {
		w.put(fmt.Sprintf("p%03d", i), "v")
	}
	id := keycodec.Stripe([]byte("late"))
	w.stripes[id].Lock()
	if m := w.makeSlots(); m != nil {
		t.Fatal("a map without a commit that is being inserted")
	}
	w.put("late", "v") // without a note
	w.stripes[id].Unlock()
	if w.makeSlots() == nil {
		t.Fatal("there is no map")
	}
	if got := w.shortScan("late"); len(got) == 0 || got[0] != "late" {
		t.Errorf("items %q, want the late one first", got)
	}
}

// A map that goes is not used by a reader that sees a commit which was not noted in it.
func TestSlotsGoBeforeNotesEnd(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		w.put(fmt.Sprintf("p%03d", i), "v")
	}
	for i := range testutil.Effort(200, 20_000) {
		if w.makeSlots() == nil {
			t.Fatal("there is no map")
		}
		gone := make(chan struct{})
		go func() {
			w.making.drop(minSlotScans)
			close(gone)
		}()
		base.Yield()
		pk := fmt.Sprintf("q%05d", i)
		w.put(pk, "v")
		if got := w.shortScan(pk); len(got) == 0 || got[0] != pk {
			t.Fatalf("items %q, want %s first", got, pk)
		}
		<-gone
	}
}
