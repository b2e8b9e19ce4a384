package read

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
)

// image has the items of a span, which do not expire, in the order of a walk over all stripes. It
// does not change, but for the order of their keys, which the first ordered reading finds.
type image struct {
	data   []byte       // of each item the key, then the value
	values []base.Place // in data
	seqs   []base.SeqNum
	shared int // bytes that all keys begin with
	// starts are the first items of stripes, and then the number of all.
	starts [base.NumStripes + 1]int32

	sorting sync.Once
	sorted  []int32 // the items in the order of their keys
}

// imageWatch watches the span of an image.
type imageWatch struct {
	watch
	image  atomic.Pointer[image] // nil: none, yet
	making atomic.Bool           // a reader has begun to make it
	uses   atomic.Int64          // of it
}

func (w *imageWatch) end() {
	w.watch.end()
	w.image.Store(nil)
}

const (
	// maxImageBytes bounds an image. Why not more: of larger spans the stripes have so many rows
	// that it does not matter how long it takes to open them.
	maxImageBytes = 1 << 20
	// spareImageBytes is by how much the stripes read so far may have more than twice their share
	// of that. Why: of a large table little is read to find out that it is.
	spareImageBytes = 32 << 10
	// imageRows is how many items of an image are at hand together.
	imageRows = 128
	// imageItemBytes is what an item takes beside key and value.
	imageItemBytes = 20
)

// bytes returns its memory, but for what does not depend on the items.
func (m *image) bytes() int { return len(m.data) + imageItemBytes*len(m.values) }

// key returns the key of item i.
func (m *image) key(i int) []byte { return m.data[m.start(i):m.values[i].From] }

// start returns where the key of item i is.
func (m *image) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return m.values[i-1].To
}

// startsAt says that what follows are items of a stripe, or, if it is NumStripes, nothing. The
// stripes from next to it start here.
func (m *image) startsAt(next *int, stripe int) {
	for ; *next <= stripe; *next++ {
		m.starts[*next] = int32(len(m.values))
	}
}

// add adds the items of a block, and reports false if there are values that are kept apart: those
// are not copied, nor read by a scan of keys.
func (m *image) add(b *Block) bool {
	if x := b.Plain; x != nil {
		values := x.Values()
		prefix := x.AppendPrefix(nil)
		for i := range values.Places {
			m.data = append(append(m.data, prefix...), x.Suffix(i)...)
			m.addValue(values.At(i), x.Seq(i))
		}
		return true
	}
	for i := range b.Rows {
		e := &b.Rows[i]
		if e.Large {
			return false
		}
		m.data = append(m.data, e.Key...)
		m.addValue(e.Value, e.Seq)
	}
	return true
}

// addValue adds an item whose key was added.
func (m *image) addValue(value []byte, seq base.SeqNum) {
	from := len(m.data)
	m.data = append(m.data, value...)
	m.values = append(m.values, base.Place{From: uint32(from), To: uint32(len(m.data))})
	m.seqs = append(m.seqs, seq)
	key, n := m.key(len(m.values)-1), 0
	if len(m.values) == 1 {
		m.shared = len(key)
	}
	for first := m.key(0); n < min(m.shared, len(key)) && first[n] == key[n]; {
		n++
	}
	m.shared = n
}

// within returns the items of a span, sorted.
func (m *image) within(s base.Span) []int32 {
	m.sorting.Do(func() {
		m.sorted = make([]int32, len(m.values))
		for i := range m.sorted {
			m.sorted[i] = int32(i)
		}
		slices.SortFunc(m.sorted, func(a, b int32) int {
			return bytes.Compare(m.key(int(a)), m.key(int(b)))
		})
	})
	before := func(key []byte) int {
		n, _ := slices.BinarySearchFunc(m.sorted, key, func(i int32, key []byte) int {
			return bytes.Compare(m.key(int(i)), key)
		})
		return n
	}
	if s.Hi == nil {
		return m.sorted[before(s.Lo):]
	}
	return m.sorted[before(s.Lo):before(s.Hi)]
}

