package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// smallKeys are keys that are next to each other in every way: with and without sort key, with
// zero bytes, of partitions of one byte and of two.
func smallKeys() (keys []engine.Key) {
	for _, p := range []string{"a", "a\x00", "b", "bb"} {
		for _, s := range []string{"", "a", "a\x00", "b"} {
			k := pksk(p, s)
			if s == "" {
				k.SK = nil
			}
			keys = append(keys, k)
		}
	}
	return keys
}

// smallDB has the keys of smallKeys in a file, in another one, or in memory.
func smallDB(t *testing.T) *engine.DB {
	t.Helper()
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for third := range 3 {
		for i, k := range smallKeys() {
			if i%3 == third {
				ok(t, db.Put(k, nil))
			}
		}
		if third < 2 {
			ok(t, db.Flush(ctx))
		}
	}
	return db
}

func bySortKey(a, b engine.Key) int {
	if d := bytes.Compare(a.SK, b.SK); d != 0 {
		return d
	}
	return bytes.Compare(a.PK, b.PK)
}

func byPartition(a, b engine.Key) int {
	if d := bytes.Compare(a.PK, b.PK); d != 0 {
		return d
	}
	return bytes.Compare(a.SK, b.SK)
}

// wanted returns the keys that in accepts in an order, after a key, up to a limit, as words.
func wanted(in func(engine.Key) bool, order func(a, b engine.Key) int, reverse bool,
	after *engine.Key, limit int) string {
	keys := smallKeys()
	directed := func(a, b engine.Key) int {
		if reverse {
			return order(b, a)
		}
		return order(a, b)
	}
	slices.SortFunc(keys, directed)
	var words []string
	for _, k := range keys {
		if in(k) && (after == nil || directed(k, *after) > 0) &&
			(limit == 0 || len(words) < limit) {
			words = append(words, fmt.Sprintf("%s=", k))
		}
	}
	return strings.Join(words, " ")
}

// afterEach calls f without a position, and after each key, of an item or not.
func afterEach(f func(after *engine.Key)) {
	f(nil)
	for _, k := range append(smallKeys(), pk("0"), pksk("a", "0"), pksk("aa", "a"), pksk("z",
		"z")) {
		f(&k)
	}
}

func inAnySpan(sk []byte, spans []keycodec.Span) bool {
	return len(spans) == 0 || slices.ContainsFunc(spans, func(s keycodec.Span) bool {
		return sk != nil && bytes.Compare(sk, s.Start) >= 0 &&
			(s.End == nil || bytes.Compare(sk, s.End) < 0)
	})
}

// TestSmallGathers: every gathering of a few partitions, from every position on.
func TestSmallGathers(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := smallDB(t)
	a, a0, b := []byte("a"), []byte("a\x00"), []byte("b")
	spanLists := [][]keycodec.Span{
		nil, {{Start: a}}, {{End: b}}, {{Start: a, End: a0}, {Start: b}}, {{Start: a0, End: a0}},
		{{Start: b, End: a}, {Start: a, End: a0}, {Start: a0, End: b}}, {{End: []byte{}}},
		{{Start: a, End: b}, {Start: a0, End: a}},
	}
	pkLists := [][][]byte{{a}, {a, a0}, {a, a0, b, []byte("bb")}, {a0, []byte("none"), b}, nil}
	slices.SortFunc(pkLists[3], bytes.Compare)
	for _, pks := range pkLists {
		for i, spans := range spanLists {
			for variant := range 8 {
				g := engine.Gather{PKs: pks, Spans: spans, Reverse: variant&1 > 0,
					ByPartition: variant&2 > 0}
				each := variant&4 > 0
				if each {
					g.Spans, g.Each = nil, make([][]keycodec.Span, len(pks))
					for j := range pks {
						g.Each[j] = spanLists[(i+j)%len(spanLists)]
					}
				}
				checkGather(t, db, g)
			}
		}
	}
}

