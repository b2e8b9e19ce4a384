package read

import (
	"bytes"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// sampling is a sample under way. The estimator is that of Hansen and Hurwitz (1943): parts are
// drawn with known probabilities, about proportional to their sizes, one from each of as many
// equal strata.
type sampling struct {
	span   base.Span
	parts  int
	random func() float64

	pieces [base.NumStripes]*stripe.Pieces
	total  float64 // of their weights
	whole  bool    // all of the span is read

	draw  int     // the next draw
	id    int     // the stripe of the next part
	below float64 // weight of the stripes before id

	drawn stripe.Piece // that is not read yet
	from  int          // its stripe
	times int          // how often it was drawn; 0 for none
}

// Sample begins to read so many parts of a span, in ascending order of their stripes: each of
// about a block of every run that has keys there. If there is not more, it reads the whole span.
// Each item has a Weight.
func (it *Iteration) Sample(s base.Span, parts int, random func() float64) {
	it.state.counters.Add(scans, 1)
	if s.Empty() {
		return
	}
	m := &sampling{span: s, parts: parts, random: random}
	it.sampling = m
	for id := range m.pieces {
		p, err := it.node.gen.stripes[id].Pieces(s.Lo, s.Hi)
		if err != nil {
			it.err = err
			return
		}
		m.pieces[id] = p
		m.total += p.Weight()
	}
	m.whole = m.total <= float64(parts)*float64(it.state.env.BlockBytes)
	it.advance()
}

func (m *sampling) close() {
	for _, p := range m.pieces {
		if p != nil {
			p.Close()
		}
	}
}

// next opens the next part, and reports whether there is one.
func (m *sampling) next(it *Iteration) bool {
	if m.whole {
		return m.nextStripe(it)
	}
	for ; m.draw < m.parts; m.draw++ {
		piece, id, ok, err := m.pick()
		if err != nil {
			it.err = err
			return false
		}
		if !ok {
			continue
		}
		if id == m.from && m.times > 0 && bytes.Equal(piece.Lo, m.drawn.Lo) {
			m.times++
			continue
		}
		last, from, times := m.drawn, m.from, m.times
		m.drawn, m.from, m.times = piece, id, 1
		if times > 0 {
			m.draw++
			return m.open(it, last, from, m.weight(last, times))
		}
	}
	if m.times == 0 {
		return false
	}
	times := m.times
	m.times = 0
	return m.open(it, m.drawn, m.from, m.weight(m.drawn, times))
}

// pick draws a part from the next stratum.
func (m *sampling) pick() (piece stripe.Piece, id int, ok bool, err error) {
	place := (float64(m.draw) + m.random()) * m.total / float64(m.parts)
	for m.id < len(m.pieces)-1 && place >= m.below+m.pieces[m.id].Weight() {
		m.below += m.pieces[m.id].Weight()
		m.id++
	}
	p := m.pieces[m.id]
	if p.Weight() == 0 { // rounding, after the last one
		return piece, 0, false, nil
	}
	piece, err = p.Pick(min(place-m.below, p.Weight()))
	return piece, m.id, true, err
}

// weight returns how many items one of a part stands for that was drawn so often.
func (m *sampling) weight(p stripe.Piece, times int) float64 {
	return float64(times) * m.total / (float64(m.parts) * p.Share)
}

// nextStripe opens the whole span in the next stripe that has something there.
func (m *sampling) nextStripe(it *Iteration) bool {
	for ; m.id < len(m.pieces); m.id++ {
		if m.pieces[m.id].Weight() > 0 {
			m.id++
			return m.open(it, stripe.Piece{Lo: m.span.Lo, Hi: m.span.Hi}, m.id-1, 1)
		}
	}
	return false
}

// open opens a part.
func (m *sampling) open(it *Iteration, p stripe.Piece, id int, weight float64) bool {
	if it.ctx.Err() != nil {
		it.err = context.Cause(it.ctx)
		return false
	}
	it.Weight = weight
	it.open(uint8(id), base.Span{Lo: p.Lo, Hi: p.Hi}, false, 0)
	return it.err == nil
}
