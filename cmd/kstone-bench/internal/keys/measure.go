package keys

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// opsPerTurn makes a turn long beside the reading of the clock and short beside the time
// slice of the scheduler, so that most turns are not interrupted.
const opsPerTurn = 512

// Cost is what one operation takes.
type Cost struct {
	NS float64 `json:"ns"` // median over the rounds
	// Ratio is how many times as long it takes as the first codec in the same round:
	// the median over the rounds.
	Ratio  float64 `json:"ratio"`
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"` // allocated
}

// CodecResult is one line of the comparison.
type CodecResult struct {
	Name     string `json:"name"`
	KeyBytes int    `json:"key_bytes"`
	Encode   Cost   `json:"encode"`
	Decode   Cost   `json:"decode"`
}

// measureCodecs lets the codecs take turns for so many rounds, after each has shown that
// it reads back what it writes.
func measureCodecs(ctx context.Context, rounds int) ([]CodecResult, error) {
	all, err := codecs()
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, len(all)+1)
	for i, c := range all {
		if keys[i], err = roundTrip(c); err != nil {
			return nil, err
		}
	}
	all = append(all, emptyCall)
	results := make([]CodecResult, len(all))
	for i, c := range all {
		results[i] = CodecResult{Name: c.name, KeyBytes: len(keys[i])}
	}
	buf, v := make([]byte, 0, 256), sample
	encode, err := compare(ctx, len(all), rounds, func(i int) error {
		_, err := all[i].append(buf, &v)
		return err
	})
	if err != nil {
		return nil, err
	}
	decode, err := compare(ctx, len(all), rounds, func(i int) error {
		return all[i].decode(keys[i], &v)
	})
	for i := range results {
		if err == nil {
			results[i].Encode, results[i].Decode = encode[i], decode[i]
		}
	}
	return results, err
}

// roundTrip returns the key of the sample, having read it back.
func roundTrip(c codec) ([]byte, error) {
	key, err := c.append(nil, &sample)
	if err != nil {
		return nil, fmt.Errorf("%s: encoding: %w", c.name, err)
	}
	var got order
	if err := c.decode(key, &got); err != nil {
		return nil, fmt.Errorf("%s: decoding: %w", c.name, err)
	}
	if got != sample {
		return nil, fmt.Errorf("%s: %+v reads back as %+v", c.name, sample, got)
	}
	return key, nil
}

// compare measures n ways of doing one thing, interleaved. Each round begins with another.
func compare(ctx context.Context, n, rounds int, op func(i int) error) ([]Cost, error) {
	times := make([][]float64, n)
	for round := range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j := range n {
			i := (round + j) % n
			start := time.Now()
			for range opsPerTurn {
				if err := op(i); err != nil {
					return nil, err
				}
			}
			times[i] = append(times[i], float64(time.Since(start))/opsPerTurn)
		}
	}
	costs := make([]Cost, n)
	for i := range costs {
		ratios := make([]float64, rounds)
		for round := range ratios {
			ratios[round] = times[i][round] / times[0][round]
		}
		costs[i].Ratio = median(ratios)
	}
	for i := range costs {
		memory, err := allocated(opsPerTurn, func(int) error { return op(i) })
		if err != nil {
			return nil, err
		}
		costs[i].NS, costs[i].Allocs, costs[i].Bytes = median(times[i]), memory.Allocs, memory.Bytes
	}
	return costs, nil
}

// allocated runs op n times and returns what one of them allocates; NS and Ratio stay 0.
// What other goroutines allocate meanwhile is part of it.
func allocated(n int, op func(i int) error) (Cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		if err := op(i); err != nil {
			return Cost{}, err
		}
	}
	runtime.ReadMemStats(&after)
	return Cost{
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
	}, nil
}

// median sorts values. Of an even number it returns the upper of the two in the middle.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
