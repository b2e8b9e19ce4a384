package remote

import (
	"context"
	"sync/atomic"
)

// LateView is a view whose moment its first read fixes. While that is under way other reads wait.
type LateView struct {
	View
	fixed func() error
	turn  chan struct{} // holds one while a first read is under way
	done  atomic.Bool   // the moment is fixed
}

// Late returns a reader of one view: see store.LateSnapshots. The views of r itself are used to see
// whether it may be read still.
func Late(r Reader, v View, fixed func() error) Reader {
	late, open := newLateView(v, fixed), r.View
	r.View = func(ctx context.Context, point bool) (View, func(), error) {
		_, end, err := open(ctx, point)
		return late, end, err
	}
	return r
}

func newLateView(v View, fixed func() error) *LateView {
	return &LateView{View: v, fixed: fixed, turn: make(chan struct{}, 1)}
}

// Do runs a read of the view.
func (v *LateView) Do(ctx context.Context, read func() error) error {
	if v.done.Load() {
		return read()
	}
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := read()
	if err == nil && !v.done.Load() {
		if err = v.fixed(); err == nil {
			v.done.Store(true)
		}
	}
	return err
}

// Get implements View.
func (v *LateView) Get(ctx context.Context, keys [][]byte) (pairs []Pair, err error) {
	err = v.Do(ctx, func() (err error) {
		pairs, err = v.View.Get(ctx, keys)
		return err
	})
	return pairs, err
}

// Pages implements View.
func (v *LateView) Pages(ctx context.Context, spans []Span) (pages []Page, err error) {
	err = v.Do(ctx, func() (err error) {
		pages, err = v.View.Pages(ctx, spans)
		return err
	})
	return pages, err
}
