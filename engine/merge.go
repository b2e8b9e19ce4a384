package engine

import (
	"bytes"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// mergeBatch is how many entries a stream reads ahead. Why 16: with 256 streams each
// single step is a cache miss or several; reading 16 at a time lets them overlap.
const mergeBatch = 16

// mergeReadAhead bounds, together for one run of each stripe, what an ordered scan of
// uncached blocks reads ahead: 32 KiB a stripe.
const mergeReadAhead = 8 << 20

// merge joins the cursors of many stripes, whose keys are disjoint, into one ordered
// sequence with a tournament tree of losers (Knuth, The Art of Computer Programming,
// volume 3, 5.4.1): log2(k) comparisons an entry, against the losers on the path of
// the stream that moved. Eight bytes of the keys, behind what the keys of all streams
// have in common at the moment, are compared as numbers first.
type merge struct {
	reverse bool
	streams []*stream
	losers  []int32 // losers[0] is the winner, losers[i] the loser at node i
	heads   []uint64
	prefix  []byte // of all keys in heads
	started bool
	err     error
}

// stream is a stripe's cursor with its next entries read ahead.
type stream struct {
	cursor  stripe.Cursor
	entries []base.Entry
	keys    []byte // backing of the entries' keys
	at      int
	batch   int
}

var streamPool = sync.Pool{New: func() any {
	return &stream{entries: make([]base.Entry, 0, mergeBatch), keys: make([]byte, 0, 1024)}
}}

func newMerge(reverse bool) *merge { return &merge{reverse: reverse} }

// add opens a stripe as one more stream.
func (m *merge) add(s *stripe.Stripe, b stripe.Bounds, overlay *memtable.Table, batch int) error {
	st := streamPool.Get().(*stream)
	st.batch, st.at, st.entries = batch, 0, st.entries[:0]
	m.streams = append(m.streams, st)
	return st.cursor.OpenWith(s, b, overlay)
}

func (m *merge) close() {
	for _, st := range m.streams {
		st.cursor.Close()
		clear(st.entries[:cap(st.entries)]) // do not keep blocks alive
		streamPool.Put(st)
	}
	m.streams = nil
}

// fill reads the next entries of the stream; it leaves none at the end.
func (m *merge) fill(st *stream) {
	st.entries, st.keys, st.at = st.entries[:0], st.keys[:0], 0
	for len(st.entries) < st.batch && st.cursor.Next() {
		e := *st.cursor.Entry()
		from := len(st.keys)
		st.keys = append(st.keys, e.Key...)
		e.Key = st.keys[from:len(st.keys):len(st.keys)]
		st.entries = append(st.entries, e)
	}
	if err := st.cursor.Err(); err != nil && m.err == nil {
		m.err = err
	}
}

// build plays the first tournament.
func (m *merge) build() {
	k := len(m.streams)
	m.losers, m.heads = make([]int32, max(1, k)), make([]uint64, k)
	for i, st := range m.streams {
		m.fill(st)
		if len(st.entries) > 0 && m.prefix == nil {
			m.prefix = bytes.Clone(st.entries[0].Key)
		}
		m.loadHead(i)
	}
	winners := make([]int32, 2*k)
	for i := range k {
		winners[k+i] = int32(i)
	}
	for n := k - 1; n >= 1; n-- {
		a, b := winners[2*n], winners[2*n+1]
		if m.before(b, a) {
			a, b = b, a
		}
		winners[n], m.losers[n] = a, b
	}
	if k > 1 {
		m.losers[0] = winners[1]
	}
}

// loadHead caches what is compared of stream i's next key. A key without the common
// prefix shortens it: then all heads are made anew, which happens a few times a scan.
func (m *merge) loadHead(i int) {
	st := m.streams[i]
	if st.at >= len(st.entries) {
		return
	}
	key := st.entries[st.at].Key
	if bytes.HasPrefix(key, m.prefix) {
		m.heads[i] = base.KeyHead(key[len(m.prefix):])
		return
	}
	n := 0
	for n < len(key) && key[n] == m.prefix[n] {
		n++
	}
	m.prefix = m.prefix[:n]
	for j, st := range m.streams {
		if st.at < len(st.entries) {
			m.heads[j] = base.KeyHead(st.entries[st.at].Key[n:])
		}
	}
}

// next moves to the next entry.
func (m *merge) next() bool {
	if len(m.streams) == 0 || m.err != nil {
		return false
	}
	if !m.started {
		m.started = true
	} else {
		m.replay()
	}
	st := m.streams[m.losers[0]]
	return st.at < len(st.entries) && m.err == nil
}

// replay moves the winning stream on and finds the new winner.
func (m *merge) replay() {
	w := m.losers[0]
	st := m.streams[w]
	if st.at++; st.at == len(st.entries) {
		m.fill(st)
	}
	m.loadHead(int(w))
	for n := (int(w) + len(m.streams)) / 2; n >= 1; n /= 2 {
		if m.before(m.losers[n], w) {
			w, m.losers[n] = m.losers[n], w
		}
	}
	m.losers[0] = w
}

func (m *merge) entry() *base.Entry {
	st := m.streams[m.losers[0]]
	return &st.entries[st.at]
}

// before reports whether stream a's next entry comes before stream b's. An exhausted
// stream comes last.
func (m *merge) before(a, b int32) bool {
	sa, sb := m.streams[a], m.streams[b]
	if sa.at >= len(sa.entries) {
		return false
	}
	if sb.at >= len(sb.entries) {
		return true
	}
	if m.heads[a] != m.heads[b] {
		return (m.heads[a] < m.heads[b]) != m.reverse
	}
	return (bytes.Compare(sa.entries[sa.at].Key, sb.entries[sb.at].Key) < 0) != m.reverse
}
