package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

// handle is an open database. Each connector and each connection that uses it holds a
// reference; the last one closes it.
type handle struct {
	db      *table.DB
	engine  *engine.DB // nil of a database that is the program's
	place   *place     // nil of it, too
	options string     // source.text
	refs    atomic.Int64
}

// place is the path of a directory. Why a turn: while a database opens or closes a second one would
// be refused by the lock of the directory; those of other paths do not wait.
type place struct {
	path   string
	turn   chan struct{} // holds what has the turn
	handle *handle       // of the open database, or nil. Guarded by turn
	users  int           // what has the turn or waits, and the handle. Guarded by places.mu
}

// places are those in use, by their paths.
var places = struct {
	mu sync.Mutex
	at map[string]*place
}{at: map[string]*place{}}

// enter takes the turn of a path. That of each database in memory is another one.
func enter(ctx context.Context, path string) (*place, error) {
	places.mu.Lock()
	p := places.at[path]
	if p == nil {
		p = &place{path: path, turn: make(chan struct{}, 1)}
		if path != memory {
			places.at[path] = p
		}
	}
	p.users++
	places.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
		return p, nil
	case <-ctx.Done():
		p.leave(1)
		return nil, ctx.Err()
	}
}

// exit gives the turn to the next one.
func (p *place) exit() {
	<-p.turn
	p.leave(1)
}

func (p *place) leave(users int) {
	places.mu.Lock()
	defer places.mu.Unlock()
	if p.users -= users; p.users == 0 && places.at[p.path] == p {
		delete(places.at, p.path)
	}
}

// open returns the handle of a database with one more reference.
func (s *source) open(ctx context.Context) (*handle, error) {
	p, err := enter(ctx, s.path)
	if err != nil {
		return nil, err
	}
	defer p.exit()
	if h := p.handle; h != nil {
		if h.options != s.text {
			return nil, fmt.Errorf("kstone: %s is open already, with the options %q, not %q",
				s.path, h.options, s.text)
		}
		return h.hold(), nil
	}
	e, err := engine.Open(s.path, &s.engine)
	if err != nil {
		return nil, err
	}
	db, err := local.Open(ctx, e, &s.table)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	p.leave(-1)
	p.handle = &handle{db: db, engine: e, place: p, options: s.text}
	return p.handle.hold(), nil
}

// hold adds a reference.
func (h *handle) hold() *handle {
	h.refs.Add(1)
	return h
}

// release removes one.
func (h *handle) release() error {
	if h.engine == nil {
		return nil
	}
	h.place.turn <- struct{}{} // the handle is a user
	defer func() { <-h.place.turn }()
	if h.refs.Add(-1) > 0 {
		return nil
	}
	h.place.handle = nil
	defer h.place.leave(1)
	return errors.Join(h.db.Close(), h.engine.Close())
}
