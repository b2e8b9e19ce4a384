package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/wal"
)

func TestStripeSet(t *testing.T) {
	listOf := func(s *stripeSet) (ids []uint8) {
		s.each(func(id uint8) { ids = append(ids, id) })
		return ids
	}
	for a := range base.NumStripes {
		for _, b := range []int{0, 1, 63, 64, 65, 127, 128, 191, 192, 254, 255, a} {
			var s, other stripeSet
			s.add(uint8(a))
			other.add(uint8(b))
			s.union(&other)
			want := []uint8{uint8(min(a, b)), uint8(max(a, b))}
			if got := listOf(&s); !slices.Equal(got, slices.Compact(want)) {
				t.Fatalf("set of %d and %d has %d", a, b, got)
			}
		}
	}
	if got := listOf(&stripeSet{}); len(got) > 0 {
		t.Errorf("the empty set has %d", got)
	}
}

// batchText describes what a batch holds: its operations with the part of the record that is
// theirs, what it needs of locks, and what has to be done to it before the log.
func batchText(t *testing.T, b *Batch) string {
	t.Helper()
	var w strings.Builder
	fmt.Fprintf(&w, "len %d, bytes %d, ranges %t, ttls %t, stripes", b.Len(), b.Bytes(), b.ranges,
		b.ttls)
	b.stripes.each(func(id uint8) { fmt.Fprintf(&w, " %d", id) })
	if b.hasConds() {
		w.WriteString(", of conditions")
		b.conds.stripes.each(func(id uint8) { fmt.Fprintf(&w, " %d", id) })
	}
	w.WriteString("\n")
	for i := range b.ops {
		op := &b.ops[i]
		fmt.Fprintf(&w, "%d stripe %d at %d: %q", op.kind, op.stripe, op.record, b.key(op))
		if op.kind == base.KindDeleteRange {
			fmt.Fprintf(&w, " to %q", b.rangeEnd(op))
		}
		fmt.Fprintf(&w, " value %q expiry %d\n", b.valueOf(op), op.expiry)
	}
	w.WriteString("record:")
	r := wal.NewOpReader(b.payload)
	for {
		var op wal.Op
		more, err := r.Next(&op)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return w.String()
		}
		fmt.Fprintf(&w, "\n%d %q %q %q %q-%q %d", op.Kind, op.PK, op.SK, op.Value, op.Start,
			op.End, op.Expiry)
	}
}

