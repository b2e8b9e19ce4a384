package driver

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestSlowOpen: what opens a database waits for those of the same path alone, and for them no
// longer than its context lasts.
func TestSlowOpen(t *testing.T) {
	slow, err := parse(filepath.Join(t.TempDir(), "slow.db"))
	testutil.OK(t, err)
	p, err := enter(t.Context(), slow.path) // as an open that lasts
	testutil.OK(t, err)
	other, err := Driver{}.Open(filepath.Join(t.TempDir(), "other.db"))
	testutil.OK(t, err)
	c := &connector{source: slow}
	ended, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := c.Connect(ended)
		first <- err
	}()
	late, end := context.WithCancel(t.Context())
	end()
	if _, err := c.open(late); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.exit()
	conn, err := c.Connect(t.Context())
	testutil.OK(t, err)
	if err := errors.Join(c.Close(), conn.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if len(places.at) != 0 {
		t.Errorf("%d places are left", len(places.at))
	}
}
