package spans_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// tidb256 is the shard function of the integer shard index that users of MySQL know.
var tidb256 = shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}

// sharded returns an index of a table (id, a, b, c) of integers, sharded over its first
// column.
func sharded(t *testing.T, spec shard.Spec, unique bool, columns ...int) *schema.Index {
	t.Helper()
	def := schema.Table{ID: 7, Name: "t", PK: []schema.KeyColumn{{Ordinal: 3}}}
	for _, name := range []string{"a", "b", "c", "id"} {
		def.Columns = append(def.Columns, schema.Column{Name: name, Type: keycodec.TypeInt64,
			Nullable: name == "c"})
	}
	x := &schema.Index{Name: "x", Unique: unique, Shard: spec}
	for _, i := range columns {
		x.Columns = append(x.Columns, schema.IndexColumn{KeyColumn: schema.KeyColumn{Ordinal: i}})
	}
	def.Indexes = []*schema.Index{x}
	table, err := schema.New(def)
	testutil.OK(t, err)
	return table.Indexes[0]
}

// spansOf builds the spans of a predicate over an index.
func spansOf(x *schema.Index, pred expr.Expr) spans.Set {
	key := spans.Key{Fields: x.Fields(), Ordinals: x.Ordinals()}
	if x.Sharded() {
		key.Keep = max(1, x.ShardColumns)
	}
	return new(spans.Builder).Build(spans.Compile(key, spans.Normalise(pred)), nil, 0)
}

// wantRewrite checks the spans of a predicate in the words of Rewrite.
func wantRewrite(t *testing.T, x *schema.Index, pred expr.Expr, want string) spans.Set {
	t.Helper()
	s := spansOf(x, pred)
	if got := spans.Rewrite(x, s); got != want {
		t.Errorf("%s\ngot  %s\nwant %s", pred, got, want)
	}
	return s
}

// bucketsOf returns the buckets that a predicate reaches into.
func bucketsOf(x *schema.Index, s spans.Set) (out []int) {
	for _, p := range spans.Shard(x, s) {
		out = append(out, p.Bucket)
	}
	return out
}

// wantExact checks that nothing is left to filter.
func wantExact(t *testing.T, s spans.Set) {
	t.Helper()
	if !s.Exact || s.Truncated {
		t.Errorf("exact is %v, truncated %v: %v", s.Exact, s.Truncated, s.Spans)
	}
}

// TestRangeOnShardIndex: a range is read in all buckets, a short one in those of its
// values.
func TestRangeOnShardIndex(t *testing.T) {
	x := sharded(t, tidb256, true, 0)
	s := wantRewrite(t, x, compare(0, expr.Gt, 100),
		"tidb_shard(a) BETWEEN 0 AND 255 AND a >= 101")
	wantExact(t, s)
	partitions := spans.Shard(x, s)
	if len(partitions) != 256 {
		t.Fatalf("%d buckets", len(partitions))
	}
	for i, p := range partitions {
		if p.Bucket != i || len(p.Ranges) != 1 {
			t.Fatalf("bucket %d at %d has %d ranges", p.Bucket, i, len(p.Ranges))
		}
	}
	s = wantRewrite(t, x, expr.Between{X: col(0), Lo: num(1), Hi: num(3)},
		"tidb_shard(a) IN (143, 156, 214) AND a >= 1 AND a < 4")
	if got := bucketsOf(x, s); !slices.Equal(got, []int{143, 156, 214}) {
		t.Errorf("buckets %v", got)
	}
	// As many values as half of the buckets are too many to be worth it.
	for width, buckets := range map[int]bool{127: false, 128: true} {
		s = spansOf(x, and(compare(0, expr.Ge, 0), compare(0, expr.Lt, width)))
		if got := len(bucketsOf(x, s)); (got == 256) != buckets {
			t.Errorf("%d values: %d buckets", width, got)
		}
	}
}

// TestNonUniqueAndPrimaryShard: nothing asks whether an index is unique, and spans of the
// primary key are spread in the same way.
func TestNonUniqueAndPrimaryShard(t *testing.T) {
	x := sharded(t, shard.Spec{Function: shard.Mix64, Count: 16}, false, 0, 1)
	s := spansOf(x, and(eq(0, 10), compare(1, expr.Gt, 5)))
	bucket, err := x.BucketOf(keycodec.AppendInt64(nil, 10))
	testutil.OK(t, err)
	if got := bucketsOf(x, s); !slices.Equal(got, []int{bucket}) {
		t.Errorf("buckets %v, want %d", got, bucket)
	}
	want := fmt.Sprintf("shard('mix64:16', a) = %d AND a = 10 AND b >= 6", bucket)
	if got := spans.Rewrite(x, s); got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	fields := x.Fields()
	key := spans.Key{Fields: fields, Ordinals: []int{0, 1}, Keep: 1}
	pred := or(and(eq(0, 1), compare(1, expr.Ge, 5)), eq(0, 2), compare(0, expr.Gt, 9))
	set := new(spans.Builder).Build(spans.Compile(key, spans.Normalise(pred)), nil, 0)
	split := spans.SplitPrimary(set, fields[:1], true)
	if len(split.Partitions) != 2 || len(split.Intervals) != 1 {
		t.Fatalf("%+v", split)
	}
	five := keycodec.AppendInt64(nil, 5)
	p := split.Partitions[0]
	if string(p.PK) != string(keycodec.AppendInt64(nil, 1)) || len(p.Ranges) != 1 ||
		string(p.Ranges[0].Lo) != string(five) || p.Ranges[0].Hi != nil {
		t.Errorf("partition %+v", p)
	}
	if lo := split.Intervals[0].Lo; string(lo) != string(keycodec.AppendInt64(nil, 10)) {
		t.Errorf("interval from %x", lo)
	}
}

// TestBucketCounts: every number of buckets, and indexes without shards.
func TestBucketCounts(t *testing.T) {
	for _, count := range []int{2, 16, 256, 65_536} {
		x := sharded(t, shard.Spec{Function: shard.Mix64, Count: count}, true, 0)
		if got := len(bucketsOf(x, spansOf(x, compare(0, expr.Gt, 0)))); got != count {
			t.Errorf("a range over %d buckets reaches %d", count, got)
		}
		if got := len(bucketsOf(x, spansOf(x, eq(0, 5)))); got != 1 {
			t.Errorf("a point over %d buckets reaches %d", count, got)
		}
		if got := bucketsOf(x, spansOf(x, and(eq(0, 5), eq(0, 6)))); len(got) != 0 {
			t.Errorf("nothing over %d buckets reaches %v", count, got)
		}
	}
	x := sharded(t, shard.Spec{}, true, 0)
	wantRewrite(t, x, or(eq(0, 5), eq(0, 6), compare(0, expr.Gt, 9)), "a >= 5 AND a < 7 OR a >= 10")
	if got := bucketsOf(x, spansOf(x, eq(0, 5))); !slices.Equal(got, []int{0}) {
		t.Errorf("buckets %v of an index without shards", got)
	}
}

// TestKeysUpToTheEnd: the last values of a type are a short range without an end.
func TestKeysUpToTheEnd(t *testing.T) {
	fields := []keycodec.Field{{Type: keycodec.TypeInt32}}
	key := spans.Key{Fields: fields, Ordinals: []int{0}, Keep: 1}
	pred := spans.Normalise(compare(0, expr.Gt, math.MaxInt32-3))
	set := new(spans.Builder).Build(spans.Compile(key, pred), nil, 0)
	if n := len(spans.SplitPrimary(set, fields, true).Partitions); n != 3 {
		t.Errorf("%d keys", n)
	}
}
