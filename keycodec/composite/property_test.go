package composite_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// schemas returns one for every delimiter, with and without shards, with strings padded
// and free, in front and at the end.
func schemas() []*composite.Schema {
	var list []*composite.Schema
	padded := composite.Field{Name: "padded", Type: composite.String, Width: 4}
	free := composite.Field{Name: "free", Type: composite.String}
	number := composite.Field{Name: "number", Type: composite.Integer}
	at := composite.Field{Name: "at", Type: composite.Timestamp}
	id := composite.Field{Name: "id", Type: composite.UUID}
	amount := composite.Field{Name: "amount", Type: composite.Decimal, Scale: 2}
	for d := composite.UnitSeparator; d <= composite.DoubleByte; d++ {
		for _, spec := range []*shard.Spec{nil, {Function: shard.Murmur3, Count: 3}} {
			o := composite.Options{Delimiter: d, Shard: spec}
			for _, fields := range [][]composite.Field{
				{padded, at, id}, {number, padded, amount}, {free, at}, {free, padded, number},
				{padded, free}, {free}, {at, free}, {amount, id, free},
			} {
				if s, err := composite.NewSchema(o, fields...); err == nil {
					list = append(list, s)
				}
			}
		}
	}
	return list
}

// drawValue returns a value of the field, often one near a border.
func drawValue(t *rapid.T, f composite.Field, d composite.Delimiter, last bool) any {
	switch f.Type {
	case composite.String:
		runes := []rune{'a', 'b', 0x20, 0x7f, 'é', 0x10ffff, 0x21}
		if f.Width == 0 && (last || d == composite.NullByte || d == composite.DoubleByte) {
			runes = append(runes, 1, 0x1f)
		}
		if f.Width == 0 && last {
			runes = append(runes, 0)
		}
		out := ""
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			r := rapid.SampledFrom(runes).Draw(t, "rune")
			if f.Width == 0 || len(out)+len(string(r)) <= f.Width {
				out += string(r)
			}
		}
		return out
	case composite.Integer:
		return rapid.SampledFrom([]int64{math.MinInt64, -256, -1, 0, 1, 0x1f, 0x20, 0xff,
			math.MaxInt64 - 1, math.MaxInt64}).Draw(t, "integer")
	case composite.Timestamp:
		ms := rapid.SampledFrom([]int64{0, 1, 0x1f, 0xff, 0x100, orderMs, math.MaxInt64}).
			Draw(t, "ms")
		return time.UnixMilli(ms).UTC()
	case composite.UUID:
		return keycodec.UUID{rapid.SampledFrom([]byte{0, 1, 0x1f, 0xff}).Draw(t, "first"),
			15: rapid.SampledFrom([]byte{0, 1, 0x1f, 0xff}).Draw(t, "last")}
	}
	return keycodec.NewDecimal(rapid.SampledFrom([]int64{math.MinInt64, -101, -100, 0, 1, 150,
		math.MaxInt64}).Draw(t, "cents"), 2)
}

func drawTuple(t *rapid.T, s *composite.Schema) []any {
	fields := s.Fields()
	tuple := make([]any, len(fields))
	for i, f := range fields {
		tuple[i] = drawValue(t, f, s.Options().Delimiter, i == len(fields)-1)
	}
	return tuple
}

func compareValues(a, b any) int {
	switch a := a.(type) {
	case string:
		return strings.Compare(a, b.(string))
	case int64:
		return cmp.Compare(a, b.(int64))
	case time.Time:
		return a.Compare(b.(time.Time))
	case keycodec.UUID:
		other := b.(keycodec.UUID)
		return bytes.Compare(a[:], other[:])
	}
	return a.(keycodec.Decimal).Compare(b.(keycodec.Decimal))
}

