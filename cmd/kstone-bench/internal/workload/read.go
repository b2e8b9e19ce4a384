package workload

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// readEvery is how many reads share one latency measurement: two looks at the clock
// would be a good part of a short read.
const readEvery = 8

// get reads a record that must exist and verifies it.
func (w *worker) get(id uint64) error {
	v, ok, err := w.env.db.Get(w.got[:0], w.keyOf(id))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("record %d is missing", id)
	}
	w.got = v
	return w.env.values.Check(id, v)
}

// warmStep: every 16th record is read to warm up, several in every block.
const warmStep = 16

// warm reads enough, untimed, that caches hold what they can.
func (e *Env) warm(id func(i uint64) uint64) error {
	if e.engine.Void {
		return nil
	}
	w := e.newWorker(0, "warm")
	for i := uint64(0); i < e.Records; i += warmStep {
		if err := w.get(id(i)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Env) readRandom(goroutines int) error {
	return e.run(job{
		name: "readrandom", goroutines: goroutines, every: readEvery,
		op: func(w *worker, _ uint64) error {
			return w.get(e.pointID(w.rng.Uint64N(e.Records)))
		},
	})
}

// readPartitions reads random records of the partition layout.
func (e *Env) readPartitions(goroutines int) error {
	return e.run(job{
		name: "readrandom", goroutines: goroutines, every: readEvery,
		op: func(w *worker, _ uint64) error {
			return w.get(partitionID(w.rng.Uint64N(e.Records)))
		},
	})
}

// readZipf reads with the skew of YCSB; the frequent records are scattered.
func (e *Env) readZipf(goroutines int) error {
	z := e.zipfian()
	return e.run(job{
		name: "readzipf", goroutines: goroutines, every: readEvery,
		op: func(w *worker, i uint64) error { return w.get(e.pointID(e.order.At(z.Rank(i)))) },
	})
}

// readMissing asks for keys between those that exist.
func (e *Env) readMissing(goroutines int) error {
	return e.run(job{
		name: "readmissing", goroutines: goroutines, every: readEvery,
		op: func(w *worker, _ uint64) error {
			id := e.pointID(w.rng.Uint64N(e.Records)) + 1
			_, ok, err := e.db.Get(w.got[:0], w.keyOf(id))
			if ok {
				return fmt.Errorf("record %d exists", id)
			}
			return err
		},
	})
}

// multiGetKeys is the number of keys of one call.
const multiGetKeys = 32

// multiGet reads random records, 32 in a call. Operations are records.
func (e *Env) multiGet() error {
	keys, ids := make([]store.Key, multiGetKeys), make([]uint64, multiGetKeys)
	for i := range keys {
		keys[i] = store.Key{Bytes: make([]byte, 0, dataset.KeyBytes), PK: e.pk}
	}
	return e.run(job{
		name: "multiget", goroutines: 1, every: 1, rows: true,
		op: func(w *worker, _ uint64) error {
			for i := range keys {
				ids[i] = e.pointID(w.rng.Uint64N(e.Records))
				keys[i].Bytes = dataset.AppendKey(keys[i].Bytes[:0], ids[i])
			}
			var bad error
			err := e.db.MultiGet(keys, func(i int, v []byte) {
				if err := e.values.Check(ids[i], v); err != nil {
					bad = err
				}
			})
			w.rows += multiGetKeys
			if err == nil {
				err = bad
			}
			return err
		},
	})
}
