package read

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// Readers find what is in queues, at each moment that one of them holds, whatever is added and
// taken out at their ends and in their middle, and while others commit.
func TestVoids(t *testing.T) {
	seen := 0
	for range testutil.Effort(1, 100) {
		for _, parts := range []int{1, 2, 5} {
			q := newQueue(t, parts)
			head, tail := 0, 0
			for range 400 {
				q.step(&head, &tail)
				for range 2 {
					q.check(&head, &tail)
				}
				seen = max(seen, q.voidsNow())
			}
			for _, m := range q.held {
				m.Release()
			}
		}
	}
	if seen == 0 {
		t.Error("no void is made")
	}
}

// To take out all items of queues one by one passes over few rows, also if partitions are merged,
// and another writer commits between the choice of the moment and the reading.
func TestVoidsFollowTheHead(t *testing.T) {
	for i := range 12 {
		others, reverse, parts := i%2 == 0, i/2%2 == 0, []int{1, 4, 20}[i/4]
		q := newQueue(t, parts)
		for i := range queueItems {
			q.change(i, true, 0)
		}
		q.publish()
		for n := range queueItems {
			want := n
			if reverse {
				want = queueItems - 1 - n
			}
			for range 2 {
				it := begun(t, q.Reader(nil, nil), 1)
				if others {
					q.put("other", fmt.Sprint(n))
				}
				if got := q.first(it, reverse); got != string(q.key(want)) {
					t.Fatalf("item %d: got %q", want, got)
				}
			}
			q.change(want, false, 0)
			q.publish()
		}
		if most := 2 * queueItems * minVoid; q.passed > most {
			t.Errorf("others %v, reverse %v, %d partitions: %d rows passed over, want at most %d",
				others, reverse, parts, q.passed, most)
		}
		if n := q.voidsNow(); n > 2*parts {
			t.Errorf("others %v: %d voids of %d partitions", others, n, parts)
		}
	}
}

// first returns the first item that a reader of the whole queue sees, its key or "".
func (q *queue) first(it *Iteration, reverse bool) string {
	q.t.Helper()
	defer it.Close()
	r := reading{to: queueItems, after: -1, reverse: reverse, merged: true}
	for p := range q.pks {
		r.parts = append(r.parts, p)
	}
	r.begin(q, it)
	found := it.Next()
	q.passed += it.seeking.passed
	if found {
		return string(it.Key())
	}
	q.ok(it.Err())
	return ""
}

// dead makes items [from, to) come and go.
func (q *queue) dead(from, to int) {
	for i := from; i < to; i++ {
		q.change(i, true, 0)
		q.change(i, false, 0)
	}
	q.publish()
}

// A void is not there before the reader that has found it, nor for readers that see what was put
// since: an item comes after the moment of the first reader and before the span is watched, and
// goes before the next reader.
func TestVoidsBeginWithTheirReader(t *testing.T) {
	for i := range 4 {
		reverse := i%2 == 0
		q := newQueue(t, 1+i/2*3)
		q.dead(0, 2*minVoid)
		one, two := begun(t, q.Reader(nil, nil), 1), begun(t, q.Reader(nil, nil), 1)
		q.change(minVoid, true, 0)
		q.publish()
		key := string(q.key(minVoid))
		for i, it := range []*Iteration{one, two} {
			if got := q.first(it, reverse); got != "" {
				t.Fatalf("reader %d before the item: got %q", i, got)
			}
		}
		now := func() string { return q.first(begun(t, q.Reader(nil, nil), 1), reverse) }
		for range 2 {
			if got := now(); got != key {
				t.Fatalf("with the item: got %q", got)
			}
		}
		var held Moment
		q.ok(held.Take(q.State))
		q.change(minVoid, false, 0)
		q.publish()
		for range 3 {
			if got := now(); got != "" {
				t.Fatalf("without the item: got %q", got)
			}
			it := begun(t, q.Reader(&held, nil), 1)
			if got := q.first(it, reverse); got != key {
				t.Fatalf("at the moment with the item: got %q", got)
			}
		}
		if q.voidsNow() == 0 {
			t.Error("no void is made")
		}
		held.Release()
	}
}

// An item that has expired is in no void: a reader of the past sees it.
func TestVoidsHaveNoExpiredItems(t *testing.T) {
	for _, parts := range []int{1, 4} {
		q := newQueue(t, parts)
		q.dead(0, minVoid)
		q.change(minVoid, true, 5)
		q.dead(minVoid+1, 2*minVoid)
		for _, pk := range q.pks {
			q.flushStripe(keycodec.Stripe(pk), &q.runs)
		}
		q.dead(0, minVoid)
		q.dead(minVoid+1, 2*minVoid)
		var held Moment
		q.ok(held.Take(q.State))
		held.nowMs = 4 // as of a moment of the past
		q.now.Store(6)
		for range 3 {
			if got := q.first(begun(t, q.Reader(nil, nil), 1), false); got != "" {
				t.Fatalf("now: got %q", got)
			}
			got := q.first(begun(t, q.Reader(&held, nil), 1), false)
			if got != string(q.key(minVoid)) {
				t.Fatalf("before it expires: got %q", got)
			}
		}
		held.Release()
	}
}

// What a gathering leaves out of a partition is in no void.
func TestVoidsHaveNoHoles(t *testing.T) {
	q := newQueue(t, 2)
	q.dead(0, 2*minVoid)
	q.change(minVoid, true, 0)
	q.publish()
	r := reading{parts: []int{0, 1}, to: queueItems, after: -1, merged: true,
		hole: [2]int{minVoid, minVoid + 2}}
	for range 3 {
		it := begun(t, q.Reader(nil, nil), 1)
		if r.begin(q, it); it.Next() {
			t.Fatalf("beside the item: got %q", it.Key())
		}
		it.Close()
		if got := q.first(begun(t, q.Reader(nil, nil), 1), false); got != string(q.key(minVoid)) {
			t.Fatalf("got %q", got)
		}
	}
}

// A stripe has a few voids, those that were used last, none with long bounds, and none that is not
// used any more.
func TestVoidsAreBounded(t *testing.T) {
	w := newWorld(t)
	voids := &w.voids.of[3]
	seq := w.put("a", "v")
	span := func(i int) base.Span {
		return base.Span{Lo: fmt.Appendf(nil, "%03d", i), Hi: fmt.Appendf(nil, "%03da", i)}
	}
	it := begun(t, w.Reader(nil, nil), 1)
	defer it.Close()
	for i := range 3 * maxWatched {
		w.now.Add(1)
		w.noteVoid(voids, span(i), seq)
		if n := len(voids.load()); n != min(1+i, maxWatched) {
			t.Fatalf("%d voids after %d", n, i+1)
		}
		if !it.leaveEach(voids.load(), span(0), false).Empty() {
			t.Fatalf("the void that is used is gone after %d", i+1)
		}
	}
	if n := w.voidsNow(); n != maxWatched {
		t.Errorf("%d voids", n)
	}
	long := base.Span{Lo: bytes.Repeat([]byte("a"), maxVoidBytes+1)}
	w.noteVoid(voids, long, seq)
	if !slices.Equal(it.leaveEach(voids.load(), long, false).Lo, long.Lo) {
		t.Error("a void has long bounds")
	}
	w.now.Add(slotIdleMs + 1)
	if w.Retention(); w.voidsNow() > 0 {
		t.Error("voids that are not used are watched")
	}
}
