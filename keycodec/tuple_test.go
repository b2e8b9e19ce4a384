package keycodec_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/keycodec"
)

// Schemas and tuples for property tests, and an order of tuples that is written without
// their encodings.

func schemas() *rapid.Generator[keycodec.Schema] {
	return rapid.Custom(func(t *rapid.T) keycodec.Schema {
		fields := make([]keycodec.Field, rapid.IntRange(1, 4).Draw(t, "fields"))
		for i := range fields {
			fields[i] = drawField(t, fmt.Sprint("f", i))
		}
		return must(keycodec.NewSchema(fields...))
	})
}

func drawField(t *rapid.T, name string) keycodec.Field {
	f := keycodec.Field{Name: name}
	f.Type = keycodec.Type(rapid.IntRange(int(keycodec.TypeString),
		int(keycodec.TypeIPPrefix)).Draw(t, "type"))
	switch f.Type {
	case keycodec.TypeTime:
		f.Unit = keycodec.Unit(rapid.IntRange(1, int(keycodec.FullRange)).Draw(t, "unit"))
	case keycodec.TypeFixed:
		f.Scale = rapid.Int32Range(0, keycodec.MaxScale).Draw(t, "scale")
	case keycodec.TypeString:
		f.Collation = keycodec.Collation(rapid.IntRange(0, 2).Draw(t, "collation"))
		f.KeepCase = f.Collation != keycodec.CollateBytes && rapid.Bool().Draw(t, "keep")
	}
	f.Desc = rapid.Bool().Draw(t, "desc")
	f.Nullable = rapid.Bool().Draw(t, "nullable")
	f.NullsLast = f.Nullable && rapid.Bool().Draw(t, "last")
	return f
}

// draw generates a value of the field; few enough different ones that tuples often agree
// in their first fields.
func draw(t *rapid.T, f keycodec.Field) any {
	if f.Nullable && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
		return nil
	}
	return drawValue(t, f)
}

func drawValue(t *rapid.T, f keycodec.Field) any {
	small := rapid.Int64Range(-2, 2)
	switch f.Type {
	case keycodec.TypeString:
		if f.Collation != keycodec.CollateBytes {
			letters := []string{"a", "A", "é", "É", "ſ", "S", "\u212a", "\x00", "\xff", "\xc3", "z"}
			parts := rapid.SliceOfN(rapid.SampledFrom(letters), 0, 4).Draw(t, "letters")
			return strings.Join(parts, "")
		}
		return string(awkward(0).Draw(t, "string"))
	case keycodec.TypeBytes:
		return awkward(0).Draw(t, "bytes")
	case keycodec.TypeBool:
		return rapid.Bool().Draw(t, "bool")
	case keycodec.TypeFloat64:
		odd := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1)})
		return rapid.OneOf(odd, rapid.Float64()).Draw(t, "float64")
	case keycodec.TypeFloat32:
		odd := rapid.SampledFrom([]float32{0, 1, -1, float32(math.NaN()), float32(math.Inf(-1))})
		return float64(rapid.OneOf(odd, rapid.Float32()).Draw(t, "float32"))
	case keycodec.TypeTime:
		return drawTime(t, f.Unit)
	case keycodec.TypeUUID:
		return keycodec.UUID{byte(small.Draw(t, "first")), 15: byte(small.Draw(t, "last"))}
	case keycodec.TypeFixed:
		c := rapid.OneOf(small, rapid.Int64()).Draw(t, "coefficient")
		return keycodec.NewDecimal(c, f.Scale)
	case keycodec.TypeIP:
		return drawIP(t)
	case keycodec.TypeIPPrefix:
		a := drawIP(t)
		return netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits")).Masked()
	case keycodec.TypeDecimal:
		return decimal(decimalTexts().Draw(t, "decimal"))
	}
	if width, ok := strings.CutPrefix(f.Type.String(), "int"); ok {
		wide := rapid.Int64().Draw(t, "int64") >> (64 - number(width))
		return rapid.OneOf(small, rapid.Just(wide)).Draw(t, "int")
	}
	width := strings.TrimPrefix(f.Type.String(), "uint")
	wide := rapid.Uint64().Draw(t, "uint64") >> (64 - number(width))
	return rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Just(wide)).Draw(t, "uint")
}

