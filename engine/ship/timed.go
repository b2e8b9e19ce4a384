package ship

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

// timed is a destination whose operations end. An operation has a time, and as much again for each
// MiB that it puts. A content that is read has it for each part. A list has it listTimes.
type timed struct {
	Destination
	time time.Duration
}

// defaultTimeout is the time of followers, and of shippers without a choice.
const defaultTimeout = 30 * time.Second

// listTimes is how much longer a list may take: a destination with many objects needs many answers.
const listTimes = 10

func (d *timed) within(ctx context.Context, times int64) (context.Context, context.CancelFunc) {
	t := d.time * time.Duration(times)
	if t/time.Duration(times) != d.time {
		t = math.MaxInt64
	}
	return context.WithTimeoutCause(ctx, t, d.silence(t))
}

func (d *timed) silence(t time.Duration) error {
	return fmt.Errorf("ship: no answer of the destination in %v", t)
}

// Put implements Destination.
func (d *timed) Put(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	ctx, cancel := d.within(ctx, 1+size>>20)
	defer cancel()
	return d.Destination.Put(ctx, name, content, size)
}

// List implements Destination.
func (d *timed) List(ctx context.Context, prefix string) ([]Info, error) {
	ctx, cancel := d.within(ctx, listTimes)
	defer cancel()
	return d.Destination.List(ctx, prefix)
}

// Delete implements Destination.
func (d *timed) Delete(ctx context.Context, name string) error {
	ctx, cancel := d.within(ctx, 1)
	defer cancel()
	return d.Destination.Delete(ctx, name)
}

// Head implements Destination.
func (d *timed) Head(ctx context.Context, name string) (Info, error) {
	ctx, cancel := d.within(ctx, 1)
	defer cancel()
	return d.Destination.Head(ctx, name)
}

// Get implements Destination.
func (d *timed) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &timedBody{d: d, cancel: cancel}
	b.timer = time.AfterFunc(d.time, func() { cancel(d.silence(d.time)) })
	var err error
	b.ReadCloser, err = d.Destination.Get(ctx, name, off, n)
	b.timer.Stop() // the time between two reads is that of the reader
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return b, nil
}

// timedBody is a content that timed returns.
type timedBody struct {
	io.ReadCloser
	d      *timed
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.d.time)
	defer b.timer.Stop()
	return b.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (b *timedBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
