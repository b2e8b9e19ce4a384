package plan

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// AppendProbe turns the values of Probe.Exprs into a place in the store: the partition
// appended to pk, and what the sort keys begin with appended to sk. With Probe.Unique it
// is the one key (pk, sk), or pk alone of a table without sort key. found is false if
// nothing can be found: a value is NULL or none of its column. It allocates nothing but
// what pk and sk need to grow.
func (n *Access) AppendProbe(pk, sk []byte, values []expr.Value) (pk2, sk2 []byte, found bool) {
	p := n.path
	return appendKey(pk, sk, p.rel.table, p.index, p.key.Fields[:len(values)], values)
}

// appendKey encodes values of the first columns of a key.
func appendKey(pk, sk []byte, t *schema.Table, x *schema.Index, fields []keycodec.Field,
	values []expr.Value) (pk2, sk2 []byte, found bool) {
	if x == nil {
		return appendRowKey(pk, sk, t, fields, values)
	}
	start := len(sk)
	for i, v := range values {
		if sk, found = appendExact(sk, &fields[i], v); !found {
			return pk, sk[:start], false
		}
	}
	if bucket, ok := integerBucket(x, &fields[0], values[0]); ok {
		return x.BucketPK(pk, bucket), sk, true
	}
	bucket, err := x.BucketOf(sk[start:])
	if err != nil {
		return pk, sk[:start], false
	}
	return x.BucketPK(pk, bucket), sk, true
}

// integerBucket is schema.Index.BucketOf for an index that is spread by one column of
// integers, without decoding what was just encoded.
func integerBucket(x *schema.Index, f *keycodec.Field, v expr.Value) (bucket int, ok bool) {
	if !x.Sharded() || x.ShardColumns > 1 || widthOf(f.Type) == 0 {
		return 0, false
	}
	if i, ok := v.AsInt(); ok {
		return int(x.Shard.Int64(i)), true
	}
	u, ok := v.AsUint()
	return int(x.Shard.Int64(int64(u))), ok
}

func appendRowKey(pk, sk []byte, t *schema.Table, fields []keycodec.Field,
	values []expr.Value) (pk2, sk2 []byte, found bool) {
	pkStart, skStart := len(pk), len(sk)
	pk = t.AppendRowPrefix(pk)
	for i, v := range values {
		if i < len(t.PK) {
			pk, found = appendExact(pk, &fields[i], v)
		} else {
			sk, found = appendExact(sk, &fields[i], v)
		}
		if !found {
			return pk[:pkStart], sk[:skStart], false
		}
	}
	return pk, sk, true
}

// appendExact encodes a value if it is one of the column's.
func appendExact(dst []byte, f *keycodec.Field, v expr.Value) ([]byte, bool) {
	if v.IsNull() {
		return dst, false
	}
	v, at := place(f, v)
	if at != exact {
		return dst, false
	}
	return appendField(dst, f, v)
}
