package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
)

// ErrUnconditional is the error of a server without conditional writes: two shippers would
// overwrite each other.
var ErrUnconditional = errors.New("s3: the server has no conditional writes (If-None-Match), " +
	"which a destination needs: use another server, or a newer version of it")

// probeName is the object that shows that the server refuses to overwrite. It stays.
const probeName = "probe"

// probe returns an error if the server lets puts overwrite. It asks until the first success.
func (d *Destination) probe(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	const content = "kstone has found out that this server refuses to overwrite.\n"
	for range 2 {
		if d.probed {
			return nil
		}
		err := d.put(ctx, probeName, strings.NewReader(content), int64(len(content)))
		switch {
		case errors.Is(err, fs.ErrExist):
			d.probed = true
		case answer(err).StatusCode == http.StatusNotImplemented:
			return fmt.Errorf("%w: %s: %w", ErrUnconditional, d, err)
		case err != nil:
			return err
		}
	}
	if !d.probed {
		return fmt.Errorf("%w: %s: it has overwritten object %q", ErrUnconditional, d,
			probeName)
	}
	return nil
}

// answer returns what the server has said of an error, or nothing.
func answer(err error) (r minio.ErrorResponse) {
	errors.As(err, &r)
	return r
}

// failed returns the error of an operation: what, where, why, and what to do.
func (d *Destination) failed(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	remedy := ""
	switch answer(err).Code {
	case minio.NoSuchKey:
		return &fs.PathError{Op: op, Path: d.String() + name, Err: fs.ErrNotExist}
	case minio.NoSuchBucket:
		remedy = " (create the bucket)"
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch":
		remedy = " (check the credentials, and that they may put, get, list and delete objects)"
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect":
		remedy = " (check region=)"
	default:
		if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			remedy = " (insecure=true is for servers without TLS)"
		}
	}
	return fmt.Errorf("s3: %s %s%s: %w%s", op, d, name, err, remedy)
}
