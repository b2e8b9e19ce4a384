package remote

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/store"
)

// Snapshot is a store.Snapshot over views of one moment.
type Snapshot struct {
	Reader
	closed atomic.Bool
}

// NewSnapshot returns a snapshot whose reads have what view returns, until Close. Kind is that of
// the store, for errors.
func NewSnapshot(kind string, r Reader, view func() (View, error)) *Snapshot {
	s := &Snapshot{Reader: r}
	s.View = func(context.Context, bool) (View, func(), error) {
		if s.closed.Load() {
			return nil, nil, fmt.Errorf("%s: snapshot: %w", kind, store.ErrClosed)
		}
		v, err := view()
		return v, func() {}, err
	}
	return s
}

// Close implements store.Snapshot.
func (s *Snapshot) Close() error {
	s.closed.Store(true)
	return nil
}