func drawTime(t *rapid.T, u keycodec.Unit) time.Time {
	n := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64Range(-1<<61, 1<<61)).Draw(t, "ticks")
	if u == keycodec.FullRange {
		return time.Unix(n, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
	}
	at, _, err := keycodec.DecodeTime(i64(n), u)
	return must(at, err)
}

func drawIP(t *rapid.T) netip.Addr {
	part := rapid.SampledFrom([]byte{0, 1, 10, 0xff})
	size := rapid.SampledFrom([]int{4, 16}).Draw(t, "family")
	a, _ := netip.AddrFromSlice(rapid.SliceOfN(part, size, size).Draw(t, "address"))
	return a
}

func number(s string) (n int) {
	_, err := fmt.Sscan(s, &n)
	return must(n, err)
}

func tuple(t *rapid.T, s keycodec.Schema) []any {
	values := make([]any, s.Len())
	for i, f := range s.Fields() {
		values[i] = draw(t, f)
	}
	return values
}

// compareTuples is the order that the encodings must have: that of the fields and, where
// they are equal, of the texts that keep their case.
func compareTuples(s keycodec.Schema, a, b []any) int {
	if c := compareFields(s, a, b); c != 0 {
		return c
	}
	for i, f := range s.Fields() {
		x, ok := a[i].(string)
		if !ok || !f.KeepCase {
			continue
		}
		if y := b[i].(string); x != y {
			switch fold(f, x) {
			case x: // the folded spelling is first
				return -1
			case y:
				return 1
			}
			return cmp.Compare(x, y)
		}
	}
	return 0
}

// compareFields is the order of the fields alone, in which the case of collated strings
// means nothing.
func compareFields(s keycodec.Schema, a, b []any) int {
	for i, f := range s.Fields() {
		if c := compareField(f, a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func compareField(f keycodec.Field, x, y any) int {
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil || y == nil:
		if (x == nil) != f.NullsLast {
			return -1
		}
		return 1
	}
	c := compareValues(f, x, y)
	if f.Desc {
		return -c
	}
	return c
}

// compareValues compares two values as if the field were ascending.
func compareValues(f keycodec.Field, x, y any) int {
	switch x := x.(type) {
	case string:
		return cmp.Compare(fold(f, x), fold(f, y.(string)))
	case []byte:
		return bytes.Compare(x, y.([]byte))
	case int64:
		return cmp.Compare(x, y.(int64))
	case uint64:
		return cmp.Compare(x, y.(uint64))
	case float64:
		return cmp.Compare(x, y.(float64)) // NaN first, -0 == +0
	case bool:
		switch {
		case x == y.(bool):
			return 0
		case x:
			return 1
		}
		return -1
	case time.Time:
		return x.Compare(y.(time.Time))
	case netip.Addr:
		return x.Compare(y.(netip.Addr))
	case netip.Prefix:
		return x.Compare(y.(netip.Prefix))
	case keycodec.UUID:
		other := y.(keycodec.UUID)
		return bytes.Compare(x[:], other[:])
	case keycodec.Decimal:
		return x.Compare(y.(keycodec.Decimal)) // checked against rationals elsewhere
	}
	panic(fmt.Sprintf("no order for %T", x))
}

// fold folds the few letters that draw uses beside those that the standard library can.
func fold(f keycodec.Field, s string) string {
	switch f.Collation {
	case keycodec.CollateASCII:
		b := []byte(s)
		for i, c := range b {
			if 'A' <= c && c <= 'Z' {
				b[i] = c + 32
			}
		}
		return string(b)
	case keycodec.CollateUnicode:
		return strings.NewReplacer("A", "a", "É", "é", "ſ", "s", "S", "s", "\u212a", "k").
			Replace(s)
	}
	return s
}
