package expr_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// naive is an evaluator of its own: it knows nothing of programs, of constants that are
// converted, or of lists that are sorted. It gives 1 for true, 0 for false, 2 for unknown,
// and goes by the definitions of SQL.
type naive struct {
	row []expr.Value
	t   testing.TB
}

func (n naive) value(e expr.Expr) any {
	switch e := e.(type) {
	case expr.Const:
		return e.Any()
	case expr.Column:
		return n.row[e.Ordinal].Any()
	}
	n.t.Fatalf("no value: %T", e)
	return nil
}

// compare returns "<", "=", ">" or "?".
func (n naive) compare(l, r expr.Expr) string {
	if rows, ok := l.(expr.Row); ok {
		for i := range rows.Items {
			if c := n.compare(rows.Items[i], r.(expr.Row).Items[i]); c != "=" {
				return c
			}
		}
		return "="
	}
	a, b := n.value(l), n.value(r)
	if a == nil || b == nil {
		return "?"
	}
	fold := keycodec.CollateBytes
	for _, e := range []expr.Expr{r, l} { // the one that folds more texts
		if c, ok := e.(expr.Column); ok && c.Collation > fold {
			fold = c.Collation
		}
	}
	return n.compareAny(a, b, fold)
}

func (n naive) compareAny(a, b any, fold keycodec.Collation) string {
	var c int
	if s, ok := a.(string); ok {
		c = strings.Compare(fold.Fold(s), fold.Fold(b.(string)))
	} else {
		v, _ := expr.From(a)
		w, _ := expr.From(b)
		c = rational(v).Cmp(rational(w))
	}
	return string("<=>"[c+1])
}

func (n naive) equalRows(l, r expr.Expr) int {
	rows, ok := l.(expr.Row)
	if !ok {
		return map[string]int{"=": 1, "?": 2}[n.compare(l, r)]
	}
	out := 1
	for i := range rows.Items {
		switch n.equalRows(rows.Items[i], r.(expr.Row).Items[i]) {
		case 0:
			return 0
		case 2:
			out = 2
		}
	}
	return out
}

func not(t int) int { return [...]int{1, 0, 2}[t] }

func or(terms ...int) int {
	out := 0
	for _, t := range terms {
		if t == 1 {
			return 1
		}
		if t == 2 {
			out = 2
		}
	}
	return out
}

func maybeNot(t int, negate bool) int {
	if negate {
		return not(t)
	}
	return t
}

func (n naive) cmp(op expr.Op, l, r expr.Expr) int {
	if op == expr.Eq || op == expr.Ne {
		return maybeNot(n.equalRows(l, r), op == expr.Ne)
	}
	c := n.compare(l, r)
	switch {
	case c == "?":
		return 2
	case c == "<" && (op == expr.Lt || op == expr.Le), c == ">" && (op == expr.Gt || op == expr.Ge),
		c == "=" && (op == expr.Le || op == expr.Ge):
		return 1
	}
	return 0
}

func (n naive) test(e expr.Expr) int {
	switch e := e.(type) {
	case expr.Cmp:
		return n.cmp(e.Op, e.L, e.R)
	case expr.In:
		var terms []int
		for _, item := range e.List {
			terms = append(terms, n.equalRows(e.X, item))
		}
		return maybeNot(or(terms...), e.Not)
	case expr.Between:
		// not (x < lo or x > hi)
		return maybeNot(or(n.cmp(expr.Lt, e.X, e.Lo), n.cmp(expr.Gt, e.X, e.Hi)), !e.Not)
	case expr.IsDistinct:
		return btoi((n.value(e.L) == nil && n.value(e.R) == nil || n.compare(e.L, e.R) == "=") ==
			e.Not)
	case expr.Case:
		return n.choice(e)
	case expr.IsNull:
		if (n.value(e.X) == nil) != e.Not {
			return 1
		}
		return 0
	case expr.And:
		var terms []int
		for _, term := range e.Terms {
			terms = append(terms, not(n.test(term)))
		}
		return not(or(terms...))
	case expr.Or:
		var terms []int
		for _, term := range e.Terms {
			terms = append(terms, n.test(term))
		}
		return or(terms...)
	case expr.Not:
		return not(n.test(e.X))
	}
	return n.testText(e)
}

// choice tests a CASE whose results are conditions.
func (n naive) choice(e expr.Case) int {
	for _, w := range e.Whens {
		if e.X == nil && n.test(w.If) == 1 || e.X != nil && n.compare(e.X, w.If) == "=" {
			return n.test(w.Then)
		}
	}
	if c, ok := e.Else.(expr.Const); ok && c.IsNull() {
		return 2
	}
	return n.test(e.Else)
}

