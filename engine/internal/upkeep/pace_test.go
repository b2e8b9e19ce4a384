package upkeep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDutyCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		duty, begin := BeginDuty(), time.Now()
		const ms = time.Millisecond
		for _, work := range []time.Duration{0, 3 * ms, 1000 * ms, ms} {
			time.Sleep(work)
			before := time.Now()
			ok(t, duty.Rest(ctx))
			if got, want := time.Since(before), min(work, maxRest); got != want {
				t.Errorf("after %v of work: a rest of %v, want %v", work, got, want)
			}
		}
		time.Sleep(ms)
		cancel()
		if err := duty.Rest(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled after %v: %v", time.Since(begin), err)
		}
	})
}
