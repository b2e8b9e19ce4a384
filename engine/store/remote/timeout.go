package remote

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Within returns a context that ends after d, or DefaultTimeout if that is 0, at the latest if ctx
// has no deadline. Its cause then says so.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	d = cmp.Or(d, DefaultTimeout)
	return context.WithTimeoutCause(ctx, d, &timeoutError{d})
}

// timeoutError is that of a call whose context had no deadline.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no answer within %v, the store's own timeout", e.after)
}

func (e *timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}
