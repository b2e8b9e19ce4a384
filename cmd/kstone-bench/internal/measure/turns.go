package measure

import (
	"context"
	"runtime"
)

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

// Allocated runs f and returns what is allocated meanwhile, by other goroutines, too.
func Allocated(f func() error) (objects, bytes float64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs),
		float64(after.TotalAlloc - before.TotalAlloc), err
}
