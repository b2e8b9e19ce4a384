package read

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// queue is a partition whose items are numbered, with what is known of each of them.
type queue struct {
	*world
	random   *rand.Rand
	versions [][]queued // by item, ascending
	held     []*Moment
	runs     uint64
	begun    []base.SeqNum // commits
	passed   int           // rows, by first
}

type queued struct {
	seq     base.SeqNum
	there   bool
	expires int64
}

const (
	queuePK    = "q"
	queueItems = 900
)

func queueKey(i int) []byte {
	return keycodec.AppendOrdered(nil, keycodec.Key{
		PK: []byte(queuePK), SK: fmt.Appendf(nil, "%04d", i),
	})
}

// change writes a version of an item, without making it visible.
func (q *queue) change(i int, there bool, expires int64) {
	e := base.Entry{Key: queueKey(i), Kind: base.KindDelete}
	if there {
		e.Kind, e.Value = base.KindPut, []byte("v")
	}
	if expires > 0 {
		e.Kind, e.Expiry = base.KindPutTTL, expires
	}
	seq := q.write(e)
	q.versions[i] = append(q.versions[i], queued{seq, there, expires})
	q.begun = append(q.begun, seq)
}

// publish makes the commits that were begun visible.
func (q *queue) publish() {
	for _, seq := range q.begun {
		q.Publish(seq)
	}
	q.begun = q.begun[:0]
}

// want returns the items of [from, to) that a reader at a seq and a time sees.
func (q *queue) want(from, to int, seq base.SeqNum, now int64) (keys []string) {
	for i := from; i < to; i++ {
		last := queued{}
		for _, v := range q.versions[i] {
			if v.seq <= seq {
				last = v
			}
		}
		if last.there && (last.expires == 0 || last.expires > now) {
			keys = append(keys, string(queueKey(i)))
		}
	}
	return keys
}

// step makes a few commits: mostly items are added at one end and taken out at an end.
func (q *queue) step(head, tail *int) {
	switch n := q.random.IntN(20); {
	case n < 8:
		for range min(q.random.IntN(60), *tail-*head) {
			q.change(*head, false, 0)
			*head++
		}
	case n < 12:
		for range min(q.random.IntN(60), queueItems-*tail) {
			q.change(*tail, true, 0)
			*tail++
		}
	case n < 14:
		for range min(q.random.IntN(40), *tail-*head) {
			*tail--
			q.change(*tail, false, 0)
		}
	case n == 14:
		q.change(q.random.IntN(queueItems), true, 0)
	case n == 15:
		q.change(q.random.IntN(queueItems), false, 0)
	case n == 16:
		q.change(q.random.IntN(queueItems), true, q.now.Load()+q.random.Int64N(3))
	case n == 17:
		q.now.Add(1)
	case n == 18:
		q.flushStripe(keycodec.Stripe([]byte(queuePK)), &q.runs)
	default:
		for len(q.held) > 3 {
			q.held[0].Release()
			q.held = q.held[1:]
		}
		m := new(Moment)
		q.ok(m.Take(q.State))
		q.held = append(q.held, m)
	}
	if *tail == queueItems && q.random.IntN(4) == 0 {
		*head, *tail = 0, 0 // what is left stays in the middle
	}
	q.publish()
}

