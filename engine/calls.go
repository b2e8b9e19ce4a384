package engine

import (
	"context"
	"sync"
)

// calls counts the calls under way that write files or take long: flushes, merges,
// checkpoints, edits of properties, verification. Close tells them to end and waits
// for them, so that nothing they need disappears while they run; what would look to
// them like a failure of the disk.
type calls struct {
	mu     sync.Mutex
	closed bool // guarded by mu
	active sync.WaitGroup
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelCauseFunc
}

func (c *calls) init() {
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
}

// begin lets a call in. If it returns nil, the caller must call end.
func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.active.Add(1)
	return nil
}

func (c *calls) end() { c.active.Done() }

// within returns a context that ends with ctx, and with Close: then its cause is
// ErrClosed. The caller must call stop.
func (c *calls) within(ctx context.Context) (both context.Context, stop func()) {
	both, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return both, func() { unhook(); cancel(nil) }
}

var errNoContext = invalid("the context is nil: pass context.Background() for none")

// usable returns why a call must not begin with ctx: it is nil, or has ended.
func usable(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	return context.Cause(ctx)
}

// close refuses further calls and waits until those under way have ended.
func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(ErrClosed)
	c.active.Wait()
}
