package schema_test

import (
	"errors"
	"math"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
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
