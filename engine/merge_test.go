package engine_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// layered is a database whose items have versions, tombstones and expiries in several
// runs and the memtables, with what should be visible.
type layered struct {
	db   *engine.DB
	rnd  *rand.Rand
	want map[string]string // of ordered keys, see orderOf
}

// orderOf makes a string that sorts like the key; the parts have no zero bytes.
func orderOf(k engine.Key) string { return string(k.PK) + "\x00" + string(k.SK) }

func (l *layered) change(t *testing.T, n, partitions int, tag string) {
	for i := range n {
		k := pksk(fmt.Sprintf("tenant/%04d", l.rnd.IntN(partitions)),
			fmt.Sprintf("%03d", l.rnd.IntN(40)))
		switch l.rnd.IntN(10) {
		case 0, 1:
			ok(t, l.db.Delete(k))
			delete(l.want, orderOf(k))
		case 2:
			ok(t, l.db.Put(k, []byte("gone"), engine.TTL(time.Millisecond)))
			delete(l.want, orderOf(k))
		default:
			v := fmt.Sprint(tag, i)
			ok(t, l.db.Put(k, []byte(v)))
			l.want[orderOf(k)] = v
		}
	}
}

// deletePartitions hides some partitions with range tombstones.
func (l *layered) deletePartitions(t *testing.T, n, partitions int) {
	for range n {
		p := fmt.Sprintf("tenant/%04d", l.rnd.IntN(partitions))
		ok(t, l.db.DeleteRange([]byte(p), engine.SKCondition{}))
		maps.DeleteFunc(l.want, func(k, _ string) bool { return strings.HasPrefix(k, p+"\x00") })
	}
}

func rowsOf(t *testing.T, seq iter.Seq2[engine.Item, error]) (keys []string, rows []string) {
	t.Helper()
	for it, err := range seq {
		ok(t, err)
		keys = append(keys, orderOf(it.Key))
		rows = append(rows, orderOf(it.Key)+"="+string(it.Value))
	}
	return keys, rows
}

// check compares scans and queries, both ways and limited, with what should be there.
func (l *layered) check(t *testing.T, partitions int) {
	t.Helper()
	var want []string
	for _, k := range slices.Sorted(maps.Keys(l.want)) {
		want = append(want, k+"="+l.want[k])
	}
	for _, reverse := range []bool{false, true} {
		expect := slices.Clone(want)
		if reverse {
			slices.Reverse(expect)
		}
		_, got := rowsOf(t, l.db.Scan(ctx, engine.Scan{Reverse: reverse}))
		if !slices.Equal(got, expect) {
			t.Fatalf("ordered scan, reverse %v: %d rows, want %d", reverse, len(got), len(expect))
		}
		_, got = rowsOf(t, l.db.Scan(ctx, engine.Scan{Reverse: reverse, Unordered: true}))
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Fatalf("unordered scan, reverse %v: %d rows, want %d", reverse, len(got), len(want))
		}
		for range 20 {
			from := pk(fmt.Sprintf("tenant/%04d", l.rnd.IntN(partitions)))
			limit := 1 + l.rnd.IntN(200)
			part := slices.DeleteFunc(slices.Clone(expect), func(row string) bool {
				return (row < orderOf(from)) != reverse
			})
			part = part[:min(limit, len(part))]
			s := engine.Scan{StartAfter: from, Limit: limit, Reverse: reverse}
			if _, got = rowsOf(t, l.db.Scan(ctx, s)); !slices.Equal(got, part) {
				t.Fatalf("%d rows from %s, reverse %v: got %q, want %q", limit, from, reverse, got,
					part)
			}
			part = slices.DeleteFunc(slices.Clone(expect), func(row string) bool {
				return !strings.HasPrefix(row, orderOf(from))
			})
			part = part[:min(limit, len(part))]
			q := engine.Query{PK: from.PK, Limit: limit, Reverse: reverse}
			if _, got = rowsOf(t, l.db.Query(ctx, q)); !slices.Equal(got, part) {
				t.Fatalf("query of %s: got %q, want %q", from, got, part)
			}
		}
	}
}

// Goal: what merges of many sources show is right at the borders of batches, blocks and
// runs, with versions of a key in several sources, hidden and expired ones among them,
// and with range tombstones in some stripes only; whether blocks are cached or not.
func TestScansOverManySources(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, cacheBytes := range []int64{1, 64 << 20} {
		for _, partitions := range []int{3, 300} {
			name := fmt.Sprintf("cache=%d/partitions=%d", cacheBytes, partitions)
			t.Run(name, func(t *testing.T) {
				l := &layered{rnd: rand.New(rand.NewPCG(7, 7)), want: map[string]string{}}
				l.db = openMemory(t, engine.Options{
					Durability: engine.Process, BlockBytes: 1 << 10, CacheBytes: cacheBytes,
					MaxRuns: 16,
				})
				for round := range 5 {
					l.change(t, 3000, partitions, fmt.Sprint("v", round, "/"))
					if round == 3 {
						l.deletePartitions(t, partitions/20, partitions)
					}
					if round < 4 {
						ok(t, l.db.Flush(ctx))
					}
				}
				now := time.Now().Add(2 * time.Millisecond)
				eventually(t, "the expiry of what was written last",
					func() bool { return time.Now().After(now) })
				l.check(t, partitions)
			})
		}
	}
}
