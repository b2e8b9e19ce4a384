package schema_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func number(t testing.TB, s string) expr.Value {
	t.Helper()
	d, err := keycodec.ParseDecimal(s)
	ok(t, err)
	return expr.Decimal(d)
}

func TestConvert(t *testing.T) {
	column := func(typ keycodec.Type) schema.Column { return schema.Column{Name: "c", Type: typ} }
	fixed, ms := column(keycodec.TypeFixed), column(keycodec.TypeTime)
	fixed.Scale, ms.Unit = 2, keycodec.Millisecond
	list := schema.Column{Name: "c", Type: keycodec.TypeInt8, List: true}
	at := func(s string) expr.Value {
		v, err := ms.Convert(expr.String(s))
		ok(t, err)
		return v
	}
	for _, c := range []struct {
		column schema.Column
		in     expr.Value
		want   expr.Value
		err    error
	}{
		{column(keycodec.TypeInt8), expr.Uint(127), expr.Int(127), nil},
		{column(keycodec.TypeInt8), expr.Int(128), expr.Null(), schema.ErrRange},
		{column(keycodec.TypeInt8), expr.Int(-129), expr.Null(), schema.ErrRange},
		{column(keycodec.TypeInt64), expr.Float(-3), expr.Int(-3), nil},
		{column(keycodec.TypeInt64), number(t, "2.5"), expr.Null(), schema.ErrRange},
		{column(keycodec.TypeInt64), expr.String("1"), expr.Null(), schema.ErrType},
		{column(keycodec.TypeInt64), expr.Null(), expr.Null(), schema.ErrNull},
		{column(keycodec.TypeUint8), expr.Int(-1), expr.Null(), schema.ErrRange},
		{column(keycodec.TypeUint64), number(t, "18446744073709551615"),
			expr.Uint(math.MaxUint64), nil},
		{column(keycodec.TypeFloat64), number(t, "0.1"), expr.Float(0.1), nil},
		{column(keycodec.TypeFloat32), number(t, "0.1"), expr.Float(float64(float32(0.1))), nil},
		{column(keycodec.TypeFloat32), expr.Float(1e39), expr.Null(), schema.ErrRange},
		{column(keycodec.TypeFloat32), expr.Float(math.Inf(1)), expr.Float(math.Inf(1)), nil},
		{column(keycodec.TypeDecimal), expr.Float(0.5), number(t, "0.5"), nil},
		{column(keycodec.TypeDecimal), expr.Float(math.NaN()), expr.Null(), schema.ErrRange},
		{fixed, number(t, "12.340"), number(t, "12.34"), nil},
		{fixed, number(t, "12.345"), expr.Null(), schema.ErrRange},
		{fixed, expr.Int(math.MaxInt64), expr.Null(), schema.ErrRange},
		{ms, expr.UnixTime(1, 1_999_999), expr.UnixTime(1, 1_000_000), nil},
		{ms, expr.UnixTime(-1, 1), expr.UnixTime(-1, 0), nil},
		{ms, expr.UnixTime(math.MaxInt64, 0), expr.Null(), schema.ErrRange},
		{ms, expr.String("2026-01-02T03:04:05+01:00"), at("2026-01-02 02:04:05"), nil},
		{ms, expr.String("2026-01-02"), at("2026-01-02T00:00:00Z"), nil},
		{ms, expr.String("tomorrow"), expr.Null(), schema.ErrType},
		{column(keycodec.TypeUUID), expr.String("00000000-0000-0000-0000-0000000000ff"),
			expr.UUID([16]byte{15: 0xff}), nil},
		{column(keycodec.TypeBytes), expr.String("x"), expr.Null(), schema.ErrType},
		{list, expr.List([]expr.Value{expr.Uint(1)}), expr.List([]expr.Value{expr.Int(1)}), nil},
		{list, expr.List([]expr.Value{expr.Int(300)}), expr.Null(), schema.ErrRange},
		{list, expr.List([]expr.Value{expr.Null()}), expr.Null(), schema.ErrNull},
		{list, expr.Int(1), expr.Null(), schema.ErrType},
	} {
		got, err := c.column.Convert(c.in)
		if !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s: Convert(%s) = %s, %v; want %s, %v", &c.column, c.in, got, err, c.want,
				c.err)
		}
	}
}

