package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// listIterator is what an Iterator should do, over a list in the order of its selection.
type listIterator struct {
	keys []engine.Key
	at   int // -1 before the first
	new  bool
}

func (l *listIterator) next() bool {
	if l.new {
		l.at, l.new = -1, false
	}
	l.at = min(l.at+1, len(l.keys))
	return l.at < len(l.keys)
}

func (l *listIterator) prev() bool {
	if l.new {
		l.at, l.new = len(l.keys), false
	}
	l.at = max(l.at-1, -1)
	return l.at >= 0
}

// walkIterator moves an Iterator and the list at random and compares them.
func walkIterator(
	t *testing.T, rnd *rand.Rand, i *engine.Iterator, want []engine.Key, all []engine.Key,
	reverse bool,
) {
	t.Helper()
	if want = slices.Clone(want); reverse {
		slices.Reverse(want)
	}
	l := listIterator{keys: want, new: true}
	var trace []string
	for range 60 {
		var got, expected bool
		switch n := rnd.IntN(10); {
		case n < 5:
			got, expected = i.Next(), l.next()
			trace = append(trace, "next")
		case n < 8:
			got, expected = i.Prev(), l.prev()
			trace = append(trace, "prev")
		default:
			var k engine.Key
			if rnd.IntN(8) > 0 {
				k = all[rnd.IntN(len(all))]
			}
			trace = append(trace, fmt.Sprintf("seek %q", k))
			l.new, l.at = false, slices.IndexFunc(want, func(w engine.Key) bool {
				d := compareKeys(w, k)
				return k.PK == nil || d == 0 || d > 0 != reverse
			})
			if l.at < 0 {
				l.at = len(want)
			}
			got, expected = i.Seek(k), l.at < len(want)
		}
		item := i.Item().Key
		if got != expected || got && compareKeys(item, want[l.at]) != 0 || i.Err() != nil {
			t.Fatalf("%v: %v at %q (%v), want %v at %d of %q", trace, got, item, i.Err(), expected,
				l.at, want)
		}
		if !got && item.PK != nil {
			t.Fatalf("%v: an item %q where there is none", trace, item)
		}
	}
	ok(t, i.Close())
}

// Iterators of queries and scans of any bounds, in both directions, on a database, a snapshot
// and a transaction with writes of its own, move as over a sorted list, while others write.
func TestIteratorsMoveAsOverAList(t *testing.T) {
	all, stored := boundaryKeys()
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	db := openKeys(t, stored)
	snap, err := db.Snapshot()
	ok(t, err)
	defer func() { ok(t, snap.Close()) }()
	walk := func(r engine.Reader, keys []engine.Key, meanwhile func()) {
		for range 12 {
			s := engine.Scan{Reverse: rnd.IntN(2) == 0, FromExcluded: rnd.IntN(2) == 0,
				ToIncluded: rnd.IntN(2) == 0}
			if rnd.IntN(2) == 0 {
				s.From = all[rnd.IntN(len(all))]
			}
			if rnd.IntN(2) == 0 {
				s.To = all[rnd.IntN(len(all))]
			}
			odd := func(k engine.Key) bool { return len(k.SK)%2 == 1 }
			filtered := rnd.IntN(3) == 0
			if filtered {
				s.Filter = func(it engine.Item) bool { return odd(it.Key) }
			}
			i, err := r.ScanIterator(ctx, s)
			ok(t, err)
			q := engine.Query{PK: all[rnd.IntN(len(all))].PK, Reverse: s.Reverse, Filter: s.Filter}
			j, err := r.QueryIterator(ctx, q)
			ok(t, err)
			meanwhile()
			var inScan, inQuery []engine.Key
			for _, k := range keys {
				if filtered && !odd(k) {
					continue
				}
				if inBounds(&s, k) {
					inScan = append(inScan, k)
				}
				if string(k.PK) == string(q.PK) {
					inQuery = append(inQuery, k)
				}
			}
			walkIterator(t, rnd, i, inScan, all, s.Reverse)
			walkIterator(t, rnd, j, inQuery, all, q.Reverse)
		}
	}
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		var own []engine.Key
		for i, k := range all {
			if ok(t, tx.Put(k, nil)); i%2 == 0 {
				ok(t, tx.Delete(k))
			} else {
				own = append(own, k)
			}
		}
		walk(tx, own, func() {})
		return nil
	}))
	// The transaction has changed the database, not the snapshot.
	var now []engine.Key
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		now = append(now, it.Clone().Key)
	}
	walk(snap, stored, func() {})
	walk(db, now, func() {
		ok(t, db.Put(engine.K("a", "new"), nil))
		ok(t, db.Delete(engine.K("a", "new")))
	})
}

