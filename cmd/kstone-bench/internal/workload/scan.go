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
		last, n, bad := int64(-1), uint64(0), error(nil)
		err := e.db.Scan(store.Key{}, 0, func(r store.Row) bool {
			id, err := e.checkRow(r)
			if err == nil && int64(id) <= last {
				err = fmt.Errorf("record %d comes after %d", id, last)
			}
			last, bad = int64(id), err
			n++
			return err == nil
		})
		w.rows += int64(n)
		if err == nil {
			err = bad
		}
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
		bad, n := error(nil), int64(0)
		err := e.db.ScanPart(parts[w.n], func(r store.Row) bool {
			_, bad = e.checkRow(r)
			n++
			return bad == nil
		})
		if w.rows == 0 {
			total.Add(n)
		}
		w.rows += n
		if err == nil {
			err = bad
		}
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

// checkRow verifies a row of a scan and returns its number.
func (e *Env) checkRow(r store.Row) (uint64, error) {
	id, ok := dataset.ParseKey(r.PK, r.SK)
	if !ok {
		return 0, fmt.Errorf("key %q %q is none of ours", r.PK, r.SK)
	}
	return id, e.values.Check(id, r.Value)
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
