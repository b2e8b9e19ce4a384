package s3

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What is done with a content between two reads may take long: only a server that sends nothing is
// idle.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		within, idle := newIdle(context.Background())
		b := &body{ReadCloser: io.NopCloser(strings.NewReader("ab")), ctx: within, idle: idle,
			left: -1}
		for range 2 {
			if _, err := b.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * maxIdle)
		}
		if err := context.Cause(within); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
