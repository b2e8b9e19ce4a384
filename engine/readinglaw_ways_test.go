package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/kstonedb/kstone/engine"
)

// lawReader is a Reader that also shows blocks.
type lawReader interface {
	engine.Reader
	ScanBlocks(context.Context, engine.Scan, func(*engine.Block) bool) error
}

// Ways of reading that are not as the others.
const (
	lawCounts  = 2 // so many count
	lawMerged  = 3 // orders by sort key
	lawNoSince = 4 // the last one without Since
	lawWays    = 12
)

// agrees compares one way of reading with the truth, at a version; 0 is that of a transaction.
func (w *lawWorld) agrees(r lawReader, version uint64, truth []lawState, rnd *rand.Rand) {
	s, want, way := lawScan(rnd), []string{}, rnd.IntN(lawWays)
	if way > lawNoSince && rnd.IntN(4) == 0 {
		s.Since = version - min(version, rnd.Uint64N(20))
	}
	text := func(k engine.Key, number uint64) string {
		if way == lawMerged {
			return fmt.Sprintf("%s %s %d", k.SK, k.PK, number)
		}
		return fmt.Sprintf("%s %s %d", k.PK, k.SK, number)
	}
	for i, k := range w.keys {
		v := truth[i].version
		if truth[i].there && (v > s.Since || v == 0) && selects(s, k.Key) {
			want = append(want, text(k.Key, truth[i].number))
		}
	}
	slices.Sort(want)
	if way < lawCounts {
		n, err := r.CountScan(ctx, s)
		if ok(w.t, err); n != int64(len(want)) {
			w.t.Errorf("%T counts %+v at %d: %d, want %d", r, s, version, n, len(want))
		}
		return
	}
	var got []string
	w.by(r, way, &s, rnd, func(it engine.Item) {
		got = append(got, text(it.Key, stateOf(it).number))
	})
	switch {
	case s.Unordered:
		slices.Sort(got)
	case s.Reverse:
		slices.Reverse(want)
	}
	if s.Limit > 0 {
		want = want[:min(len(want), s.Limit)]
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("way %d of %T, scan %+v at %d:\ngot  %s\nwant %s", way, r, s, version,
			strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// by reads what a scan selects in one way, with what it adds to the scan.
func (w *lawWorld) by(r lawReader, way int, s *engine.Scan, rnd *rand.Rand,
	take func(engine.Item)) {
	all := func(seq iter.Seq2[engine.Item, error]) {
		for it, err := range seq {
			ok(w.t, err)
			take(it)
		}
	}
	snap, moment := r.(*engine.Snapshot)
	switch {
	case way == lawCounts:
		var keys []engine.Key
		for _, k := range w.keys {
			if selects(*s, k.Key) {
				keys = append(keys, k.Key)
			}
		}
		slices.SortFunc(keys, compareKeys)
		var found engine.Results
		ok(w.t, r.MultiGet(ctx, keys, &found))
		for _, it := range found.All() {
			take(it)
		}
	case way <= lawNoSince:
		s.Reverse, s.Limit = rnd.IntN(2) == 0, rnd.IntN(4)
		all(r.Gather(ctx, engine.Gather{PKs: w.selected(*s), ByPartition: way != lawMerged,
			Reverse: s.Reverse, Limit: s.Limit}))
	case way == 5:
		s.Unordered = true
		all(r.Scan(ctx, *s))
	case way < 9:
		s.Reverse, s.Limit = rnd.IntN(2) == 0, rnd.IntN(4)
		all(r.Scan(ctx, *s))
	case way == 9:
		for _, p := range w.selected(*s) {
			all(r.Query(ctx, engine.Query{PK: p, Since: s.Since}))
		}
	case way == 10 && moment:
		var mu sync.Mutex
		ok(w.t, snap.ScanParallel(ctx, *s, 2, func(it engine.Item) error {
			mu.Lock()
			defer mu.Unlock()
			take(it)
			return nil
		}))
		s.Unordered = true
	default:
		s.Unordered = rnd.IntN(2) == 0
		ok(w.t, r.ScanBlocks(ctx, *s, func(b *engine.Block) bool {
			for i := range b.Len() {
				it, err := b.Item(i)
				ok(w.t, err)
				take(it)
			}
			return true
		}))
	}
}

// selected returns the partitions that a scan selects.
func (w *lawWorld) selected(s engine.Scan) (pks [][]byte) {
	for _, k := range w.keys {
		if selects(s, k.Key) {
			pks = append(pks, k.PK)
		}
	}
	slices.SortFunc(pks, bytes.Compare)
	return slices.CompactFunc(pks, bytes.Equal)
}

// lawScan draws a span of partitions: the same few, again and again.
func lawScan(rnd *rand.Rand) engine.Scan {
	spans := []engine.Scan{
		{}, {From: pk("b"), To: pk("c")}, {From: pk("b00"), To: pk("b05")}, {From: pk("b07")},
	}
	return spans[rnd.IntN(len(spans))]
}

// selects reports whether a scan selects a key.
func selects(s engine.Scan, k engine.Key) bool {
	return bytes.Compare(k.PK, s.From.PK) >= 0 &&
		(s.To.PK == nil || bytes.Compare(k.PK, s.To.PK) < 0)
}
