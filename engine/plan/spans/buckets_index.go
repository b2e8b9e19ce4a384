package spans

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// BucketsOf returns how the entries of an index are spread. The bucket of a local index
// does not follow from its columns.
func BucketsOf(x *schema.Index) Buckets {
	b := Buckets{Count: x.Buckets(), Fields: x.Fields()}
	if x.Sharded() {
		b.Columns = max(1, x.ShardColumns)
		b.Of = func(prefix []byte) (int, bool) {
			bucket, err := x.BucketOf(prefix)
			return bucket, err == nil
		}
	}
	return b
}

// Shard returns the buckets of an index that spans over its columns reach into, and the
// ranges there. Nothing but finished spans is looked at. Requires: the spans were built
// with the number of columns that the bucket follows from as Key.Keep.
func Shard(x *schema.Index, s Set) []Partition {
	b := BucketsOf(x)
	return b.Partitions(s)
}

// maxRewritten is how many spans Rewrite writes out.
const maxRewritten = 64

// Rewrite returns a condition that names the buckets of a sharded index, as one would have
// to write it for an index whose first column is the bucket:
//
//	tidb_shard(a) = 214 AND a = 1 OR tidb_shard(a) = 142 AND a = 10
//
// It is for EXPLAIN and is not what is executed. Residuals are not part of it.
func Rewrite(x *schema.Index, s Set) string {
	b := BucketsOf(x)
	search := x.Table().SearchKey(x)
	key := Key{Fields: search.Fields, Ordinals: search.Ordinals}
	var out []expr.Expr
	for i := range min(len(s.Spans), maxRewritten) {
		span := s.Spans[i]
		var terms []expr.Expr
		if x.Sharded() {
			terms = append(terms, b.condition(x.Shard, &key, span))
		}
		condition := key.Condition(span)
		if and, ok := condition.(expr.And); ok {
			terms = append(terms, and.Terms...)
		} else if !isTrue(condition) {
			terms = append(terms, condition)
		}
		out = append(out, expr.And{Terms: terms})
	}
	text := expr.Or{Terms: out}.String()
	if more := len(s.Spans) - len(out); more > 0 {
		text += fmt.Sprintf(" OR … (%d more)", more)
	}
	return text
}

// condition returns which buckets a span is in.
func (x *Buckets) condition(spec shard.Spec, key *Key, s Span) expr.Expr {
	f := expr.Func{Name: "shard", Args: []expr.Expr{expr.Const{Value: expr.String(spec.String())}}}
	if spec.Function == shard.Tidb && spec.Count == shard.TidbCount {
		f = expr.Func{Name: "tidb_shard"}
	}
	for i := range x.Columns {
		f.Args = append(f.Args, key.column(i))
	}
	number := func(n int) expr.Expr { return expr.Const{Value: expr.Int(int64(n))} }
	partitions := x.Partitions(Set{Spans: []Span{s}})
	switch {
	case len(partitions) == 1:
		return expr.Cmp{Op: expr.Eq, L: f, R: number(partitions[0].Bucket)}
	case len(partitions) == x.Count:
		return expr.Between{X: f, Lo: number(0), Hi: number(x.Count - 1)}
	}
	in := expr.In{X: f}
	for _, p := range partitions {
		in.List = append(in.List, number(p.Bucket))
	}
	return in
}