// testText tests conditions on texts and lists.
func (n naive) testText(e expr.Expr) int {
	switch e := e.(type) {
	case expr.BeginsWith:
		s, prefix := n.value(e.X), n.value(e.Prefix)
		if s == nil || prefix == nil {
			return 2
		}
		fold := e.X.(expr.Column).Collation
		if c, ok := e.Prefix.(expr.Column); ok && c.Collation > fold {
			fold = c.Collation
		}
		if strings.HasPrefix(fold.Fold(s.(string)), fold.Fold(prefix.(string))) {
			return 1
		}
		return 0
	case expr.Like:
		s, pattern := n.value(e.X), n.value(e.Pattern)
		if s == nil || pattern == nil {
			return 2
		}
		fold := e.X.(expr.Column).Collation
		if e.Fold {
			fold = keycodec.CollateUnicode
		}
		text := regexp.QuoteMeta(fold.Fold(pattern.(string)))
		text = "(?s)^" + strings.NewReplacer("%", ".*", "_", ".").Replace(text) + "$"
		matched := regexp.MustCompile(text).MatchString(fold.Fold(s.(string)))
		return maybeNot(map[bool]int{true: 1}[matched], e.Not)
	case expr.Contains:
		list, item := n.value(e.X), n.value(e.Item)
		if list == nil || item == nil {
			return 2
		}
		for _, x := range list.([]any) {
			if n.compareAny(x, item, e.X.(expr.Column).Collation) == "=" {
				return 1
			}
		}
		return 0
	}
	n.t.Fatalf("no condition: %T", e)
	return 0
}

// The columns of the random trees: three numbers, three texts and two lists.
var columns = []expr.Column{
	{Ordinal: 0, Name: "i"}, {Ordinal: 1, Name: "f"}, {Ordinal: 2, Name: "d"},
	{Ordinal: 3, Name: "s"}, {Ordinal: 4, Name: "t", Collation: keycodec.CollateASCII},
	{Ordinal: 5, Name: "u", Collation: keycodec.CollateUnicode},
	{Ordinal: 6, Name: "li"}, {Ordinal: 7, Name: "lt", Collation: keycodec.CollateASCII},
}

type generator struct{ rng *rand.Rand }

func (g generator) number() expr.Value {
	if g.rng.IntN(8) == 0 {
		return expr.Null()
	}
	i := int64(g.rng.IntN(5))
	switch g.rng.IntN(4) {
	case 0:
		return expr.Float(float64(i) / 2)
	case 1:
		return expr.Scaled(5*i, 1)
	case 2:
		return expr.Uint(uint64(i))
	}
	return expr.Int(i)
}

func (g generator) text() expr.Value {
	texts := []string{"", "a", "A", "ab", "aB", "É", "é", "éa", "k", "\u212a", "b"}
	if i := g.rng.IntN(len(texts) + 1); i < len(texts) {
		return expr.String(texts[i])
	}
	return expr.Null()
}

func (g generator) row() []expr.Value {
	row := []expr.Value{g.number(), g.number(), g.number(), g.text(), g.text(), g.text(),
		expr.Null(), expr.Null()}
	for i, element := range []func() expr.Value{g.number, g.text} {
		var list []expr.Value
		for range g.rng.IntN(4) {
			if v := element(); !v.IsNull() {
				list = append(list, v)
			}
		}
		if g.rng.IntN(4) > 0 {
			row[6+i] = expr.List(list)
		}
	}
	return row
}

// operand returns a column or constant, a number or a text.
func (g generator) operand(texts bool) expr.Expr {
	base, constant := 0, g.number
	if texts {
		base, constant = 3, g.text
	}
	if g.rng.IntN(2) == 0 {
		return expr.Const{Value: constant()}
	}
	return columns[base+g.rng.IntN(3)]
}

func (g generator) pair() expr.Row {
	return expr.Row{Items: []expr.Expr{g.operand(false), g.operand(true)}}
}

