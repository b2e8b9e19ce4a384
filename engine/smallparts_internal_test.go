package engine

import (
	"context"
	"errors"
	"fmt"
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

func openToClose(t *testing.T) *DB {
	t.Helper()
	db, err := OpenFS(vfs.NewMem(), "db", nil)
	ok(t, err)
	return db
}

// A transaction locks the stripes of what it has read.
func TestTransactionsKnowTheirStripes(t *testing.T) {
	db := openToClose(t)
	defer db.Close()
	ctx := context.Background()
	err := db.Update(ctx, func(tx *Tx) error {
		var want base.StripeSet
		read := func(what string, pk string, err error) {
			t.Helper()
			want.Add(keycodec.Stripe([]byte(pk)))
			if err != nil || tx.own.Stripes() != want {
				t.Errorf("%s: %v, %v", what, tx.own.Stripes(), err)
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
		want.Add(7)
		read("segment", "d", err)
		return nil
	})
	ok(t, err)
}
