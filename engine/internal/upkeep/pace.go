package upkeep

import (
	"context"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/base"
)

// Limiter spaces out the bytes that merges write, or a checkpoint copies.
type Limiter struct {
	BytesPerSecond int64 // 0 means no limit

	mu   sync.Mutex
	next time.Time // when the bytes so far are paid for; guarded by mu
}

// Wait pays for n bytes.
func (l *Limiter) Wait(ctx context.Context, n int64) error {
	if l.BytesPerSecond == 0 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	pause := l.next.Sub(now)
	l.next = l.next.Add(
		time.Duration(float64(n) / float64(l.BytesPerSecond) * float64(time.Second)))
	l.mu.Unlock()
	return base.Sleep(ctx, pause)
}

// maxRest bounds a rest of a DutyCycle, whatever a slow disk or a busy processor took.
const maxRest = 10 * time.Millisecond

// DutyCycle makes a copy rest for as long as it has worked.
//
// Why: a goroutine in a system call keeps its processor until the runtime notices, up to 20 ms
// later, and calls in a row add up. On two cores a preempted writer waits for all of that. A
// rest hands the processor over at once, and lets the disk catch up.
type DutyCycle struct {
	since time.Time // the end of the last rest
}

// BeginDuty returns a DutyCycle that begins now.
func BeginDuty() DutyCycle { return DutyCycle{since: time.Now()} }

// Rest sleeps for as long as has passed since the last rest.
func (d *DutyCycle) Rest(ctx context.Context) error {
	err := base.Sleep(ctx, min(time.Since(d.since), maxRest))
	d.since = time.Now()
	return err
}
