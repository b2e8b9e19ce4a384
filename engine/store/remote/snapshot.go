package remote

import (
	"context"
	"fmt"
	"net/url"
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

// ParseURL reads kind://HOST:PORT,.../NAME and parameters. Errors do not have its password.
func ParseURL(kind, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		if e, ok := err.(*url.Error); ok { //nolint:errorlint // it is that of Parse
			err = e.Err
		}
		return nil, fmt.Errorf("%w: each address is HOST:PORT", err)
	}
	if u.Scheme != kind || u.Host == "" {
		return nil, fmt.Errorf("%q is not %s://HOST:PORT,.../NAME", u.Redacted(), kind)
	}
	return u, nil
}
