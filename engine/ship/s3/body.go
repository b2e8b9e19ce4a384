package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// maxIdle bounds the time in which nothing of a content arrives.
const maxIdle = time.Minute

// idle ends a context when nothing has happened for maxIdle.
type idle struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newIdle(ctx context.Context) (context.Context, *idle) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &idle{cancel: cancel, timer: time.AfterFunc(maxIdle, func() {
		cancel(fmt.Errorf("s3: nothing has come from the server for %v", maxIdle))
	})}
}

func (i *idle) stop() {
	i.timer.Stop()
	i.cancel(nil)
}

// body is the content of an object, at most what was asked for.
type body struct {
	io.ReadCloser
	d    *Destination
	ctx  context.Context //nolint:containedctx // of one call
	idle *idle
	name string
	left int64 // negative: all
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	b.idle.timer.Reset(maxIdle)
	n, err := b.ReadCloser.Read(p)
	b.idle.timer.Stop() // the time between two reads is that of the reader
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.d.failed(b.ctx, "read", b.name, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.idle.stop()
	return b.ReadCloser.Close()
}

// lent is a content until its Put returns. Why: after an early answer, or the end of a context, the
// transport may still read.
type lent struct {
	mu      sync.Mutex
	content io.ReaderAt // guarded by mu; nil: Put has returned
}

var errReturned = errors.New("s3: the put has returned")

// ReadAt implements io.ReaderAt.
func (l *lent) ReadAt(p []byte, off int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.content == nil {
		return 0, errReturned
	}
	return l.content.ReadAt(p, off)
}

func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.content = nil
}
