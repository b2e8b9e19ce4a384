package store

import (
	"context"
	"strings"

	"github.com/kstonedb/kstone/internal/schemes"
)

// Opener opens the store of a URL. If it waits for others, it returns when ctx ends.
type Opener func(ctx context.Context, url string) (Store, error)

// openers are the back ends that the program has, by the schemes of their URLs.
var openers schemes.Registry[Opener]

// modules are the packages that register schemes when they are imported.
var modules = map[string]string{
	"file":       "engine/local",
	"postgres":   "engine/store/postgres",
	"postgresql": "engine/store/postgres",
	"etcd":       "engine/store/etcd",
	"tikv":       "engine/store/tikv",
}

// Register makes a back end known under a scheme. Its package does so when it is imported. A
// second one of the same scheme is a mistake in the program: Register panics.
func Register(scheme string, open Opener) { openers.Add(scheme, open, "store: two back ends") }

// Schemes returns the schemes that are registered, in order.
func Schemes() []string { return openers.Names() }

// Open opens the store of a URL, such as postgres://user@host/database, by its scheme; a path
// without scheme is that of a directory, file://. The caller must Close the store. The back end's
// package must be imported, if only for that:
//
//	import _ "github.com/kstonedb/kstone/engine/local"
//
// The error of a scheme that is not registered matches ErrInvalid.
func Open(ctx context.Context, url string) (Store, error) {
	if err := CheckContext(ctx); err != nil {
		return nil, err
	}
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		scheme, url = "file", "file://"+url
	}
	if open, ok := openers.Get(scheme); ok {
		return open(ctx, url)
	}
	linked := "this program has none"
	if known := Schemes(); len(known) > 0 {
		linked = "this program has " + strings.Join(known, ", ")
	}
	if module := modules[scheme]; module != "" {
		return nil, invalid("no back end for %s://: import _ %q (%s)", scheme,
			"github.com/kstonedb/kstone/"+module, linked)
	}
	return nil, invalid("no back end for %s:// is known (%s)", scheme, linked)
}