func TestBoundExamples(t *testing.T) {
	int8s := schema.Column{Name: "c", Type: keycodec.TypeInt8}
	folded := schema.Column{Name: "c", Type: keycodec.TypeString, Collation: keycodec.CollateASCII}
	decimals := schema.Column{Name: "c", Type: keycodec.TypeDecimal}
	for _, c := range []struct {
		column *schema.Column
		in     expr.Value
		want   expr.Value
		cmp    int
	}{
		{&int8s, number(t, "2.5"), expr.Int(2), -1},
		{&int8s, number(t, "-2.5"), expr.Int(-3), -1},
		{&int8s, number(t, "1e-3000"), expr.Int(0), -1},
		{&int8s, expr.Int(300), expr.Int(127), -1},
		{&int8s, expr.Int(-300), expr.Int(-128), 1},
		{&int8s, expr.Float(5), expr.Int(5), 0},
		{&int8s, expr.Float(math.NaN()), expr.Int(-128), 1},
		{&int8s, expr.Null(), expr.Null(), 0},
		{&folded, expr.String("ABC"), expr.String("abc"), 0},
		{&decimals, expr.Float(math.Inf(1)), expr.Null(), -1},
		{&decimals, expr.Float(math.NaN()), expr.Null(), 1},
		{&decimals, expr.Float(0.5), number(t, "0.5"), 0},
	} {
		got, cmp, err := c.column.Bound(c.in)
		if err != nil || got != c.want || cmp != c.cmp {
			t.Errorf("%s: Bound(%s) = %s, %d, %v; want %s, %d", c.column, c.in, got, cmp, err,
				c.want, c.cmp)
		}
	}
	for _, bad := range []expr.Value{expr.String("1"), expr.Bool(true)} {
		if _, _, err := int8s.Bound(bad); !errors.Is(err, schema.ErrType) {
			t.Errorf("Bound(%s): %v", bad, err)
		}
	}
}

// TestBoundKeepsConditions: for every value of a column, a condition with the asked value
// is true if and only if the documented condition with the bound is.
func TestBoundKeepsConditions(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds(30_000) {
		c := randomColumn(rng, "c")
		c.List, c.Nullable = false, false
		if c.Collation != keycodec.CollateBytes {
			continue
		}
		other := c
		switch c.Type {
		case keycodec.TypeTime:
			other.Unit = keycodec.FullRange
		case keycodec.TypeString, keycodec.TypeBytes, keycodec.TypeBool, keycodec.TypeUUID,
			keycodec.TypeIP, keycodec.TypeIPPrefix:
		default:
			numbers := []keycodec.Type{keycodec.TypeInt64, keycodec.TypeUint64,
				keycodec.TypeFloat64, keycodec.TypeDecimal, keycodec.TypeFixed}
			other.Type, other.Scale = numbers[rng.IntN(len(numbers))], 3
			if other.Type != keycodec.TypeFixed {
				other.Scale = 0
			}
		}
		x, v := randomElement(rng, &c), randomElement(rng, &other)
		if v.Kind().Numeric() && rng.IntN(2) == 0 { // near to x
			v, _ = expr.Calculate(expr.Add, x, number(t, []string{"0.5", "-0.5",
				"1e-9"}[rng.IntN(3)]))
		}
		bound, cmp, err := c.Bound(v)
		if err != nil {
			t.Fatalf("seed %d round %d: %s: Bound(%s): %v", seed, round, &c, v, err)
		}
		want, _ := expr.Compare(x, v)
		switch got, ok := expr.Compare(x, bound); {
		case !ok: // all values of the column are below v, or above
			if cmp != want {
				t.Fatalf("seed %d round %d: %s against %s is %d", seed, round, x, v, want)
			}
		case cmp == 0 && got != want, cmp < 0 && (got > 0) != (want > 0),
			cmp > 0 && (got >= 0) != (want > 0), cmp != 0 && want == 0:
			t.Fatalf("seed %d round %d: %s: %s against %s is %d, bound %s, %d", seed, round, &c,
				x, v,
				want, bound, cmp)
		}
	}
}
