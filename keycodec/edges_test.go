package keycodec_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

// Each of these tests is a way in which composite keys go wrong elsewhere: a separator
// that values may contain, bounds that lose rows, types that sort by accident.

func textKey(parts ...string) []byte {
	var key []byte
	for _, p := range parts {
		key = keycodec.AppendString(key, p)
	}
	return key
}

// tuples lists all tuples of up to n strings of up to 2 bytes out of the ones given.
func tuples(alphabet string, n int) [][]string {
	texts := []string{""}
	for _, a := range alphabet {
		texts = append(texts, string(a))
		for _, b := range alphabet {
			texts = append(texts, string(a)+string(b))
		}
	}
	list := [][]string{{}}
	for start := 0; n > 0; n-- {
		end := len(list)
		for _, t := range list[start:end] {
			for _, text := range texts {
				list = append(list, append(slices.Clip(t), text))
			}
		}
		start = end
	}
	return list
}

// Promise (keys): Known edge cases of key codecs. Also all tests `TestEdge…`.
func TestEdgePrefixEndOfAllFF(t *testing.T) {
	prefix := []byte{0xff, 0xff}
	if end, ok := keycodec.PrefixEnd(nil, prefix); ok {
		t.Errorf("the end of %x is %x, which cuts off keys", prefix, end)
	}
	if end, _ := keycodec.PrefixEnd(nil, []byte{1, 0xff}); !bytes.Equal(end, []byte{2}) {
		t.Errorf("the end of 01 ff is %x, which lets in the key 02", end)
	}
}

func TestEdgeBoundsShareNoMemory(t *testing.T) {
	s := must(keycodec.NewSchema(keycodec.Field{Name: "n", Type: keycodec.TypeInt64}))
	equal := make([]any, 0, 4)
	span := must(s.RangeSpan(equal, keycodec.Including(1), keycodec.Including(2)))
	start := bytes.Clone(span.Start)
	span.End[7]++
	if !bytes.Equal(span.Start, start) {
		t.Error("changing the end of a span changes its start")
	}
	buf := append(make([]byte, 0, 8), 1, 2)
	keycodec.PrefixEnd(nil, buf)
	if !bytes.Equal(buf, []byte{1, 2}) {
		t.Errorf("the prefix became %x", buf)
	}
}

func TestEdgeEqualityIsNotBeginsWith(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "user", Type: keycodec.TypeString, Desc: true},
		keycodec.Field{Name: "n", Type: keycodec.TypeInt64},
	))
	longer := must(s.Append(nil, "U0012", 1))
	if must(s.EqualSpan("U001")).Contains(longer) {
		t.Error("user = U001 finds U0012")
	}
	if !must(s.BeginsSpan("U001")).Contains(longer) {
		t.Error("user that begins with U001 does not find U0012")
	}
}

// TestEdgeDelimiters takes every byte that serves others as a delimiter, inside of values.
func TestEdgeDelimiters(t *testing.T) {
	list := tuples("\x00\x01\x1f\u00ff", 2)
	seen := map[string]string{}
	for i, a := range list {
		key := textKey(a...)
		if other, ok := seen[string(key)]; ok {
			t.Fatalf("%q and %s have one key", a, other)
		}
		seen[string(key)] = fmt.Sprintf("%q", a)
		for _, b := range list[:i] {
			if got, want := bytes.Compare(key, textKey(b...)), slices.Compare(a, b); got != want {
				t.Fatalf("%q and %q compare %d, want %d", a, b, got, want)
			}
		}
	}
}

// TestEdgeDelimiterInsideFixedWidth decodes times and UUIDs that contain 1F, 00 00 and FF.
func TestEdgeDelimiterInsideFixedWidth(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Millisecond},
		keycodec.Field{Name: "id", Type: keycodec.TypeUUID},
		keycodec.Field{Name: "name", Type: keycodec.TypeString},
	))
	at := time.UnixMilli(0x0000_1f1f_0000_ff1f).UTC()
	id := keycodec.UUID{0x1f, 0, 0, 0xff, 0x1f}
	values := must(s.Decode(must(s.Append(nil, at, id, "\x1f\x00\x00"))))
	if values[0] != at || values[1] != id || values[2] != "\x1f\x00\x00" {
		t.Errorf("the key decodes to %v", values)
	}
}