// check reads some items of a part of the queue and compares them. Between the choice of the moment
// and the reading others commit.
func (q *queue) check(head, tail *int) {
	var r Reader
	if q.random.IntN(2) == 0 && len(q.held) > 0 {
		r = q.Reader(q.held[q.random.IntN(len(q.held))], nil)
	} else {
		r = q.Reader(nil, nil)
	}
	limit := q.random.IntN(4)
	it := begun(q.t, r, limit)
	defer it.Close()
	if q.random.IntN(3) == 0 {
		q.step(head, tail)
	}
	from, to := 0, queueItems
	switch q.random.IntN(6) {
	case 0:
		from = q.random.IntN(queueItems)
	case 1:
		to = q.random.IntN(queueItems)
	}
	s := base.Span{Lo: queueKey(from), Hi: queueKey(to)}
	if q.random.IntN(3) > 0 {
		n, _ := keycodec.OrderedPKLen(s.Lo)
		it.Partition([]byte(queuePK), n, s.Clone())
	} else {
		if from == 0 && to == queueItems && q.random.IntN(2) == 0 {
			s = base.Span{} // without bounds
		}
		it.Stripes(everyStripe, s)
	}
	reverse := q.random.IntN(3) == 0
	it.Read(s, reverse)
	var got []string
	for it.Next() && (limit == 0 || len(got) < limit) {
		got = append(got, string(it.Key()))
	}
	q.ok(it.Err())
	want := q.want(from, to, it.node.seq, it.reader.now())
	if reverse {
		slices.Reverse(want)
	}
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if !slices.Equal(got, want) {
		q.t.Fatalf("[%d, %d) at %d, reverse %v: got %q, want %q", from, to, it.node.seq, reverse,
			got, want)
	}
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	return &queue{
		world: newWorld(t), random: testutil.Rand(t), versions: make([][]queued, queueItems),
	}
}

// Readers find what is in a queue, at each moment that one of them holds, whatever is added and
// taken out at its ends and in its middle, and while others commit.
func TestVoids(t *testing.T) {
	for range testutil.Effort(2, 200) {
		q := newQueue(t)
		head, tail, seen := 0, 0, 0
		for range 400 {
			q.step(&head, &tail)
			for range 2 {
				q.check(&head, &tail)
			}
			seen = max(seen, q.Watched().count(true))
		}
		if seen == 0 {
			t.Error("no void is made")
		}
		for _, m := range q.held {
			m.Release()
		}
	}
}

// To take out all items of a queue one by one passes over few rows, also if another writer commits
// between the choice of the moment and the reading.
func TestVoidsFollowTheHead(t *testing.T) {
	for _, others := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			q := newQueue(t)
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
					if got := q.first(it, reverse); got != string(queueKey(want)) {
						t.Fatalf("item %d: got %q", want, got)
					}
				}
				q.change(want, false, 0)
				q.publish()
			}
			if most := 2 * queueItems * minVoid; q.passed > most {
				t.Errorf("others %v, reverse %v: %d rows passed over, want at most %d", others,
					reverse, q.passed, most)
			}
			if n := q.Watched().count(true); n > 2 {
				t.Errorf("others %v: %d voids of one queue", others, n)
			}
		}
	}
}

// first returns the first item that a reader of the whole queue sees, its key or "".
func (q *queue) first(it *Iteration, reverse bool) string {
	q.t.Helper()
	defer it.Close()
	s := base.Span{Lo: queueKey(0), Hi: queueKey(queueItems)}
	it.Partition([]byte(queuePK), len(s.Lo)-4, s.Clone())
	it.Read(s, reverse)
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
	for _, reverse := range []bool{false, true} {
		q := newQueue(t)
		q.dead(0, 2*minVoid)
		one, two := begun(t, q.Reader(nil, nil), 1), begun(t, q.Reader(nil, nil), 1)
		q.change(minVoid, true, 0)
		q.publish()
		key := string(queueKey(minVoid))
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
		if q.Watched().count(true) == 0 {
			t.Error("no void is made")
		}
		held.Release()
	}
}

// An item that has expired is in no void: a reader of the past sees it.
func TestVoidsHaveNoExpiredItems(t *testing.T) {
	q := newQueue(t)
	q.dead(0, minVoid)
	q.change(minVoid, true, 5)
	q.dead(minVoid+1, 2*minVoid)
	q.flushStripe(keycodec.Stripe([]byte(queuePK)), &q.runs)
	q.dead(0, minVoid)
	q.dead(minVoid+1, 2*minVoid)
	var held Moment
	q.ok(held.Take(q.State))
	defer held.Release()
	held.nowMs = 4 // as of a moment of the past
	q.now.Store(6)
	for range 3 {
		if got := q.first(begun(t, q.Reader(nil, nil), 1), false); got != "" {
			t.Fatalf("now: got %q", got)
		}
		got := q.first(begun(t, q.Reader(&held, nil), 1), false)
		if got != string(queueKey(minVoid)) {
			t.Fatalf("before it expires: got %q", got)
		}
	}
}
