package measure

import (
	"context"
	"runtime"
	"slices"
	"time"
)

var epoch = time.Now()

// Clock returns the time since the start of the process. It reads the monotonic clock
// only, which is half the price of time.Now.
func Clock() time.Duration { return time.Since(epoch) }

// Rotate gives each of n its turn in a round; every round begins with another one.
func Rotate(ctx context.Context, round, n int, turn func(i int) error) error {
	for j := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := turn((round + j) % n); err != nil {
			return err
		}
	}
	return nil
}

// Times are what contestants took, by contestant and round.
type Times [][]float64

// Turns lets n contestants take turns for so many rounds.
func Turns(ctx context.Context, rounds, n int, turn func(round, i int) (float64, error)) (Times,
	error) {
	all := make(Times, n)
	for round := range rounds {
		err := Rotate(ctx, round, n, func(i int) error {
			took, err := turn(round, i)
			all[i] = append(all[i], took)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Median is that of a contestant.
func (t Times) Median(i int) float64 { return Middle(slices.Clone(t[i])) }

// Ratio is the time of contestant a by that of b: the median of the rounds.
func (t Times) Ratio(a, b int) float64 {
	ratios := make([]float64, len(t[b]))
	for round := range ratios {
		ratios[round] = t[a][round] / t[b][round]
	}
	return Middle(ratios)
}

// Middle returns the median; it sorts v.
func Middle(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Allocated runs f and returns what is allocated meanwhile, by other goroutines, too.
func Allocated(f func() error) (objects, bytes float64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs),
		float64(after.TotalAlloc - before.TotalAlloc), err
}