func TestEdgePaddingMakesStringsEqual(t *testing.T) {
	for _, other := range []string{"a\x00", "a\x00\x00", strings.Repeat("a", 33)} {
		if bytes.Equal(textKey("a"), textKey(other)) {
			t.Errorf("a and %q have one key", other)
		}
	}
	long := strings.Repeat("x", 40)
	if bytes.Equal(textKey(long+"1"), textKey(long+"2")) {
		t.Error("two long names have one key")
	}
}

func TestEdgeNegativeTimes(t *testing.T) {
	for u := keycodec.Second; u <= keycodec.Day; u++ {
		if bytes.Compare(stamp("1969-12-31T23:59:59Z", u), stamp("2025-01-01T00:00:00Z", u)) >= 0 {
			t.Errorf("1969 sorts after 2025 in %s", u)
		}
	}
}

func TestEdgeNegativeIntegers(t *testing.T) {
	if bytes.Compare(i64(-1), i64(1)) >= 0 {
		t.Error("-1 sorts after 1")
	}
}

func TestEdgeScalesDoNotRound(t *testing.T) {
	if _, err := keycodec.AppendFixed(nil, decimal("0.005"), 2); err == nil {
		t.Error("0.005 was stored with two places")
	}
	if _, err := keycodec.AppendFixed(nil, decimal("92233720368547758.08"), 2); err == nil {
		t.Error("a number over the range was stored")
	}
	if !bytes.Equal(fixed("1.5", 2), fixed("1.50", 2)) {
		t.Error("1.5 and 1.50 differ")
	}
}

func TestEdgeDecimalsOfOneValueAreOneKey(t *testing.T) {
	if !bytes.Equal(dec("1.0"), dec("1.00")) || !bytes.Equal(dec("-0"), dec("0.0")) {
		t.Error("1.0 and 1.00, or -0 and 0, differ")
	}
}

func TestEdgeRangesWithoutNulls(t *testing.T) {
	for _, f := range []keycodec.Field{
		{}, {Desc: true}, {NullsLast: true}, {Desc: true, NullsLast: true},
	} {
		f.Name, f.Type, f.Nullable = "n", keycodec.TypeInt64, true
		s := must(keycodec.NewSchema(f))
		null := must(s.Append(nil, nil))
		for _, span := range []keycodec.Span{
			must(s.RangeSpan(nil, keycodec.Bound{}, keycodec.Excluding(5))),
			must(s.RangeSpan(nil, keycodec.Excluding(5), keycodec.Bound{})),
		} {
			if span.Empty() || span.Contains(null) {
				t.Errorf("%v: the range %x is empty or has NULL in it", f, span)
			}
		}
		none := must(s.RangeSpan(nil, keycodec.Including(nil), keycodec.Including(nil)))
		if !none.Empty() {
			t.Errorf("%v: n = NULL finds %x", f, none)
		}
		if !must(s.EqualSpan(nil)).Contains(null) {
			t.Errorf("%v: n IS NULL does not find NULL", f)
		}
	}
}

func TestEdgeReversedRangeIsEmpty(t *testing.T) {
	for _, desc := range []bool{false, true} {
		s := must(keycodec.NewSchema(
			keycodec.Field{Name: "n", Type: keycodec.TypeInt64, Desc: desc}))
		for _, bounds := range [][2]keycodec.Bound{
			{keycodec.Including(2), keycodec.Including(1)},
			{keycodec.Excluding(1), keycodec.Excluding(1)},
			{keycodec.Excluding(4), keycodec.Excluding(5)}, // nothing is between them
		} {
			if span := must(s.RangeSpan(nil, bounds[0], bounds[1])); !span.Empty() {
				t.Errorf("desc %v: %v to %v is %x", desc, bounds[0], bounds[1], span)
			}
		}
	}
}

// TestEdgeArity reads every tuple back with as many parts as it has, empty ones at the end
// included.
func TestEdgeArity(t *testing.T) {
	for _, want := range tuples("\x00\x01\x02\u00ff", 2) {
		rest, got := textKey(want...), []string{}
		for len(rest) > 0 {
			var part string
			var err error
			if part, rest, err = keycodec.DecodeString(rest); err != nil {
				t.Fatalf("%q: %v", want, err)
			}
			got = append(got, part)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q reads back as %q", want, got)
		}
	}
}

