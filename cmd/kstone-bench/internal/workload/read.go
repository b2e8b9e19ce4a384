package workload

import (
	"fmt"
	"sync/atomic"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
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

const (
	warmStep  = 16      // every 16th record is read to warm up, several in every block,
	warmReads = 500_000 // but not more than this, which is more than caches hold
)

// warm reads enough, untimed, that caches hold what they can.
func warm(e *Env) error {
	if e.engine.Void {
		return nil
	}
	w := e.newWorker(0, "warm")
	for i := uint64(0); i < e.Records; i += max(warmStep, e.Records/warmReads) {
		if err := w.get(e.id(i)); err != nil {
			return err
		}
	}
	return nil
}

func readRandom(e *Env, _ int) job {
	return job{name: "readrandom", every: readEvery, op: func(w *worker, _ uint64) error {
		return w.get(e.id(w.rng.Uint64N(e.Records)))
	}}
}

// readZipf reads with the skew of YCSB; the frequent records are scattered.
func readZipf(e *Env, _ int) job {
	z := e.zipfian()
	return job{name: "readzipf", every: readEvery, op: func(w *worker, i uint64) error {
		return w.get(e.id(e.order.At(z.Rank(i))))
	}}
}

// readMissing asks for keys between those that exist.
func readMissing(e *Env, _ int) job {
	return job{name: "readmissing", every: readEvery, op: func(w *worker, _ uint64) error {
		id := e.id(w.rng.Uint64N(e.Records)) + e.absent
		_, ok, err := e.db.Get(w.got[:0], w.keyOf(id))
		if ok {
			return fmt.Errorf("record %d exists", id)
		}
		return err
	}}
}

// multiGetKeys is the number of keys of one call.
const multiGetKeys = 32

// multiGet reads random records, 32 in a call. Operations are records.
func multiGet(e *Env, _ int) job {
	keys, ids := e.keys(multiGetKeys), make([]uint64, multiGetKeys)
	return job{name: "multiget", every: 1, rows: true, op: func(w *worker, _ uint64) error {
		for i := range keys {
			ids[i] = e.id(w.rng.Uint64N(e.Records))
			keys[i].Bytes = dataset.AppendKey(keys[i].Bytes[:0], ids[i])
		}
		var bad error
		n := 0
		err := e.db.MultiGet(keys, func(i int, v []byte) {
			n++
			if err := e.values.Check(ids[i], v); err != nil {
				bad = err
			}
		})
		if w.rows += multiGetKeys; n != multiGetKeys {
			bad = fmt.Errorf("%d values of %d keys", n, multiGetKeys)
		}
		if err == nil {
			err = bad
		}
		return err
	}}
}

// The partition layout: partitions of 100 sort keys.
const (
	partitionRecords = 100
	pkBytes          = dataset.KeyBytes / 2
	queryRows        = 20
)

func partitionID(i uint64) uint64 {
	return i/partitionRecords*dataset.SKUnit + i%partitionRecords
}

// query reads 20 rows of a random partition from a random sort key on.
func query(e *Env, _ int) job {
	return job{name: "query", every: readEvery, op: func(w *worker, _ uint64) error {
		id := w.rng.Uint64N(e.Records/partitionRecords)*dataset.SKUnit +
			w.rng.Uint64N(partitionRecords-queryRows+1)
		k := w.keyOf(id).Bytes
		return w.expect(store.Query{PK: k[:pkBytes], From: k[pkBytes:], Limit: queryRows}, id, 1)
	}}
}

// queryLatest reads the latest 20 rows of a random partition, backward.
func queryLatest(e *Env, _ int) job {
	return job{name: "querylatest", every: readEvery, op: func(w *worker, _ uint64) error {
		id := w.rng.Uint64N(e.Records/partitionRecords)*dataset.SKUnit + partitionRecords - 1
		q := store.Query{PK: w.keyOf(id).Bytes[:pkBytes], Limit: queryRows, Reverse: true}
		return w.expect(q, id, ^uint64(0))
	}}
}

// expect runs a query and verifies that its rows are those of id, id+step, ...
func (w *worker) expect(q store.Query, id, step uint64) error {
	n := 0
	err := w.env.rows(func(each func(store.Row) bool) error { return w.env.db.Query(q, each) },
		func(got uint64, _ store.Row) error {
			if got != id {
				return fmt.Errorf("row %d of the query is record %d, want %d", n, got, id)
			}
			id += step
			n++
			return nil
		})
	if err == nil && n != q.Limit {
		err = fmt.Errorf("query returned %d rows, want %d", n, q.Limit)
	}
	return err
}

// readSeq reads all records in the order of keys, over and over for the time given
// (at least once). Operations are rows.
func readSeq(e *Env, _ int) job {
	return job{name: "readseq", rows: true, op: func(w *worker, _ uint64) error {
		last, n := int64(-1), uint64(0)
		err := e.rows(e.scanAll, func(id uint64, _ store.Row) error {
			if int64(id) <= last {
				return fmt.Errorf("record %d comes after %d", id, last)
			}
			last = int64(id)
			n++
			return nil
		})
		w.rows += int64(n)
		if err == nil && n != e.Records {
			err = fmt.Errorf("scan returned %d records, want %d", n, e.Records)
		}
		return err
	}}
}

func (e *Env) scanAll(each func(store.Row) bool) error { return e.db.Scan(store.Key{}, 0, each) }

// scanUnordered reads all records in whatever order is fastest, in as many parts as
// goroutines. For engines that hash nothing, that is the order of keys.
func scanUnordered(e *Env, goroutines int) job {
	parts := e.parts(uint64(goroutines))
	var total atomic.Int64
	return job{name: "scanunordered", rows: true, op: func(w *worker, _ uint64) error {
		n, err := e.countPart(parts[w.n])
		if w.rows == 0 {
			total.Add(n)
		}
		w.rows += n
		return err
	}, finish: func(result.Figures) error {
		if total.Load() != int64(e.Records) {
			return fmt.Errorf("parts have %d records, want %d", total.Load(), e.Records)
		}
		return nil
	}}
}

// countPart verifies the records of a part and returns their number.
func (e *Env) countPart(p store.Part) (n int64, err error) {
	err = e.rows(func(each func(store.Row) bool) error { return e.db.ScanPart(p, each) },
		func(uint64, store.Row) error { n++; return nil })
	return n, err
}

// rows verifies every row of an iteration and calls check with its number. The first error
// ends the iteration.
func (e *Env) rows(iterate func(each func(store.Row) bool) error,
	check func(id uint64, r store.Row) error) error {
	var bad error
	err := iterate(func(r store.Row) bool {
		id, ok := dataset.ParseKey(r.PK, r.SK)
		if !ok {
			bad = fmt.Errorf("key %q %q is not one of the workload", r.PK, r.SK)
		} else if bad = e.values.Check(id, r.Value); bad == nil {
			bad = check(id, r)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

// parts divides the point layout into ranges of equally many records.
func (e *Env) parts(n uint64) []store.Part {
	parts := make([]store.Part, n)
	for i := range parts {
		p := &parts[i]
		p.Index, p.Count = i, int(n)
		if i > 0 {
			p.Lo = parts[i-1].Hi
		}
		if i < int(n)-1 {
			p.Hi = dataset.AppendKey(nil, e.id(e.Records/n*uint64(i+1)))
		}
	}
	return parts
}
