package ship

import (
	"context"
	"strings"

	"github.com/kstonedb/kstone/internal/schemes"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Opener opens the destination of a URL. If it waits for others, it returns when ctx ends.
type Opener func(ctx context.Context, url string) (Destination, error)

// openers are the kinds of destinations that the program has, by the schemes of their URLs.
var openers schemes.Registry[Opener]

// Register makes a kind of destination known under a scheme. Its package does so when it is
// imported. A second one of the same scheme is a mistake in the program: Register panics.
func Register(scheme string, open Opener) { openers.Add(scheme, open, "ship: two destinations") }

// Schemes returns the schemes that are registered, in order.
func Schemes() []string { return openers.Names() }

// OpenDestination opens the destination of a URL, such as s3://bucket/orders, by its scheme; a path
// without scheme is that of a directory. The package of the scheme must be imported, if only for
// that:
//
//	import _ "github.com/kstonedb/kstone/engine/ship/s3"
//
// The error of a scheme that is not registered matches engine.ErrInvalid.
func OpenDestination(ctx context.Context, name string) (Destination, error) {
	scheme, rest, isURL := strings.Cut(name, "://")
	switch {
	case !isURL, scheme == "file":
		if !isURL {
			rest = name
		}
		if st, err := vfs.OS().Stat(rest); err == nil && !st.IsDir {
			return nil, invalid("%s is a file, and a destination a directory; what backup has "+
				"written is restored from -, standard input", rest)
		}
		return Directory(rest), nil
	}
	if open, ok := openers.Get(scheme); ok {
		return open(ctx, name)
	}
	if scheme == "s3" {
		return nil, invalid("no destination for s3:// in this program: import _ %q",
			"github.com/kstonedb/kstone/engine/ship/s3")
	}
	return nil, invalid("no destination for %s:// is known", scheme)
}
