package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

// handle is an open database. Each connector and each connection that uses it holds a
// reference; the last one closes it.
type handle struct {
	db      *table.DB
	engine  *engine.DB // nil of a database that is the program's
	path    string
	options string // source.text
	refs    int    // Guarded by handles.mu
}

// handles are the open databases of directories, by their paths.
var handles = struct {
	mu   sync.Mutex
	open map[string]*handle
}{open: map[string]*handle{}}

// open returns the handle of a database with one more reference. Why it opens it under the lock:
// a second one would be refused by the lock of the directory.
func (s *source) open(ctx context.Context) (*handle, error) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	if h := handles.open[s.path]; h != nil {
		if h.options != s.text {
			return nil, fmt.Errorf("kstone: %s is open already, with the options %q, not %q",
				s.path, h.options, s.text)
		}
		h.refs++
		return h, nil
	}
	e, err := engine.Open(s.path, &s.engine)
	if err != nil {
		return nil, err
	}
	db, err := local.Open(ctx, e, &s.table)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	h := &handle{db: db, engine: e, path: s.path, options: s.text, refs: 1}
	if !s.engine.InMemory {
		handles.open[s.path] = h
	}
	return h, nil
}

// hold adds a reference.
func (h *handle) hold() *handle {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	h.refs++
	return h
}

// release removes one. Why it closes under the lock: the next open waits for it.
func (h *handle) release() error {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	if h.refs--; h.refs > 0 || h.engine == nil {
		return nil
	}
	if handles.open[h.path] == h {
		delete(handles.open, h.path)
	}
	return errors.Join(h.db.Close(), h.engine.Close())
}
