package tables

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
)

// checkEvery is the most operations between two looks at the clock.
const checkEvery = 64

// cost is what was counted in a turn.
type cost struct {
	ops           int64
	seconds       float64
	allocs, bytes float64 // an operation; what runs in the background is part of it
}

// turn lets goroutines repeat an operation for so long, at least once each. The operation
// gets the number of its goroutine.
func turn(ctx context.Context, goroutines int, length time.Duration,
	op func(g int) error) (c cost, err error) {
	allocs, bytes, err := measure.Allocated(func() (err error) {
		c, err = together(goroutines, func(start time.Time, g int) (int64, error) {
			return repeat(ctx, start, length, g, op)
		})
		return err
	})
	c.allocs, c.bytes = allocs/float64(max(c.ops, 1)), bytes/float64(max(c.ops, 1))
	return c, err
}

// together runs work in goroutines and adds up the operations that it returns.
func together(goroutines int, work func(start time.Time, g int) (ops int64, err error)) (c cost,
	err error) {
	ops, errs := make([]int64, goroutines), make([]error, goroutines)
	start := time.Now()
	if goroutines == 1 { // without another goroutine that would have to be woken
		ops[0], errs[0] = work(start, 0)
	} else {
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() { ops[g], errs[g] = work(start, g) })
		}
		all.Wait()
	}
	c.seconds = time.Since(start).Seconds()
	for _, n := range ops {
		c.ops += n
	}
	return c, errors.Join(errs...)
}

// repeat looks at the clock after each operation at first, and less often if they are short.
func repeat(ctx context.Context, start time.Time, length time.Duration, g int,
	op func(g int) error) (n int64, err error) {
	chunk := int64(1)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		for range chunk {
			if err := op(g); err != nil {
				return n, err
			}
			n++
		}
		elapsed := time.Since(start)
		if elapsed >= length {
			return n, nil
		}
		if chunk < checkEvery && elapsed/time.Duration(n)*checkEvery < length/16 {
			chunk *= 2
		}
	}
}

// after returns a function that reports whether so much time has gone by since.
func after(d time.Duration) (late func() bool) {
	start := time.Now()
	return func() bool { return time.Since(start) > d }
}

// turnUntil lets goroutines repeat an operation until it says that it is done.
func turnUntil(ctx context.Context, goroutines int, op func() (done bool, err error)) (cost,
	error) {
	return together(goroutines, func(time.Time, int) (n int64, err error) {
		for {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			if done, err := op(); done || err != nil {
				return n, err
			}
			n++
		}
	})
}
