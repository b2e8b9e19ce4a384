package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// opsPerTurn makes a turn long beside the reading of the clock and short beside the time
// slice of the scheduler, so that most turns are not interrupted.
const opsPerTurn = 512

// cost is what one operation takes.
type cost struct {
	nanos, ratio  float64 // medians over the rounds
	allocs, bytes float64
}

func (c cost) set(f result.Figures, op string) {
	f[op+figNanos], f[op+figRatio], f[op+figAllocs], f[op+figBytes] = c.nanos, c.ratio, c.allocs,
		c.bytes
}

// measureCodecs lets the codecs take turns for so many rounds, after each has shown that
// it reads back what it writes.
func measureCodecs(ctx context.Context, rounds int, emit func(result.Record) error) error {
	all, err := codecs()
	if err != nil {
		return err
	}
	keys := make([][]byte, len(all)+1)
	for i, c := range all {
		if keys[i], err = roundTrip(c); err != nil {
			return err
		}
	}
	all = append(all, emptyCall)
	buf, v := make([]byte, 0, 256), sample
	encode, err := compare(ctx, len(all), rounds, func(i int) error {
		_, err := all[i].append(buf, &v)
		return err
	})
	if err != nil {
		return err
	}
	decode, err := compare(ctx, len(all), rounds, func(i int) error {
		return all[i].decode(keys[i], &v)
	})
	for i, c := range all {
		if err != nil {
			return err
		}
		f := result.Figures{keyBytes: float64(len(keys[i])), report.Rounds: float64(rounds)}
		encode[i].set(f, "encode")
		decode[i].set(f, "decode")
		err = emit(result.Record{Table: tableCodecs, Case: "a key of three fields", Engine: c.name,
			Figures: f})
	}
	return err
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
func compare(ctx context.Context, n, rounds int, op func(i int) error) ([]cost, error) {
	times, err := measure.Turns(ctx, rounds, n, func(_, i int) (float64, error) {
		start := time.Now()
		for range opsPerTurn {
			if err := op(i); err != nil {
				return 0, err
			}
		}
		return float64(time.Since(start)) / opsPerTurn, nil
	})
	costs := make([]cost, n)
	for i := range costs {
		if err != nil {
			return nil, err
		}
		c := &costs[i]
		*c, err = allocated(opsPerTurn, func(int) error { return op(i) })
		c.nanos, c.ratio = times.Median(i), times.Ratio(i, 0)
	}
	return costs, err
}

// allocated runs op n times and returns what one of them allocates.
func allocated(n int, op func(i int) error) (c cost, err error) {
	c.allocs, c.bytes, err = measure.Allocated(func() error {
		for i := range n {
			if err := op(i); err != nil {
				return err
			}
		}
		return nil
	})
	c.allocs, c.bytes = c.allocs/float64(n), c.bytes/float64(n)
	return c, err
}
