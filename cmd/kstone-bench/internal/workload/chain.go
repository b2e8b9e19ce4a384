// Package workload holds the work that is measured: one file for each family, and
// the chains that put them in order.
package workload

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// Chain is a sequence of steps on one database, in one process, or in several processes
// (phases) one after the other where that is the point of it.
type Chain struct {
	Name, About string
	phases      [][]step
	// Growth is set for a chain of the command growth only.
	Growth bool
}

// step prepares something, or runs jobs.
type step func(*Env) error

// Phases is the number of processes.
func (c Chain) Phases() int { return len(c.phases) }

// do is the step of a job with several numbers of goroutines.
func do(j func(e *Env, goroutines int) job, goroutines ...int) step {
	return func(e *Env) error {
		for _, g := range goroutines {
			if err := e.run(j(e, g), g); err != nil {
				return err
			}
		}
		return nil
	}
}

// Chains lists all chains in the order they run.
func Chains() []Chain {
	one := func(name, about string, steps ...step) Chain {
		return Chain{name, about, [][]step{steps}, false}
	}
	cold := func(times int64) []step {
		return []step{cacheBy(times), fresh, partitions, do(fillBatch("load"), 1), warm,
			do(readRandom, 1), do(query, 1)}
	}
	return []Chain{
		one("seq", "fill in key order, scan", fresh, do(fillSeq, 1), do(readSeq, 1)),
		one("batch", "fill in batches of 100", fresh, do(fillBatch("fillbatch"), 1), whole),
		one("point", "fill at random, read, scan, overwrite, insert, delete",
			fresh, do(fillRandom, 1), warm, do(readRandom, 1, 2, 8), do(readZipf, 1, 2, 8),
			do(readMissing, 1, 2), do(multiGet, 1), do(readSeq, 1), do(scanUnordered, 1, 2),
			do(readWhileWriting, 2), do(overwrite, 1), do(putIfAbsent, 1), do(deleteRandom, 1)),
		one("query", "partitions of 100 sort keys", fresh, partitions, do(fillBatch("load"), 1),
			warm, do(query, 1, 2), do(queryLatest, 1, 2)),
		one("sync", "writes that survive a power cut", do(fillSync, 1, 8, 64)),
		one("ycsb", "the core workloads of YCSB", append([]step{opened(ycsbGoroutines),
			do(fillBatch("load"), 1), warm}, ycsbSteps()...)...),
		{"reopen", "open after a kill, after a clean close, and with a full log",
			[][]step{{fresh, writeAll}, {openKilled}, {openClean, writeLog}, {openFullLog}}, false},
		one("cold", "data four times as large as the block cache", cold(4)...),
		one("large", "values of 1 KiB, an eighth of the records", large, fresh, do(fillRandom, 1),
			warm, do(readRandom, 1), do(readMissing, 1), do(readSeq, 1), do(overwrite, 1)),
		one("stall", "five times the records at random: the longest write", fiveTimes, fresh,
			do(fillRandom, 1), whole),
		{"growth", "load, read, query and scan partitions; open in another process",
			[][]step{{fresh, partitions, do(fillBatch("load"), 1), warm, do(readRandom, 1),
				do(readMissing, 1), do(query, 1), do(readSeq, 1)}, {partitions, openClean}}, true},
		{"cold16", "data 16 times as large as the block cache", [][]step{cold(16)}, true},
	}
}

// ChainNames lists the names of the chains that run without a command, in that order.
func ChainNames() (names []string) {
	for _, c := range Chains() {
		if !c.Growth {
			names = append(names, c.Name)
		}
	}
	return names
}

// FindChain returns the chain of that name.
func FindChain(name string) (Chain, error) {
	for _, c := range Chains() {
		if c.Name == name {
			return c, nil
		}
	}
	return Chain{}, fmt.Errorf("no chain %q", name)
}

// Run does one phase of a chain in this process.
func Run(e *Env) error {
	c, err := FindChain(e.Chain)
	if err != nil {
		return err
	}
	if e.engine, err = store.Find(e.Engine); err != nil {
		return err
	}
	e.prepare()
	if e.engine.Void && c.Phases() > 1 {
		return nil // leaves nothing for the next process
	}
	for _, s := range c.phases[e.Phase] {
		if err := s(e); err != nil {
			return err
		}
	}
	return e.close()
}

// prepare makes what depends on the number and size of records.
func (e *Env) prepare() {
	e.values = dataset.NewValues(e.ValueBytes)
	e.ValueBytes = e.values.Size()
	e.order = dataset.NewPermutation(e.Records, uint64(e.Repeat)+5)
	e.pk, e.id, e.absent, e.live = dataset.KeyBytes, pointID, 1, e.Records
	e.next.Store(e.Records)
}

// fresh opens an empty database for one writer.
func fresh(e *Env) error { return e.open(true, false, 1) }

// opened opens an empty database for so many writers.
func opened(writers int) step { return func(e *Env) error { return e.open(true, false, writers) } }

// partitions changes to the layout of partitions.
func partitions(e *Env) error {
	e.pk, e.id, e.absent = pkBytes, partitionID, partitionRecords
	return nil
}

// cacheBy takes a block cache of the data's size by times. The files stay in the page
// cache of the system; what is measured is bringing a block in.
func cacheBy(times int64) step {
	return func(e *Env) error {
		e.CacheBytes = int64(e.Records) * e.recordBytes() / times
		return nil
	}
}

func large(e *Env) error {
	e.Records, e.ValueBytes = max(e.Records/8, 1000), 1024
	e.prepare()
	return nil
}

func fiveTimes(e *Env) error {
	e.Records *= 5
	e.prepare()
	return nil
}