func (g generator) condition(depth int) expr.Expr {
	op, negate := expr.Op(g.rng.IntN(6)), g.rng.IntN(2) == 0
	texts := g.rng.IntN(2) == 0
	if depth > 0 && g.rng.IntN(2) == 0 {
		terms := make([]expr.Expr, g.rng.IntN(4))
		for i := range terms {
			terms[i] = g.condition(depth - 1)
		}
		switch g.rng.IntN(3) {
		case 0:
			return expr.And{Terms: terms}
		case 1:
			return expr.Or{Terms: terms}
		}
		return expr.Not{X: g.condition(depth - 1)}
	}
	switch g.rng.IntN(12) {
	case 0:
		return expr.Cmp{Op: op, L: g.pair(), R: g.pair()}
	case 1:
		list := make([]expr.Expr, g.rng.IntN(14))
		for i := range list {
			list[i] = g.operand(texts)
			if g.rng.IntN(12) > 0 { // constants mostly, so that the list is searched
				list[i] = expr.Const{Value: [...]func() expr.Value{g.number, g.text}[btoi(texts)]()}
			}
		}
		return expr.In{X: g.operand(texts), List: list, Not: negate}
	case 2:
		return expr.In{X: g.pair(), List: []expr.Expr{g.pair(), g.pair()}, Not: negate}
	case 3:
		return expr.Between{X: g.operand(texts), Lo: g.operand(texts), Hi: g.operand(texts),
			Not: negate}
	case 4:
		return expr.IsNull{X: g.operand(texts), Not: negate}
	case 5:
		return expr.BeginsWith{X: columns[3+g.rng.IntN(3)], Prefix: g.operand(true)}
	case 6:
		patterns := []string{"", "%", "a%", "%b", "_", "A_", "%É%", "k", "a", "%a%b%", "_%"}
		pattern := expr.String(patterns[g.rng.IntN(len(patterns))])
		return expr.Like{X: columns[3+g.rng.IntN(3)], Pattern: expr.Const{Value: pattern},
			Fold: g.rng.IntN(3) == 0, Not: negate}
	case 9:
		return expr.IsDistinct{L: g.operand(texts), R: g.operand(texts), Not: negate}
	case 10:
		if depth > 0 {
			return g.choice(depth-1, texts, negate)
		}
	case 7:
		return expr.Contains{X: columns[6+btoi(texts)], Item: g.operand(texts)}
	}
	return expr.Cmp{Op: op, L: g.operand(texts), R: g.operand(texts)}
}

// choice returns a CASE of either form whose results are conditions.
func (g generator) choice(depth int, texts, simple bool) expr.Expr {
	e := expr.Case{Else: expr.Const{}}
	if simple {
		e.X = g.operand(texts)
	}
	for range 1 + g.rng.IntN(3) {
		w := expr.When{If: g.operand(texts), Then: g.condition(depth)}
		if !simple {
			w.If = g.condition(depth)
		}
		e.Whens = append(e.Whens, w)
	}
	if g.rng.IntN(2) == 0 {
		e.Else = g.condition(depth)
	}
	return e
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestAgainstNaiveEvaluator evaluates random trees on random rows: compiled, once, after
// their JSON form, and with their operands rewritten, all must be what the naive evaluator
// says.
func TestAgainstNaiveEvaluator(t *testing.T) {
	seed := testutil.Seed(t)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	trees := testutil.Effort(4000, 20_000)
	truths := map[int]expr.Truth{0: expr.False, 1: expr.True, 2: expr.Unknown}
	for range trees {
		e := g.condition(3)
		program, err := expr.Compile(e)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, e, err)
		}
		text, err := expr.MarshalExpr(e)
		ok(t, err)
		back, err := expr.UnmarshalExpr(text)
		if err != nil || !expr.Equal(back, e) && !strings.Contains(string(text), "const") {
			t.Fatalf("seed %d: %s is read as %v: %v", seed, e, back, err)
		}
		slots, err := expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
			if c, ok := e.(expr.Column); ok {
				return expr.Slot{I: c.Ordinal, Name: c.Name, Collation: c.Collation}, nil
			}
			return e, nil
		})
		if err != nil || slots.String() != e.String() {
			t.Fatalf("seed %d: %s is rewritten as %s: %v", seed, e, slots, err)
		}
		moved, err := expr.Compile(slots)
		ok(t, err)
		for range 4 {
			row := g.row()
			want := truths[naive{row, t}.test(e)]
			got, err := program.Test(row, nil)
			if err != nil || got != want {
				t.Fatalf("seed %d: %s on %s is %s, want %s: %v", seed, e, row, got, want, err)
			}
			if got, err := moved.Test(row, nil); err != nil || got != want {
				t.Fatalf("seed %d: slots: %s on %s is %s, want %s: %v", seed, e, row, got, want,
					err)
			}
			again, err := expr.Test(back, func(_, i int) expr.Value { return row[i] }, nil)
			if err != nil || again != want {
				t.Fatalf("seed %d: JSON: %s on %s is %s, want %s: %v", seed, e, row, again,
					want, err)
			}
			v, err := program.Value(row, nil)
			if err != nil || v != want.Value() {
				t.Fatalf("seed %d: the value of %s on %s is %s, want %s", seed, e, row, v, want)
			}
		}
	}
}
