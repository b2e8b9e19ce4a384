package tables

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Groups of cases.
const (
	groupReads   = "reads"
	groupInserts = "inserts"
	groupOwn     = "own"
	groupSpans   = "spans"
	groupShards  = "shards"
)

// entry is what an engine does in a turn: goroutines repeat op, which gets the number of its
// goroutine and handles so many rows, for so long.
type entry struct {
	group, name, engine string
	goroutines, rows    int
	length              time.Duration
	op                  func(g int) error
}

// turns gives each of n entries its turn in a round, and emits what they cost.
func (b *bench) turns(round, n int, make func(i int) entry) error {
	return measure.Rotate(b.ctx, round, n, func(i int) error {
		e := make(i)
		cost, err := turn(b.ctx, e.goroutines, e.length, e.op)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", e.engine, e.name, err)
		}
		return b.emit(cost.record(e, round))
	})
}

// record has the figures of a turn.
func (c cost) record(e entry, round int) result.Record {
	rows := float64(e.rows)
	return result.Record{Table: e.group, Case: e.name, Engine: e.engine, Goroutines: e.goroutines,
		Round: round, Figures: result.Figures{
			result.Ops: float64(c.ops) * rows, result.Seconds: c.seconds,
			result.PerSecond: float64(c.ops) * rows / c.seconds,
			result.Allocs:    c.allocs / rows, result.AllocatedBytes: c.bytes / rows,
		}}
}

// checkEvery is the most operations between two looks at the clock.
const checkEvery = 64

// cost is what was counted in a turn.
type cost struct {
	ops           int64
	seconds       float64
	allocs, bytes float64 // an operation; what runs in the background is part of it
}

// turn lets goroutines repeat an operation for so long, at least once each, or until it
// returns errDone. It looks at the clock after each operation at first, and less often if
// they are short.
func turn(ctx context.Context, goroutines int, length time.Duration,
	op func(g int) error) (c cost, err error) {
	ops, errs := make([]int64, goroutines), make([]error, goroutines)
	allocs, bytes, err := measure.Allocated(func() error {
		start := time.Now()
		work := func(g int) {
			ops[g], errs[g] = repeat(ctx, start, length, g, op)
		}
		if goroutines == 1 { // without another goroutine that would have to be woken
			work(0)
		} else {
			var all sync.WaitGroup
			for g := range goroutines {
				all.Go(func() { work(g) })
			}
			all.Wait()
		}
		c.seconds = time.Since(start).Seconds()
		return errors.Join(errs...)
	})
	for _, n := range ops {
		c.ops += n
	}
	c.allocs, c.bytes = allocs/float64(max(c.ops, 1)), bytes/float64(max(c.ops, 1))
	return c, err
}

// errDone ends a turn without being an error.
var errDone = errors.New("done")

func repeat(ctx context.Context, start time.Time, length time.Duration, g int,
	op func(g int) error) (n int64, err error) {
	for chunk := int64(1); ; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		for range chunk {
			if err := op(g); err == errDone { //nolint:errorlint // it is never wrapped
				return n, nil
			} else if err != nil {
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
