package remote

import (
	"context"
	"sync"
	"sync/atomic"
)

// LateView is a view whose moment its first read fixes. While that is under way other reads wait.
type LateView struct {
	View
	fixed func() error
	mu    sync.Mutex
	done  atomic.Bool // the moment is fixed
}

// Late returns a reader of one view: see store.LateSnapshots. The views of r itself are used to see
// whether it may be read still.
func Late(r Reader, v View, fixed func() error) Reader {
	late, open := &LateView{View: v, fixed: fixed}, r.View
	r.View = func(ctx context.Context, point bool) (View, func(), error) {
		_, end, err := open(ctx, point)
		return late, end, err
	}
	return r
}

// Do runs a read of the view.
func (v *LateView) Do(read func() error) error {
	if v.done.Load() {
		return read()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
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
	err = v.Do(func() (err error) {
		pairs, err = v.View.Get(ctx, keys)
		return err
	})
	return pairs, err
}

// Pages implements View.
func (v *LateView) Pages(ctx context.Context, spans []Span) (pages []Page, err error) {
	err = v.Do(func() (err error) {
		pages, err = v.View.Pages(ctx, spans)
		return err
	})
	return pages, err
}
