package tables

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	core "github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/schema"
)

// shardBuckets are the numbers of buckets compared; 0 is an index that is not sharded.
var shardBuckets = []int{0, 16, 256}

// shardWriters is the number of goroutines that insert ascending values.
const shardWriters = 8

func shardEngine(buckets int) string {
	if buckets == 0 {
		return "plain"
	}
	return fmt.Sprintf("%d buckets", buckets)
}

// shards measures ascending insertions into one index, on a new database each time.
func (b *bench) shards() error {
	for round := range b.Repeat {
		for _, batch := range insertBatches {
			err := measure.Rotate(b.ctx, round, len(shardBuckets), func(i int) error {
				return b.shardTurn(shardBuckets[i], batch, round)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// shardTurn inserts the rows. The number of rows is fixed, so that spreads can be compared.
func (b *bench) shardTurn(buckets, batch, round int) (err error) {
	dir := filepath.Join(b.dir, "shards")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := openKstoneTable(b.ctx, dir, core.Process, func(k *kstoneStore) {
		k.indexSeq(buckets)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	most := b.Rows
	if batch == 1 {
		most = max(leastRows, b.Rows/4) // single rows take longer
	}
	var next atomic.Int64
	e := entry{groupShards, "ascending values, " + rowsCase(batch), shardEngine(buckets),
		shardWriters, batch, math.MaxInt64, func(int) error {
			last := next.Add(int64(batch))
			if last-int64(batch) >= int64(most) {
				return errDone
			}
			rows := make([]Row, batch)
			for i := range rows {
				seq := last - int64(batch) + int64(i)
				rows[i] = b.data.row(1 + seq%b.data.n)
				rows[i].ID, rows[i].Seq = int64(mix(uint64(seq))>>1), seq
			}
			return s.insert(b.ctx, rows)
		}}
	cost, err := turn(b.ctx, e.goroutines, e.length, e.op)
	if err != nil {
		return fmt.Errorf("%s: %w", e.engine, err)
	}
	r := cost.record(e, round)
	if err := s.spread(b, cost.ops*int64(batch), r.Figures); err != nil {
		return err
	}
	return b.emit(r)
}

// spread counts the entries of the index over seq by stripe.
func (s *kstoneStore) spread(b *bench, want int64, f result.Figures) error {
	x := s.orders.Schema().Index("by_seq")
	stripes := make([]int64, schema.Stripes)
	total := int64(0)
	for bucket := range x.Buckets() {
		n, err := s.engine.Count(b.ctx, core.Query{PK: x.BucketPK(nil, bucket)})
		if err != nil {
			return err
		}
		stripes[x.Stripe(bucket)] += n
		total += n
	}
	if total != want {
		return fmt.Errorf("%d entries of %d rows", total, want)
	}
	slices.Sort(stripes)
	empty, _ := slices.BinarySearch(stripes, 1)
	most := stripes[len(stripes)-1]
	f[stripeMin], f[stripeMedian] = float64(stripes[0]), float64(stripes[len(stripes)/2])
	f[stripeMax], f[stripeShare] = float64(most), float64(most)/float64(total)
	f[stripesUsed] = float64(len(stripes) - empty)
	return nil
}
