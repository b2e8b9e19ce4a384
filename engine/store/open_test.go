package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
)

var asked string // the URL that the back end of mem was asked for

// register registers the back end, once however often its test runs.
var register = sync.OnceFunc(func() {
	store.Register("mem", func(_ context.Context, url string) (store.Store, error) {
		asked = url
		return remotetest.New(false, 1), nil
	})
})

// Open finds the back end of a URL, and its error names what to import and what is there.
//
// Promise (reads and writes): A URL opens the store of its scheme; one that is not linked is an
// error that names the import.
func TestOpen(t *testing.T) {
	ctx := context.Background()
	register()
	s, err := store.Open(ctx, "mem://here/x?y=z")
	if err != nil || asked != "mem://here/x?y=z" {
		t.Fatalf("%v, asked for %q", err, asked)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for url, want := range map[string]string{
		"postgres://h/d": `kstone/engine/store/postgres" (this program has mem)`,
		"some/directory": `import _ "github.com/kstonedb/kstone/engine/local"`,
		"nothing://x":    "no back end for nothing:// is known",
	} {
		_, err := store.Open(ctx, url)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := store.Open(over, "mem://x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}
