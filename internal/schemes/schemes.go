// Package schemes is what packages register for the schemes of URLs when they are imported.
package schemes

import (
	"maps"
	"slices"
	"sync"
)

// Registry has a value for each scheme. The zero Registry is empty. It may be used concurrently.
type Registry[T any] struct {
	mu sync.RWMutex
	of map[string]T // guarded by mu
}

// Add registers a value. A second one of the same scheme is a mistake in the program: Add panics
// with what, such as "store: two back ends".
func (r *Registry[T]) Add(scheme string, v T, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.of[scheme]; twice {
		panic(what + " for " + scheme + "://")
	}
	if r.of == nil {
		r.of = map[string]T{}
	}
	r.of[scheme] = v
}

// Get returns the value of a scheme; ok is false if there is none.
func (r *Registry[T]) Get(scheme string) (v T, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, ok = r.of[scheme]
	return v, ok
}

// Names returns the schemes, in order.
func (r *Registry[T]) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.of))
}
