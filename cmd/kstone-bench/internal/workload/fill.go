package workload

import (
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// Records of the point layout have even numbers, so that odd ones are absent but
// lie between those that exist.
func (e *Env) pointID(i uint64) uint64 { return 2 * i }

func (e *Env) recordBytes() int64 { return int64(dataset.KeyBytes + e.ValueBytes) }

// fillRandom writes every record once, in random order, one goroutine.
func (e *Env) fillRandom() error {
	return e.run(job{
		name: "fillrandom", goroutines: 1, count: int64(e.Records), settle: true,
		userBytes: e.recordBytes(), finish: e.live(e.Records),
		op: func(w *worker, i uint64) error {
			id := e.pointID(e.order.At(i))
			return e.db.Put(w.keyOf(id), w.valueOf(id, 0))
		},
	})
}

// fillSeq writes every record once, in the order of keys.
func (e *Env) fillSeq() error {
	return e.run(job{
		name: "fillseq", goroutines: 1, count: int64(e.Records), settle: true,
		userBytes: e.recordBytes(), finish: e.live(e.Records),
		op: func(w *worker, i uint64) error {
			id := e.pointID(i)
			return e.db.Put(w.keyOf(id), w.valueOf(id, 0))
		},
	})
}

// overwrite writes every record again, in another random order.
func (e *Env) overwrite() error {
	order := dataset.NewPermutation(e.Records, 77)
	return e.run(job{
		name: "overwrite", goroutines: 1, count: int64(e.Records), settle: true,
		userBytes: e.recordBytes(), finish: e.live(e.Records),
		op: func(w *worker, i uint64) error {
			id := e.pointID(order.At(i))
			return e.db.Put(w.keyOf(id), w.valueOf(id, 1))
		},
	})
}

// batchRecords is the number of records of one atomic batch.
const batchRecords = 100

// fillBatch writes every record once, in random order, in batches. Operations are
// records; latencies are those of whole batches.
func (e *Env) fillBatch(name string, id func(i uint64) uint64) error {
	b := newBatch(e)
	return e.run(job{
		name: name, goroutines: 1, count: int64(e.Records / batchRecords), settle: true,
		userBytes: e.recordBytes(), rows: true, finish: e.live(e.Records),
		op: func(w *worker, i uint64) error {
			for j := range uint64(batchRecords) {
				b.set(int(j), id(e.order.At(i*batchRecords+j)))
			}
			w.rows += batchRecords
			return e.db.PutBatch(b.keys, b.values)
		},
	})
}

// batch is reused memory for the records of a batch.
type batch struct {
	env    *Env
	keys   []store.Key
	values [][]byte
}

func newBatch(e *Env) *batch {
	b := &batch{env: e, keys: make([]store.Key, batchRecords), values: make([][]byte, batchRecords)}
	for i := range b.keys {
		b.keys[i] = store.Key{Bytes: make([]byte, 0, dataset.KeyBytes), PK: e.pk}
		b.values[i] = make([]byte, 0, e.ValueBytes)
	}
	return b
}

func (b *batch) set(i int, id uint64) {
	b.keys[i].Bytes = dataset.AppendKey(b.keys[i].Bytes[:0], id)
	b.values[i] = b.env.values.Append(b.values[i][:0], id, 0)
}

// live notes how many bytes of keys and values the database now holds.
func (e *Env) live(records uint64) func(result.Figures) {
	return func(f result.Figures) {
		f[result.LiveBytes] = float64(int64(records) * e.recordBytes())
	}
}

// fillSync writes records that survive a power cut when acknowledged, for a limited
// time, from several goroutines, into a fresh database.
func (e *Env) fillSync(goroutines int) error {
	if err := e.open(true, true, goroutines); err != nil {
		return err
	}
	err := e.run(job{
		name: "fillsync", goroutines: goroutines,
		op: func(w *worker, i uint64) error {
			id := e.pointID(e.order.At(i % e.Records))
			return e.db.Put(w.keyOf(id), w.valueOf(id, 0))
		},
	})
	if err != nil {
		return err
	}
	return e.close()
}
