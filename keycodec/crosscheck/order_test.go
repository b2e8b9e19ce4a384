package crosscheck

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// drawPair draws two tuples of the same types, which often begin alike.
func drawPair(t *rapid.T) (s keycodec.Schema, a, b []any, desc []bool) {
	var fields []keycodec.Field
	for i := range rapid.IntRange(1, 4).Draw(t, "fields") {
		f := keycodec.Field{
			Name: fmt.Sprint("f", i),
			Type: rapid.SampledFrom([]keycodec.Type{
				keycodec.TypeString, keycodec.TypeBytes, keycodec.TypeInt64, keycodec.TypeUint64,
				keycodec.TypeFloat64, keycodec.TypeBool, keycodec.TypeUUID,
			}).Draw(t, "type"),
			Desc: rapid.IntRange(0, 3).Draw(t, "desc") == 0,
		}
		fields, desc = append(fields, f), append(desc, f.Desc)
		a, b = append(a, drawValue(t, f.Type)), append(b, drawValue(t, f.Type))
	}
	copy(b, a[:rapid.IntRange(0, len(a)).Draw(t, "shared")])
	return must(keycodec.NewSchema(fields...)), a, b, desc
}

func drawValue(t *rapid.T, typ keycodec.Type) any {
	awkward := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 20)
	switch typ {
	case keycodec.TypeString:
		return string(awkward.Draw(t, "string"))
	case keycodec.TypeBytes:
		return awkward.Draw(t, "bytes")
	case keycodec.TypeInt64:
		return rapid.Int64().Draw(t, "int64")
	case keycodec.TypeUint64:
		return rapid.Uint64().Draw(t, "uint64")
	case keycodec.TypeFloat64:
		// The zeros and NaNs of others are several, ours are one each.
		plain := func(v float64) bool { return v != 0 && v == v }
		return rapid.Float64().Filter(plain).Draw(t, "float64")
	case keycodec.TypeBool:
		return rapid.Bool().Draw(t, "bool")
	}
	id := awkward.Draw(t, "uuid")
	var u keycodec.UUID
	copy(u[:], id)
	return u
}

// TestPeersAgreeOnOrder encodes pairs of tuples with every codec that knows their types:
// all of them have to order the pair alike.
//
// Promise (keys): The order is that of other order-preserving codecs.
func TestPeersAgreeOnOrder(t *testing.T) {
	compared := map[string]int{}
	testutil.Check(t, func(t *rapid.T) {
		s, a, b, desc := drawPair(t)
		x, y := must(s.Append(nil, a...)), must(s.Append(nil, b...))
		want := bytes.Compare(x, y)
		for _, p := range peers {
			theirs, other := p.encode(a, desc), p.encode(b, desc)
			if theirs == nil {
				continue
			}
			compared[p.name]++
			if got := bytes.Compare(theirs, other); got != want {
				t.Fatalf("%v: %v and %v compare %d, by %s %d", s, a, b, want, p.name, got)
			}
		}
	})
	for _, p := range peers {
		t.Logf("%s: %d pairs", p.name, compared[p.name])
		if compared[p.name] == 0 {
			t.Errorf("%s has compared nothing", p.name)
		}
	}
}
