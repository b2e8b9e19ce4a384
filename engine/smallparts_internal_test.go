package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
)

// A failure that is final matches ErrReadOnly and its cause, and nothing else: not a full disk
// either, which would promise that writes succeed again.
func TestReadOnlyErrorMatches(t *testing.T) {
	cause := &CorruptionError{File: "f"}
	err := error(&readOnlyError{fmt.Errorf("write: %w: %w", cause, ErrDiskFull)})
	var found *CorruptionError
	for target, want := range map[error]bool{
		ErrReadOnly: true, ErrCorrupt: true, ErrDiskFull: false, ErrNotFound: false,
		ErrClosed: false,
	} {
		if errors.Is(err, target) != want {
			t.Errorf("matches %v: %t", target, !want)
		}
	}
	if !errors.As(err, &found) || found != cause {
		t.Errorf("the cause is %v", found)
	}
}

func TestSegmentBytes(t *testing.T) {
	const mib = 1 << 20
	for budget, want := range map[int64]int64{
		8 * mib: mib, 16 * mib: mib, 17 * mib: 17 * mib / 16, 192 * mib: 12 * mib,
		256 * mib: 16 * mib, 257 * mib: 16 * mib, 1 << 40: 16 * mib,
	} {
		if got := segmentBytes(budget); got != want {
			t.Errorf("a log of %d bytes has segments of %d, want %d", budget, got, want)
		}
	}
}

// Each database places keys in hash tables and filters in its own way.
func TestNewDatabasesDiffer(t *testing.T) {
	a, b := newState(), newState()
	if a.HashSeed == b.HashSeed || a.DBID == b.DBID || a.NextFile != 1 || a.NextRun != 1 {
		t.Errorf("%+v and %+v", a, b)
	}
}

// The horizon is the oldest number that anybody reads at, and moves when that reader ends,
// whoever ends before.
func TestHorizonFollowsTheOldestReader(t *testing.T) {
	var v visible
	var s snapshots
	s.init(&v)
	check := func(what string, open int, horizon base.SeqNum, seqs ...base.SeqNum) {
		t.Helper()
		got := s.collect()
		if !slices.Equal(got, seqs) || s.horizon() != horizon || s.open() != open {
			t.Errorf("%s: %d at horizon %d, %d open", what, got, s.horizon(), s.open())
		}
	}
	v.reset(10)
	check("nobody", 0, 10)
	var n [5]snapNode
	s.register(&n[0])
	v.reset(20)
	s.register(&n[1])
	s.register(&n[2])
	v.reset(30)
	check("three", 3, 10, 10, 20)
	if err := s.registerAt(&n[3], &n[0]); err != nil {
		t.Fatal(err)
	}
	s.release(&n[0])
	check("the oldest again", 3, 10, 10, 20)
	if err := s.registerAt(&n[4], &n[0]); !errors.Is(err, ErrClosed) {
		t.Errorf("at one that has ended: %v", err)
	}
	s.release(&n[1])
	s.release(&n[3])
	check("the last", 1, 20, 20)
	s.release(&n[2])
	check("none", 0, 30)
}

func openToClose(t *testing.T) *DB {
	t.Helper()
	db, err := OpenFS(vfs.NewMem(), "db", nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A transaction locks the stripes of what it has read.
func TestTransactionsKnowTheirStripes(t *testing.T) {
	db := openToClose(t)
	defer db.Close()
	ctx := context.Background()
	err := db.Update(ctx, func(tx *Tx) error {
		var want stripeSet
		read := func(what string, pk string, err error) {
			t.Helper()
			want.add(keycodec.Stripe([]byte(pk)))
			if err != nil || tx.stripes != want {
				t.Errorf("%s: %v, %v", what, tx.stripes, err)
			}
		}
		_, err := tx.Has(Key{PK: []byte("a")})
		read("key", "a", err)
		_, err = tx.Count(ctx, Query{PK: []byte("b")})
		read("query", "b", err)
		_, err = tx.MultiHas(ctx, []Key{{PK: []byte("c")}}, nil)
		read("keys", "c", err)
		_, err = tx.CountGather(ctx, Gather{PKs: [][]byte{[]byte("d")}})
		read("gathering", "d", err)
		_, err = tx.CountScan(ctx, Scan{Segment: 7, Segments: 256})
		want.add(7)
		read("segment", "d", err)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What a group of lookups has found does not stay in the pool.
func TestPooledLookupsKeepNothing(t *testing.T) {
	db := openToClose(t)
	defer db.Close()
	for _, n := range []int{3, 20, 50} {
		var keys []Key
		for i := range n {
			k := Key{PK: fmt.Append(nil, i)}
			keys = append(keys, k)
			if err := db.Put(k, []byte("value")); err != nil {
				t.Fatal(err)
			}
		}
		l := new(lookups)
		if err := l.take(keys); err != nil {
			t.Fatal(err)
		}
		if err := l.begin(context.Background(), &db.reader); err != nil {
			t.Fatal(err)
		}
		found := 0
		for l.next(context.Background(), &l.lane) {
			found += len(l.list)
		}
		l.end()
		putLookups(l)
		if found != n {
			t.Errorf("%d of %d keys are looked up", found, n)
		}
		for i, f := range l.list[:cap(l.list)] {
			if f.Key != nil || f.Value != nil {
				t.Fatalf("%d keys: lookup %d stays", n, i)
			}
		}
		if l.db != nil || l.tx != nil || l.text != nil {
			t.Error("the database stays")
		}
	}
}
