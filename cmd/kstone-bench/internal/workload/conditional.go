package workload

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// putIfAbsent inserts records of which nine in ten are new, at random places. The
// record count of the database grows by its result.
func (e *Env) putIfAbsent() (inserted uint64, err error) {
	count := e.Records / 4
	err = e.run(job{
		name: "putifabsent", goroutines: 1, count: int64(count), settle: true,
		userBytes: e.recordBytes(),
		finish:    func(f result.Figures) { e.live(e.Records + inserted)(f) },
		op: func(w *worker, i uint64) error {
			id, isNew := e.pointID(e.order.At(i)), i%10 != 0
			if isNew {
				id++
			}
			ok, err := e.db.PutIfAbsent(w.keyOf(id), w.valueOf(id, 3))
			if err == nil && ok != isNew && !e.engine.Void {
				err = fmt.Errorf("record %d: inserted %v, want %v", id, ok, isNew)
			}
			if ok {
				inserted++
			}
			return err
		},
	})
	return inserted, err
}
