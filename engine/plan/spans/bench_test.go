package spans_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// ints returns a key of int64 columns a, b, c …, each at its own ordinal.
func ints(n int) spans.Key {
	var k spans.Key
	for i := range n {
		k.Fields = append(k.Fields, keycodec.Field{Name: string(rune('a' + i)),
			Type: keycodec.TypeInt64})
		k.Ordinals = append(k.Ordinals, i)
	}
	return k
}

func col(i int) expr.Column { return expr.Column{Ordinal: i, Name: string(rune('a' + i))} }

func num(n int) expr.Expr { return expr.Const{Value: expr.Int(int64(n))} }

func eq(i, n int) expr.Expr { return expr.Cmp{Op: expr.Eq, L: col(i), R: num(n)} }

func compare(i int, op expr.Op, n int) expr.Expr { return expr.Cmp{Op: op, L: col(i), R: num(n)} }

func and(terms ...expr.Expr) expr.Expr { return expr.And{Terms: terms} }

func or(terms ...expr.Expr) expr.Expr { return expr.Or{Terms: terms} }

// in returns column i IN (n values, every third number).
func in(i, n int) expr.Expr {
	out := expr.In{X: col(i)}
	for v := range n {
		out.List = append(out.List, num(3*v))
	}
	return out
}

// mixed is ((a=100 and b=100) or a=200) and b=300.
func mixed() expr.Expr {
	return and(or(and(eq(0, 100), eq(1, 100)), eq(0, 200)), eq(1, 300))
}

// wide is (a=0 and b=0) or (a=1 and b=1) or …
func wide(n int) expr.Expr {
	var terms []expr.Expr
	for i := range n {
		terms = append(terms, and(eq(0, i), eq(1, n-i)))
	}
	return or(terms...)
}

var spanShapes = []struct {
	name  string
	pred  expr.Expr
	spans int
}{
	{"eq", eq(0, 5), 1},
	{"eq+range", and(eq(0, 5), compare(1, expr.Ge, 10), compare(1, expr.Lt, 20)), 1},
	{"mixed", mixed(), 1},
	{"in 10", in(0, 10), 10},
	{"in 100", in(0, 100), 100},
	{"in 1000", in(0, 1000), 1000},
	{"in 1000+range", and(in(0, 1000), compare(1, expr.Gt, 7)), 1000},
	{"or of 1000 pairs", wide(1000), 1000},
	{"in 100 + in 100", and(in(0, 100), in(1, 100)), 10_000},
}

// BenchmarkSpans builds spans from a template, as a prepared query does for each
// execution.
func BenchmarkSpans(b *testing.B) {
	for _, shape := range spanShapes {
		b.Run(shape.name, func(b *testing.B) {
			t := spans.Compile(ints(2), spans.Normalise(shape.pred))
			var builder spans.Builder
			b.ReportAllocs()
			for b.Loop() {
				if s := builder.Build(t, nil, 0); len(s.Spans) != shape.spans {
					b.Fatalf("%d spans", len(s.Spans))
				}
			}
		})
	}
}

// BenchmarkPrepareSpans does all that depends on the predicate, as for a query that is not
// prepared.
func BenchmarkPrepareSpans(b *testing.B) {
	for _, shape := range spanShapes[:4] {
		b.Run(shape.name, func(b *testing.B) {
			key := ints(2)
			b.ReportAllocs()
			for b.Loop() {
				var builder spans.Builder
				builder.Build(spans.Compile(key, spans.Normalise(shape.pred)), nil, 0)
			}
		})
	}
}

// BenchmarkBuckets spreads a range over 256 buckets.
func BenchmarkBuckets(b *testing.B) {
	key := ints(2)
	key.Keep = 1
	t := spans.Compile(key, compare(0, expr.Gt, 100))
	buckets := spans.Buckets{Count: 256, Fields: key.Fields, Columns: 1,
		Of: func(prefix []byte) (int, bool) { return int(prefix[7]), true }}
	var builder spans.Builder
	b.ReportAllocs()
	for b.Loop() {
		if p := buckets.Partitions(builder.Build(t, nil, 0)); len(p) != 256 {
			b.Fatalf("%d buckets", len(p))
		}
	}
}

// TestSpansAllocateNothing: a builder that is warm allocates nothing, but for residuals.
func TestSpansAllocateNothing(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	for _, shape := range spanShapes[:5] {
		template := spans.Compile(ints(2), spans.Normalise(shape.pred))
		var builder spans.Builder
		build := func() { builder.Build(template, nil, 0) }
		if n := testutil.AllocsPerRun(100, build); n != 0 {
			t.Errorf("%s: %v allocations", shape.name, n)
		}
	}
}
