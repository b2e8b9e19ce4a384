package engine

import (
	"bytes"
	"math"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// mergeBatch is how many rows a source of a stream reads ahead. Why 16: with hundreds
// of streams each single step is a cache miss or several; reading 16 at a time lets
// them overlap. More would not fit a core's cache.
const mergeBatch = 16

// mergeReadAhead bounds, together for one run of each stripe, what an ordered scan of
// uncached blocks reads ahead: 32 KiB a stripe.
const mergeReadAhead = 8 << 20

// merge joins what many stripes hold into one ordered sequence with a tournament tree
// of losers (Knuth, The Art of Computer Programming, volume 3, 5.4.1): log2(k)
// comparisons an entry, against the losers on the path of the stream that moved. What
// is compared is a number, the head: eight bytes of the key behind what the keys of all
// streams have in common at the moment.
//
// The streams are the memtables and runs of all stripes. Why not one stream a stripe: a
// second merge below would cost more than the two levels of the tree it would save.
// Versions of a key meet in the tree; the newest wins and hides the others.
type merge struct {
	streams []stream
	cursors []*stripe.Cursor // the first opened are in use
	opened  int
	nodes   []player         // nodes[0] is the winner, nodes[i] the loser at node i
	winners []player         // scratch of build
	near    []*stripe.Source // scratch of approach
	prefix  []byte           // of the keys of all rows that have been read ahead
	flip    uint64           // all ones if the order is reversed
	ties    int              // comparisons of whole keys since common was called
	started bool
	hide    bool   // hidden is set
	hidden  []byte // the key whose further versions are passed over
	err     error

	lazy   bool         // few rows will be wanted: see fence
	fences []base.Entry // by stream
	bounds []byte       // memory of their keys
}

// player is a stream in the tournament with the head of its next key. The head of an
// exhausted stream is the highest.
type player struct {
	head   uint64
	stream int32
	beat   bool // it has met an older version of its key
}

// stream is a source of rows with those it has read ahead.
type stream struct {
	rows   []base.Entry
	at     int
	source rowSource
	age    int32
	// part orders streams of different partitions where their keys are the same behind
	// skip bytes, which are what is compared. Both are 0 if whole keys are.
	part, skip int32
}

// key returns what is compared of row i.
//
// Why min: a damaged block may hold keys that are too short between those that were
// compared with the bounds.
func (st *stream) key(i int) []byte {
	key := st.rows[i].Key
	return key[min(int(st.skip), len(key)):]
}

// kindFence is the kind of a row that a source shows instead of reading on: all that
// follows in it comes at or behind the key of the fence. The source is not asked for more
// before the fence is the next row of all.
const kindFence base.Kind = 255

// rowSource is a stripe.Source, a stripe.Cursor or a rangeSource.
type rowSource interface {
	Rows() []base.Entry
	Err() error
}

var mergePool = sync.Pool{New: func() any { return new(merge) }}

func newMerge(reverse bool) *merge {
	m := mergePool.Get().(*merge)
	m.flip, m.ties, m.started, m.hide, m.err, m.lazy = 0, 0, false, false, nil, false
	if reverse {
		m.flip = math.MaxUint64
	}
	return m
}

// add opens a stripe as further streams and returns its cursor.
func (m *merge) add(
	s *stripe.Stripe, b *stripe.Bounds, overlay *memtable.Table,
) (*stripe.Cursor, error) {
	if m.opened == len(m.cursors) {
		m.cursors = append(m.cursors, new(stripe.Cursor))
	}
	c := m.cursors[m.opened]
	m.opened++
	if err := c.OpenWith(s, b, overlay); err != nil {
		return nil, err
	}
	m.attach(c)
	return c, nil
}

// attach makes an open cursor, which the caller keeps, further streams.
func (m *merge) attach(c *stripe.Cursor) {
	sources := c.Sources()
	for _, src := range sources {
		m.streams = append(m.streams, stream{source: src, age: int32(src.Age())})
	}
	if len(sources) == 0 {
		m.streams = append(m.streams, stream{source: c})
	}
}

// close gives everything back; the merge must not be used afterwards.
func (m *merge) close() {
	for _, c := range m.cursors[:m.opened] {
		c.Close()
	}
	clear(m.streams)
	m.opened, m.streams = 0, m.streams[:0]
	if m.bounds = m.bounds[:0]; cap(m.bounds) > maxPooledBytes {
		m.bounds, m.fences = nil, nil
	}
	mergePool.Put(m)
}

// fill reads the next rows of the stream; it leaves none at the end.
func (m *merge) fill(st *stream) {
	st.at, st.rows = 0, st.source.Rows()
	if len(st.rows) > 0 {
		return
	}
	if err := st.source.Err(); err != nil && m.err == nil {
		m.err = err
	}
}

// each calls f for all entries in turn, until f says it is done or fails.
func (m *merge) each(f func(*base.Entry) (done bool, err error)) error {
	m.build()
	for e := m.next(); e != nil; e = m.next() {
		if done, err := f(e); done || err != nil {
			return err
		}
	}
	return m.err
}

// build plays the first tournament.
func (m *merge) build() {
	k := len(m.streams)
	if k == 0 {
		return
	}
	m.approach()
	if m.lazy && len(m.fences) < k {
		m.fences = make([]base.Entry, k)
	}
	for i := range m.streams {
		if !m.lazy {
			m.fill(&m.streams[i])
			continue
		}
		if m.fences[i] = (base.Entry{}); !m.fence(i) {
			m.fill(&m.streams[i])
		}
	}
	m.common()
	if cap(m.nodes) < k {
		m.nodes, m.winners = make([]player, k), make([]player, 2*k)
	}
	m.nodes, m.winners = m.nodes[:k], m.winners[:2*k]
	for i := range m.streams {
		m.winners[k+i] = player{m.head(&m.streams[i]), int32(i), false}
	}
	for n := k - 1; n >= 1; n-- {
		a, b := m.winners[2*n], m.winners[2*n+1]
		if m.before(&b, &a) {
			a, b = b, a
		}
		m.winners[n], m.nodes[n] = a, b
	}
	m.nodes[0] = m.winners[1]
}

// approach prepares the streams for their first rows, all together.
func (m *merge) approach() {
	if len(m.streams) < 2 {
		return
	}
	m.near = m.near[:0]
	for i := range m.streams {
		if s, ok := m.streams[i].source.(*stripe.Source); ok {
			m.near = append(m.near, s)
		}
	}
	stripe.Approach(m.near)
	clear(m.near)
}

// fence makes a fence the first row of stream i, if enough is known about what comes first
// in it; ok tells. Why: with a limit, most streams of many are not read at all.
func (m *merge) fence(i int) (ok bool) {
	st := &m.streams[i]
	src, ok := st.source.(*stripe.Source)
	if !ok {
		return false
	}
	from := len(m.bounds)
	key, known, empty := src.Bound(m.bounds)
	if !known {
		return false
	}
	m.bounds = append(key, fenceSlack[:]...)
	m.setFence(i, m.bounds[from:len(key):len(m.bounds)], empty)
	return true
}

// fenceSlack is memory for a fence that is longer than the first one of its stream.
var fenceSlack [16]byte

// setFence makes a fence the only row of stream i, or, if nothing follows it, ends the stream.
func (m *merge) setFence(i int, key []byte, empty bool) {
	st := &m.streams[i]
	m.fences[i] = base.Entry{Key: key, Kind: kindFence}
	if st.at, st.rows = 0, nil; !empty {
		st.rows = m.fences[i : i+1 : i+1]
	}
}

// fenceAgain is fence behind the rows that a stream has shown. Why: of few rows, most are the
// only one of their partition.
func (m *merge) fenceAgain(i int) (ok bool) {
	f := &m.fences[i]
	if cap(f.Key) == 0 || m.streams[i].rows[0].Kind == kindFence {
		return false
	}
	src, ok := m.streams[i].source.(*stripe.Source)
	if !ok {
		return false
	}
	key, known, empty := src.Bound(f.Key[:0])
	if known {
		m.setFence(i, key, empty)
	}
	return known
}

// part returns the partition that the last entry comes from.
func (m *merge) part() int32 { return m.streams[m.nodes[0].stream].part }

// next returns the next entry, nil at the end or after an error.
func (m *merge) next() *base.Entry {
	for len(m.streams) > 0 && m.err == nil {
		if m.started {
			m.replay()
		}
		m.started = true
		p := &m.nodes[0]
		st := &m.streams[p.stream]
		if st.at >= len(st.rows) {
			break
		}
		e := &st.rows[st.at]
		if e.Kind == kindFence {
			continue
		}
		if m.hide || p.beat {
			if m.hide && bytes.Equal(e.Key, m.hidden) {
				continue
			}
			if m.hide = p.beat; m.hide {
				m.hidden = append(m.hidden[:0], e.Key...)
			}
		}
		if e.Kind != base.KindDelete && m.err == nil {
			return e
		}
	}
	return nil
}

// replay moves the winning stream on and finds the new winner.
func (m *merge) replay() {
	w := m.nodes[0].stream
	st := &m.streams[w]
	if st.at++; st.at == len(st.rows) {
		m.refill(int(w))
	}
	p := player{m.head(st), w, false}
	for n := (int(w) + len(m.streams)) / 2; n >= 1; n /= 2 {
		o := &m.nodes[n]
		if o.head > p.head || (o.head == p.head && !m.before(o, &p)) {
			continue
		}
		*o, p = p, *o
	}
	m.nodes[0] = p
}

// refill is fill while the tournament is on.
func (m *merge) refill(i int) {
	st := &m.streams[i]
	if m.ties > 2*len(m.streams) {
		m.common()
		m.heads()
	}
	if !m.lazy || !m.fenceAgain(i) {
		m.fill(st)
	}
	if m.shorten(st) {
		m.heads()
	}
}

// common makes prefix what all rows that have been read ahead begin with.
//
// Why again and again: streams move through the keys together, so that later on they
// may have more in common than at the start; the longer the prefix, the fewer keys
// must be compared as a whole.
func (m *merge) common() {
	m.prefix, m.ties = m.prefix[:0], 0
	first := true
	for i := range m.streams {
		st := &m.streams[i]
		if first && st.at < len(st.rows) {
			m.prefix, first = append(m.prefix, st.key(st.at)...), false
		}
		m.shorten(st)
	}
}

// shorten cuts the prefix down to what the rows of the stream begin with. As they are
// in order, the first and the last tell.
func (m *merge) shorten(st *stream) (shorter bool) {
	if st.at >= len(st.rows) {
		return false
	}
	for _, key := range [2][]byte{st.key(st.at), st.key(len(st.rows) - 1)} {
		if bytes.HasPrefix(key, m.prefix) {
			continue
		}
		n := 0
		for n < len(key) && key[n] == m.prefix[n] {
			n++
		}
		m.prefix, shorter = m.prefix[:n], true
	}
	return shorter
}

// heads makes the heads anew. The order of the players stays what it was.
func (m *merge) heads() {
	for i := range m.nodes {
		p := &m.nodes[i]
		p.head = m.head(&m.streams[p.stream])
	}
}

func (m *merge) head(st *stream) uint64 {
	if st.at >= len(st.rows) {
		return math.MaxUint64
	}
	// Why min: only the first and the last row of a batch have been compared with the prefix,
	// and a damaged block may hold keys out of order.
	key := st.key(st.at)
	return base.KeyHead(key[min(len(m.prefix), len(key)):]) ^ m.flip
}

// before reports whether a's next entry comes before b's: by key, then partition, then
// the newer version. An exhausted stream comes last. If the keys are the same, the one that
// comes first is told.
func (m *merge) before(a, b *player) bool {
	if a.head != b.head {
		return a.head < b.head
	}
	sa, sb := &m.streams[a.stream], &m.streams[b.stream]
	if sa.at >= len(sa.rows) {
		return false
	}
	if sb.at >= len(sb.rows) {
		return true
	}
	m.ties++
	d := bytes.Compare(sa.key(sa.at), sb.key(sb.at))
	if d == 0 {
		d = int(sa.part - sb.part)
	}
	if d != 0 {
		return (d < 0) == (m.flip == 0)
	}
	if sa.age < sb.age {
		a.beat = true
		return true
	}
	b.beat = true
	return false
}
