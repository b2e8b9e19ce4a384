package ship

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Destination holds objects by name: a directory, an object store. Names are short paths with
// slashes, of lower-case letters, digits and "-". All methods may be called concurrently, and end
// with the cause of their context.
//
// An object is there whole or not at all, never changes, and is seen by every call that begins
// after the end of its Put. A destination that breaks this is found out where that is possible
// (docs/format/ship.md).
type Destination interface {
	// Put makes an object, durably, unless there is one of the name: then the error matches
	// fs.ErrExist. After any other error the object may be there. The content is not read after
	// the return.
	Put(ctx context.Context, name string, content io.ReaderAt, size int64) error
	// Get returns n bytes of an object from an offset on, or all from there if n is negative. The
	// error for an object that is not there matches fs.ErrNotExist, from Get or the first Read.
	Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	// List returns the objects whose names begin so, by name.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes an object. That it is not there is no error.
	Delete(ctx context.Context, name string) error
	// Head describes an object. The error matches fs.ErrNotExist if it is not there.
	Head(ctx context.Context, name string) (Info, error)
}

// Info describes an object.
type Info struct {
	Name      string
	SizeBytes int64
	// Modified is when the object was made, by the clock of the destination; zero: unknown.
	Modified time.Time
}

var (
	errExist    = fs.ErrExist
	errNotExist = fs.ErrNotExist
)
