package workload

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// The partition layout: partitions of 100 sort keys.
const (
	partitionRecords = 100
	pkBytes          = dataset.KeyBytes / 2
	queryRows        = 20
)

func partitionID(i uint64) uint64 {
	return i/partitionRecords*dataset.SKUnit + i%partitionRecords
}

// loadPartitions fills the partition layout in random order.
func (e *Env) loadPartitions() error {
	e.pk = pkBytes
	return e.fillBatch("load", partitionID)
}

// query reads 20 rows of a random partition: from a random sort key on, or the
// latest 20 first.
func (e *Env) query(name string, goroutines int, reverse bool) error {
	partitions := e.Records / partitionRecords
	return e.run(job{
		name: name, goroutines: goroutines, every: readEvery,
		op: func(w *worker, _ uint64) error {
			id := w.rng.Uint64N(partitions) * dataset.SKUnit
			q := store.Query{Limit: queryRows, Reverse: reverse}
			step := uint64(1)
			if reverse {
				id += partitionRecords - 1
				step = ^uint64(0)
			} else {
				id += w.rng.Uint64N(partitionRecords - queryRows + 1)
			}
			k := w.keyOf(id).Bytes
			q.PK = k[:pkBytes]
			if !reverse {
				q.From = k[pkBytes:]
			}
			return w.expect(q, id, step)
		},
	})
}

// expect runs a query and verifies that its rows are those of id, id+step, ...
func (w *worker) expect(q store.Query, id, step uint64) error {
	n, bad := 0, error(nil)
	err := w.env.db.Query(q, func(r store.Row) bool {
		got, ok := dataset.ParseKey(r.PK, r.SK)
		if !ok || got != id {
			bad = fmt.Errorf("row %d of the query is record %d, want %d", n, got, id)
			return false
		}
		bad = w.env.values.Check(id, r.Value)
		id += step
		n++
		return bad == nil
	})
	if err == nil && bad == nil && n != q.Limit {
		bad = fmt.Errorf("query returned %d rows, want %d", n, q.Limit)
	}
	if err == nil {
		err = bad
	}
	return err
}