func compareTuples(a, b []any) int {
	for i := range min(len(a), len(b)) {
		if c := compareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func eachSchema(t *testing.T, check func(*rapid.T, *composite.Schema)) {
	for _, s := range schemas() {
		t.Run(s.String(), func(t *testing.T) {
			testutil.Check(t, func(t *rapid.T) { check(t, s) })
		})
	}
}

// Within a shard keys compare like their tuples. Different tuples have different keys, and
// no key begins with another one unless the last field is of variable length.
//
// Promise (keys): Composite keys sort like their tuples, no two are the same, decoding is exact,
// and spans hold exactly what is asked for. Also `TestSpansAreExact`, `TestAllFFHasNoEnd`,
// `TestDelimiterBytesInsideFields` in `keycodec/composite`.
func TestOrder(t *testing.T) {
	eachSchema(t, func(t *rapid.T, s *composite.Schema) {
		a, b := drawTuple(t, s), drawTuple(t, s)
		if rapid.Bool().Draw(t, "same first field") {
			b[0] = a[0]
		}
		ka, kb := must(s.Append(nil, a...)), must(s.Append(nil, b...))
		want := compareTuples(a, b)
		sameShard := s.Options().Shard == nil || bytes.Equal(ka[:2], kb[:2])
		if got := bytes.Compare(ka, kb); sameShard && got != want || (got == 0) != (want == 0) {
			t.Fatalf("%s: %v and %v compare %d, their keys %x and %x %d", s, a, b, want, ka, kb,
				got)
		}
		last := s.Fields()[s.Len()-1]
		free := last.Type == composite.String && last.Width == 0
		if want != 0 && !free && bytes.HasPrefix(ka, kb) {
			t.Fatalf("%s: the key %x of %v begins with %x of %v", s, ka, a, kb, b)
		}
		if got, err := s.Decode(ka); err != nil || compareTuples(got, a) != 0 {
			t.Fatalf("%s: %v came back from %x as %v, error %v", s, a, ka, got, err)
		}
		if n := s.Size(); n != 0 && n != len(ka) {
			t.Fatalf("%s: %d bytes announced, %d written", s, n, len(ka))
		}
	})
}

func contains(spans []keycodec.Span, key []byte) bool {
	for _, span := range spans {
		if span.Contains(key) {
			return true
		}
	}
	return false
}

// The spans of a condition hold exactly the keys whose tuples satisfy it.
func TestSpansAreExact(t *testing.T) {
	eachSchema(t, func(t *rapid.T, s *composite.Schema) {
		a, lo, hi := drawTuple(t, s), drawTuple(t, s), drawTuple(t, s)
		n := rapid.IntRange(0, s.Len()).Draw(t, "equal")
		if rapid.Bool().Draw(t, "near") {
			copy(a, lo[:n])
		}
		key := must(s.Append(nil, a...))

		equal := compareTuples(a[:n], lo[:n]) == 0
		spans := must(s.Prefix(lo[:n]...))
		if got := contains(spans, key); got != equal {
			t.Fatalf("%s: prefix %v, tuple %v: found %v, want %v in %x", s, lo[:n], a, got, equal,
				spans)
		}
		if n == s.Len() {
			return
		}
		checkOrdered(t, spans)
		bounds := [2]keycodec.Bound{}
		want := equal
		if kind := rapid.IntRange(0, 2).Draw(t, "low"); kind > 0 {
			c := compareValues(a[n], lo[n])
			bounds[0] = [...]keycodec.Bound{{}, keycodec.Including(lo[n]),
				keycodec.Excluding(lo[n])}[kind]
			want = want && (c > 0 || c == 0 && kind == 1)
		}
		if kind := rapid.IntRange(0, 2).Draw(t, "high"); kind > 0 {
			c := compareValues(a[n], hi[n])
			bounds[1] = [...]keycodec.Bound{{}, keycodec.Including(hi[n]),
				keycodec.Excluding(hi[n])}[kind]
			want = want && (c < 0 || c == 0 && kind == 1)
		}
		spans = must(s.Range(lo[:n], bounds[0], bounds[1]))
		if got := contains(spans, key); got != want {
			t.Fatalf("%s: range %v %v, tuple %v: found %v, want %v in %x", s, lo[:n], bounds, a,
				got, want, spans)
		}
		checkOrdered(t, spans)
		if text, ok := hi[n].(string); ok {
			spans := must(s.BeginsWith(append(lo[:n:n], text)...))
			want := equal && strings.HasPrefix(a[n].(string), text)
			if got := contains(spans, key); got != want {
				t.Fatalf("%s: begins with %v %q, tuple %v: found %v, want %v", s, lo[:n], text, a,
					got, want)
			}
		}
	})
}

func checkOrdered(t *rapid.T, spans []keycodec.Span) {
	for i, span := range spans {
		if span.End == nil && i < len(spans)-1 ||
			span.End != nil && bytes.Compare(span.Start, span.End) >= 0 ||
			i > 0 && bytes.Compare(spans[i-1].End, span.Start) > 0 {
			t.Fatalf("spans overlap or are empty: %x", spans)
		}
	}
}

// Above keys that begin with FF only there is no key, and so no end: a key made up as one
// would leave out what it should bound.
func TestAllFFHasNoEnd(t *testing.T) {
	id := composite.Field{Name: "id", Type: composite.UUID}
	n := composite.Field{Name: "n", Type: composite.Integer}
	s := must(composite.NewSchema(composite.Options{Delimiter: composite.HighByte}, id, n))
	most := keycodec.UUID(bytes.Repeat([]byte{0xff}, 16))
	spans := must(s.Prefix(most))
	last := must(s.Append(nil, most, int64(math.MaxInt64)))
	if len(spans) != 1 || spans[0].End != nil || !spans[0].Contains(last) {
		t.Errorf("the spans %x do not hold %x without an end", spans, last)
	}
	above := must(s.Range(nil, keycodec.Excluding(most), keycodec.Bound{}))
	if above != nil {
		t.Errorf("above the largest value there is %x", above)
	}
	upTo := must(s.Range(nil, keycodec.Bound{}, keycodec.Including(most)))
	if !contains(upTo, last) || !contains(upTo, must(s.Append(nil, keycodec.UUID{}, 0))) {
		t.Errorf("up to the largest value there is only %x", upTo)
	}
}

// The two ends of a span are memory of their own: changing one leaves the other.
func TestSpanEndsShareNoMemory(t *testing.T) {
	s := orders()
	for _, spans := range [][]keycodec.Span{must(s.Prefix("u")), must(s.BeginsWith("u")),
		must(s.Prefix("u", 1, orderID)), must(s.Range([]any{"u"}, keycodec.Including(1),
			keycodec.Including(2))), must(s.Prefix())[:1]} {
		start := bytes.Clone(spans[0].Start)
		for i := range spans[0].End {
			spans[0].End[i] ^= 0xff
		}
		if !bytes.Equal(spans[0].Start, start) {
			t.Errorf("%x became %x with its end", start, spans[0].Start)
		}
	}
}

func TestSpanErrors(t *testing.T) {
	s := orders()
	for why, f := range map[string]func() ([]keycodec.Span, error){
		"too many values": func() ([]keycodec.Span, error) { return s.Prefix("u", 1, orderID, 1) },
		"a bad value":     func() ([]keycodec.Span, error) { return s.Prefix(-1) },
		"nothing to bound": func() ([]keycodec.Span, error) {
			return s.Range([]any{"u", 1, orderID}, keycodec.Bound{}, keycodec.Bound{})
		},
		"a bad bound": func() ([]keycodec.Span, error) {
			return s.Range([]any{"u"}, keycodec.Including(int64(-1)), keycodec.Bound{})
		},
		"a bad upper bound": func() ([]keycodec.Span, error) {
			return s.Range([]any{"u"}, keycodec.Bound{}, keycodec.Excluding("x"))
		},
		"the beginning of a time": func() ([]keycodec.Span, error) { return s.BeginsWith("u", 1) },
		"the beginning of nothing": func() ([]keycodec.Span, error) {
			return s.BeginsWith()
		},
		"a zero byte": func() ([]keycodec.Span, error) { return s.BeginsWith("u\x00") },
	} {
		if spans, err := f(); err == nil {
			t.Errorf("%s: spans %x", why, spans)
		}
	}
	// A range that holds no value has no span; without the first field there are as many
	// spans as shards.
	spans := must(s.Range([]any{"u"}, keycodec.Including(2), keycodec.Excluding(2)))
	if spans != nil {
		t.Errorf("an empty range has the spans %x", spans)
	}
	if n := len(must(s.Prefix())); n != 256 {
		t.Errorf("%d spans for 256 shards", n)
	}
}

// Whatever is accepted encodes to itself, under every schema.
func FuzzDecode(f *testing.F) {
	all := append(schemas(), orders())
	key := must(orders().Append(nil, "USR_12345", orderMs, orderID))
	f.Add(uint8(len(all)-1), key)
	for i, s := range []string{"6100001f0000000000000001", "61622f0000000000000001", "", "00",
		"8000000000000001ff61626300ff8000000000000001", "0000011f61"} {
		b, _ := hex.DecodeString(s)
		f.Add(uint8(i*7), b)
	}
	f.Fuzz(func(t *testing.T, pick uint8, b []byte) {
		defer testutil.Watch(pick, b)()
		s := all[int(pick)%len(all)]
		values, err := s.Decode(b)
		if err != nil {
			var c *corrupt.Error
			if !errors.As(err, &c) || c.Offset < 0 || c.Offset > int64(len(b)) {
				t.Fatalf("%s: error %v for %x", s, err, b)
			}
			return
		}
		if again, err := s.Append(nil, values...); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s: %x came back as %x, error %v", s, b, again, err)
		}
	})
}

func FuzzSchemaJSON(f *testing.F) {
	for _, s := range append(schemas()[:4], orders()) {
		f.Add(must(s.MarshalJSON()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testutil.Watch(data)()
		var s composite.Schema
		if s.UnmarshalJSON(data) != nil {
			return
		}
		stored := must(s.MarshalJSON())
		var again composite.Schema
		if err := again.UnmarshalJSON(stored); err != nil || again.String() != s.String() {
			t.Fatalf("%s became %s, error %v", data, stored, err)
		}
	})
}
