package commit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// batchText describes what a batch holds: its operations with the part of the record that is
// theirs, what it needs of locks, and what has to be done to it before the log.
func batchText(t *testing.T, b *Batch) string {
	t.Helper()
	var w strings.Builder
	fmt.Fprintf(&w, "len %d, bytes %d, ranges %t, ttls %t, stripes", b.Len(), b.Bytes(), b.ranges,
		b.ttls)
	b.stripes.Each(func(id uint8) { fmt.Fprintf(&w, " %d", id) })
	w.WriteString("\n")
	for i := range b.ops {
		op := &b.ops[i]
		fmt.Fprintf(&w, "%d stripe %d at %d: %q", op.kind, op.stripe, op.record, b.key(op))
		if op.kind == base.KindDeleteRange {
			fmt.Fprintf(&w, " to %q", b.rangeEnd(op))
		}
		fmt.Fprintf(&w, " value %q expiry %d\n", b.valueOf(op), op.expiry)
	}
	w.WriteString("record:")
	r := wal.NewOpReader(b.payload)
	for {
		var op wal.Op
		more, err := r.Next(&op)
		testutil.OK(t, err)
		if !more {
			return w.String()
		}
		fmt.Fprintf(&w, "\n%d %q %q %q %q-%q %d", op.Kind, op.PK, op.SK, op.Value, op.Start,
			op.End, op.Expiry)
	}
}

// What a later range delete of a batch covers is dropped from its operations and from its
// record; every other operation keeps its key, its value and its place.
func TestBatchHoldsItsOperations(t *testing.T) {
	k := func(p, s string) keycodec.Key {
		key := keycodec.Key{PK: []byte(p)}
		if s != "" {
			key.SK = []byte(s)
		}
		return key
	}
	var b Batch
	b.Put(k("p", "gone"), []byte("v1"), Lifetime{TTL: time.Second})
	b.Delete(k("p", "also gone"))
	b.Put(k("q", ""), []byte("v2"), Lifetime{})
	b.Delete(k("q", "d"))
	b.Put(k("q", "u"), []byte("v3"), Lifetime{Expiry: 1})
	b.DeleteRange(base.Span{Lo: []byte("p\x00\x00"), Hi: []byte("p\x00\x01")})
	b.Put(k("p", "kept"), []byte("v4"), Lifetime{TTL: time.Millisecond})
	b.DeleteRange(base.Span{
		Lo: []byte("q\x00\x00other"), Hi: []byte("q\x00\x00other\x00"),
	})
	b.Require(k("r", ""), &Condition{Kind: CondAbsent})
	const before = `len 9, bytes 168, ranges true, ttls true, stripes 39 157 177
3 stripe 177 at 0: "p\x00\x00gone" value "v1" expiry 0
1 stripe 177 at 28: "p\x00\x00also gone" value "" expiry 0
2 stripe 39 at 47: "q\x00\x00" value "v2" expiry 0
1 stripe 39 at 63: "q\x00\x00d" value "" expiry 0
3 stripe 39 at 74: "q\x00\x00u" value "v3" expiry 1
4 stripe 177 at 99: "p\x00\x00" to "p\x00\x01" value "" expiry 0
3 stripe 177 at 114: "p\x00\x00kept" value "v4" expiry 0
4 stripe 39 at 142: "q\x00\x00other" to "q\x00\x00other\x00" value "" expiry 0
record:
3 "p" "gone" "v1" ""-"" 0
1 "p" "also gone" "" ""-"" 0
2 "q" "" "v2" ""-"" 0
1 "q" "d" "" ""-"" 0
3 "q" "u" "v3" ""-"" 1
4 "" "" "" "p\x00\x00"-"p\x00\x01" 0
3 "p" "kept" "v4" ""-"" 0
4 "" "" "" "q\x00\x00other"-"q\x00\x00other\x00" 0`
	if got := batchText(t, &b); got != before {
		t.Errorf("got:\n%s\nwant:\n%s", got, before)
	}
	b.seal(1000)
	const after = `len 9, bytes 121, ranges true, ttls true, stripes 39 157 177
2 stripe 39 at 0: "q\x00\x00" value "v2" expiry 0
1 stripe 39 at 16: "q\x00\x00d" value "" expiry 0
3 stripe 39 at 27: "q\x00\x00u" value "v3" expiry 1
4 stripe 177 at 52: "p\x00\x00" to "p\x00\x01" value "" expiry 0
3 stripe 177 at 67: "p\x00\x00kept" value "v4" expiry 1001
4 stripe 39 at 95: "q\x00\x00other" to "q\x00\x00other\x00" value "" expiry 0
record:
2 "q" "" "v2" ""-"" 0
1 "q" "d" "" ""-"" 0
3 "q" "u" "v3" ""-"" 1
4 "" "" "" "p\x00\x00"-"p\x00\x01" 0
3 "p" "kept" "v4" ""-"" 1001
4 "" "" "" "q\x00\x00other"-"q\x00\x00other\x00" 0`
	if got := batchText(t, &b); got != after {
		t.Errorf("sealed, got:\n%s\nwant:\n%s", got, after)
	}
	b.Reset()
	const empty = "len 0, bytes 0, ranges false, ttls false, stripes\nrecord:"
	if got := batchText(t, &b); got != empty || b.hasConds() {
		t.Errorf("reset, got %s", got)
	}
}

func TestExpiryAt(t *testing.T) {
	const last = math.MaxInt64
	for _, c := range []struct {
		now  int64
		ttl  time.Duration
		want int64
	}{
		{1000, time.Nanosecond, 1001},
		{1000, time.Millisecond, 1001},
		{1000, 2*time.Millisecond - 1, 1001},
		{1000, 2 * time.Millisecond, 1002},
		{-1000, time.Millisecond, 1},
		{-2, 2 * time.Millisecond, 1},
		{-1, 2 * time.Millisecond, 1},
		{0, 2 * time.Millisecond, 2},
		{last - 3, 2 * time.Millisecond, last - 1},
		{last - 2, 2 * time.Millisecond, last},
		{last - 1, 2 * time.Millisecond, last},
		{last, time.Millisecond, last},
	} {
		if got := ExpiryAt(c.now, c.ttl); got != c.want {
			t.Errorf("written at %d for %v: expires at %d, want %d", c.now, c.ttl, got, c.want)
		}
	}
}
