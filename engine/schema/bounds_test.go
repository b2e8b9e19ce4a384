package schema_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// TestTimesOfEveryUnit converts the times around the ends of the range of each unit, and
// compares with exact arithmetic.
func TestTimesOfEveryUnit(t *testing.T) {
	units := map[keycodec.Unit]int64{keycodec.Second: 1, keycodec.Millisecond: 1e3,
		keycodec.Microsecond: 1e6, keycodec.Nanosecond: 1e9, keycodec.FullRange: 1e9}
	const maxSecond = math.MaxInt64 - 62135596800
	for unit, per := range units {
		c := schema.Column{Name: "at", Type: keycodec.TypeTime, Unit: unit}
		k := schema.KeyColumn{Desc: true}
		for _, base := range []int64{0, 1 << 33, -1 << 33, math.MaxInt64 / per, math.MinInt64 / per,
			maxSecond, math.MinInt64} {
			for near := int64(-2); near <= 2; near++ {
				if base < 0 && base+near > 0 && base < -1000 || base > 1000 && base+near < 0 {
					continue // around the end of an int64
				}
				for _, nanos := range []uint32{0, 1, 999, 1000, 145_224_191, 145_224_192,
					807_000_000, 854_775_806, 854_775_807, 854_775_808, 999_999_999} {
					second := base + near
					ticks := new(big.Int).Mul(big.NewInt(second), big.NewInt(per))
					ticks.Add(ticks, big.NewInt(int64(nanos)/(1e9/per)))
					fits, want := ticks.IsInt64(), nanos-nanos%uint32(1e9/per)
					if unit == keycodec.FullRange || unit == keycodec.Second {
						fits = second <= maxSecond
					}
					v := expr.UnixTime(second, nanos)
					got, err := c.Convert(v)
					if fits != (err == nil) || fits && got != expr.UnixTime(second, want) ||
						!fits && (got != expr.Null() || !errors.Is(err, schema.ErrRange)) {
						t.Fatalf("%s: %d s %d ns is %s, error %v", unit, second, nanos, got, err)
					}
					b, keyErr := c.AppendField(nil, k, v)
					if fits != (keyErr == nil) || !fits && b != nil {
						t.Fatalf("%s: %d s %d ns in a key: %x, %v", unit, second, nanos, b, keyErr)
					}
					if !fits {
						continue
					}
					back, rest, err := c.DecodeField(b, k)
					if err != nil || back != got || len(rest) > 0 {
						t.Fatalf("%s: %s reads back as %s, %v", unit, got, back, err)
					}
				}
			}
		}
	}
}

// TestNumbersAtTheLimits converts the ends of the range of each column, and the numbers next to
// them.
func TestNumbersAtTheLimits(t *testing.T) {
	for typ, ends := range map[keycodec.Type][2]string{
		keycodec.TypeInt8: {"-128", "127"}, keycodec.TypeInt16: {"-32768", "32767"},
		keycodec.TypeInt32:  {"-2147483648", "2147483647"},
		keycodec.TypeInt64:  {"-9223372036854775808", "9223372036854775807"},
		keycodec.TypeUint8:  {"0", "255"},
		keycodec.TypeUint16: {"0", "65535"}, keycodec.TypeUint32: {"0", "4294967295"},
		keycodec.TypeUint64: {"0", "18446744073709551615"},
		keycodec.TypeFixed:  {"-92233720368547758.08", "92233720368547758.07"},
	} {
		c := schema.Column{Name: "c", Type: typ}
		if typ == keycodec.TypeFixed {
			c.Scale = 2
		}
		step := []string{"0", "1", "0.5", "-0.5", "-1", "0.01", "-0.01", "1e30", "-1e30"}
		for end, text := range ends {
			for _, s := range step {
				v, _ := expr.Calculate(expr.Add, number(t, text), number(t, s))
				low, high := number(t, ends[0]), number(t, ends[1])
				below, _ := expr.Compare(v, low)
				above, _ := expr.Compare(v, high)
				_, scaled := v.AsScaled(c.Scale)
				_, long := v.AsUint()
				whole := (scaled || long) && below >= 0 && above <= 0
				got, err := c.Convert(v)
				same, _ := expr.Compare(got, v)
				if whole != (err == nil) || whole && same != 0 || !whole && got != expr.Null() {
					t.Errorf("%s: %s, end %d, becomes %s, error %v", &c, v, end, got, err)
				}
				key, err := c.AppendField(nil, schema.KeyColumn{}, v)
				if whole != (err == nil) {
					t.Errorf("%s: %s in a key: %x, error %v", &c, v, key, err)
				}
				if back, _, err := c.DecodeField(key, schema.KeyColumn{}); whole &&
					(err != nil || back != got) {
					t.Errorf("%s: %s in a key reads back as %s, error %v", &c, v, back, err)
				}
			}
		}
	}
}

