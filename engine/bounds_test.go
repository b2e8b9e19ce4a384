package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// boundaryKeys are keys next to each other in every way: items without sort key, keys that
// begin each other, and zero bytes, in ascending order. Every second of them is stored.
func boundaryKeys() (all, stored []engine.Key) {
	for _, pk := range []string{"a", "a\x00", "a\x00\x01", "ab", "b", "\xff"} {
		all = append(all, engine.K(pk))
		for _, sk := range []string{"\x00", "\x00\x00", "\x01", "m", "m\x00", "\xff",
			"\xff\xff"} {
			all = append(all, engine.K(pk, sk))
		}
	}
	slices.SortFunc(all, compareKeys)
	for i, k := range all {
		if i%3 > 0 {
			stored = append(stored, k)
		}
	}
	return all, stored
}

// openKeys returns a database with the keys, half of them in files.
func openKeys(t *testing.T, keys []engine.Key) *engine.DB {
	t.Helper()
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for half := range 2 {
		for i, k := range keys {
			if i%2 == half {
				ok(t, db.Put(k, nil))
			}
		}
		if half == 0 {
			ok(t, db.Flush(ctx))
		}
	}
	return db
}

// Scans between any two keys, each included or excluded, in both directions, return what a
// sorted list has between them.
//
// Promise (reads and writes): Scans between any keys, conditions with the item without sort key,
// and iterators both ways are what a sorted list says. Also `TestConditionsOrNone`,
// `TestRangesAgainstModel`.
func TestScanBounds(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	all, stored := boundaryKeys()
	db := openKeys(t, stored)
	bounds := append([]engine.Key{{}}, all...)
	for i, from := range bounds {
		for j, to := range bounds {
			if (i+j)%3 > 0 && i*j > 0 { // a third of the pairs
				continue
			}
			for flags := range 8 {
				s := engine.Scan{
					From: from, To: to, FromExcluded: flags&1 > 0, ToIncluded: flags&2 > 0,
					Reverse: flags&4 > 0, Unordered: (i+j)%2 > 0,
				}
				var want []engine.Key
				for _, k := range stored {
					if inBounds(&s, k) {
						want = append(want, k)
					}
				}
				var got []engine.Key
				for it, err := range db.Scan(ctx, s) {
					ok(t, err)
					got = append(got, it.Clone().Key)
				}
				if s.Reverse {
					slices.Reverse(got)
				}
				if s.Unordered {
					slices.SortFunc(got, compareKeys)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%+v: %q, want %q", s, got, want)
				}
			}
		}
	}
}

func TestBadScanBounds(t *testing.T) {
	db := openKeys(t, nil)
	empty := []byte{}
	for _, k := range []engine.Key{{SK: []byte("s")}, {PK: empty, SK: []byte("s")}} {
		wantIs(t, second(db.CountScan(ctx, engine.Scan{From: k})), engine.ErrEmptyPK)
		wantIs(t, second(db.CountScan(ctx, engine.Scan{To: k})), engine.ErrEmptyPK)
	}
	bad := engine.Key{PK: []byte("p"), SK: empty}
	wantIs(t, second(db.CountScan(ctx, engine.Scan{From: bad})), engine.ErrEmptySK)
	wantIs(t, second(db.CountScan(ctx, engine.Scan{To: bad})), engine.ErrEmptySK)
}

// A cursor of a scan belongs to its bounds.
func TestCursorsKnowScanBounds(t *testing.T) {
	db := openKeys(t, nil)
	s := engine.Scan{From: engine.K("a", "m"), To: engine.K("b", "m")}
	s.After = s.CursorAfter(engine.Item{Key: engine.K("a", "n")})
	ok(t, lastOf(db.Scan(ctx, s)))
	for _, change := range []func(s *engine.Scan){
		func(s *engine.Scan) { s.From.SK = nil },
		func(s *engine.Scan) { s.To = engine.K("b", "n") },
		func(s *engine.Scan) { s.FromExcluded = true },
		func(s *engine.Scan) { s.ToIncluded = true },
	} {
		other := s
		change(&other)
		wantIs(t, lastOf(db.Scan(ctx, other)), engine.ErrInvalidCursor)
	}
}

// A condition without lower bound may include the item without sort key, for reads and
// deletes; with a lower bound that is an error.
func TestConditionsOrNone(t *testing.T) {
	m := []byte("m")
	pk := []byte("a")
	below := func(sk []byte) bool { return bytes.Compare(sk, m) < 0 }
	atMost := func(sk []byte) bool { return bytes.Compare(sk, m) <= 0 }
	conditions := map[string]struct {
		cond engine.SKCondition
		want func(sk []byte) bool // nil stands for an invalid one
	}{
		"less":          {engine.SKLess(m), below},
		"less or equal": {engine.SKLessEqual(m), atMost},
		"range":         {engine.SKRange(nil, m), below},
		"open range":    {engine.SKRange(nil, nil), func([]byte) bool { return true }},
		"between":       {engine.SKBetween(nil, m), atMost},
		"none alone":    {engine.SKRange(nil, []byte{}), func(sk []byte) bool { return sk == nil }},
		"less nothing":  {engine.SKLess(nil), func(sk []byte) bool { return sk == nil }},
		"prefix":        {engine.SKBeginsWith(nil), func([]byte) bool { return true }},
		"any":           {engine.SKCondition{}, func([]byte) bool { return true }},
		"equal":         {engine.SKEqual(m), nil},
		"greater":       {engine.SKGreater(m), nil},
		"from":          {engine.SKRange(m, nil), nil},
		"begins":        {engine.SKBeginsWith(m), nil},
	}
	_, stored := boundaryKeys()
	stored = append(stored, engine.Key{PK: pk}) // and the item without sort key
	for name, c := range conditions {
		t.Run(name, func(t *testing.T) {
			db := openKeys(t, stored)
			var selected, left int64
			for _, k := range stored {
				switch {
				case !bytes.Equal(k.PK, pk):
				case c.want != nil && c.want(k.SK):
					selected++
				default:
					left++
				}
			}
			q := engine.Query{PK: pk, SK: c.cond.OrNone()}
			n, err := db.Count(ctx, q)
			if c.want == nil {
				wantIs(t, err, engine.ErrInvalid)
				wantIs(t, db.DeleteRange(pk, q.SK), engine.ErrInvalid)
				return
			}
			if err != nil || n != selected {
				t.Errorf("%d items (%v), want %d", n, err, selected)
			}
			ok(t, db.DeleteRange(pk, q.SK))
			n, err = db.Count(ctx, engine.Query{PK: pk})
			if err != nil || n != left {
				t.Errorf("%d items are left (%v), want %d", n, err, left)
			}
		})
	}
}

func TestK(t *testing.T) {
	if k := engine.K("p"); string(k.PK) != "p" || k.SK != nil {
		t.Errorf("%q", k)
	}
	if k := engine.K("p", "s"); string(k.PK) != "p" || string(k.SK) != "s" {
		t.Errorf("%q", k)
	}
	wantIs(t, engine.K("p", "").Validate(), engine.ErrEmptySK)
	defer func() {
		if recover() == nil {
			t.Error("two sort keys are accepted")
		}
	}()
	engine.K("p", "s", "t")
}