// TestEdgeTerminatorFoundFromTheRight has zero bytes at the end of the first part and at
// the start of the second, so that the last 00 00 is not the separator.
func TestEdgeTerminatorFoundFromTheRight(t *testing.T) {
	key := textKey("x", "\x00\x05")
	part, rest, err := keycodec.DecodeString(key)
	if err != nil || part != "x" || !bytes.Equal(rest, textKey("\x00\x05")) {
		t.Errorf("%x splits into %q and %x, error %v", key, part, rest, err)
	}
}

func TestEdgeDescendingWithSharedTerminator(t *testing.T) {
	long, short := desc(textKey("ab")), desc(textKey("a"))
	if bytes.Compare(long, short) >= 0 {
		t.Errorf("descending, ab = %x sorts after a = %x", long, short)
	}
	if bytes.HasPrefix(long, short) || bytes.HasPrefix(short, long) {
		t.Error("one is a prefix of the other")
	}
}

// TestEdgeOneByteTerminator has a number after a string that begins like an escape.
func TestEdgeOneByteTerminator(t *testing.T) {
	for _, second := range []byte{0x00, 0x01, 0x7f, 0xff} {
		number := int64(uint64(second)<<56|0x41<<40) ^ math.MinInt64
		a := keycodec.AppendInt64(textKey("a"), number)
		b := keycodec.AppendInt64(textKey("a\x00"), number)
		if bytes.Compare(a, b) >= 0 || bytes.HasPrefix(b, a) {
			t.Errorf("(a, %x...) = %x and (a 00, ...) = %x", second, a, b)
		}
	}
}

func TestEdgeLengthsDoNotSort(t *testing.T) {
	b := keycodec.Key{PK: []byte("b")}
	aa := keycodec.Key{PK: []byte("aa")}
	if bytes.Compare(keycodec.AppendOrdered(nil, aa), keycodec.AppendOrdered(nil, b)) >= 0 {
		t.Error("in the ordered form b sorts before aa")
	}
	lengths := bytes.Compare(keycodec.AppendLengthPrefixed(nil, aa),
		keycodec.AppendLengthPrefixed(nil, b))
	if lengths <= 0 {
		t.Error("the length-prefixed form sorts: the documentation says that it does not")
	}
	nine, ten := key("u", "post#9"), key("u", "post#10")
	if bytes.Compare(keycodec.AppendOrdered(nil, ten), keycodec.AppendOrdered(nil, nine)) >= 0 {
		t.Error("post#10 sorts after post#9, unlike the bytes")
	}
}

func TestEdgeEmptySortKey(t *testing.T) {
	empty := keycodec.Key{PK: []byte("a"), SK: []byte{}}
	if empty.Validate() == nil {
		t.Error("an empty sort key, which would equal none, is valid")
	}
}

func TestEdgePrintedStripes(t *testing.T) {
	for pk, wrong := range map[string]uint8{"user#1": 147, "user#2": 89, "user#3": 201} {
		if keycodec.Stripe([]byte(pk)) == wrong {
			t.Errorf("%s is in stripe %d", pk, wrong)
		}
	}
}

func TestEdgeZeroAndNaN(t *testing.T) {
	if !bytes.Equal(f64(0), f64(math.Copysign(0, -1))) {
		t.Error("x = 0 does not find -0")
	}
	if bytes.Compare(f64(math.NaN()), f64(math.Inf(-1))) >= 0 {
		t.Error("NaN is not the first")
	}
}

func TestEdgeTimeOverflow(t *testing.T) {
	if b, err := keycodec.AppendTime(nil, time.Time{}, keycodec.Nanosecond); err == nil {
		t.Errorf("the zero time in nanoseconds is %x", b)
	}
	if _, err := keycodec.AppendTime(nil, time.Time{}, keycodec.FullRange); err != nil {
		t.Error(err)
	}
}

func TestEdgeUUIDVersion7SortsByTime(t *testing.T) {
	early, late := uuid("0194733f-7a00-7fff-bfff-ffffffffffff"),
		uuid("0194733f-7a01-7000-8000-000000000000")
	if cmp.Compare(string(early), string(late)) >= 0 {
		t.Error("a later UUID of version 7 sorts before an earlier one")
	}
}
