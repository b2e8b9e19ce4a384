package keyset

import (
	"slices"
	"testing"
	"unsafe"
)

// TestReleasedMemory: working memory that is kept for later calls refers to nothing that a
// call was about, so that segments that are dropped and keys of callers can be freed.
func TestReleasedMemory(t *testing.T) {
	sc := scratches.New().(*scratch)
	sc.set = NewSet(nil)
	sc.view = sc.set.view.Load()
	sc.keys, sc.heads, sc.words = [][]byte{{1}}, []uint64{1}, []uint64{1}
	c := &candidate{}
	sc.hits = append(sc.hits, hit{c, 1}, hit{c, 2})[:1]
	last := len(sc.addrs) - 1
	sc.asked[0], sc.asked[batchKeys-1] = c, c
	sc.addrs[0], sc.addrs[last] = unsafe.Pointer(c), unsafe.Pointer(c)
	sc.probes, sc.positives, sc.checks, sc.confirmed = 4, 3, 2, 1
	sc.check.add(0, []byte("key"))
	sc.check.add(5, nil)
	sc.check.reset()
	set := sc.set
	sc.release()
	if sc.set != nil || sc.view != nil || sc.keys != nil || sc.heads != nil || sc.words != nil ||
		len(sc.hits) != 0 || slices.ContainsFunc(sc.hits[:2], func(h hit) bool {
		return h.candidate != nil
	}) || sc.asked[0] != nil || sc.asked[batchKeys-1] != nil || sc.addrs[0] != nil ||
		sc.addrs[last] != nil {
		t.Error("a scratch refers to what the last call was about")
	}
	if b := &sc.check; len(b.keys)+len(b.bytes)+len(b.present)+len(b.who) != 0 ||
		b.bytes[:1][0] != nil {
		t.Error("a buffer of checks refers to its last keys")
	}
	got := set.Stats()
	if want := (Stats{Probes: 4, Positives: 3, Checked: 2, Confirmed: 1}); got != want {
		t.Errorf("the call counts as %+v, want %+v", got, want)
	}

	cache := NewCache(0)
	for range 3 {
		cache.add(cached{&part{}, false, 10})
	}
	if len(cache.ring) != 1 || slices.ContainsFunc(cache.ring[1:cap(cache.ring)],
		func(c cached) bool { return c.part != nil }) {
		t.Error("a cache refers to what it has let go")
	}
}
