package workload

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// pointID numbers the records of the point layout: even, so that odd ones are absent but
// lie between those that exist.
func pointID(i uint64) uint64 { return 2 * i }

func (e *Env) recordBytes() int64 { return int64(dataset.KeyBytes + e.ValueBytes) }

// puts is a job that writes every record once, as version, in the order of at.
func (e *Env) puts(name string, at func(i uint64) uint64, version uint32) job {
	return job{name: name, count: e.Records, settle: true, userBytes: e.recordBytes(),
		op: func(w *worker, i uint64) error { return w.put(at(i), version) }}
}

// put writes record number i.
func (w *worker) put(i uint64, version uint32) error {
	id := w.env.id(i)
	return w.env.db.Put(w.keyOf(id), w.valueOf(id, version))
}

func fillSeq(e *Env, _ int) job {
	return e.puts("fillseq", func(i uint64) uint64 { return i }, 0)
}

func fillRandom(e *Env, _ int) job { return e.puts("fillrandom", e.order.At, 0) }

func overwrite(e *Env, _ int) job {
	return e.puts("overwrite", dataset.NewPermutation(e.Records, 77).At, 1)
}

// batchRecords is the number of records of one atomic batch.
const batchRecords = 100

// fillBatch writes every record once, in random order, in batches. Operations are
// records; latencies are those of whole batches.
func fillBatch(name string) func(*Env, int) job {
	return func(e *Env, _ int) job {
		keys, values := e.keys(batchRecords), make([][]byte, batchRecords)
		return job{name: name, count: e.Records / batchRecords, settle: true, rows: true,
			userBytes: e.recordBytes(), op: func(w *worker, i uint64) error {
				for j := range values {
					id := e.id(e.order.At(i*batchRecords + uint64(j)))
					keys[j].Bytes = dataset.AppendKey(keys[j].Bytes[:0], id)
					values[j] = e.values.Append(values[j][:0], id, 0)
				}
				w.rows += batchRecords
				return e.db.PutBatch(keys, values)
			}}
	}
}

// keys is memory for n keys.
func (e *Env) keys(n int) []store.Key {
	keys := make([]store.Key, n)
	for i := range keys {
		keys[i] = store.Key{Bytes: make([]byte, 0, dataset.KeyBytes), PK: e.pk}
	}
	return keys
}

// fillSync writes records that survive a power cut when acknowledged, for a limited
// time, into a fresh database.
func fillSync(e *Env, goroutines int) job {
	return job{name: "fillsync",
		begin: func() error { return e.open(true, true, goroutines) },
		op: func(w *worker, i uint64) error {
			if i < e.Records {
				i = e.order.At(i)
			}
			return w.put(i, 0)
		},
		finish: func(f result.Figures) error {
			return errors.Join(e.complete(uint64(f[result.Ops])), e.close())
		}}
}

// putIfAbsent inserts records at random places, where nine in ten are new.
func putIfAbsent(e *Env, _ int) job {
	return job{name: "putifabsent", count: e.Records / 4, settle: true, userBytes: e.recordBytes(),
		op: func(w *worker, i uint64) error {
			id, isNew := e.id(e.order.At(i)), i%10 != 0
			if isNew {
				id++
			}
			ok, err := e.db.PutIfAbsent(w.keyOf(id), w.valueOf(id, 3))
			if err == nil && ok != isNew && !e.engine.Void {
				err = fmt.Errorf("record %d: inserted %v, want %v", id, ok, isNew)
			}
			if ok {
				e.live++
			}
			return err
		}}
}

// whole is a step that verifies that all records are there.
func whole(e *Env) error {
	if e.engine.Void {
		return nil
	}
	return e.complete(e.Records)
}

// complete verifies that there are so many records, each of them intact.
func (e *Env) complete(want uint64) error {
	n, err := e.countPart(store.Part{Count: 1})
	if err == nil && n != int64(want) {
		err = fmt.Errorf("%d records are there, want %d", n, want)
	}
	return err
}

// deleteRandom deletes every second record of a random order, one call each, and
// reports the space that is left to live records when background work is done. It
// then verifies that no record of these is left and all others are, in the version of the
// overwrite or of putIfAbsent.
func deleteRandom(e *Env, _ int) job {
	count, order := e.Records/2, dataset.NewPermutation(e.Records, 123)
	e.live -= count
	return job{name: "deleterandom", count: count, settle: true, userBytes: dataset.KeyBytes,
		op: func(w *worker, i uint64) error { return e.db.Delete(w.keyOf(e.id(order.At(i)))) },
		finish: func(result.Figures) error {
			if e.engine.Void {
				return nil
			}
			want := make([]bool, e.Records)
			for i := count; i < e.Records; i++ {
				want[order.At(i)] = true
			}
			n := uint64(0)
			err := e.rows(func(each func(store.Row) bool) error {
				return e.db.ScanPart(store.Part{Count: 1}, each)
			}, func(id uint64, r store.Row) error {
				n++
				if v := dataset.Version(r.Value); id >= 2*e.Records ||
					id%2 == 0 && (v != 1 || !want[id/2]) || id%2 == 1 && v != 3 {
					return fmt.Errorf("record %d is there in version %d", id, v)
				}
				return nil
			})
			if err == nil && n != e.live {
				err = fmt.Errorf("%d records are there, want %d", n, e.live)
			}
			return err
		}}
}

const (
	// writerPerSecond is the pace of the writer beside the readers: the same for all
	// engines, and one that the slowest can hold, so that what is compared is reading.
	writerPerSecond = 20_000
	writerTick      = time.Millisecond
)

// readWhileWriting reads at random while another goroutine overwrites random records at a
// fixed pace. Operations are reads.
func readWhileWriting(e *Env, goroutines int) job {
	var wrote int64
	var slowest, took time.Duration
	j := readRandom(e, goroutines)
	j.name = "readwhilewriting"
	j.beside = func(stop *atomic.Bool) error {
		w, start := e.newWorker(99, "paced"), time.Now()
		for !stop.Load() {
			due := int64(time.Since(start).Seconds() * writerPerSecond)
			for ; wrote < due && !stop.Load(); wrote++ {
				before := time.Now()
				if err := w.put(w.rng.Uint64N(e.Records), 2); err != nil {
					return fmt.Errorf("paced writer: %w", err)
				}
				slowest = max(slowest, time.Since(before))
			}
			time.Sleep(writerTick)
		}
		took = time.Since(start)
		return nil
	}
	j.finish = func(f result.Figures) error {
		f["writes_per_second"] = float64(wrote) / took.Seconds()
		f["longest_write_us"] = micros(slowest)
		return nil
	}
	return j
}
