package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
)

var ctx = context.Background()

var ok, wantIs = testutil.OK, testutil.WantIs

func second[T any](_ T, err error) error { return err }

// pk and pksk make keys of strings.
func pk(p string) engine.Key { return engine.Key{PK: []byte(p)} }

func pksk(p, s string) engine.Key { return engine.Key{PK: []byte(p), SK: []byte(s)} }

func id(k engine.Key) string { return string(keycodec.AppendOrdered(nil, k)) }

// compareKeys orders keys as a database does.
func compareKeys(a, b engine.Key) int {
	return cmp.Or(bytes.Compare(a.PK, b.PK), bytes.Compare(a.SK, b.SK))
}

func openDir(t testing.TB, dir string, o *engine.Options) *engine.DB {
	t.Helper()
	db, err := engine.Open(dir, o)
	ok(t, err)
	return db
}

func snapshotOf(t testing.TB, db *engine.DB) *engine.Snapshot {
	t.Helper()
	s, err := db.Snapshot()
	ok(t, err)
	return s
}

// openOn opens a database in directory db of a file system.
func openOn(t testing.TB, fsys vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	db, err := engine.OpenFS(fsys, "db", &o)
	ok(t, err)
	return db
}

func mustClose(t testing.TB, db *engine.DB) {
	t.Helper()
	ok(t, db.Close())
}

// wantValue checks one key; nil means that it must not be there.
func wantValue(t testing.TB, db *engine.DB, k engine.Key, want []byte) {
	t.Helper()
	got, err := db.Get(k)
	if want == nil {
		wantIs(t, err, engine.ErrNotFound)
		return
	}
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("%.40v has %d bytes %.40q, want %d bytes %.40q", k, len(got), got, len(want), want)
	}
}

// listing renders a sequence as "key=value" words, an error as a last word.
func listing(seq iter.Seq2[engine.Item, error]) string {
	var words []string
	for it, err := range seq {
		if err != nil {
			words = append(words, "error: "+err.Error())
			break
		}
		words = append(words, fmt.Sprintf("%s=%s", it.Key, it.Value))
	}
	return strings.Join(words, " ")
}

func takeAll(t *testing.T, seq iter.Seq2[engine.Item, error]) (out []engine.Item) {
	t.Helper()
	for it, err := range seq {
		ok(t, err)
		out = append(out, it.Clone())
	}
	return out
}

// inBounds reports whether a key is between From and To.
func inBounds(s *engine.Scan, k engine.Key) bool {
	if s.From.PK != nil {
		d := compareKeys(k, s.From)
		if d < 0 || d == 0 && s.FromExcluded {
			return false
		}
	}
	if s.To.PK == nil {
		return true
	}
	d := compareKeys(k, s.To)
	return d < 0 || d == 0 && s.ToIncluded
}

// content reads everything by a scan.
func content(t testing.TB, db *engine.DB) map[string]string {
	t.Helper()
	m := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		m[id(it.Key)] = string(it.Value)
	}
	return m
}

// eventually waits until cond holds. It polls, because what it waits for has no event. Its
// time is long, so that on a busy machine only what never comes fails a test.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// within fails the test, with the stacks of all goroutines, if f takes too long.
func within(t testing.TB, d time.Duration, what string, f func()) {
	t.Helper()
	alarm := time.AfterFunc(d, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("%s: still not done after %v\n%s", what, d, stacks))
	})
	defer alarm.Stop()
	f()
}
