package plan

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Conditions on buckets that a query writes out, as tidb_shard(a) = 8, choose the buckets of an
// index that is sharded in that way. What they demand is tested as well: it follows from no span.

// bucketTerm is a condition that a bucket is one of some numbers.
type bucketTerm struct{ list []expr.Expr }

// bucketTerms returns the terms about the bucket of an index.
func (p *path) bucketTerms() (all []bucketTerm) {
	x := p.index
	if x == nil || !x.Sharded() || x.ShardColumns > 1 || p.repeats ||
		spans.WidthOf(p.rel.table.Columns[x.Columns[0].Ordinal].Type) == 0 {
		return nil
	}
	for _, t := range p.pred {
		switch t := t.(type) {
		case expr.Cmp:
			if _, list := spans.IsList(t.R); !list && t.Op == expr.Eq && p.isBucket(x, t.L) &&
				spans.IsConstant(t.R) {
				all = append(all, bucketTerm{[]expr.Expr{t.R}})
			}
		case expr.In:
			if !t.Not && p.isBucket(x, t.X) && areConstant(t.List) {
				all = append(all, bucketTerm{t.List})
			}
		}
	}
	return all
}

func areConstant(list []expr.Expr) bool {
	for _, e := range list {
		if _, many := spans.IsList(e); many || !spans.IsConstant(e) {
			return false
		}
	}
	return true
}

// isBucket reports whether an expression is the bucket of the entries of an index.
func (p *path) isBucket(x *schema.Index, e expr.Expr) bool {
	f, ok := e.(expr.Func)
	if !ok || len(f.Args) == 0 {
		return false
	}
	spec := shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}
	switch c, _ := f.Args[0].(expr.Const); {
	case f.Name == "shard" && len(f.Args) == 2:
		text, _ := c.Value.AsString()
		parsed, err := shard.ParseSpec(text)
		if err != nil {
			return false
		}
		spec = parsed
	case f.Name != "tidb_shard":
		return false
	}
	column, ok := f.Args[len(f.Args)-1].(expr.Column)
	return ok && column.Source == p.rel.source && column.Ordinal == x.Columns[0].Ordinal &&
		spec == x.Shard
}

// mayBe reports whether the bucket is one of those, for these parameters.
func (t bucketTerm) mayBe(bucket int, params []expr.Value) bool {
	for _, e := range t.list {
		v, err := expr.Eval(e, nil, params)
		if err != nil || v.Kind() == expr.KindList {
			return true // the test of the row knows better
		}
		if order, ok := expr.Compare(v, expr.Int(int64(bucket))); ok && order == 0 {
			return true
		}
	}
	return false
}

// inBuckets leaves the streams whose buckets the predicate may be true in.
func (p *path) inBuckets(streams []Stream, params []expr.Value) []Stream {
	terms := p.bucketTerms()
	if len(terms) == 0 {
		return streams
	}
	kept := streams[:0]
	for _, s := range streams {
		may := true
		for _, t := range terms {
			may = may && t.mayBe(s.Bucket, params)
		}
		if may {
			kept = append(kept, s)
		}
	}
	return kept
}

// bucketShare returns which share of the buckets the predicate leaves, 1 if it says nothing.
func (p *path) bucketShare() float64 {
	share := 1.0
	for _, t := range p.bucketTerms() {
		share = min(share, float64(len(t.list))/p.buckets())
	}
	return share
}
