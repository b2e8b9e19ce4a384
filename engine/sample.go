package engine

import (
	"bytes"
	"context"
	"iter"
	"math/rand/v2"

	"github.com/kstonedb/kstone/stripe"
)

// Sample selects items at random.
type Sample struct {
	// From and To restrict the keys, as those of Scan: From is included, To is not.
	From, To Key
	// Parts is how many small parts of the range are read: each is about one block of every
	// run that has the keys, or less. It is at least 1. A range of not more than about so
	// many blocks is read completely.
	Parts int
	// Rand chooses the parts; nil is a random choice.
	Rand *rand.Rand
}

// Sampled is an item of a sample.
type Sampled struct {
	Item
	// Weight is how many items of the range the item stands for: 1 if all of it is read. The
	// sum of the weights estimates the number of items, and that of any kind of them,
	// without bias.
	Weight float64
}

// Sample returns the items of parts of a range that are chosen at random: neighbours in each
// part, and parts from everywhere in the range. What it reads depends on Parts, and hardly
// on the size of the range: the choice is made in the indexes of files and among the keys of
// memtables. It streams as Query does. In a part that was chosen more than once, items come
// once, with a weight that says so; some may come twice.
//
// The estimator is that of Hansen and Hurwitz (1943): parts are drawn with known
// probabilities, about proportional to their sizes, one from each of Parts equal strata.
func (s *Snapshot) Sample(ctx context.Context, q Sample) iter.Seq2[Sampled, error] {
	return func(yield func(Sampled, error) bool) {
		stopped := false
		err := s.sample(ctx, &q, func(it Sampled) bool {
			stopped = !yield(it, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Sampled{}, err)
		}
	}
}

func (s *Snapshot) sample(ctx context.Context, q *Sample, yield func(Sampled) bool) error {
	if q.Parts < 1 {
		return invalid("a sample of %d parts", q.Parts)
	}
	within, err := (&Scan{From: q.From, To: q.To}).bounds("sample")
	if err != nil {
		return err
	}
	it := iterationPool.Get().(*iteration)
	if err := it.start(ctx, s.db, s.reader, 0, nil); err != nil {
		return err
	}
	defer it.close()
	m := &sampling{it: it, snap: s, yield: yield, span: within}
	return it.ended(m.run(q)).err
}

// sampling is a sample that is being taken.
type sampling struct {
	it    *iteration
	snap  *Snapshot
	span  span
	yield func(Sampled) bool
	over  bool // yield has returned false

	pieces [256]*stripe.Pieces
	total  float64 // of their weights
}

func (m *sampling) run(q *Sample) error {
	m.it.db.metrics.scans.Add(1)
	if m.span.empty() {
		return nil
	}
	defer m.close()
	for id := range m.pieces {
		p, err := m.it.db.stripes[id].Pieces(m.span.lo, m.span.hi)
		if err != nil {
			return err
		}
		m.pieces[id] = p
		m.total += p.Weight()
	}
	if m.total <= float64(q.Parts)*float64(m.it.db.env.BlockBytes) {
		return m.everything()
	}
	random := rand.Float64
	if q.Rand != nil {
		random = q.Rand.Float64
	}
	return m.draw(q.Parts, random)
}

func (m *sampling) close() {
	for _, p := range m.pieces {
		if p != nil {
			p.Close()
		}
	}
}

// everything reads the whole range.
func (m *sampling) everything() error {
	for id, p := range m.pieces {
		if p.Weight() == 0 {
			continue
		}
		if err := m.read(id, stripe.Piece{Lo: m.span.lo, Hi: m.span.hi}, 1); m.over || err != nil {
			return err
		}
	}
	return nil
}

// draw draws parts, one from each stratum of the weight, in ascending order of the stripes.
func (m *sampling) draw(parts int, random func() float64) error {
	var last stripe.Piece
	at, times := -1, 0 // stripe of last, and how often it was drawn
	flush := func() error {
		if times == 0 {
			return nil
		}
		return m.read(at, last, float64(times)*m.total/(float64(parts)*last.Share))
	}
	id, below := 0, 0.0 // weight of the stripes before id
	for i := range parts {
		place := (float64(i) + random()) * m.total / float64(parts)
		for id < len(m.pieces)-1 && place >= below+m.pieces[id].Weight() {
			below += m.pieces[id].Weight()
			id++
		}
		p := m.pieces[id]
		if p.Weight() == 0 { // rounding, after the last one
			continue
		}
		piece, err := p.Pick(min(place-below, p.Weight()))
		if err != nil {
			return err
		}
		if id == at && times > 0 && bytes.Equal(piece.Lo, last.Lo) {
			times++
			continue
		}
		if err := flush(); m.over || err != nil {
			return err
		}
		last, at, times = piece, id, 1
	}
	return flush()
}

// read yields the items of a part.
func (m *sampling) read(id int, p stripe.Piece, weight float64) error {
	it := m.it
	if it.ctx.Err() != nil {
		return context.Cause(it.ctx)
	}
	b := stripe.Bounds{Lo: p.Lo, Hi: p.Hi, Snap: it.node.seq}
	if err := it.open(uint8(id), b, m.snap.reader); err != nil {
		return err
	}
	defer it.cursor.Close()
	_, err := it.each(func(item Item, _ error) bool {
		m.over = !m.yield(Sampled{item, weight})
		return !m.over
	})
	return err
}
