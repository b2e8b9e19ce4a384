package engine

import (
	"context"
	"sync"
	"time"
)

// limiter spaces out the bytes that merges write, or a checkpoint copies.
type limiter struct {
	perSecond int64 // 0 means no limit
	mu        sync.Mutex
	next      time.Time // when the bytes so far are paid for; guarded by mu
}

// wait pays for n bytes.
func (l *limiter) wait(ctx context.Context, n int64) error {
	if l.perSecond == 0 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	pause := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(float64(n) / float64(l.perSecond) * float64(time.Second)))
	l.mu.Unlock()
	return sleep(ctx, pause)
}
