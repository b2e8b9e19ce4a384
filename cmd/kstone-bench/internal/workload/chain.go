// Package workload holds the work that is measured: one file for each family, and
// the chains that put them in order.
package workload

import (
	"fmt"
	"sync/atomic"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// Chain is a sequence of workloads on one database in one process, or in several
// processes one after the other where that is the point of it.
type Chain struct {
	Name, About string
	phases      []func(*Env) error
}

// Phases is the number of processes.
func (c Chain) Phases() int { return len(c.phases) }

// Chains lists all chains in the order they run.
func Chains() []Chain {
	one := func(name, about string, f func(*Env) error) Chain {
		return Chain{name, about, []func(*Env) error{f}}
	}
	return []Chain{
		one("seq", "fill in key order, scan", seqChain),
		one("batch", "fill in batches of 100", batchChain),
		one("point", "fill at random, read, scan, overwrite, insert, delete", pointChain),
		one("query", "partitions of 100 sort keys", queryChain),
		one("sync", "writes that survive a power cut", syncChain),
		one("ycsb", "the core workloads of YCSB", ycsbChain),
		{"reopen", "open after a kill, after a clean close, and with a full log",
			[]func(*Env) error{(*Env).reopenFill, (*Env).reopenKilled, (*Env).reopenClean,
				(*Env).reopenFullLog}},
		one("cold", "data four times as large as the block cache", coldChain),
		one("large", "values of 1 KiB, an eighth of the records", largeChain),
		one("stall", "five times the records at random: the longest write", stallChain),
	}
}

// ChainNames lists the names of the chains in that order.
func ChainNames() []string {
	var names []string
	for _, c := range Chains() {
		names = append(names, c.Name)
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
	if err := c.phases[e.Phase](e); err != nil {
		return err
	}
	return e.close()
}

// prepare makes what depends on the number and size of records.
func (e *Env) prepare() {
	e.values = dataset.NewValues(e.ValueBytes)
	e.ValueBytes = e.values.Size()
	e.order = dataset.NewPermutation(e.Records, uint64(e.Repeat)+5)
	e.pk = dataset.KeyBytes
}

// steps runs functions until one fails.
func steps(all ...func() error) error {
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func seqChain(e *Env) error {
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return steps(e.fillSeq, func() error { return e.readSeq(e.Records) })
}

func batchChain(e *Env) error {
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return e.fillBatch("fillbatch", e.pointID)
}

func pointChain(e *Env) error {
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	err := steps(
		e.fillRandom,
		func() error { return e.warm(e.pointID) },
		func() error { return e.each([]int{1, 2, 8}, e.readRandom) },
		func() error { return e.each([]int{1, 2, 8}, e.readZipf) },
		func() error { return e.each([]int{1, 2}, e.readMissing) },
		e.multiGet,
		func() error { return e.readSeq(e.Records) },
		func() error { return e.each([]int{1, 2}, e.scanUnordered) },
		e.readWhileWriting,
		e.overwrite,
	)
	if err != nil {
		return err
	}
	inserted, err := e.putIfAbsent()
	if err != nil {
		return err
	}
	return e.deleteRandom(inserted)
}

// each runs a workload with several numbers of goroutines.
func (e *Env) each(goroutines []int, f func(int) error) error {
	for _, g := range goroutines {
		if err := f(g); err != nil {
			return err
		}
	}
	return nil
}

func queryChain(e *Env) error {
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return steps(
		e.loadPartitions,
		func() error { return e.warm(partitionID) },
		func() error { return e.query("query", 1, false) },
		func() error { return e.query("query", 2, false) },
		func() error { return e.query("querylatest", 1, true) },
		func() error { return e.query("querylatest", 2, true) },
	)
}

func syncChain(e *Env) error { return e.each([]int{1, 8, 64}, e.fillSync) }

func ycsbChain(e *Env) error {
	if err := e.open(true, false, ycsbGoroutines); err != nil {
		return err
	}
	if err := e.fillBatch("load", e.pointID); err != nil {
		return err
	}
	if err := e.warm(e.pointID); err != nil {
		return err
	}
	var inserted atomic.Uint64
	for _, m := range ycsbMixes {
		if err := e.ycsb(m, &inserted); err != nil {
			return err
		}
	}
	return nil
}

// coldChain has a block cache of a quarter of the data. The files stay in the page
// cache of the system; what is measured is bringing a block in.
func coldChain(e *Env) error {
	e.CacheBytes = int64(e.Records) * e.recordBytes() / 4
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return steps(
		e.loadPartitions,
		func() error { return e.warm(partitionID) },
		func() error { return e.readPartitions(1) },
		func() error { return e.query("query", 1, false) },
	)
}

func largeChain(e *Env) error {
	e.Records = max(e.Records/8, 1000)
	e.ValueBytes = 1024
	e.prepare()
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return steps(
		e.fillRandom,
		func() error { return e.warm(e.pointID) },
		func() error { return e.readRandom(1) },
		func() error { return e.readMissing(1) },
		func() error { return e.readSeq(e.Records) },
		e.overwrite,
	)
}

func stallChain(e *Env) error {
	e.Records *= 5
	e.prepare()
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return e.fillRandom()
}
