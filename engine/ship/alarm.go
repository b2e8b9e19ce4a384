package ship

import (
	"context"
	"log/slog"
	"time"
)

// alarm reports what a shipper or a follower cannot do.
type alarm struct {
	doing   string // shipping, following
	logger  *slog.Logger
	onError func(error) // nil: only the logger gets it
}

// watch reports silence, once until it is over. State returns the present error, and whether it
// has ended everything, which is reported elsewhere. Why not the goroutine that works: an
// operation of the destination may hang.
func (a *alarm) watch(ctx context.Context, every time.Duration, state func() (error, bool)) {
	t := time.NewTicker(every)
	defer t.Stop()
	silent := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err, ended := state()
		if err != nil && !ended && !silent {
			a.report(err)
		}
		silent = err != nil
	}
}

func (a *alarm) report(err error) {
	a.logger.Error(a.doing, "err", err)
	if a.onError != nil {
		a.onError(err)
	}
}
