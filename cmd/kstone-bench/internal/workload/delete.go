package workload

import "github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"

// deleteRandom deletes every second record of a random order, one call each, and
// reports the space that is left to live records when background work is done. It
// then verifies that as many as should remain, each of them intact.
func (e *Env) deleteRandom(extra uint64) error {
	count := e.Records / 2
	order := dataset.NewPermutation(e.Records, 123)
	err := e.run(job{
		name: "deleterandom", goroutines: 1, count: int64(count), settle: true,
		userBytes: dataset.KeyBytes, finish: e.live(e.Records - count + extra),
		op: func(w *worker, i uint64) error {
			return e.db.Delete(w.keyOf(e.pointID(order.At(i))))
		},
	})
	if err != nil {
		return err
	}
	return e.countAll(e.Records - count + extra)
}
