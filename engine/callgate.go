package engine

import (
	"context"
	"sync"
)

// callGate counts the calls under way that write files or take long: flushes, merges,
// checkpoints, edits of properties, verification, and what layers above do in the background.
// Close cancels them and waits for them. Why: what they need would disappear while they run, which
// looks to them like a failure of the disk.
type callGate struct {
	mu     sync.Mutex
	closed bool // guarded by mu
	active sync.WaitGroup
	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelCauseFunc
}

func (c *callGate) init() {
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
}

// begin lets a call in. The context ends with the given one, and with Close: then its cause is
// ErrClosed. Without an error the caller must call end.
func (c *callGate) begin(ctx context.Context) (both context.Context, end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	c.active.Add(1)
	both, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return both, func() { unhook(); cancel(nil); c.active.Done() }, nil
}

// Background begins a call of a layer above that no caller waits for, such as a sample for
// statistics. Close ends the returned context, with the cause [ErrClosed], and waits for end, so
// that snapshots which the call closes before are not left open. Without an error the caller
// must call end.
func (db *DB) Background(ctx context.Context) (both context.Context, end func(), err error) {
	if err := usable(ctx); err != nil {
		return nil, nil, err
	}
	return db.calls.begin(ctx)
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
func (c *callGate) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(ErrClosed)
	c.active.Wait()
}
