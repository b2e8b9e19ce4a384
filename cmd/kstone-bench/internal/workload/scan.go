package workload

import (
	"fmt"
	"sync/atomic"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// readSeq reads all records in the order of keys, over and over for the time given
// (at least once). Operations are rows.
func (e *Env) readSeq(records uint64) error {
	return e.scans("readseq", 1, func(w *worker, _ uint64) error {
		last, n := int64(-1), uint64(0)
		err := e.rows(func(each func(store.Row) bool) error {
			return e.db.Scan(store.Key{}, 0, each)
		}, func(id uint64, _ store.Row) error {
			if int64(id) <= last {
				return fmt.Errorf("record %d comes after %d", id, last)
			}
			last = int64(id)
			n++
			return nil
		})
		w.rows += int64(n)
		if err == nil && n != records {
			err = fmt.Errorf("scan returned %d records, want %d", n, records)
		}
		return err
	})
}

// scanUnordered reads all records in whatever order is fastest, in as many parts as
// goroutines. For engines that hash nothing, that is the order of keys.
func (e *Env) scanUnordered(goroutines int) error {
	if e.engine.Void {
		return nil
	}
	parts := e.parts(uint64(goroutines))
	var total atomic.Int64
	err := e.scans("scanunordered", goroutines, func(w *worker, _ uint64) error {
		n, err := e.countPart(parts[w.n])
		if w.rows == 0 {
			total.Add(n)
		}
		w.rows += n
		return err
	})
	if err == nil && total.Load() != int64(e.Records) {
		err = fmt.Errorf("parts have %d records, want %d", total.Load(), e.Records)
	}
	return err
}

func (e *Env) scans(name string, goroutines int, op func(*worker, uint64) error) error {
	return e.run(job{name: name, goroutines: goroutines, rows: true, op: op})
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
			bad = fmt.Errorf("key %q %q is none of ours", r.PK, r.SK)
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
			p.Hi = dataset.AppendKey(nil, e.pointID(e.Records/n*uint64(i+1)))
		}
	}
	return parts
}
