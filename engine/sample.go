package engine

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Sample selects items at random. Its fields are
//
//	From, To Key        // restrict the keys, as those of Scan: From is included, To is not
//	Parts    int        // how many small parts of the range are read, at least 1
//	Rand     *rand.Rand // chooses the parts; nil is a random choice
//
// A part is about one block of every run that has the keys, or less. A range of not more than
// about so many blocks is read completely.
type Sample = kv.Sample

// Sampled is an Item of a sample. Its Weight is how many items of the range the item stands for: 1
// if all of it is read. The sum of the weights estimates the number of items, and that of any kind
// of them, without bias.
type Sampled = kv.Sampled

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
		if !yield(Sampled{Item: Item(it.Item), Weight: it.Weight}) {
			return nil
		}
	}
	return it.Err()
}

// CountAbout estimates how many items the range of a query has now: within about an eighth, from
// the indexes of files and from samples of memtables. If there are few, it reads up to about a
// hundred of them. If there are many, versions and tombstones that merges have not dropped yet
// count as items. With MayHold, it counts items in blocks that may hold what is looked for, and in
// memtables. Of q only PK, SK and MayHold are used. It costs some microseconds, whatever the size
// of the range.
func (db *DB) CountAbout(q Query) (float64, error) {
	var buf [64]byte
	span, _, err := q.SK.span("count", buf[:0], q.PK)
	if err != nil {
		return 0, err
	}
	return db.reads.CountAbout(keycodec.Stripe(q.PK), span, q.MayHold)
}

// CountScanAbout is CountAbout for a scan; only its From, To and MayHold are used. It looks at
// one stripe after the other until it has found enough items or has looked at most stripes, and
// takes the rest to be alike, since hashes of partition keys spread items over stripes.
func (db *DB) CountScanAbout(s Scan, enough float64, most int) (float64, error) {
	if most < 1 {
		return 0, invalid("count: %d stripes", most)
	}
	span, err := s.bounds("count")
	if err != nil {
		return 0, err
	}
	n, looked := 0.0, 0
	for ; looked < min(most, base.NumStripes) && n < enough; looked++ {
		// Multiples of an odd number are all stripes, far apart.
		m, err := db.reads.CountAbout(uint8(looked*stripeStep), span, s.MayHold)
		if err != nil {
			return 0, err
		}
		n += m
	}
	return n * base.NumStripes / float64(max(1, looked)), nil
}

// stripeStep is the distance of the stripes that are looked at one after the other.
const stripeStep = 97
