package table

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/keycodec"
)

// watchers are the watchers of a table.
type watchers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*rowio.Watcher] // replaced under mu; nil: none
}

// set replaces the list.
func (w *watchers) set(f func(old []*rowio.Watcher) []*rowio.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var old []*rowio.Watcher
	if list := w.list.Load(); list != nil {
		old = *list
	}
	if all := f(old); len(all) > 0 {
		w.list.Store(&all)
	} else {
		w.list.Store(nil)
	}
}

// Watch notifies x of the rows that are written through this DB from now on, until stop is
// called. Writes that began before have ended when it returns. Requires: no transaction that
// has written to the table is under way.
func (t *Table) Watch(x *rowio.Watcher) (stop func()) {
	watch := &t.core.watch
	watch.set(func(old []*rowio.Watcher) []*rowio.Watcher { return append(slices.Clip(old), x) })
	t.core.fence.Lock() // waits for them
	defer t.core.fence.Unlock()
	return func() {
		watch.set(func(old []*rowio.Watcher) []*rowio.Watcher {
			return slices.DeleteFunc(slices.Clone(old),
				func(y *rowio.Watcher) bool { return y == x })
		})
	}
}

// touched are rows whose writes have begun.
type touched struct {
	list  []*rowio.Watcher
	names []string
}

// touch notifies the watchers of the table that a commit is about to write its rows.
func (c *tableCore) touch(w *rowio.Writer) (t touched) {
	list := c.watch.list.Load()
	if list == nil {
		return t
	}
	t.list = *list
	for key := range w.Keys() {
		name := string(keycodec.AppendLengthPrefixed(nil, key))
		t.names = append(t.names, name)
		for _, x := range t.list {
			x.Begin(name)
		}
	}
	return t
}

// end notifies them that the commit has ended.
func (t touched) end() {
	for _, name := range t.names {
		for _, x := range t.list {
			x.End(name)
		}
	}
}

// touch keeps rows until the transaction has ended.
func (tx *Tx) touch(rows touched) {
	if len(rows.names) > 0 {
		tx.touched = append(tx.touched, rows)
	}
}

// ended notifies the watchers that the transaction has ended. Nil has none to notify.
func (tx *Tx) ended() {
	if tx == nil {
		return
	}
	for _, t := range tx.touched {
		t.end()
	}
	tx.touched = nil
}