// imagePart is items of an image, [from, to). It implements kv.Entries if they are not sorted.
type imagePart struct {
	of       *image
	from, to int
	end      int     // items until there have been taken
	sorted   []int32 // if not nil, those that items are numbered by,
	reverse  bool    // from the last on
}

// nextOfImage moves over the next items of the image, and reports whether there are any. Of a share
// it takes as many stripes as have about imageRows.
func (it *Iteration) nextOfImage() bool {
	p := &it.image
	for p.to == p.end {
		if it.share == nil {
			return false
		}
		some := imageRows * base.NumStripes / max(1, len(p.of.values))
		some = min(max(some, 1), base.NumStripes)
		i, ok := kv.Take(it.share, some, base.NumStripes)
		if !ok {
			return false
		}
		it.stripe = uint8(i)
		p.to, p.end = int(p.of.starts[i]), int(p.of.starts[min(i+some, base.NumStripes)])
	}
	some := imageRows
	if it.left > 0 {
		some = min(some, it.left)
	}
	p.from, p.to = p.to, min(p.to+some, p.end)
	return true
}

// appendRows appends the items as entries.
func (p *imagePart) appendRows(dst []base.Entry) []base.Entry {
	m := p.of
	for n := p.from; n < p.to; n++ {
		i := n
		if p.reverse {
			i = len(p.sorted) - 1 - n
		}
		if p.sorted != nil {
			i = int(p.sorted[i])
		}
		v := m.values[i]
		dst = append(dst, base.Entry{
			Key: m.key(i), Value: m.data[v.From:v.To:v.To], Seq: m.seqs[i], Kind: base.KindPut,
		})
	}
	return dst
}

// Values implements kv.Entries.
func (p *imagePart) Values() base.Values {
	return base.Values{Data: p.of.data, Places: p.of.values[p.from:p.to]}
}

// KeyBytes implements kv.Entries.
func (p *imagePart) KeyBytes(i int) int { return len(p.of.key(p.from + i)) }

// Bytes implements kv.Entries.
func (p *imagePart) Bytes() int { return int(p.of.start(p.to) - p.of.start(p.from)) }

// AppendPrefix implements kv.Entries.
func (p *imagePart) AppendPrefix(dst []byte) []byte {
	return append(dst, p.of.key(p.from)[:p.of.shared]...)
}

// Suffix implements kv.Entries.
func (p *imagePart) Suffix(i int) []byte { return p.of.key(p.from + i)[p.of.shared:] }

// Seq implements kv.Entries.
func (p *imagePart) Seq(i int) base.SeqNum { return p.of.seqs[p.from+i] }

var _ kv.Entries = (*imagePart)(nil)

// remembered makes the image of the span what is read, and reports whether there is one: the span
// was walked over before, at seqs at which it was the same. It is true after an error, too.
func (it *Iteration) remembered() bool {
	if it.reverse || it.limit != 0 || !it.mayRemember() {
		return false
	}
	m := it.spanImage()
	if m == nil {
		return it.err != nil
	}
	it.stripes, it.image.of = nil, m
	if it.share == nil {
		it.image.end = len(m.values)
	}
	return true
}

// arranged makes the items of s in an image, sorted, what is read, and reports whether there is
// one: of the span, if all of it is wanted, and else of any around s. It is true after an error,
// too.
func (it *Iteration) arranged(s base.Span, reverse bool) bool {
	if !it.mayRemember() {
		return false
	}
	var m *image
	if it.limit == 0 && sameSpan(s, it.span) {
		m = it.spanImage()
	} else {
		m = it.state.imageAround(s, it.node.seq)
	}
	if m == nil {
		return it.err != nil
	}
	sorted := m.within(s)
	it.image = imagePart{of: m, end: len(sorted), sorted: sorted, reverse: reverse}
	return true
}