// What a later range delete of a batch covers is dropped from its operations and from its
// record; every other operation keeps its key, its value and its place.
func TestBatchHoldsItsOperations(t *testing.T) {
	k := func(p, s string) Key {
		key := Key{PK: []byte(p)}
		if s != "" {
			key.SK = []byte(s)
		}
		return key
	}
	b := NewBatch()
	for _, err := range []error{
		b.Put(k("p", "gone"), []byte("v1"), TTL(time.Second)),
		b.Delete(k("p", "also gone")),
		b.Put(k("q", ""), []byte("v2")),
		b.Delete(k("q", "d")),
		b.Put(k("q", "u"), []byte("v3"), Expiry(1)),
		b.DeleteRange([]byte("p"), SKCondition{}),
		b.Put(k("p", "kept"), []byte("v4"), TTL(time.Millisecond)),
		b.DeleteRange([]byte("p"), SKLess(nil)), // nothing
		b.DeleteRange([]byte("q"), SKEqual([]byte("other"))),
		b.Require(k("r", ""), IfAbsent()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const before = `len 9, bytes 168, ranges true, ttls true, stripes 39 177, of conditions 157
3 stripe 177 at 0: "p\x00\x00gone" value "v1" expiry 0
1 stripe 177 at 28: "p\x00\x00also gone" value "" expiry 0
2 stripe 39 at 47: "q\x00\x00" value "v2" expiry 0
1 stripe 39 at 63: "q\x00\x00d" value "" expiry 0
3 stripe 39 at 74: "q\x00\x00u" value "v3" expiry 1
4 stripe 177 at 99: "p\x00\x00" to "p\x00\x01" value "" expiry 0
3 stripe 177 at 114: "p\x00\x00kept" value "v4" expiry 0
4 stripe 39 at 142: "q\x00\x00other" to "q\x00\x00other\x00" value "" expiry 0
record:
3 "p" "gone" "v1" ""-"" 0
1 "p" "also gone" "" ""-"" 0
2 "q" "" "v2" ""-"" 0
1 "q" "d" "" ""-"" 0
3 "q" "u" "v3" ""-"" 1
4 "" "" "" "p\x00\x00"-"p\x00\x01" 0
3 "p" "kept" "v4" ""-"" 0
4 "" "" "" "q\x00\x00other"-"q\x00\x00other\x00" 0`
	if got := batchText(t, b); got != before {
		t.Errorf("got:\n%s\nwant:\n%s", got, before)
	}
	b.seal(1000)
	const after = `len 9, bytes 121, ranges true, ttls true, stripes 39 177, of conditions 157
2 stripe 39 at 0: "q\x00\x00" value "v2" expiry 0
1 stripe 39 at 16: "q\x00\x00d" value "" expiry 0
3 stripe 39 at 27: "q\x00\x00u" value "v3" expiry 1
4 stripe 177 at 52: "p\x00\x00" to "p\x00\x01" value "" expiry 0
3 stripe 177 at 67: "p\x00\x00kept" value "v4" expiry 1001
4 stripe 39 at 95: "q\x00\x00other" to "q\x00\x00other\x00" value "" expiry 0
record:
2 "q" "" "v2" ""-"" 0
1 "q" "d" "" ""-"" 0
3 "q" "u" "v3" ""-"" 1
4 "" "" "" "p\x00\x00"-"p\x00\x01" 0
3 "p" "kept" "v4" ""-"" 1001
4 "" "" "" "q\x00\x00other"-"q\x00\x00other\x00" 0`
	if got := batchText(t, b); got != after {
		t.Errorf("sealed, got:\n%s\nwant:\n%s", got, after)
	}
	b.Reset()
	const empty = "len 0, bytes 0, ranges false, ttls false, stripes\nrecord:"
	if got := batchText(t, b); got != empty || b.hasConds() {
		t.Errorf("reset, got %s", got)
	}
}

// An operation counts with its key, its value, and what its condition holds.
func TestRoomInABatch(t *testing.T) {
	key, value := Key{PK: []byte("part"), SK: []byte("sort")}, []byte("value")
	held := IfValue([]byte("old value"))
	for name, c := range map[string]struct {
		bytes int
		add   func(*Batch) error
	}{
		"Put": {4 + 4 + 5, func(b *Batch) error { return b.Put(key, value) }},
		"Put that expires": {4 + 4 + 5, func(b *Batch) error {
			return b.Put(key, value, Expiry(1))
		}},
		"Delete": {4 + 4, func(b *Batch) error { return b.Delete(key) }},
		"DeleteRange": {6 + 7, func(b *Batch) error {
			return b.DeleteRange(key.PK, SKLess([]byte("")))
		}},
		"PutIf": {9 + 8 + 8 + 5, func(b *Batch) error { return b.PutIf(key, value, held) }},
		"PutIf that expires": {9 + 8 + 8 + 5, func(b *Batch) error {
			return b.PutIf(key, value, held, Expiry(1))
		}},
		"DeleteIf": {9 + 8 + 8, func(b *Batch) error { return b.DeleteIf(key, held) }},
		"Require":  {9 + 8 + 8, func(b *Batch) error { return b.Require(key, held) }},
	} {
		for _, over := range []int{0, 1} {
			b := NewBatch()
			b.conds = &batchConds{bytes: MaxBatchBytes - 64 - c.bytes + over}
			err := c.add(b)
			if over == 0 && err != nil || over == 1 && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %d bytes too many: %v", name, over, err)
			}
			if over == 1 && (b.Len() > 0 || b.Bytes() > 0 || b.hasConds()) {
				t.Errorf("%s: a batch that has refused an operation holds it", name)
			}
		}
	}
}

// What conditions hold: their values, and the keys of those without a write.
func TestRoomOfConditions(t *testing.T) {
	key := Key{PK: []byte("part"), SK: []byte("sort")}
	b := NewBatch()
	for i, want := range []int{3, 3 + 2 + 8, 3 + 2 + 8 + MaxValueBytes + 1} {
		err := []error{nil, nil, nil}[i]
		switch i {
		case 0:
			err = b.DeleteIf(key, IfValue([]byte("abc")))
		case 1:
			err = b.Require(key, IfValue([]byte("ab")))
		case 2: // so much that it equals no value
			err = b.DeleteIf(key, IfValue(make([]byte, MaxValueBytes+5)))
		}
		if err != nil || b.conds.bytes != want {
			t.Errorf("condition %d: %d bytes, want %d, %v", i, b.conds.bytes, want, err)
		}
	}
}

func TestExpiryAt(t *testing.T) {
	const last = math.MaxInt64
	for _, c := range []struct {
		now  int64
		ttl  time.Duration
		want int64
	}{
		{1000, time.Nanosecond, 1001},
		{1000, time.Millisecond, 1001},
		{1000, 2*time.Millisecond - 1, 1001},
		{1000, 2 * time.Millisecond, 1002},
		{-1000, time.Millisecond, 1},
		{-2, 2 * time.Millisecond, 1},
		{-1, 2 * time.Millisecond, 1},
		{0, 2 * time.Millisecond, 2},
		{last - 3, 2 * time.Millisecond, last - 1},
		{last - 2, 2 * time.Millisecond, last},
		{last - 1, 2 * time.Millisecond, last},
		{last, time.Millisecond, last},
	} {
		if got := expiryAt(c.now, c.ttl); got != c.want {
			t.Errorf("written at %d for %v: expires at %d, want %d", c.now, c.ttl, got, c.want)
		}
	}
}