func checkGather(t *testing.T, db *engine.DB, g engine.Gather) {
	t.Helper()
	order := bySortKey
	if g.ByPartition {
		order = byPartition
	}
	in := func(k engine.Key) bool {
		i := slices.IndexFunc(g.PKs, func(p []byte) bool { return bytes.Equal(p, k.PK) })
		spans := g.Spans
		if i >= 0 && g.Each != nil {
			spans = g.Each[i]
		}
		return i >= 0 && inAnySpan(k.SK, spans)
	}
	turn := len(g.PKs) + len(g.Spans) // so that all limits meet all positions
	afterEach(func(after *engine.Key) {
		turn++
		g.Limit, g.After, g.StartAfter = []int{0, 1, 4}[turn%3], nil, engine.Key{}
		switch {
		case after != nil && turn%2 == 0:
			g.After = g.CursorAfter(engine.Item{Key: *after})
		case after != nil:
			g.StartAfter = *after
		}
		want := wanted(in, order, g.Reverse, after, g.Limit)
		got := listing(db.Gather(ctx, g))
		n, err := db.CountGather(ctx, g)
		if got != want || err != nil ||
			int(n) != len(strings.Fields(strings.ReplaceAll(want, " / ", "/"))) {
			t.Fatalf("%+v after %v: got %d: %s\nwant %s, %v", g, after, n, got, want, err)
		}
	})
}

// TestSmallScans: every scan between two partition keys, from every position on, and all
// segments.
func TestSmallScans(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := smallDB(t)
	bounds := [][]byte{nil, {}, []byte("a"), []byte("a\x00"), []byte("b"), []byte("c")}
	for _, from := range bounds {
		for _, to := range bounds {
			for _, reverse := range []bool{false, true} {
				in := func(k engine.Key) bool {
					return bytes.Compare(k.PK, from) >= 0 &&
						(to == nil || bytes.Compare(k.PK, to) < 0)
				}
				scan := engine.Scan{
					From: engine.Key{PK: from}, To: engine.Key{PK: to}, Reverse: reverse,
				}
				afterEach(func(after *engine.Key) {
					s := scan
					s.Limit = 3
					if after != nil {
						s.StartAfter = *after
					}
					want := wanted(in, byPartition, reverse, after, 3)
					if got := listing(db.Scan(ctx, s)); got != want {
						t.Fatalf("%+v: got %s, want %s", s, got, want)
					}
				})
				checkUnordered(t, db, scan, in)
			}
		}
	}
}

// checkUnordered reads all segments of an unordered scan page by page: each item comes once.
func checkUnordered(
	t *testing.T, db *engine.DB, s engine.Scan, in func(engine.Key) bool,
) {
	t.Helper()
	s.Unordered, s.Limit = true, 1
	want := wanted(in, byPartition, false, nil, 0)
	for _, segments := range []int{0, 1, 3, 256} {
		var got []engine.Key
		s.Segments = segments
		for s.Segment = range max(1, segments) {
			s.After = nil
			for more := true; more; {
				more = false
				for it, err := range db.Scan(ctx, s) {
					ok(t, err)
					got, more = append(got, it.Clone().Key), true
					s.After = s.CursorAfter(it)
				}
			}
		}
		slices.SortFunc(got, byPartition)
		var words []string
		for _, k := range got {
			words = append(words, fmt.Sprintf("%s=", k))
		}
		if text := strings.Join(words, " "); text != want {
			t.Fatalf("%+v: got %s, want %s", s, text, want)
		}
	}
}

// TestSmallQueries: every condition with every pair of operands, from every position on.
func TestSmallQueries(t *testing.T) {
	db := smallDB(t)
	p := []byte("a\x00")
	operands := [][]byte{nil, {}, []byte("a"), []byte("a\x00"), []byte("ab"), []byte("b"), {0xff}}
	for _, x := range operands {
		for _, y := range operands {
			for name, condition := range skConditions {
				if y != nil && name != "between" && name != "range" {
					continue // it has one operand
				}
				if name == "equal" && len(x) == 0 {
					continue // it is refused
				}
				cond, matches := condition(x, y)
				in := func(k engine.Key) bool {
					return bytes.Equal(k.PK, p) && (name == "all" || k.SK != nil && matches(k.SK))
				}
				for _, reverse := range []bool{false, true} {
					afterEach(func(after *engine.Key) {
						q := engine.Query{PK: p, SK: cond, Reverse: reverse, Limit: 2}
						if after != nil {
							q.After = q.CursorAfter(engine.Item{Key: *after})
						}
						want := wanted(in, byPartition, reverse, after, 2)
						if got := listing(db.Query(ctx, q)); got != want {
							t.Fatalf("%s %q %q, reverse %t, after %v: got %s, want %s", name, x, y,
								reverse, after, got, want)
						}
					})
				}
			}
		}
	}
}
