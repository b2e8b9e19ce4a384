package expr_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func decimal(t testing.TB, s string) expr.Value {
	t.Helper()
	d, err := keycodec.ParseDecimal(s)
	ok(t, err)
	return expr.Decimal(d)
}

func TestValueIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(expr.Value{}); n > 40 {
		t.Errorf("a Value has %d bytes", n)
	}
}

// samples has values of all kinds, in the order of expr.Order.
func samples(t testing.TB) []expr.Value {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return []expr.Value{
		expr.Null(), expr.Bool(false), expr.Bool(true),
		expr.Float(math.NaN()), expr.Float(math.Inf(-1)), decimal(t, "-1e100"),
		expr.Int(math.MinInt64), expr.Float(-0.5), expr.Int(0), decimal(t, "1e-30"),
		expr.Float(0.1), decimal(t, "2.5"), expr.Int(1 << 53), decimal(t, "9007199254740992.5"),
		expr.Int(1<<53 + 1), expr.Int(math.MaxInt64), expr.Uint(math.MaxInt64 + 1),
		expr.Uint(math.MaxUint64), decimal(t, "1e40"), expr.Float(math.MaxFloat64),
		expr.Float(math.Inf(1)),
		expr.String(""), expr.String("a"), expr.String("a\x00"), expr.String("é"),
		expr.Bytes(nil), expr.Bytes([]byte{0}), expr.Bytes([]byte{0xff}),
		expr.Time(time.Unix(-1<<40, 0)), expr.Time(at), expr.Time(at.Add(1)),
		expr.UUID([16]byte{}), expr.UUID([16]byte{15: 1}), expr.UUID([16]byte{0: 0xff}),
		expr.IP(netip.MustParseAddr("1.2.3.4")), expr.IP(netip.MustParseAddr("::1")),
		expr.Prefix(netip.MustParsePrefix("10.0.0.0/8")),
		expr.Prefix(netip.MustParsePrefix("10.0.0.0/9")),
		expr.Prefix(netip.MustParsePrefix("fe80::/10")),
		expr.List(nil), expr.List([]expr.Value{expr.Int(1)}),
		expr.List([]expr.Value{expr.Int(1), expr.String("x")}),
		expr.List([]expr.Value{expr.Int(2)}),
	}
}

func TestOrderOfAllKinds(t *testing.T) {
	s := samples(t)
	for i, a := range s {
		for j, b := range s {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := expr.Order(a, b); got != want {
				t.Errorf("Order(%s, %s) = %d, want %d", a, b, got, want)
			}
			if got := a.Canonical() == b.Canonical(); got != (want == 0) {
				t.Errorf("canonical %s == %s is %t", a, b, got)
			}
			c, ok := expr.Compare(a, b)
			comparable := !a.IsNull() && !b.IsNull() && (a.Kind() == b.Kind() ||
				a.Kind().Numeric() && b.Kind().Numeric())
			if ok != comparable || ok && c != want {
				t.Errorf("Compare(%s, %s) = %d, %t", a, b, c, ok)
			}
		}
	}
}

// rational is an independent reading of a number.
func rational(v expr.Value) *big.Rat {
	switch x := v.Any().(type) {
	case int64:
		return new(big.Rat).SetInt64(x)
	case uint64:
		return new(big.Rat).SetInt(new(big.Int).SetUint64(x))
	case float64:
		return new(big.Rat).SetFloat64(x)
	case keycodec.Decimal:
		r, _ := new(big.Rat).SetString(x.String())
		return r
	}
	return nil
}

// randomNumber prefers numbers near to each other and to the limits of their types.
func randomNumber(rng *rand.Rand) expr.Value {
	base := []int64{0, 1, -1, 5, 1 << 53, -1 << 53, math.MaxInt64, math.MinInt64, 1e18}
	i := base[rng.IntN(len(base))] + rng.Int64N(3) - 1
	switch rng.IntN(6) {
	case 0:
		return expr.Int(i)
	case 1:
		return expr.Uint(uint64(i))
	case 2:
		return expr.Float(float64(i))
	case 3:
		return expr.Float(float64(rng.IntN(100)) / 8)
	case 4:
		return expr.Scaled(i, int32(rng.IntN(19)))
	}
	return expr.Decimal(keycodec.NewDecimal(i, int32(rng.IntN(60)-30)))
}

func TestNumbersCompareExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		a, b := randomNumber(rng), randomNumber(rng)
		want := rational(a).Cmp(rational(b))
		if got, ok := expr.Compare(a, b); !ok || got != want {
			t.Fatalf("Compare(%s %s, %s %s) = %d, want %d", a.Kind(), a, b.Kind(), b, got, want)
		}
		if (a.Canonical() == b.Canonical()) != (want == 0) {
			t.Fatalf("canonical forms of %s %s and %s %s", a.Kind(), a, b.Kind(), b)
		}
		x, y := expr.List([]expr.Value{a}), expr.List([]expr.Value{b})
		if (x.Canonical() == y.Canonical()) != (want == 0) {
			t.Fatalf("canonical forms of lists of %s %s and %s %s", a.Kind(), a, b.Kind(), b)
		}
		if a.Kind() == b.Kind() && (a == b) != (want == 0) {
			t.Fatalf("%s == %s is %t", a, b, a == b)
		}
	}
}

func TestNumbersConvertExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 100_000 {
		v := randomNumber(rng)
		r := rational(v)
		i, ok := v.AsInt()
		if want := r.IsInt() && r.Num().IsInt64(); ok != want || ok && r.Num().Int64() != i {
			t.Fatalf("AsInt(%s %s) = %d, %t", v.Kind(), v, i, ok)
		}
		u, ok := v.AsUint()
		if want := r.IsInt() && r.Num().IsUint64(); ok != want || ok && r.Num().Uint64() != u {
			t.Fatalf("AsUint(%s %s) = %d, %t", v.Kind(), v, u, ok)
		}
		f, _ := v.AsFloat()
		if want, _ := r.Float64(); f != want {
			t.Fatalf("AsFloat(%s %s) = %v, want %v", v.Kind(), v, f, want)
		}
		scale := rng.IntN(19)
		if v.Kind() == expr.KindFloat {
			continue
		}
		up := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
		up.Mul(up, r)
		c, ok := v.AsScaled(int32(scale))
		if want := up.IsInt() && up.Num().IsInt64(); ok != want || ok && up.Num().Int64() != c {
			t.Fatalf("AsScaled(%s %s, %d) = %d, %t", v.Kind(), v, scale, c, ok)
		}
	}
}

func TestFromAndAny(t *testing.T) {
	for _, v := range samples(t) {
		back, err := expr.From(v.Any())
		if err != nil || expr.Order(back, v) != 0 || back != v {
			t.Errorf("From(%s.Any()) = %s, %v", v, back, err)
		}
	}
	type status string
	n := 7
	for _, c := range []struct {
		in   any
		want expr.Value
	}{
		{status("x"), expr.String("x")}, {int8(3), expr.Int(3)}, {uint16(3), expr.Uint(3)},
		{float32(0.5), expr.Float(0.5)}, {&n, expr.Int(7)}, {(*int)(nil), expr.Null()},
		{[]string{"a"}, expr.List([]expr.Value{expr.String("a")})},
		{[]int(nil), expr.Null()}, {[]byte(nil), expr.Null()}, {netip.Addr{}, expr.Null()},
	} {
		if got, err := expr.From(c.in); err != nil || got != c.want {
			t.Errorf("From(%#v) = %s, %v", c.in, got, err)
		}
	}
	for _, bad := range []any{struct{}{}, make(chan int), [][]int{{1}}, map[string]int{},
		netip.MustParseAddr("fe80::1%eth0"), netip.MustParsePrefix("10.0.0.1/8")} {
		if v, err := expr.From(bad); err == nil {
			t.Errorf("From(%#v) = %s", bad, v)
		}
	}
}

func TestElements(t *testing.T) {
	want := samples(t)[:39]
	list := expr.List(want)
	var got []expr.Value
	for e := range list.Elements() {
		got = append(got, e)
	}
	if !reflect.DeepEqual(got, want) || list.Len() != len(want) {
		t.Fatalf("%d elements instead of %d", len(got), len(want))
	}
	encoded, _ := list.ListBytes()
	if back, err := expr.DecodeList(encoded); err != nil || back != list {
		t.Fatal(err)
	}
	for n := range len(encoded) {
		if v, err := expr.DecodeList(encoded[:n]); err == nil && v == list {
			t.Fatalf("cut to %d bytes: the same list", n)
		}
	}
}

func FuzzDecodeList(f *testing.F) {
	encoded, _ := expr.List(samples(f)[:39]).ListBytes()
	f.Add([]byte(encoded))
	f.Add([]byte{byte(expr.KindDecimal), 0xff, 3, 0xa2, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		v, err := expr.DecodeList(string(b))
		if err != nil {
			return
		}
		var elements []expr.Value
		for e := range v.Elements() {
			elements = append(elements, e)
		}
		if again := expr.List(elements); again != v {
			t.Fatalf("%x is read as %s and written in another way", b, v)
		}
	})
}

// The Go value of a text is no view of the memory that the text is read from.
func TestAnyIsACopy(t *testing.T) {
	row := []byte("text")
	text := expr.String(unsafe.String(&row[0], len(row)))
	got := []any{text.Any(), expr.List([]expr.Value{text}).Any()}
	row[0] = 'X'
	if want := "[text [text]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
