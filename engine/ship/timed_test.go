package ship_test

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/vfs"
)

// silent is a destination that does not answer an operation.
type silent struct {
	ship.Destination
	in string
}

func (d *silent) List(ctx context.Context, prefix string) ([]ship.Info, error) {
	if d.in != "list" {
		return d.Destination.List(ctx, prefix)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func (d *silent) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if d.in == "get" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	r, err := d.Destination.Get(ctx, name, off, n)
	if err == nil && d.in == "read" {
		r = silentBody{r, ctx}
	}
	return r, err
}

type silentBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of one call
}

func (b silentBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, context.Cause(b.ctx)
}

// No operation takes longer than Timeout says.
func TestTimeout(t *testing.T) {
	h := newHarbor(t)
	ok(t, h.start(ship.Options{}).Close(ctx))
	for _, in := range []string{"list", "get", "read"} {
		began := make(chan error, 1)
		go func() {
			o := ship.Options{Timeout: time.Millisecond}
			_, err := ship.Start(h.db, &silent{h.dest, in}, &o)
			began <- err
		}()
		if err := received(t, began); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// A list has ten times the Timeout; ten times the longest one is not less.
func TestLongestTimeout(t *testing.T) {
	h := newHarbor(t)
	ok(t, h.start(ship.Options{Timeout: math.MaxInt64}).Close(ctx))
}

// A follower, which nobody else ends, does not wait for ever either.
func TestFollowerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarbor(t)
		h.put()
		ok(t, h.start(ship.Options{}).Close(ctx))
		_, err := ship.FollowOn(ctx, &silent{h.dest, "list"}, vfs.NewMem(), "copy", nil)
		if err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Error(err)
		}
	})
}
