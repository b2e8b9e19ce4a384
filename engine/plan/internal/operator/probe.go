package operator

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// AppendProbe turns the values of Probe.Exprs into a place in the store: the partition
// appended to pk, and what the sort keys begin with appended to sk. With Probe.Unique it
// is the one key (pk, sk), or pk alone of a table without sort key. Of a local index, whose entries
// may be in any partition, pk stays as it is. found is false if nothing can be found: a value is
// NULL, or its column cannot hold it. It allocates nothing but what pk and sk need to grow.
func (n *Access) AppendProbe(pk, sk []byte, values []expr.Value) (pk2, sk2 []byte, found bool) {
	return AppendKey(pk, sk, n.Table, n.Index, n.Key.Fields[:len(values)],
		func(i int) *expr.Value { return &values[i] })
}

// AppendKey encodes values of the first columns of a key, those of the given fields. The
// values stay where they are: value returns where.
func AppendKey(pk, sk []byte, t *schema.Table, x *schema.Index, fields []keycodec.Field,
	value func(i int) *expr.Value) (pk2, sk2 []byte, found bool) {
	pkStart, skStart, own := len(pk), len(sk), 0
	if x == nil {
		x = t.Primary()
	}
	if x == nil {
		pk, own = t.AppendRowPrefix(pk), len(t.PK)
	}
	for i := range fields {
		if i < own {
			pk, found = appendExact(pk, &fields[i], value(i))
		} else {
			sk, found = appendExact(sk, &fields[i], value(i))
		}
		if !found {
			return pk[:pkStart], sk[:skStart], false
		}
	}
	if x == nil || x.Placement == schema.Local {
		return pk, sk, true
	}
	bucket, ok := integerBucket(x, &fields[0], value(0))
	if !ok {
		var err error
		if bucket, err = x.BucketOf(sk[skStart:]); err != nil {
			return pk, sk[:skStart], false
		}
	}
	return x.BucketPK(pk, bucket), sk, true
}

// integerBucket is schema.Index.BucketOf for an index that is spread by one column of
// integers, without decoding what was just encoded.
func integerBucket(x *schema.Index, f *keycodec.Field, v *expr.Value) (bucket int, ok bool) {
	if !x.Sharded() || x.ShardColumns > 1 || spans.WidthOf(f.Type) == 0 {
		return 0, false
	}
	if i, ok := v.AsInt(); ok {
		return int(x.Shard.Int64(i)), true
	}
	u, ok := v.AsUint()
	return int(x.Shard.Int64(int64(u))), ok
}

// appendExact encodes a value if it is one of the column's.
func appendExact(dst []byte, f *keycodec.Field, v *expr.Value) ([]byte, bool) {
	if v.IsNull() {
		return dst, false
	}
	if out, ok := spans.AppendUsual(dst, f, v); ok {
		return out, true
	}
	floor, at := spans.Place(f, *v)
	if at != spans.Exact {
		return dst, false
	}
	return schema.AppendKeyField(dst, f, floor)
}
