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

// agrees compares one way of reading with the truth, at a version; 0 is that of a transaction.
func (w *lawWorld) agrees(r lawReader, version uint64, truth []lawState, rnd *rand.Rand) {
	s, want, way := lawScan(rnd), []string{}, rnd.IntN(12)
	if way > lawUnversioned && rnd.IntN(4) == 0 {
		s.Since = version - min(version, rnd.Uint64N(20))
	}
	for i, k := range w.keys {
		v := truth[i].version
		if truth[i].there && (v > s.Since || v == 0) && selects(s, k.Key) {
			want = append(want, fmt.Sprintf("%s %s %d", k.PK, k.SK, truth[i].number))
		}
	}
	slices.Sort(want)
	got := w.by(r, way, &s, rnd)
	if s.Limit > 0 {
		want = want[:min(len(want), s.Limit)]
	} else if way < 2 {
		want = []string{fmt.Sprint(len(want))}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		w.t.Errorf("way %d of %T, scan %+v at %d:\ngot  %s\nwant %s", way, r, s, version,
			strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// lawUnversioned is the last way of reading that knows no Since.
const lawUnversioned = 3

// by returns what one way of reading shows.
func (w *lawWorld) by(r lawReader, way int, s *engine.Scan, rnd *rand.Rand) (got []string) {
	take := func(it engine.Item) {
		got = append(got, fmt.Sprintf("%s %s %d", it.Key.PK, it.Key.SK, stateOf(it).number))
	}
	all := func(seq iter.Seq2[engine.Item, error]) {
		for it, err := range seq {
			ok(w.t, err)
			take(it)
		}
	}
	switch way {
	case 0, 1:
		n, err := r.CountScan(ctx, *s)
		ok(w.t, err)
		return []string{fmt.Sprint(n)}
	case 2:
		var keys []engine.Key
		for _, k := range w.keys {
			if selects(*s, k.Key) {
				keys = append(keys, k.Key)
			}
		}
		var found engine.Results
		ok(w.t, r.MultiGet(ctx, keys, &found))
		for _, it := range found.All() {
			take(it)
		}
	case 3:
		all(r.Gather(ctx, engine.Gather{PKs: w.selected(*s), ByPartition: rnd.IntN(2) == 0}))
	case 4, 5:
		s.Unordered = true
		all(r.Scan(ctx, *s))
	case 6:
		s.Reverse = true
		all(r.Scan(ctx, *s))
	case 7, 8:
		s.Limit = 1 + rnd.IntN(4)
		all(r.Scan(ctx, *s))
	case 9:
		for _, p := range w.selected(*s) {
			all(r.Query(ctx, engine.Query{PK: p, Since: s.Since}))
		}
	case 10:
		s.Unordered = rnd.IntN(2) == 0
		ok(w.t, r.ScanBlocks(ctx, *s, func(b *engine.Block) bool {
			for i := range b.Len() {
				it, err := b.Item(i)
				ok(w.t, err)
				take(it)
			}
			return true
		}))
	case 11:
		snap, is := r.(*engine.Snapshot)
		if !is {
			all(r.Scan(ctx, *s))
			break
		}
		var mu sync.Mutex
		ok(w.t, snap.ScanParallel(ctx, *s, 2, func(it engine.Item) error {
			mu.Lock()
			defer mu.Unlock()
			take(it)
			return nil
		}))
	}
	return got
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
