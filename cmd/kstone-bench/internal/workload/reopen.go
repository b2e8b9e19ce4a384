package workload

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// The chain "reopen" opens three times: what a kill in the middle of writing left, in
// whatever state the engine was (reopen-killed); what a clean close left
// (reopen-clean); and what a kill left when a certain number of writes since the last
// flush are in the log only, the same for all (reopen-fulllog).

// writeAll writes every record, unsynced, without settling, and asks to be killed.
func writeAll(e *Env) error { return e.putAndDie(e.Records, 0) }

// writeLog overwrites as much as the write buffer holds, and asks to be killed.
func writeLog(e *Env) error { return e.putAndDie(e.logRecords(), 1) }

func (e *Env) putAndDie(count uint64, version uint32) error {
	w := e.newWorker(0, "reopen")
	for i := range count {
		if err := w.put(e.order.At(i), version); err != nil {
			return err
		}
	}
	return e.Announce()
}

// fullLogShare is the part of the write buffer that the keys and values of a full log
// fill: with what every engine adds to a record in memory, not yet enough to flush.
const fullLogShare = 0.6

// logRecords is how many records that is, at most half of all.
func (e *Env) logRecords() uint64 {
	n := uint64(fullLogShare * float64(e.WriteBufferBytes) / float64(e.recordBytes()))
	return min(n, e.Records/2)
}

// openKilled opens what a killed process left and counts what was lost. It then writes that
// again, so that what follows has all records with every engine, and brings the database to rest.
func openKilled(e *Env) error {
	lost := uint64(0)
	err := e.reopen("reopen-killed", func(f result.Figures, _ bool) (err error) {
		lost, err = e.countLost(f, e.Records, 0)
		return err
	})
	w := e.newWorker(0, "reopen")
	for i := e.Records - lost; i < e.Records && err == nil; i++ {
		err = w.put(e.order.At(i), 0)
	}
	if err != nil {
		return err
	}
	return measure.Settle(e.db.Flush)
}

func openClean(e *Env) error {
	return e.reopen("reopen-clean", func(_ result.Figures, found bool) error {
		if !found {
			return errors.New("record 0 is missing")
		}
		return nil
	})
}

// openFullLog opens what a process left that was killed with a full log.
func openFullLog(e *Env) error {
	return e.reopen("reopen-fulllog", func(f result.Figures, _ bool) error {
		f["log_records"] = float64(e.logRecords())
		_, err := e.countLost(f, e.logRecords(), 1)
		return err
	})
}

// reopen measures opening up to the first read, of record 0, which may have been found. after may
// add to the result.
func (e *Env) reopen(name string, after func(f result.Figures, found bool) error) error {
	w := e.newWorker(0, name)
	runtime.GC()
	meter := measure.Start()
	if err := e.open(false, false, 1); err != nil {
		return err
	}
	v, found, err := e.db.Get(w.got, w.keyOf(0))
	usage := meter.Elapsed()
	if err == nil && found {
		err = e.values.Check(0, v)
	}
	if err != nil {
		return err
	}
	w.took(max(usage.Wall, time.Nanosecond))
	seconds := usage.Wall.Seconds()
	f := result.Figures{result.Ops: 1, result.Seconds: seconds, result.PerSecond: 1 / seconds,
		result.CPU: float64(usage.CPU.Nanoseconds())}
	used(f, usage, w.lat)
	if err := after(f, found); err != nil {
		return err
	}
	return e.emit(name, 1, f)
}

// countLost counts the newest writes that are gone: of the given number of records,
// written in order, those that do not have the version. A later one must not be there
// when an earlier one is lost, and what was at rest before, in version 0, must be there.
func (e *Env) countLost(f result.Figures, written uint64, version uint32) (lost uint64, err error) {
	there, rows := make([]bool, e.Records), uint64(0)
	err = e.rows(e.scanAll, func(id uint64, row store.Row) error {
		if id%2 != 0 || id/2 >= e.Records {
			return fmt.Errorf("record %d was never written", id)
		}
		there[id/2] = dataset.Version(row.Value) == version
		rows++
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("after the kill: %w", err)
	}
	for i := range written {
		if !there[e.order.At(i)] {
			lost++
		} else if lost > 0 {
			return 0, fmt.Errorf("write %d is lost, write %d is not", i-lost, i)
		}
	}
	want := e.Records
	if version == 0 {
		want -= lost
	}
	if rows != want {
		return 0, fmt.Errorf("after the kill: %d records, want %d", rows, want)
	}
	f["lost_records"] = float64(lost)
	return lost, nil
}
