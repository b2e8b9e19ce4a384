package merge

import (
	"bytes"
	"math"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// Seeker is a source that knows its position and leaves ranges. A source that an Input has
// Ranges for must be a Seeker.
type Seeker interface {
	cursor.Source
	// Bound appends a lower bound (reversed: an upper bound) of the remaining rows to dst;
	// known is false if there is none. Empty reports that the bound is past all rows.
	Bound(dst []byte) (key []byte, known, empty bool)
	// Leave is Rows after a seek out of [start, end), in which the last row was.
	Leave(start, end []byte) []base.Entry
	// MaxSeq returns a number above which the source has no version.
	MaxSeq() base.SeqNum
}

// KindFence is the kind of a row that a source returns instead of reading: all its further
// rows come at or after the key of the fence. A source is not asked for more before the
// fence is the next row of all. Fences are not shown.
const KindFence base.Kind = 255

// Options of a merge.
type Options struct {
	// Reverse merges descending rows.
	Reverse bool
	// Versions shows all rows, tombstones and older versions too. Versions of a key come in
	// descending order of sequence numbers, then ascending order of age.
	Versions bool
	// Lazy reads an input only when its lower bound is the next row of all. It serves
	// merges that return few rows. Not together with Versions: a fence has no
	// sequence number.
	Lazy bool
	// Compare, if not nil, compares the next rows of two inputs, given by their places, instead
	// of their keys. It is for rows whose order is not one of bytes; their entries are empty.
	Compare func(a, b int32) int
}

// Input is a source with its place in the merge.
type Input struct {
	Source cursor.Source
	// Ranges, if not nil, are the range tombstones over the input.
	Ranges *Ranges
	// Age orders versions: of two rows with the same key and part the one of the lower age
	// is newer.
	Age int32
	// Part orders rows whose keys are equal after their first Skip bytes, which are not
	// compared.
	Part, Skip int32

	at     int32 // the next of rows
	passed int32 // rows that were not shown
	rows   []base.Entry
}

// ended reports that nothing is left.
func (in *Input) ended() bool { return int(in.at) >= len(in.rows) }

// key returns what is compared of row i.
//
// Why min: a damaged block may hold keys that are too short between those that were
// compared with the bounds.
func (in *Input) key(i int) []byte {
	key := in.rows[i].Key
	return key[min(int(in.Skip), len(key)):]
}

// player is an input in the tournament with the head of its next key. The head of an
// exhausted input is the highest.
type player struct {
	head  uint64
	input int32
	beat  bool // it has met an older version of its key
}

// Merge joins its inputs into one ordered sequence. The zero Merge is ready for Init. It
// belongs to one goroutine at a time.
type Merge struct {
	o       Options
	inputs  []Input
	nodes   []player // nodes[0] is the winner, nodes[i] the loser at node i
	winners []player // scratch of build
	prefix  []byte   // of the keys of all rows that have been read ahead
	flip    uint64   // all ones if the order is reversed
	ties    int      // comparisons of whole keys since common was called
	started bool
	over    bool   // nothing is left, or an input has failed
	batches bool   // one input without range tombstones: rows are shown as they are read
	again   bool   // the input that has shown rows is the winner again
	hide    bool   // hidden is set
	hidden  []byte // the key whose further versions are passed over
	err     error

	fences []base.Entry // by input
	bounds []byte       // memory of their keys

	leaving          bool // the winner moves out of [leaveLo, leaveHi)
	leaveLo, leaveHi []byte
}

// Init begins a merge without inputs. It keeps the memory of an earlier one.
func (m *Merge) Init(o Options) {
	m.o, m.flip, m.ties, m.err = o, 0, 0, nil
	m.prefix = m.prefix[:0]
	m.started, m.over, m.again, m.hide, m.leaving = false, false, false, false, false
	if o.Reverse {
		m.flip = math.MaxUint64
	}
}

// Add adds an input without a source and without ranges, whose other fields are those of an
// earlier one. The caller fills it in at once. Requires: Rows has not been called since Init.
func (m *Merge) Add() *Input {
	n := len(m.inputs)
	m.inputs = slices.Grow(m.inputs, 1)[:n+1]
	m.inputs[n].passed = 0
	return &m.inputs[n]
}

// maxKeptBytes limits the memory for fences that Release keeps.
const maxKeptBytes = 1 << 20

// Release ends the merge and drops the inputs and all references to their rows.
func (m *Merge) Release() {
	for i := range m.inputs {
		in := &m.inputs[i]
		in.Source, in.Ranges, in.rows = nil, nil, nil
	}
	m.inputs, m.started, m.over = m.inputs[:0], true, true
	if m.bounds = m.bounds[:0]; cap(m.bounds) > maxKeptBytes {
		m.bounds, m.fences = nil, nil
	}
	m.leaveLo, m.leaveHi = nil, nil
}

// Err returns the first error of an input, nil at an ordinary end.
func (m *Merge) Err() error { return m.err }

// Passed returns how many rows were not shown.
func (m *Merge) Passed() (n int) {
	for i := range m.inputs {
		n += m.PassedBy(i)
	}
	return n
}

// PassedBy returns how many rows of an input, by the order of Add, were not shown.
func (m *Merge) PassedBy(i int) int { return int(m.inputs[i].passed) }

// PassedOf adds to n[i] how many rows of part i were not shown.
func (m *Merge) PassedOf(n []int32) {
	for i := range m.inputs {
		n[m.inputs[i].Part] += m.inputs[i].passed
	}
}

// From returns part and age of the input that the last rows come from.
func (m *Merge) From() (part, age int32) {
	in := &m.inputs[m.nodes[0].input]
	return in.Part, in.Age
}

// Source returns the source that the last rows come from.
func (m *Merge) Source() cursor.Source { return m.inputs[m.nodes[0].input].Source }

// Rows moves over the next rows, as many as are at hand of one input, and returns them;
// none at the end or after an error. They are valid until the next call.
func (m *Merge) Rows() []base.Entry {
	if !m.started {
		m.started = true
		m.build()
	} else if !m.over {
		m.replay()
	}
	for !m.over {
		p := &m.nodes[0]
		in := &m.inputs[p.input]
		i := int(in.at)
		if i >= len(in.rows) {
			m.over = true
			break
		}
		e := &in.rows[i]
		switch {
		case e.Kind == KindFence:
		case m.o.Versions:
			return m.take(in)
		case (m.hide || p.beat) && m.older(p, e):
		case in.Ranges != nil && m.covered(in, e):
		case e.Kind != base.KindDelete:
			return m.take(in)
		}
		if e.Kind != KindFence {
			in.passed++
		}
		m.replay()
	}
	return nil
}

// take returns the next row of the input and, of a single one, the rows after it that
// nothing hides; of one that is the winner again, those that come before the rows of all others. It
// stays on the last.
func (m *Merge) take(in *Input) []base.Entry {
	from, to := int(in.at), int(in.at)+1
	if m.batches {
		for to < len(in.rows) && m.shown(in.rows[to].Kind) {
			to++
		}
	} else if m.again && in.Ranges == nil && !m.o.Versions && m.o.Compare == nil {
		for next := m.second(); to < len(in.rows) && m.shown(in.rows[to].Kind) &&
			m.headOf(in, to) < next; {
			to++
		}
	}
	in.at = int32(to) - 1
	return in.rows[from:to:to]
}

// second returns the lowest head of the losers to the winner: that of the second.
func (m *Merge) second() uint64 {
	head := uint64(math.MaxUint64)
	for n := (int(m.nodes[0].input) + len(m.inputs)) / 2; n >= 1; n /= 2 {
		head = min(head, m.nodes[n].head)
	}
	return head
}

// shown reports whether a row of that kind is shown where nothing hides it.
func (m *Merge) shown(k base.Kind) bool {
	return k != KindFence && (k != base.KindDelete || m.o.Versions)
}

// older reports whether e, the next row, is an older version of the row before it. It
// remembers the key if older versions follow.
func (m *Merge) older(p *player, e *base.Entry) bool {
	if m.hide && bytes.Equal(e.Key, m.hidden) {
		return true
	}
	if m.hide = p.beat; m.hide {
		m.hidden = append(m.hidden[:0], e.Key...)
	}
	return false
}

// build plays the first tournament.
func (m *Merge) build() {
	k := len(m.inputs)
	if k == 0 {
		m.over = true
		return
	}
	m.batches = k == 1 && m.inputs[0].Ranges == nil
	if m.o.Lazy && len(m.fences) < k {
		m.fences = make([]base.Entry, k)
	}
	for i := range m.inputs {
		if !m.o.Lazy {
			m.fill(&m.inputs[i])
			continue
		}
		if m.fences[i] = (base.Entry{}); !m.fence(i) {
			m.fill(&m.inputs[i])
		}
	}
	if cap(m.nodes) < k {
		m.nodes, m.winners = make([]player, k), make([]player, 2*k)
	}
	m.nodes, m.winners = m.nodes[:k], m.winners[:2*k]
	if k == 1 {
		m.nodes[0] = player{}
		return
	}
	m.common()
	for i := range m.inputs {
		m.winners[k+i] = player{m.head(&m.inputs[i]), int32(i), false}
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

// replay moves the winning input on and finds the new winner.
func (m *Merge) replay() {
	w := m.nodes[0].input
	in := &m.inputs[w]
	if in.at++; in.ended() {
		m.refill(int(w))
	}
	if len(m.inputs) == 1 {
		return // nothing is compared
	}
	p := player{m.head(in), w, false}
	m.again = true
	for n := (int(w) + len(m.inputs)) / 2; n >= 1; n /= 2 {
		o := &m.nodes[n]
		if o.head > p.head || (o.head == p.head && !m.before(o, &p)) {
			continue
		}
		*o, p = p, *o
		m.again = false
	}
	m.nodes[0] = p
}

// fill reads the next rows of the input; it leaves none at the end.
func (m *Merge) fill(in *Input) {
	if in.at = 0; m.leaving {
		m.leaving = false
		in.rows = in.Source.(Seeker).Leave(m.leaveLo, m.leaveHi)
	} else {
		in.rows = in.Source.Rows()
	}
	if len(in.rows) > 0 {
		return
	}
	if err := in.Source.Err(); err != nil && m.err == nil {
		m.err, m.over = err, true
	}
}

// refill is fill after the first tournament.
func (m *Merge) refill(i int) {
	in := &m.inputs[i]
	if m.ties > 2*len(m.inputs) {
		m.common()
		m.heads()
	}
	if !m.o.Lazy || m.leaving || !m.fenceAgain(i) {
		m.fill(in)
	}
	if m.shorten(in) {
		m.heads()
	}
}
