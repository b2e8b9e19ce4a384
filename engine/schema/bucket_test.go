package schema_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

func indexed(t testing.TB, id uint32, index string) *schema.Index {
	t.Helper()
	return parse(t, fmt.Sprintf(`{"id":%d,"name":"t","columns":[{"name":"id","type":"int64"},
		{"name":"a","type":"int32","nullable":true},{"name":"s","type":"string"},
		{"name":"u","type":"string","nullable":true}],
		"primary_key":["id"],"indexes":[%s]}`, id, index)).Indexes[0]
}

// TestBucketsLieInTheirStripes computes the partition key of every bucket for all kinds of
// placement: keycodec.Stripe has to give the stripe that is documented.
func TestBucketsLieInTheirStripes(t *testing.T) {
	for _, id := range []uint32{0, 1, 77, 1 << 31} {
		local := indexed(t, id, `{"name":"x","columns":["a"],"local":true}`)
		for b := range 256 {
			if got := keycodec.Stripe(local.BucketPK(nil, b)); int(got) != b {
				t.Fatalf("local bucket %d of table %d is in stripe %d", b, id, got)
			}
		}
		for _, n := range []int{2, 3, 16, 100, 255, 256, 257, 1000, 65536} {
			x := indexed(t, id, fmt.Sprintf(`{"name":"x","columns":["a"],"shard":"mix64:%d"}`, n))
			first, seen := keycodec.Stripe(x.BucketPK(nil, 0)), map[string]bool{}
			for b := range n {
				pk := x.BucketPK(nil, b)
				want := first + uint8(b)
				if n <= 256 {
					want = first + uint8(b*256/n)
				}
				if got := keycodec.Stripe(pk); got != want || got != x.Stripe(b) {
					t.Fatalf("bucket %d of %d of table %d is in stripe %d, want %d", b, n, id,
						got, want)
				}
				if seen[string(pk)] {
					t.Fatalf("bucket %d of %d has the key of another one", b, n)
				}
				seen[string(pk)] = true
			}
		}
	}
}

// TestUnshardedIndexesSpread: the rotation keeps them from one stripe.
func TestUnshardedIndexesSpread(t *testing.T) {
	stripes := map[uint8]bool{}
	for id := range uint32(64) {
		stripes[indexed(t, id, `{"name":"x","columns":["a"]}`).Stripe(0)] = true
	}
	if len(stripes) < 40 {
		t.Errorf("64 indexes in %d stripes", len(stripes))
	}
}

// TestBucketIsThatOfTheFunction: the bucket of one integer is what tidb_shard gives, for
// every width of the column, and that of a text is over its ordered encoding.
func TestBucketIsThatOfTheFunction(t *testing.T) {
	x := indexed(t, 1, `{"name":"x","columns":[{"column":"a","desc":true}],"shard":"tidb:256"}`)
	for v, want := range map[int64]int{0: 167, 1: 214, 2: 143, 100: 8, 200: 161, 300: 227, -1: 81} {
		if got, err := bucketOf(x, expr.Int(v)); err != nil || got != want {
			t.Errorf("bucket of %d is %d, want %d: %v", v, got, want, err)
		}
	}
	if got, err := bucketOf(x, expr.Null()); err != nil || got != 0 {
		t.Errorf("bucket of NULL is %d: %v", got, err)
	}
	y := indexed(t, 1, `{"name":"y","columns":["s"],"shard":"mix64:16"}`)
	spec := shard.Spec{Function: shard.Mix64, Count: 16}
	want, _ := expr.Bucket(spec, expr.String("x\x00y"))
	if got, err := bucketOf(y, expr.String("x\x00y")); err != nil ||
		expr.Int(int64(got)) != want {
		t.Errorf("bucket %d, want %s: %v", got, want, err)
	}
	text, _ := expr.Bucket(spec, expr.String("x"))
	null, err := spec.Bytes([]byte{0})
	ok(t, err)
	for _, order := range []string{
		`"nulls":"first"`, `"nulls":"last"`, `"desc":true`, `"desc":true,"nulls":"last"`,
	} {
		y := indexed(t, 1, `{"name":"y","columns":[{"column":"u",`+order+`}],"shard":"mix64:16"}`)
		of, err := bucketOf(y, expr.String("x"))
		ofNull, nerr := bucketOf(y, expr.Null())
		if err != nil || nerr != nil || expr.Int(int64(of)) != text || ofNull != int(null) {
			t.Errorf("%s: buckets %d and, of NULL, %d, want %s and %d: %v, %v", order, of, ofNull,
				text, null, err, nerr)
		}
	}
	if _, err := bucketOf(y); err == nil {
		t.Error("a bucket without values")
	}
	local := indexed(t, 1, `{"name":"x","columns":["a"],"local":true}`)
	if _, err := bucketOf(local, expr.Int(1)); err == nil {
		t.Error("a local index has the bucket of a value")
	}
}

// bucketOf returns the bucket of the entries whose first columns have these values.
func bucketOf(x *schema.Index, values ...expr.Value) (bucket int, err error) {
	var sk []byte
	for i, v := range values {
		c := &x.Columns[i]
		if sk, err = x.Table().Columns[c.Ordinal].AppendField(sk, c.KeyColumn, v); err != nil {
			return 0, err
		}
	}
	return x.BucketOf(sk)
}
