package tables

import (
	"errors"
	"fmt"
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

func shardCase(batch int) string {
	if batch == 1 {
		return "ascending values, single rows"
	}
	return fmt.Sprintf("ascending values, batches of %d", batch)
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
	def := kstoneSchema(0, 0)
	def.Indexes = []*schema.Index{kstoneSeqIndex(buckets)}
	s, err := openKstoneTable(b.ctx, dir, core.Process, def)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	most := b.Rows
	if batch == 1 {
		most = max(leastRows, b.Rows/4) // single rows take longer
	}
	var next atomic.Int64
	cost, err := turnUntil(b.ctx, shardWriters, func() (done bool, err error) {
		last := next.Add(int64(batch))
		if last-int64(batch) >= int64(most) {
			return true, nil
		}
		rows := make([]Row, batch)
		for i := range rows {
			seq := last - int64(batch) + int64(i)
			rows[i] = b.data.row(1 + seq%b.data.n)
			rows[i].ID, rows[i].Seq = int64(mix(uint64(seq))>>1), seq
		}
		return false, s.insert(b.ctx, rows)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", shardEngine(buckets), err)
	}
	cost.ops *= int64(batch)
	r := cost.record(groupShards, shardCase(batch), shardEngine(buckets), shardWriters, round)
	if err := s.spread(b, "by_seq", cost.ops, r.Figures); err != nil {
		return err
	}
	return b.emit(r)
}

// spread counts the entries of an index by stripe.
func (s *kstoneStore) spread(b *bench, index string, want int64, f result.Figures) error {
	x := s.orders.Schema().Index(index)
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
