package remotetest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// soon is how long a call takes at most that has nothing to wait for.
const soon = 5 * time.Second

// Closed closes a store, twice, and checks that calls of it, and of a snapshot, say so.
func Closed(t *testing.T, s store.Store) {
	t.Helper()
	snap, err := s.Snapshot(context.Background())
	testutil.OK(t, err)
	testutil.OK(t, snap.Close())
	testutil.OK(t, s.Close())
	testutil.OK(t, s.Close())
	calls := append(storetest.Calls(), storetest.Call{Name: "begin",
		Do: func(ctx context.Context, s store.Store, _ store.Reader) error {
			_, err := s.(store.Transactor).Begin(ctx, nil)
			return err
		}})
	for _, call := range calls {
		err := call.Do(context.Background(), s, snap)
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", call.Name, err)
		}
	}
}

// Unanswered makes a call of a store that gets no answer, twice: it ends with its context, and with
// the timeout of the store, and says so. The errors are returned.
func Unanswered(t *testing.T, call storetest.Call, s store.Store, r store.Reader) (errs [2]error) {
	t.Helper()
	for i, want := range []string{"deadline", "the store's own timeout"} {
		ctx, cancel := context.WithCancel(context.Background())
		if i == 0 {
			ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
		}
		begun := time.Now()
		err := call.Do(ctx, s, r)
		cancel()
		if d := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), want) || d > soon {
			t.Errorf("%s: after %v: %v, want %q", call.Name, d, err, want)
		}
		errs[i] = err
	}
	return errs
}

// BadURLs checks that URLs are refused at once, with a text, and without the password "secret".
func BadURLs[S any](
	t *testing.T, open func(context.Context, string) (S, error), urls map[string]string,
) {
	t.Helper()
	for url, want := range urls {
		_, err := open(context.Background(), url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// NoServer checks that Open ends with its deadline where nothing listens, nothing answers, or
// something else does.
func NoServer[S any](
	t *testing.T, open func(ctx context.Context, url string) (S, error), kind string,
) {
	t.Helper()
	var at [3]net.Listener
	for i := range at {
		var err error
		at[i], err = net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		defer at[i].Close()
	}
	free, silent, other := at[0], at[1], at[2]
	testutil.OK(t, free.Close())
	go func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "220 mail.example ESMTP\r\n")
			_ = conn.Close()
		}
	}()
	for _, l := range []net.Listener{free, silent, other} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		begun := time.Now()
		_, err := open(ctx, kind+"://"+l.Addr().String()+"/x")
		cancel()
		if err == nil || !strings.Contains(err.Error(), l.Addr().String()) ||
			!strings.Contains(err.Error(), "check the addresses") ||
			l == free && !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error: %v", err)
		}
		if d := time.Since(begun); d > soon {
			t.Errorf("took %v", d)
		}
	}
}
