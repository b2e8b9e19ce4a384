package read

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// queue is numbered items in some partitions, with what is known of each of them. Item i is in
// partition i modulo their number, so those that follow each other have the same sort key.
type queue struct {
	*world
	random   *rand.Rand
	pks      [][]byte   // ascending; two of them in each of their stripes, but for a single one
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

const queueItems = 900

func newQueue(t *testing.T, parts int) *queue {
	t.Helper()
	q := &queue{
		world: newWorld(t), random: testutil.Rand(t), versions: make([][]queued, queueItems),
	}
	for n, used := 0, make(map[uint8]int); len(q.pks) < parts; n++ {
		pk := fmt.Appendf(nil, "q%05d", n)
		if id := keycodec.Stripe(pk); int(id) < (parts+1)/2 && used[id] < 2 {
			q.pks = append(q.pks, pk)
			used[id]++
		}
	}
	return q
}

// item returns the key of an item.
func (q *queue) item(i int) keycodec.Key {
	return keycodec.Key{PK: q.pks[i%len(q.pks)], SK: fmt.Appendf(nil, "%04d", i/len(q.pks))}
}

// key returns the ordered key of an item.
func (q *queue) key(i int) []byte { return keycodec.AppendOrdered(nil, q.item(i)) }

// keyIn returns the key of a partition with the sort key of an item.
func (q *queue) keyIn(part, i int) []byte { return q.key(i/len(q.pks)*len(q.pks) + part) }

// change writes a version of an item, without making it visible.
func (q *queue) change(i int, there bool, expires int64) {
	e := base.Entry{Key: q.key(i), Kind: base.KindDelete}
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

// drop commits the removal of items in a partition by its range.
func (q *queue) drop(part, from, to int) {
	q.deleteRange(base.Span{Lo: q.keyIn(part, from), Hi: q.keyIn(part, to)},
		keycodec.Stripe(q.pks[part]))
	first := from/len(q.pks)*len(q.pks) + part
	for i := first; i/len(q.pks) < to/len(q.pks); i += len(q.pks) {
		q.versions[i] = append(q.versions[i], queued{seq: q.log.LastSeq()})
	}
}

// has reports whether a reader at a seq and a time sees an item that is not older than since.
func (q *queue) has(i int, seq, since base.SeqNum, now int64) bool {
	last := queued{}
	for _, v := range q.versions[i] {
		if v.seq <= seq {
			last = v
		}
	}
	return last.there && last.seq >= since && (last.expires == 0 || last.expires > now)
}

// step makes a few commits: mostly items are added at one end and taken out at an end.
func (q *queue) step(head, tail *int) {
	switch n := q.random.IntN(21); {
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
		q.flushStripe(keycodec.Stripe(q.pks[0]), &q.runs)
	case n == 19 && q.random.IntN(4) == 0:
		from := q.random.IntN(queueItems)
		q.drop(q.random.IntN(len(q.pks)), from, min(queueItems, from+q.random.IntN(100)))
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

// reading is a reading of items whose sort keys are those of [from, to), of some partitions.
type reading struct {
	parts    []int // ascending
	from, to int
	hole     [2]int // sort keys that a gathering leaves out, of partitions of even numbers
	after    int    // the item that a gathering is resumed after, -1 for none
	reverse  bool
	merged   bool // partitions
	how      int  // 0: as a partition if it is one, 1: as a scan if it can be one
	first    bool // the partitions are those of the first stripe, which is scanned
}

// begin begins it.
func (r *reading) begin(q *queue, it *Iteration) {
	lo, hi := q.keyIn(r.parts[0], r.from), q.keyIn(r.parts[0], r.to)
	s, pk := base.Span{Lo: lo, Hi: hi}, len(lo)-4
	all := r.to-r.from == queueItems && r.hole[0] == r.hole[1] && r.after < 0
	switch {
	case r.first:
		it.Stripes(everyStripe[:1], base.Span{})
		it.Read(base.Span{}, r.reverse)
	case r.hole[0] < r.hole[1] || r.after >= 0:
		r.gather(q, it, true)
	case len(r.parts) == 1 && r.how == 0:
		it.Partition(q.pks[r.parts[0]], pk, s)
		it.Read(s, r.reverse)
	case len(r.parts) == 1 && r.how == 1:
		it.Stripes(everyStripe, s)
		it.Read(s, r.reverse)
	case len(r.parts) == len(q.pks) && !r.merged && all && r.how == 1:
		it.Stripes(everyStripe, base.Span{})
		it.Read(base.Span{}, r.reverse)
	default:
		r.gather(q, it, !all || r.how != 1)
	}
}

// gather begins it as a gathering, whose sort keys are restricted.
func (r *reading) gather(q *queue, it *Iteration, restricted bool) {
	g := &Gather{Reverse: r.reverse, ByPartition: !r.merged}
	for _, p := range r.parts {
		g.PKs = append(g.PKs, q.pks[p])
	}
	if r.after >= 0 {
		g.Resumed, g.After = true, q.item(r.after)
	}
	sk := func(i int) []byte { return q.item(i).SK }
	if restricted {
		g.Spans = []keycodec.Span{{Start: sk(r.from), End: sk(r.to)}}
	}
	if r.hole[0] < r.hole[1] {
		holed := []keycodec.Span{
			{Start: sk(r.from), End: sk(r.hole[0])}, {Start: sk(r.hole[1]), End: sk(r.to)},
		}
		for _, p := range r.parts {
			g.Each = append(g.Each, [][]keycodec.Span{holed, g.Spans}[p%2])
		}
	}
	it.Gather(g, true)
}

// want returns the keys of the items that it shows, those for which has is true.
func (r *reading) want(q *queue, has func(int) bool) (keys []string) {
	n := len(q.pks)
	for i := r.from / n * n; i < r.to/n*n; i++ {
		in := i%n%2 == 1 || i/n < r.hole[0]/n || i/n >= r.hole[1]/n
		if r.after >= 0 {
			d := i - r.after
			if !r.merged {
				d = bytes.Compare(q.key(i), q.key(r.after))
			}
			in = in && d != 0 && d < 0 == r.reverse
		}
		if in && slices.Contains(r.parts, i%n) && has(i) {
			keys = append(keys, string(q.key(i)))
		}
	}
	if !r.merged {
		slices.Sort(keys)
	}
	if r.reverse {
		slices.Reverse(keys)
	}
	return keys
}

// reading returns a random one.
func (q *queue) reading() *reading {
	r := &reading{
		to: queueItems, reverse: q.random.IntN(3) == 0, merged: q.random.IntN(2) == 0,
		how: q.random.IntN(3), after: -1,
	}
	if r.first = q.random.IntN(8) == 0; r.first {
		r.merged = false
	}
	for p, pk := range q.pks {
		if r.first && keycodec.Stripe(pk) == 0 || !r.first && q.random.IntN(4) > 0 {
			r.parts = append(r.parts, p)
		}
	}
	if len(r.parts) == 0 || !r.first && q.random.IntN(3) == 0 {
		r.parts = []int{q.random.IntN(len(q.pks))}
	}
	if r.first {
		return r
	}
	switch q.random.IntN(9) {
	case 0:
		r.from = q.random.IntN(queueItems)
	case 1:
		r.to = q.random.IntN(queueItems)
	case 2, 3:
		r.hole[0] = q.random.IntN(queueItems)
		r.hole[1] = r.hole[0] + q.random.IntN(queueItems-r.hole[0])/4
	case 4:
		r.after = q.random.IntN(queueItems)
	}
	return r
}

// ownWrite returns a transaction that may have put an item, and which; -1 for none.
func (q *queue) ownWrite(at *Moment) (tx *Overlay, i int) {
	tx = new(Overlay)
	tx.Init(q.State, at, false)
	if q.random.IntN(2) == 0 {
		return tx, -1
	}
	i = q.random.IntN(queueItems)
	e := base.Entry{Key: q.key(i), Kind: base.KindPut}
	tx.Put(keycodec.Stripe(q.item(i).PK), &e)
	return tx, i
}

// check reads some items and compares them. Between the choice of the moment and the reading others
// commit.
func (q *queue) check(head, tail *int) {
	var at *Moment
	var tx *Overlay
	own, since, limit := -1, base.SeqNum(0), q.random.IntN(4)
	if len(q.held) > 0 && q.random.IntN(2) == 0 {
		at = q.held[q.random.IntN(len(q.held))]
		if q.random.IntN(4) == 0 {
			tx, own = q.ownWrite(at)
		}
	}
	it := begun(q.t, q.Reader(at, tx), limit)
	defer it.Close()
	if q.random.IntN(6) == 0 {
		since = base.SeqNum(q.random.IntN(int(it.node.seq) + 1))
		it.Since(since)
	}
	if q.random.IntN(3) == 0 {
		q.step(head, tail)
	}
	r := q.reading()
	r.begin(q, it)
	var got []string
	for (limit == 0 || len(got) < limit) && it.Next() {
		got = append(got, string(it.Key()))
	}
	q.ok(it.Err())
	want := r.want(q, func(i int) bool {
		return i == own || q.has(i, it.node.seq, since, it.reader.now())
	})
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if !slices.Equal(got, want) {
		q.t.Fatalf("%+v at %d, since %d, own %d: got %q, want %q", r, it.node.seq, since, own, got,
			want)
	}
}

// voidsNow returns the number of voids.
func (w *world) voidsNow() int {
	n := len(w.voids.all.load())
	for i := range w.voids.of {
		n += len(w.voids.of[i].load())
	}
	return n
}
