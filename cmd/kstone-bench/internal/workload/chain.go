package workload

import (
	"fmt"

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
		one("point", "fill at random, read, scan, overwrite, delete", pointChain),
		one("query", "partitions of 100 sort keys", queryChain),
	}
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
	e.values = dataset.NewValues(e.ValueBytes)
	e.ValueBytes = e.values.Size()
	e.order = dataset.NewPermutation(e.Records, uint64(e.Repeat)+5)
	e.pk = dataset.KeyBytes
	if err := c.phases[e.Phase](e); err != nil {
		return err
	}
	return e.close()
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
	return steps(
		e.fillRandom,
		func() error { return e.readRandom(1) },
		func() error { return e.readRandom(2) },
		func() error { return e.readZipf(1) },
		func() error { return e.readMissing(1) },
		e.multiGet,
		func() error { return e.readSeq(e.Records) },
		func() error { return e.scanParallel(e.Records) },
		e.overwrite,
	)
}

func queryChain(e *Env) error {
	if err := e.open(true, false, 1); err != nil {
		return err
	}
	return steps(
		e.loadPartitions,
		func() error { return e.query("query", 1, false) },
		func() error { return e.query("querylatest", 1, true) },
	)
}
