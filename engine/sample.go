package engine

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/kstonedb/kstone/engine/internal/read"
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
	it := read.NewIteration()
	defer it.Close()
	if err := s.start(ctx, it, 0); err != nil {
		return err
	}
	random := rand.Float64
	if q.Rand != nil {
		random = q.Rand.Float64
	}
	it.Sample(within, q.Parts, random)
	for it.Next() {
		if !yield(Sampled{Item(it.Item), it.Weight}) {
			return nil
		}
	}
	return it.Err()
}
