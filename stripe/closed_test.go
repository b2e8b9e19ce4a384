package stripe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/stripe"
)

// A group of lookups in stripes that are closed under it ends with ErrClosed. Method: the
// first read of a file closes all stripes, when their views have been loaded already.
func TestLookupsInStripesThatClose(t *testing.T) {
	var w *world
	var others [2]stripe.Stripe
	closed := false
	broken := errors.New("closed meanwhile")
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind != vfstest.OpReadAt || closed {
			return nil
		}
		closed = true
		w.s.Close()
		for i := range others {
			others[i].Close()
		}
		return broken
	})
	closed = true // not while the file is made
	w = newWorld(t, fsys)
	w.commit(put("k", "v"))
	w.flush()
	w.reopen()
	for i := range others {
		others[i].Init(base.StripeID(stripeID+1+i), &w.env, nil)
	}
	closed = false

	ended := make(chan error, 1)
	go func() {
		key := []byte("k")
		ls := make([]base.Lookup, 3)
		var b stripe.Batch
		for i, s := range []*stripe.Stripe{w.s, &others[0], &others[1]} {
			ls[i] = base.Lookup{Key: key, Hash: hashOf(key), Index: uint32(i)}
			b.Add(s, i, i+1)
		}
		ended <- b.Get(ls, base.MaxSeqNum)
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, stripe.ErrClosed) {
			t.Errorf("error %v, want %v", err, stripe.ErrClosed)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the lookups go on for ever")
	}
}

// Nothing is known of a stripe that is closed: a reader that comes to it fails, and does not leave
// it out as one that once had nothing of the span.
func TestClosedStripesLackNothing(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	var known stripe.Known
	lacks := func() bool {
		yes, err := known.Lacks(w.s, []byte("b"), []byte("c"))
		ok(t, err)
		return yes
	}
	if !lacks() {
		t.Error("an empty stripe may have something")
	}
	w.commit(put("b", "v"))
	w.s.Close()
	if lacks() {
		t.Error("a closed stripe lacks what it had")
	}
}
