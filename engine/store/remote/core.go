package remote

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/store"
)

// Core is what stores have alike, whatever they keep their pairs in: each embeds one.
type Core struct {
	Reader
	// Kind begins errors.
	Kind string
	// Timeout ends calls whose context has no deadline. 0 means DefaultTimeout.
	Timeout time.Duration
	// Most are the limits.
	Most store.Limits
	// Apply writes pairs.
	Apply func(ctx context.Context, writes []Write) error

	closed atomic.Bool
}

// Register registers what opens the stores of a kind: see store.Register.
func Register[S store.Store](
	kind string, open func(ctx context.Context, url string) (S, error),
) {
	store.Register(kind, func(ctx context.Context, url string) (store.Store, error) {
		s, err := open(ctx, url)
		if err != nil {
			return nil, err // not a nil S
		}
		return s, nil
	})
}

// DefaultTimeout is the timeout of a store that is given none.
const DefaultTimeout = 20 * time.Second

// Limits implements store.Store.
func (c *Core) Limits() store.Limits { return c.Most }

// Shut makes Check fail. It reports whether it did not before.
func (c *Core) Shut() bool { return !c.closed.Swap(true) }

// Closed reports whether Shut was called.
func (c *Core) Closed() bool { return c.closed.Load() }

// Check fails if the store is closed.
func (c *Core) Check() error {
	if c.Closed() {
		return fmt.Errorf("%s: %w", c.Kind, store.ErrClosed)
	}
	return nil
}

// CheckCall fails as well if the context of a call has ended.
func (c *Core) CheckCall(ctx context.Context) error {
	return cmp.Or(store.CheckContext(ctx), c.Check())
}

// Within returns the context of one call, with a deadline.
func (c *Core) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return Within(ctx, c.Timeout)
}

// Of returns a snapshot whose reads have a view of one moment.
func (c *Core) Of(v View) *Snapshot {
	return NewSnapshot(c.Kind, c.Reader, func() (View, error) { return v, c.Check() })
}

// Later returns a snapshot whose moment the first read of v fixes: see store.LateSnapshots.
func (c *Core) Later(ctx context.Context, v View, fixed func() error) (store.Snapshot, error) {
	if err := c.CheckCall(ctx); err != nil {
		return nil, err
	}
	s := c.Of(v)
	s.Reader = Late(s.Reader, v, fixed)
	return s, nil
}

// Property implements store.Store.
func (c *Core) Property(ctx context.Context, name string) ([]byte, bool, error) {
	if err := c.CheckCall(ctx); err != nil {
		return nil, false, err
	}
	v, end, err := c.View(ctx, true)
	if err != nil {
		return nil, false, err
	}
	defer end()
	pairs, err := v.Get(ctx, [][]byte{c.Layout.PropertyKey(name)})
	if err != nil || pairs[0].Value == nil {
		return nil, false, err
	}
	value, _, err := DecodeValue(pairs[0].Value)
	return value, err == nil, err
}

// SetProperty implements store.Store.
func (c *Core) SetProperty(ctx context.Context, name string, value []byte) error {
	write := Write{Key: c.Layout.PropertyKey(name)}
	switch {
	case name == "":
		return fmt.Errorf("%w: %s: a property needs a name", store.ErrInvalid, c.Kind)
	case len(name) > c.Most.KeyBytes || len(value) > c.Most.PropertyBytes:
		return fmt.Errorf("%w: %s: property of %d bytes, limit is %d", store.ErrTooLarge, c.Kind,
			len(value), c.Most.PropertyBytes)
	case value != nil:
		write.Value = AppendValue(nil, value, 0)
	}
	if err := c.CheckCall(ctx); err != nil {
		return err
	}
	return c.Apply(ctx, []Write{write})
}