// An Iterator shows the state of its creation, whatever is written, flushed and merged while
// it is open.
func TestIteratorsStayAtTheirState(t *testing.T) {
	_, stored := boundaryKeys()
	db := openKeys(t, stored)
	i, err := db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	j, err := db.QueryIterator(ctx, engine.Query{PK: []byte("a")})
	ok(t, err)
	if !i.Next() || !j.Next() {
		t.Fatal("no first item")
	}
	ok(t, db.DeleteRange([]byte("a"), engine.SKCondition{}))
	ok(t, db.Put(engine.K("a", "new"), nil))
	ok(t, db.Compact(ctx))
	n := 1
	for i.Next() {
		n++
	}
	for i.Prev() {
		n--
	}
	if n != 0 || i.Err() != nil {
		t.Errorf("%d items more forward than backward, %v", n, i.Err())
	}
	n = 1
	for j.Next() {
		n++
	}
	if n != 5 {
		t.Errorf("%d items of the partition, want 5", n)
	}
	ok(t, errors.Join(i.Close(), j.Close()))
}

func TestIteratorsThatAreClosed(t *testing.T) {
	_, stored := boundaryKeys()
	db := openKeys(t, stored)
	i, err := db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	ok(t, i.Close())
	ok(t, i.Close())
	if i.Next() || i.Prev() || i.Seek(engine.K("a")) || i.Item().Key.PK != nil {
		t.Error("a closed iterator moves")
	}
	wantIs(t, i.Err(), engine.ErrClosed)

	stop, cancel := context.WithCancel(ctx)
	i, err = db.QueryIterator(stop, engine.Query{PK: []byte("a")})
	ok(t, err)
	cancel()
	for i.Next() {
		t.Log("read ahead")
	}
	wantIs(t, i.Err(), context.Canceled)
	wantIs(t, i.Close(), context.Canceled)

	db, err = engine.Open("leaks", &engine.Options{InMemory: true})
	ok(t, err)
	ok(t, db.Put(engine.K("a"), nil))
	i, err = db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	if !i.Next() {
		t.Error(i.Err())
	}
	wantIs(t, db.Close(), engine.ErrLeaked)
	if i.Next() {
		t.Error("the iterator of a closed database moves")
	}
	wantIs(t, i.Err(), engine.ErrClosed)
	wantIs(t, i.Close(), engine.ErrClosed)
}

func TestBadIterators(t *testing.T) {
	db := openKeys(t, nil)
	for what, s := range map[string]engine.Scan{
		"limit": {Limit: 1}, "unordered": {Unordered: true}, "segment": {Segment: 3},
	} {
		if i, err := db.ScanIterator(ctx, s); i != nil || !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantIs(t, second(db.QueryIterator(ctx, engine.Query{})), engine.ErrEmptyPK)
	q := engine.Query{PK: []byte("p"), Limit: 1}
	wantIs(t, second(db.QueryIterator(ctx, q)), engine.ErrInvalid)
	i, err := db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	if i.Seek(engine.Key{SK: []byte("s")}) {
		t.Error("a seek of a sort key alone")
	}
	wantIs(t, i.Close(), engine.ErrEmptyPK)
}

// A transaction depends on all that its iterators may move over.
func TestIteratorsConflict(t *testing.T) {
	for name, open := range map[string]func(tx *engine.Tx) (*engine.Iterator, error){
		"scan": func(tx *engine.Tx) (*engine.Iterator, error) {
			return tx.ScanIterator(ctx, engine.Scan{From: engine.K("a"), To: engine.K("b")})
		},
		"query": func(tx *engine.Tx) (*engine.Iterator, error) {
			return tx.QueryIterator(ctx, engine.Query{PK: []byte("a")})
		},
	} {
		_, stored := boundaryKeys()
		db := openKeys(t, stored)
		for _, k := range []engine.Key{engine.K("a", "between"), engine.K("c")} {
			err := db.Update(ctx, func(tx *engine.Tx) error {
				i, err := open(tx)
				ok(t, err)
				i.Next()
				ok(t, i.Close())
				ok(t, db.Put(k, nil))
				return tx.Put(engine.K("z"), nil)
			})
			if want := string(k.PK) == "a"; errors.Is(err, engine.ErrConflict) != want {
				t.Errorf("%s, write of %q: %v", name, k, err)
			}
		}
	}
}