// TestInfiniteNumbers: floats have them, decimals have not.
func TestInfiniteNumbers(t *testing.T) {
	narrow := schema.Column{Name: "c", Type: keycodec.TypeFloat32}
	decimals := schema.Column{Name: "c", Type: keycodec.TypeDecimal}
	for _, inf := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if v, err := decimals.Convert(expr.Float(inf)); !errors.Is(err, schema.ErrRange) ||
			!v.IsNull() {
			t.Errorf("%v as a decimal: %s, %v", inf, v, err)
		}
		if v, err := narrow.Convert(expr.Float(inf)); err != nil || v != expr.Float(inf) {
			t.Errorf("%v as a float32: %s, %v", inf, v, err)
		}
	}
}

// TestTextsOfTypes converts the texts that columns read, and refuses the others as values,
// in keys and in rows.
func TestTextsOfTypes(t *testing.T) {
	for _, c := range []struct {
		typ  keycodec.Type
		text string
		want string // the value, "" if it is refused
	}{
		{keycodec.TypeIP, "1.2.3.4", "1.2.3.4"}, {keycodec.TypeIP, "fe80::1%eth0", ""},
		{keycodec.TypeIP, "1.2.3", ""}, {keycodec.TypeIPPrefix, "10.0.0.0/8", "10.0.0.0/8"},
		{keycodec.TypeIPPrefix, "10.0.0.1/8", ""}, {keycodec.TypeIPPrefix, "10.0.0.0", ""},
		{keycodec.TypeUUID, "0-0", ""}, {keycodec.TypeTime, "yesterday", ""},
		{keycodec.TypeTime, "2026-01-02 03:04", "2026-01-02T03:04:00Z"},
		{keycodec.TypeInt8, "1", ""}, {keycodec.TypeBytes, "b", ""}, {keycodec.TypeBool, "1", ""},
	} {
		col := schema.Column{Name: "c", Type: c.typ}
		if c.typ == keycodec.TypeTime {
			col.Unit = keycodec.Second
		}
		v := expr.String(c.text)
		got, err := col.Convert(v)
		key, keyErr := col.AppendField([]byte("dst"), schema.KeyColumn{}, v)
		if c.want != "" {
			if err != nil || keyErr != nil || !strings.Contains(got.String(), c.want) {
				t.Errorf("%s: %q is %s: %v, %v", &col, c.text, got, err, keyErr)
			}
			continue
		}
		for _, err := range []error{err, keyErr} {
			if !errors.Is(err, schema.ErrType) {
				t.Errorf("%s: %q: %v", &col, c.text, err)
			}
		}
		if !got.IsNull() || string(key) != "dst" {
			t.Errorf("%s: %q is refused as %s, %q", &col, c.text, got, key)
		}
	}
	for typ, v := range map[keycodec.Type]expr.Value{keycodec.TypeTime: expr.Int(1),
		keycodec.TypeString: expr.Int(1), keycodec.TypeInt8: expr.Bool(true)} {
		col := schema.Column{Name: "c", Type: typ, Unit: keycodec.Second}
		key, err := col.AppendField([]byte("dst"), schema.KeyColumn{}, v)
		if string(key) != "dst" || !errors.Is(err, schema.ErrType) {
			t.Errorf("%s: %s in a key: %q, %v", &col, v, key, err)
		}
	}
}