// spanImage returns the image of the span, which it may make, or nil.
func (it *Iteration) spanImage() *image {
	if it.known == nil {
		return nil
	}
	w, seq := it.known.watch.Load(), it.node.seq
	switch {
	case w == nil || w.over(seq):
		it.known.rewatch(it, w)
		return nil
	case !w.holds(seq):
		return nil
	}
	w.usedMs.Store(it.state.env.NowMs())
	m := w.image.Load()
	if m == nil && w.making.CompareAndSwap(false, true) {
		m = it.makeImage(w)
	}
	if m != nil {
		w.uses.Add(1)
	}
	return m
}

// imageAround returns an image of a span around s, for a reader at a seq, if it was read so often
// that it is worth sorting; else nil.
func (s *State) imageAround(of base.Span, seq base.SeqNum) *image {
	for _, e := range s.images.load() {
		w := e.of
		if m := w.image.Load(); m != nil && w.holds(seq) && w.around(of) {
			w.usedMs.Store(s.env.NowMs())
			if w.uses.Add(1) > imageUses {
				return m
			}
		}
	}
	return nil
}

// mayRemember reports whether all that the database has of a span is wanted, and nothing else.
func (it *Iteration) mayRemember() bool {
	if len(it.stripes) != base.NumStripes || it.from != 0 {
		return false
	}
	tx, s := it.reader.tx, it.state
	return (tx == nil || tx.writes == 0) && s.env.ImageBytes > 0 && (s.log != nil || s.env.Follows)
}

// makeImage makes the image of a watched span, for this reader and the next ones; nil if it is too
// large, something of it expires or is kept apart, or it cannot be read.
func (it *Iteration) makeImage(w *imageWatch) *image {
	c := NewIteration()
	defer c.Close()
	if c.Start(it.ctx, it.reader, 0) != nil || c.node.gen != it.node.gen {
		return nil
	}
	c.stripes, c.known, c.span, c.keysOnly = it.stripes, it.known, it.span, true
	m, most, next := new(image), min(maxImageBytes, it.state.env.ImageBytes), 0
	if c.advance() {
		for b := new(Block); c.Block(b); {
			m.startsAt(&next, int(c.stripe))
			some := most/(base.NumStripes/2)*(int(c.stripe)+1) + spareImageBytes
			if !m.add(b) || m.bytes() > min(most, some) {
				return nil
			}
		}
	}
	if it.mayHold == nil { // a walk would read all of it, too
		it.err = c.err
	}
	if c.err != nil || c.timed || !w.holds(c.node.seq) {
		return nil
	}
	m.startsAt(&next, base.NumStripes)
	it.state.keep(w, m)
	return m
}

// keep makes an image that of a watch, if that is still watched. Those of spans that were not
// scanned for longer give way. Requires: it is not larger than ImageBytes.
func (s *State) keep(w *imageWatch, m *image) {
	l := &s.images
	l.mu.Lock()
	defer l.mu.Unlock()
	for s.imageBytes()+m.bytes() > s.env.ImageBytes {
		l.endIdlestLocked()
	}
	if l.indexOf(w) >= 0 {
		w.image.Store(m)
	}
}

// imageBytes returns the memory of all images.
func (s *State) imageBytes() (n int) {
	for _, e := range s.images.load() {
		if m := e.of.image.Load(); m != nil {
			n += m.bytes()
		}
	}
	return n
}

const (
	// imageUses is how often an image is read at least so that it was worth its making.
	imageUses = 4
	// maxRest bounds how many scans pass before a span is watched again.
	maxRest = 63
)

// rewatch watches the span again, which has changed since it was last watched. If its image was of
// little use, some scans pass before: a writer may be at work.
func (f *spanFact) rewatch(it *Iteration, old *imageWatch) {
	if f.rest.Add(-1) >= 0 {
		return
	}
	pause := int32(0)
	if old != nil && old.uses.Load() < imageUses {
		pause = min(2*f.pause.Load()+1, maxRest)
	}
	f.pause.Store(pause)
	f.rest.Store(pause)
	images, w := &it.state.images, new(imageWatch)
	if old != nil {
		images.unwatch(old)
	}
	images.watch(it.state, w, it.span, it.node.seq)
	if !f.watch.CompareAndSwap(old, w) {
		images.unwatch(w)
	}
}
