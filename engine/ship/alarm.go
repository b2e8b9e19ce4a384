package ship

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"
)

// alarm reports the errors and the silence of a shipper or a follower.
type alarm struct {
	doing   string // shipping, following
	logger  *slog.Logger
	onError func(error) // nil: only the logger gets it
}

// watch reports silence, once until it is over, and once more when its cause is known. State
// returns the present error, and whether it has ended everything, which is reported elsewhere. Why
// not the goroutine that works: an operation of the destination may hang.
func (a *alarm) watch(ctx context.Context, every time.Duration, state func() (error, bool)) {
	t := time.NewTicker(every)
	defer t.Stop()
	var known *SilentError // what was reported
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err, ended := state()
		var silent *SilentError
		if !errors.As(err, &silent) {
			known = nil
		} else if !ended && (known == nil || known.Cause == nil && silent.Cause != nil) {
			known = silent
			a.report(err)
		}
	}
}

func (a *alarm) report(err error) {
	a.logger.Error(a.doing, "err", err)
	if a.onError != nil {
		a.onError(err)
	}
}

// overdue returns a *SilentError if there has been no success for two intervals, of a work that has
// begun at a time.
func overdue(begin, success time.Time, interval time.Duration, cause error) error {
	since := success
	if since.IsZero() {
		since = begin
	}
	if now().Sub(since) > 2*interval {
		return &SilentError{Since: since, Cause: cause}
	}
	return nil
}

// waitUntil returns when state says that it is done, or what has ended the work. State returns a
// channel that is closed when it changes. Why describes a wait that ends otherwise.
func waitUntil(ctx context.Context, ended <-chan struct{}, why func() error,
	state func() (done bool, changed <-chan struct{}, fatal error)) error {
	for {
		done, changed, fatal := state()
		switch {
		case done:
			return nil
		case fatal != nil:
			return fatal
		}
		select {
		case <-changed:
		case <-ended:
			return cmp.Or(why(), errClosed)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), why())
		}
	}
}
