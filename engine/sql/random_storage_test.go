package sql_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/store"
)

// storageOf returns storage that is empty: each call of the result is a store of another process.
type storageOf = func(t testing.TB, clock func() time.Time) (next func() store.Store)

// otherStorage is what the tests run over instead of the engine of this process, nil for that:
// tools/test-stores.sh sets it.
var otherStorage storageOf

// slowStorage returns a store of the other storage, and what makes each request to it take a while.
var slowStorage func(t testing.TB) (s store.Store, latency func(time.Duration))

// quickLease keeps drops of indexes from waiting long, where processes share the storage.
const quickLease = 20 * time.Millisecond

// transacts reports whether the other storage has transactions.
func transacts(t testing.TB) bool {
	s := otherStorage(t, time.Now)()
	defer s.Close()
	_, ok := s.(store.Transactor)
	return ok
}

// needsTx reports whether a step reads rows and then writes, for which the storage needs
// transactions.
func (w *world) needsTx(s *step) bool {
	switch s.do {
	case doTransaction:
		return true
	case doInsert:
		return s.conflict == "OR IGNORE" || s.conflict == "OR REPLACE" && len(w.unique) > 0
	case doChange:
		return strings.Contains(s.text, "SELECT")
	}
	return false
}

// storage returns the store of a program, and what closes it.
func (p *program) storage(
	t testing.TB, clock func() time.Time, other storageOf,
) (s store.Store, end func() error) {
	t.Helper()
	if other != nil {
		s = other(t, clock)()
		return s, s.Close
	}
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, Clock: clock,
		FlushRecords: p.flushRecords, BlockBytes: p.blockBytes, RetainVersions: p.retain})
	ok(t, err)
	return local.New(e), e.Close
}

// answers are the rows of all queries of a program, in the order in which it asks.
type answers struct {
	list  []string
	known bool // list is complete, and what follows is compared with it
}

// next takes or compares the rows of the next query, in whatever order they come.
func (a *answers) next(query string, rows []string) error {
	if a == nil || a.known && a.list == nil {
		return nil
	}
	text := query + "\n" + strings.Join(slices.Sorted(slices.Values(rows)), "\n")
	if !a.known {
		a.list = append(a.list, text)
		return nil
	}
	if len(a.list) == 0 || a.list[0] != text {
		want := "nothing more"
		if len(a.list) > 0 {
			want = a.list[0]
		}
		return fmt.Errorf("other storage gives\n%.2000s\nthe engine\n%.2000s", text, want)
	}
	if a.list = a.list[1:]; len(a.list) == 0 {
		a.list = []string{}
	}
	return nil
}
