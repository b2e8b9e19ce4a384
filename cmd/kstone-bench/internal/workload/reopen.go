package workload

import (
	"fmt"
	"runtime"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// reopenFill writes every record, unsynced, without settling, and asks to be killed.
func (e *Env) reopenFill() error {
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	w := e.newWorker(0, "reopen")
	for i := range e.Records {
		id := e.pointID(e.order.At(i))
		if err := e.db.Put(w.keyOf(id), w.valueOf(id, 0)); err != nil {
			return err
		}
	}
	e.Announce()
	return nil
}

// reopenKilled opens what a killed process left, and counts what was lost, which must
// be the newest records only. It then brings the database to rest and closes it.
func (e *Env) reopenKilled() error {
	if err := e.reopen("reopen-killed", e.countLost); err != nil {
		return err
	}
	if err := e.settle(); err != nil {
		return err
	}
	return e.close()
}

// reopenClean opens what a clean close left.
func (e *Env) reopenClean() error { return e.reopen("reopen-clean", nil) }

// reopen measures opening up to the first read. after may add to the result.
func (e *Env) reopen(name string, after func(*Result) error) error {
	runtime.GC()
	meter := measure.Start()
	if err := e.open(false, false, 1); err != nil {
		return err
	}
	w := e.newWorker(0, name)
	_, _, err := e.db.Get(w.got, w.keyOf(0))
	usage := meter.Stop()
	if err != nil {
		return err
	}
	r := e.result(name, 1)
	r.Ops, r.Seconds, r.PerSecond = 1, usage.Wall.Seconds(), 1/usage.Wall.Seconds()
	r.CPUNs, r.WrittenBytes = float64(usage.CPU.Nanoseconds()), usage.WrittenBytes
	r.PeakRSSBytes, r.PeakAnonBytes = usage.PeakRSSBytes, usage.PeakAnonBytes
	l := measure.NewLatencies()
	l.Record(max(usage.Wall, time.Nanosecond))
	r.latencies(l)
	if after != nil {
		if err := after(&r); err != nil {
			return err
		}
	}
	e.Emit(r)
	return nil
}

// countLost counts the records that are gone; a later one must not be present when an
// earlier one is missing.
func (e *Env) countLost(r *Result) error {
	present := make([]bool, e.Records)
	var bad error
	err := e.db.Scan(store.Key{}, 0, func(row store.Row) bool {
		id, err := e.checkRow(row)
		if err == nil && (id%2 != 0 || id/2 >= e.Records) {
			err = fmt.Errorf("record %d was never written", id)
		}
		if err == nil {
			present[id/2] = true
		}
		bad = err
		return err == nil
	})
	if err != nil || bad != nil {
		return fmt.Errorf("after the kill: %w, %w", err, bad)
	}
	lost := uint64(0)
	for i := range e.Records {
		if !present[e.order.At(i)] {
			lost++
		} else if lost > 0 {
			return fmt.Errorf("write %d is lost, write %d is not", i-lost, i)
		}
	}
	r.extra("lost_records", float64(lost))
	return nil
}

// countAll counts and verifies all records.
func (e *Env) countAll() (n uint64, err error) {
	var bad error
	part := store.Part{Count: 1}
	err = e.db.ScanPart(part, func(r store.Row) bool {
		_, bad = e.checkRow(r)
		n++
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return n, err
}
