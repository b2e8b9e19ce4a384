package expr_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

func lit(t testing.TB, v any) expr.Const {
	t.Helper()
	x, err := expr.From(v)
	ok(t, err)
	return expr.Const{Value: x}
}

func TestProgramsAllocateNothing(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	i, s := expr.Column{Ordinal: 0, Name: "i"}, expr.Column{Ordinal: 1, Name: "s",
		Collation: keycodec.CollateUnicode}
	many := make([]expr.Expr, 20)
	for j := range many {
		many[j] = lit(t, j*2)
	}
	row := []expr.Value{expr.Int(5), expr.String("Straße"), expr.Scaled(55, 1),
		expr.List([]expr.Value{expr.Int(1), expr.Int(2)})}
	params := []expr.Value{expr.Int(4)}
	for _, e := range []expr.Expr{
		expr.Cmp{Op: expr.Gt, L: i, R: lit(t, 4)},
		expr.And{Terms: []expr.Expr{expr.Cmp{Op: expr.Eq, L: i, R: lit(t, 5.0)},
			expr.Between{X: i, Lo: expr.Param{}, Hi: lit(t, uint64(9))}}},
		expr.In{X: i, List: many, Not: true},
		expr.BeginsWith{X: s, Prefix: lit(t, "STRA")},
		expr.Like{X: s, Pattern: lit(t, "%A_E")},
		expr.Cmp{Op: expr.Lt, L: expr.Column{Ordinal: 2}, R: lit(t, keycodec.NewDecimal(1, -30))},
		expr.Contains{X: expr.Column{Ordinal: 3}, Item: lit(t, 2)},
		expr.Cmp{Op: expr.Le, L: expr.Row{Items: []expr.Expr{i, s}},
			R: expr.Row{Items: []expr.Expr{lit(t, 5), lit(t, "z")}}},
		expr.Cmp{Op: expr.Eq, L: expr.Arith{Op: expr.Add, L: i, R: lit(t, 1)}, R: lit(t, 6)},
	} {
		p, err := expr.Compile(e)
		ok(t, err)
		n := testutil.AllocsPerRun(100, func() {
			if truth, err := p.Test(row, params); err != nil || truth != expr.True {
				t.Fatalf("%s is %s, %v", e, truth, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", e, n)
		}
	}
}

// A calculation of constants is one when it is compiled, unless it fails: that is for the rows.
func TestConstantsAreCalculatedOnce(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	minus := expr.Arith{Op: expr.Neg, L: lit(t, 84)}
	product := expr.Arith{Op: expr.Mul, L: minus, R: lit(t, 38)}
	e := expr.Arith{Op: expr.Add, L: product, R: lit(t, 1)}
	p, err := expr.Compile(e)
	ok(t, err)
	if v, err := p.Value(nil, nil); err != nil || v != expr.Int(-3191) {
		t.Errorf("%s is %s, %v", e, v, err)
	}
	if n := testutil.AllocsPerRun(100, func() { expr.Compile(e) }); n > 2 {
		t.Errorf("%v allocations to compile %s", n, e)
	}
	for _, bad := range []expr.Arith{{Op: expr.Add, L: lit(t, 1), R: lit(t, "x")},
		{Op: expr.Neg, L: lit(t, "x")}} {
		p, err := expr.Compile(expr.Arith{Op: expr.Add, L: expr.Slot{I: 0}, R: bad})
		ok(t, err)
		if _, err := p.Value([]expr.Value{expr.Int(1)}, nil); !errors.Is(err, expr.ErrType) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestWhatDecidesFirstDecides(t *testing.T) {
	bad := expr.Cmp{Op: expr.Eq, L: lit(t, 1), R: lit(t, "x")}
	no, yes := expr.Cmp{Op: expr.Eq, L: lit(t, 1), R: lit(t, 2)}, expr.Const{Value: expr.Bool(true)}
	for _, c := range []struct {
		e    expr.Expr
		want expr.Truth
		err  error
	}{
		{expr.And{Terms: []expr.Expr{no, bad}}, expr.False, nil},
		{expr.Or{Terms: []expr.Expr{yes, bad}}, expr.True, nil},
		{expr.And{Terms: []expr.Expr{yes, bad}}, expr.Unknown, expr.ErrType},
		{bad, expr.Unknown, expr.ErrType},
		{lit(t, 5), expr.Unknown, expr.ErrType},
		{expr.And{}, expr.True, nil}, {expr.Or{}, expr.False, nil},
		{expr.Const{}, expr.Unknown, nil},
		{expr.In{X: expr.Const{}, Not: true}, expr.True, nil},
		{expr.In{X: lit(t, "q"), List: slices.Repeat([]expr.Expr{lit(t, 1)}, 9)}, expr.Unknown,
			expr.ErrType},
	} {
		if got, err := expr.Test(c.e, nil, nil); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s is %s, %v", c.e, got, err)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	row := expr.Row{Items: []expr.Expr{lit(t, 1)}}
	deep := expr.Expr(lit(t, true))
	for range expr.MaxDepth + 1 {
		deep = expr.Not{X: deep}
	}
	for _, e := range []expr.Expr{
		nil, row, expr.Cmp{L: row, R: lit(t, 1)}, expr.Cmp{Op: 9, L: row, R: row}, expr.Subquery{},
		expr.Func{Name: "nothing"}, expr.Func{Name: "abs"}, expr.Not{}, expr.Arith{Op: expr.Add},
		expr.Cmp{L: row, R: expr.Row{Items: []expr.Expr{row, row}}}, deep, expr.Arith{Op: 17},
	} {
		if _, err := expr.Compile(e); err == nil {
			t.Errorf("%v is compiled", e)
		}
	}
	p, err := expr.Compile(expr.Cmp{Op: expr.Eq, L: expr.Column{Ordinal: 3},
		R: expr.Param{Index: 1}})
	ok(t, err)
	if _, err := p.Test(make([]expr.Value, 2), nil); err == nil {
		t.Error("a column that the row has not is evaluated")
	}
	if _, err := p.Test(make([]expr.Value, 4), nil); err == nil {
		t.Error("a parameter that is not given is evaluated")
	}
}

// TestArithmeticIsExact compares with rational numbers.
func TestArithmeticIsExact(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		a, b := randomNumber(rng), randomNumber(rng)
		if a.Kind() == expr.KindFloat || b.Kind() == expr.KindFloat {
			continue
		}
		x, y := rational(a), rational(b)
		for op, f := range map[expr.ArithOp]func(x, y *big.Rat) *big.Rat{
			expr.Add: new(big.Rat).Add, expr.Sub: new(big.Rat).Sub, expr.Mul: new(big.Rat).Mul,
			expr.Neg: func(x, _ *big.Rat) *big.Rat { return new(big.Rat).Neg(x) },
			expr.Div: quotient(a, b), expr.Mod: remainder,
		} {
			got, err := expr.Calculate(op, a, b)
			if err != nil {
				t.Fatalf("seed %d: %s %s %s: %v", seed, a, op, b, err)
			}
			if (op == expr.Div || op == expr.Mod) && y.Sign() == 0 {
				if !got.IsNull() {
					t.Fatalf("%s %s %s = %s", a, op, b, got)
				}
				continue
			}
			if want := f(x, y); rational(got).Cmp(want) != 0 {
				t.Fatalf("seed %d: %s %s %s = %s, want %s", seed, a, op, b, got, want)
			}
		}
	}
}

func remainder(x, y *big.Rat) *big.Rat {
	q := new(big.Rat).Quo(x, y)
	whole := new(big.Rat).SetInt(new(big.Int).Quo(q.Num(), q.Denom()))
	return new(big.Rat).Sub(x, whole.Mul(whole, y))
}

func quotient(a, b expr.Value) func(x, y *big.Rat) *big.Rat {
	return func(x, y *big.Rat) *big.Rat {
		q := new(big.Rat).Quo(x, y)
		if a.Kind() != expr.KindDecimal && b.Kind() != expr.KindDecimal {
			return new(big.Rat).SetInt(new(big.Int).Quo(q.Num(), q.Denom()))
		}
		up := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil))
		q.Mul(q, up)
		// Half to even: twice the fraction against 1.
		whole, rest := new(big.Int).QuoRem(q.Num(), q.Denom(), new(big.Int))
		c := new(big.Int).Abs(rest)
		switch half := c.Lsh(c, 1).Cmp(q.Denom()); {
		case half > 0, half == 0 && whole.Bit(0) == 1:
			whole.Add(whole, big.NewInt(int64(q.Sign())))
		}
		return q.SetInt(whole).Quo(q, up)
	}
}

func TestArithmeticOfKinds(t *testing.T) {
	max, half := expr.Int(math.MaxInt64), decimal(t, "0.5")
	for _, c := range []struct {
		op   expr.ArithOp
		a, b expr.Value
		want expr.Value
	}{
		{expr.Add, max, expr.Int(1), expr.Uint(1 << 63)},
		{expr.Mul, max, expr.Int(4), decimal(t, "36893488147419103228")},
		{expr.Add, half, expr.Float(1), expr.Float(1.5)},
		{expr.Div, expr.Int(7), expr.Int(-2), expr.Int(-3)},
		{expr.Mod, expr.Int(-7), expr.Int(2), expr.Int(-1)},
		{expr.Div, expr.Int(7), decimal(t, "2.0"), decimal(t, "3.5")},
		{expr.Div, expr.Float(1), expr.Float(0), expr.Null()},
		{expr.Add, expr.Null(), half, expr.Null()}, {expr.Neg, expr.Null(), half, expr.Null()},
	} {
		if got, err := expr.Calculate(c.op, c.a, c.b); err != nil || got != c.want {
			t.Errorf("%s %s %s = %s, %v; want %s", c.a, c.op, c.b, got, err, c.want)
		}
	}
	if _, err := expr.Calculate(expr.Add, half, expr.String("x")); !errors.Is(err, expr.ErrType) {
		t.Error(err)
	}
	huge := decimal(t, "1e900000000")
	if _, err := expr.Calculate(expr.Add, huge, half); !errors.Is(err, expr.ErrRange) {
		t.Error(err)
	}
}

// TestValidDecimal compares with what keycodec decodes, on short encodings and on changed
// ones.
func TestValidDecimal(t *testing.T) {
	check := func(b []byte) {
		t.Helper()
		_, rest, err := keycodec.DecodeDecimal(b)
		if got, want := expr.ValidDecimal(string(b)), err == nil && len(rest) == 0; got != want {
			t.Fatalf("%x is valid: %t, want %t", b, got, want)
		}
	}
	check(nil)
	for head := range 256 {
		check([]byte{byte(head)})
		for digit := range 256 {
			check([]byte{byte(head), byte(digit)})
			for _, last := range []byte{0, 1, 0xff} {
				check([]byte{byte(head), byte(digit), last})
				check([]byte{byte(head), 0x10, byte(digit), 0x20, last})
				check([]byte{byte(head), 0xef, byte(digit), 0xdf, last})
			}
		}
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 50_000 {
		d := keycodec.NewDecimal(rng.Int64()>>rng.IntN(60)*int64(1-2*rng.IntN(2)), rng.Int32())
		b := keycodec.AppendDecimal(nil, d)
		check(b)
		b[rng.IntN(len(b))] ^= byte(1) << rng.IntN(8)
		check(b)
		check(b[:rng.IntN(len(b))])
	}
}

func TestFunctions(t *testing.T) {
	call := func(name string, args ...any) expr.Expr {
		f := expr.Func{Name: name}
		for _, a := range args {
			f.Args = append(f.Args, lit(t, a))
		}
		return f
	}
	for _, c := range []struct {
		e    expr.Expr
		want any
	}{
		{call("lower", "ÄB"), "äb"}, {call("upper", "äb"), "ÄB"}, {call("trim", " a "), "a"},
		{call("length", "äb"), 2}, {call("length", []byte("ä")), 2}, {call("length", []int{1, 2,
			3}), 3},
		{call("abs", -2), 2}, {call("abs", int64(math.MinInt64)), uint64(1 << 63)},
		{call("coalesce", nil, 3, 4), 3}, {call("coalesce", nil), nil},
		{call("nullif", 1, 1.0), nil}, {call("nullif", 1, 2), 1}, {call("lower", nil), nil},
		{call("substr", "hällo", 2, 3), "äll"}, {call("substr", "hällo", -2), "lo"},
		{call("substr", "abc", 0, 2), "a"}, {call("substr", "abc", -5, 3), "a"},
		{call("substr", "abc", 9), ""},
		{call("substr", "abc", -5), "abc"}, {call("substr", "abc", 0), "abc"},
		{call("substr", "abc", 1, int64(math.MaxInt64)), "abc"},
		{call("concat", "a", "b", "c"), "abc"},
		{call("tidb_shard", 100), 8}, {call("tidb_shard", -1), 81}, {call("shard", "tidb:256",
			1), 214},
		{call("shard", "mix64:16", nil), nil},
	} {
		want := lit(t, c.want).Value
		if got, err := expr.Eval(c.e, nil, nil); err != nil || expr.Order(got, want) != 0 {
			t.Errorf("%s = %s, %v; want %s", c.e, got, err, want)
		}
	}
	for _, bad := range []expr.Expr{call("lower", 1), call("length", 1), call("abs", "x"),
		call("substr", "x", "y"), call("substr", 1, 1), call("concat", []int{1}),
		call("shard", "no:1",
			1), call("shard", 1, 1), call("tidb_shard", "x")} {
		if v, err := expr.Eval(bad, nil, nil); err == nil {
			t.Errorf("%s = %s", bad, v)
		}
	}
	if !slices.Contains(expr.Functions(), "tidb_shard") {
		t.Error(expr.Functions())
	}
}

func TestLikePrefix(t *testing.T) {
	for _, c := range []struct {
		pattern       string
		escape        rune
		prefix        string
		exact, begins bool
	}{
		{"abc", 0, "abc", true, false}, {"abc%", 0, "abc", false, true}, {"", 0, "", true, false},
		{"a%%", 0, "a", false, true}, {"a%b", 0, "a", false, false}, {"a_", 0, "a", false, false},
		{"%", 0, "", false, true}, {`a\%b%`, '\\', "a%b", false, true},
		{`a\_`, '\\', "a_", true, false}, {`a\`, '\\', "a", false, false}, {`a\%`, 0, `a\`,
			false, true},
		{"\xc3%", 0, "\xc3", false, false}, {"\xc3\\\xa9", '\\', "é", false, false},
	} {
		prefix, exact, begins := expr.LikePrefix(c.pattern, c.escape)
		if prefix != c.prefix || exact != c.exact || begins != c.begins {
			t.Errorf("%q: %q, %t, %t", c.pattern, prefix, exact, begins)
		}
		like := expr.Like{X: lit(t, prefix), Pattern: lit(t, c.pattern), Escape: c.escape}
		if truth, err := expr.Test(like, nil, nil); err != nil || (exact || begins) &&
			truth != expr.True {
			t.Errorf("%s is %s, %v", like, truth, err)
		}
	}
	// A pattern that ends with its escape character matches nothing, as in SQLite.
	for _, text := range []string{`a\`, `\`, `a\\\`} {
		like := expr.Like{X: lit(t, text), Pattern: lit(t, text), Escape: '\\'}
		if truth, err := expr.Test(like, nil, nil); err != nil || truth != expr.False {
			t.Errorf("%s is %s, %v", like, truth, err)
		}
	}
	// Backtracking over many % must not take long.
	slow := expr.Like{X: lit(t, strings.Repeat("a", 20_000)),
		Pattern: lit(t, strings.Repeat("%a", 50)+"b")}
	if truth, err := expr.Test(slow, nil, nil); err != nil || truth != expr.False {
		t.Error(truth, err)
	}
}

func TestFoldingIsThatOfKeys(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		s := string(r)
		for _, c := range []keycodec.Collation{keycodec.CollateBytes, keycodec.CollateASCII,
			keycodec.CollateUnicode} {
			if folded := c.Fold(s); expr.CompareFolded(s, folded, c) != 0 {
				t.Fatalf("%q and its folded form %q differ under %s", s, folded, c)
			}
			for _, other := range []string{"m", "é", "\u2000"} { // the last is amid Cherokee
				want := strings.Compare(c.Fold(s), other)
				if got := expr.CompareFolded(s, other, c); got != want {
					t.Fatalf("%q and %q compare as %d under %s, want %d", s, other, got, c, want)
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	parts := []string{"a", "A", "é", "É", "\xff", "\xc3", "\x00", "ß", "\u212a", "k", "Ⅷ"}
	for range 20_000 {
		var a, b string
		for range rng.IntN(4) {
			a += parts[rng.IntN(len(parts))]
			b += parts[rng.IntN(len(parts))]
		}
		for c := keycodec.CollateBytes; c <= keycodec.CollateUnicode; c++ {
			want := strings.Compare(c.Fold(a), c.Fold(b))
			if got := expr.CompareFolded(a, b, c); got != want {
				t.Fatalf("%q and %q compare as %d under %s, want %d", a, b, got, c, want)
			}
		}
	}
}

func TestText(t *testing.T) {
	a, b := expr.Column{Name: "a"}, expr.Column{Name: "order", Table: "o", Ordinal: 1}
	one, two := lit(t, 1), lit(t, -2)
	eq := expr.Cmp{Op: expr.Eq, L: a, R: one}
	and := func(terms ...expr.Expr) expr.Expr { return expr.And{Terms: terms} }
	or := func(terms ...expr.Expr) expr.Expr { return expr.Or{Terms: terms} }
	row := func(items ...expr.Expr) expr.Expr { return expr.Row{Items: items} }
	arith := func(op expr.ArithOp, l, r expr.Expr) expr.Expr {
		return expr.Arith{Op: op, L: l, R: r}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, c := range []struct {
		want string
		e    expr.Expr
	}{
		{"a = 1", eq},
		{`o."order" <> 'it''s'`, expr.Cmp{Op: expr.Ne, L: b, R: lit(t, "it's")}},
		{"(a = 1 OR a = 1) AND NOT a = 1", and(or(eq, eq), expr.Not{X: eq})},
		{"a = 1 AND a = 1 OR a = 1", or(and(eq, eq), eq)},
		{"NOT (a = 1 AND a = 1)", expr.Not{X: and(eq, eq)}},
		{"(1 - (-2 - 1)) * -2", arith(expr.Mul, arith(expr.Sub, one, arith(expr.Sub, two, one)),
			two)},
		{"-(1 + 1)", arith(expr.Neg, arith(expr.Add, one, one), nil)},
		{"(a, 1) > (1, 1)", expr.Cmp{Op: expr.Gt, L: row(a, one), R: row(one, one)}},
		{"a NOT IN (1, NULL)", expr.In{X: a, List: []expr.Expr{one, expr.Const{}}, Not: true}},
		{"a BETWEEN 1 AND :hi", expr.Between{X: a, Lo: one, Hi: expr.Param{Name: "hi"}}},
		{"a NOT LIKE 'x!%' ESCAPE '!'",
			expr.Like{X: a, Pattern: lit(t, "x!%"), Escape: '!', Not: true}},
		{"begins_with(a, ?3) AND contains(a, 1)",
			and(expr.BeginsWith{X: a, Prefix: expr.Param{Index: 2}}, expr.Contains{X: a,
				Item: one})},
		{"a IS NOT DISTINCT FROM 1 AND a ILIKE 'x'", and(expr.IsDistinct{L: a, R: one, Not: true},
			expr.Like{X: a, Pattern: lit(t, "x"), Fold: true})},
		{"CASE WHEN a = 1 THEN -2 END", expr.Case{Whens: []expr.When{{If: eq, Then: two}},
			Else: expr.Const{}}},
		{"CAST(CASE a WHEN 1 THEN a ELSE -2 END AS DECIMAL(18, 2))", expr.Cast{
			To: expr.CastType{Kind: expr.KindDecimal, Places: 2}, X: expr.Case{X: a,
				Whens: []expr.When{{If: one, Then: a}}, Else: two}}},
		{"(a = 1) IS NOT NULL", expr.IsNull{X: eq, Not: true}},
		{"TRUE AND FALSE", and(and(), or())},
		{"abs(a + 1) = 1", expr.Cmp{R: one,
			L: expr.Func{Name: "abs", Args: []expr.Expr{arith(expr.Add, a, one)}}}},
		{"TIMESTAMP '2026-01-02T03:04:05.006Z'", lit(t, at)},
		{"X'00ff'", lit(t, []byte{0, 255})},
		{"'00000000-0000-0000-0000-0000000000ff'", lit(t, [16]byte{15: 255})},
		{"1.5e0", lit(t, 1.5)},
		{"FLOAT 'NaN'", lit(t, math.NaN())},
		{"5.0", lit(t, keycodec.NewDecimal(5, 0))},
		{"2.5", lit(t, keycodec.NewDecimal(250, 2))},
		{"DECIMAL '1E+40'", lit(t, keycodec.NewDecimal(1, -40))},
		{"ARRAY['a', 'b']", lit(t, []string{"a", "b"})},
		{"EXISTS (SELECT …)", expr.Subquery{Kind: expr.Exists}},
		{"a IN (SELECT …)", expr.In{X: a, List: []expr.Expr{expr.Subquery{Kind: expr.Rows}}}},
		{"TIMESTAMP '@-9223372036854775808.000000001'",
			expr.Const{Value: expr.UnixTime(math.MinInt64, 1)}},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestValueJSON(t *testing.T) {
	values := append(samples(t), expr.String("\xff"), expr.UnixTime(math.MinInt64, 1))
	for _, v := range values {
		text, err := json.Marshal(v)
		ok(t, err)
		var back expr.Value
		if err := json.Unmarshal(text, &back); err != nil || back != v {
			t.Errorf("%s is written as %s and read as %s: %v", v, text, back, err)
		}
	}
	for text, want := range map[string]expr.Value{
		`5`: expr.Int(5), `-2.50`: decimal(t, "-2.5"), `"x"`: expr.String("x"),
		`true`:     expr.Bool(true),
		`[1,null]`: expr.List([]expr.Value{expr.Int(1), expr.Null()}), `1e2`: decimal(t, "100"),
		`{"time":"2026-01-02T03:04:05+01:00"}`: expr.Time(time.Date(2026, 1, 2, 2, 4, 5, 0,
			time.UTC)),
	} {
		var got expr.Value
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is read as %s: %v", text, got, err)
		}
	}
	for _, bad := range []string{`{}`, `{"int":"1","uint":"2"}`, `{"int":5}`, `{"int":"x"}`,
		`[[1]]`,
		`{"nothing":"x"}`, `{"bytes":"*"}`, `{"ipprefix":"10.0.0.1/8"}`, `{"time":"@1.2"}`} {
		var v expr.Value
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s is read as %s", bad, v)
		}
	}
}

// FuzzUnmarshalExpr reads any text as an expression; what is read is written and read as
// the same, and evaluated without a panic.
func FuzzUnmarshalExpr(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(1, 1))}
	for range 30 {
		text, err := expr.MarshalExpr(g.condition(2))
		ok(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"op":"func","name":"substr","args":[{"op":"const","value":"x"},{"op":"const"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer testutil.Watch(text)()
		e, err := expr.UnmarshalExpr(text)
		if err != nil {
			return
		}
		first, err := expr.MarshalExpr(e)
		ok(t, err)
		back, err := expr.UnmarshalExpr(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		second, err := expr.MarshalExpr(back)
		if err != nil || string(first) != string(second) {
			t.Fatalf("%s is read as %s: %v", first, second, err)
		}
		_ = e.String()
		row := g.row()
		_, _ = expr.Eval(e, func(_, i int) expr.Value { return row[i%len(row)] }, nil)
	})
}
