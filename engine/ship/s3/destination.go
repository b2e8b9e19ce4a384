package s3

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/kstonedb/kstone/engine/ship"
)

// maxObjectBytes is what S3 takes in one request.
const maxObjectBytes = 5 << 30

// markName is the name of the metadata that says which call has put an object.
const markName = "Kstone-Put"

// Destination is a prefix in a bucket. It may be used by many goroutines.
type Destination struct {
	options
	client *minio.Core
	close  func()

	mu     sync.Mutex // held while the server is probed
	probed bool       // guarded by mu: the server refuses to overwrite
}

var _ ship.Destination = (*Destination)(nil)

// String returns the URL, which has no credentials.
func (d *Destination) String() string { return "s3://" + d.bucket + "/" + d.prefix }

// Close closes idle connections. The destination can be used afterwards.
func (d *Destination) Close() error {
	d.close()
	return nil
}

// Put implements ship.Destination.
func (d *Destination) Put(ctx context.Context, name string, content io.ReaderAt, size int64,
) error {
	if size > maxObjectBytes {
		return invalid("%s has %d bytes, an object at most %d", name, size, int64(maxObjectBytes))
	}
	if err := d.probe(ctx); err != nil {
		return err
	}
	return d.put(ctx, name, content, size)
}

func (d *Destination) put(ctx context.Context, name string, content io.ReaderAt, size int64,
) error {
	mark := rand.Text()
	o := minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: true,
		SendContentMd5: true, ContentType: "application/octet-stream",
		UserMetadata: map[string]string{markName: mark}}
	o.SetMatchETagExcept("*")
	l := &lent{content: content}
	_, err := d.client.Client.PutObject(ctx, d.bucket, d.prefix+name,
		io.NewSectionReader(l, 0, size), size, o)
	l.end()
	if err == nil || answer(err).Code != minio.PreconditionFailed {
		return d.failed(ctx, "put", name, err)
	}
	// An attempt before, of this call, may have had its effect.
	info, err := d.head(ctx, name)
	if err != nil {
		return fmt.Errorf("%s was refused as if it were there: %w", name,
			d.failed(ctx, "head", name, err))
	}
	if info.UserMetadata[markName] == mark {
		return nil
	}
	return &fs.PathError{Op: "put", Path: d.String() + name, Err: fs.ErrExist}
}

// Get implements ship.Destination.
func (d *Destination) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if n == 0 {
		_, err := d.Head(ctx, name)
		return io.NopCloser(strings.NewReader("")), err
	}
	var o minio.GetObjectOptions
	switch {
	case n > 0:
		o.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		o.Set("Range", fmt.Sprintf("bytes=%d-", off))
	}
	within, idle := newIdle(ctx)
	r, _, header, err := d.client.GetObject(within, d.bucket, d.prefix+name, o)
	if err != nil {
		idle.stop()
		if answer(err).Code == minio.InvalidRange { // nothing is there from off on
			return io.NopCloser(strings.NewReader("")), nil
		}
		return nil, d.failed(ctx, "get", name, err)
	}
	if first, _, ok := contentRange(header); off > 0 && (!ok || first != off) {
		idle.stop()
		return nil, errors.Join(fmt.Errorf("s3: get %s%s: the server ignores Range, which a "+
			"destination needs", d, name), r.Close())
	}
	idle.timer.Stop()
	return &body{ReadCloser: r, d: d, ctx: within, idle: idle, name: name, left: n}, nil
}

// List implements ship.Destination.
func (d *Destination) List(ctx context.Context, prefix string) (all []ship.Info, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range d.client.ListObjectsIter(ctx, d.bucket, minio.ListObjectsOptions{
		Prefix: d.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, d.failed(ctx, "list", prefix, o.Err)
		}
		all = append(all, ship.Info{Name: strings.TrimPrefix(o.Key, d.prefix), SizeBytes: o.Size,
			Modified: o.LastModified})
	}
	slices.SortFunc(all, func(a, b ship.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, context.Cause(ctx)
}

// Delete implements ship.Destination.
func (d *Destination) Delete(ctx context.Context, name string) error {
	err := d.client.Client.RemoveObject(ctx, d.bucket, d.prefix+name, minio.RemoveObjectOptions{})
	if answer(err).Code == minio.NoSuchKey {
		return nil
	}
	return d.failed(ctx, "delete", name, err)
}

// Head implements ship.Destination.
func (d *Destination) Head(ctx context.Context, name string) (ship.Info, error) {
	info, err := d.head(ctx, name)
	if err != nil {
		return ship.Info{}, d.failed(ctx, "head", name, err)
	}
	return ship.Info{Name: name, SizeBytes: info.Size, Modified: info.LastModified}, nil
}

// head describes an object by getting its first byte.
//
// Why not HEAD: its answers have no body, so that a bucket that is absent, or a gateway that does
// not find the store, look as an object that is absent.
func (d *Destination) head(ctx context.Context, name string) (minio.ObjectInfo, error) {
	var o minio.GetObjectOptions
	o.Set("Range", "bytes=0-0")
	r, info, header, err := d.client.GetObject(ctx, d.bucket, d.prefix+name, o)
	if answer(err).Code == minio.InvalidRange { // it is empty
		r, info, header, err = d.client.GetObject(ctx, d.bucket, d.prefix+name,
			minio.GetObjectOptions{})
	}
	if err != nil {
		return info, err
	}
	if _, size, ok := contentRange(header); ok {
		info.Size = size
	}
	return info, r.Close()
}

// contentRange returns the offset of an answer, and the size of the object.
func contentRange(h http.Header) (first, size int64, ok bool) {
	part, total, ok := strings.Cut(strings.TrimPrefix(h.Get("Content-Range"), "bytes "), "/")
	from, _, ok2 := strings.Cut(part, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	size, err2 := strconv.ParseInt(total, 10, 64)
	return first, size, ok && ok2 && err == nil && err2 == nil
}
