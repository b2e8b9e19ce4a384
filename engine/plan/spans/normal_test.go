package spans_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func not(e expr.Expr) expr.Expr { return expr.Not{X: e} }

func row(items ...expr.Expr) expr.Expr { return expr.Row{Items: items} }

func text(s string) expr.Expr { return expr.Const{Value: expr.String(s)} }

var null expr.Expr = expr.Const{}

// TestNormalForm has one case for each rule.
func TestNormalForm(t *testing.T) {
	list := func(items ...expr.Expr) expr.In { return expr.In{X: col(0), List: items} }
	notIn := list(num(1), null)
	notIn.Not = true
	for _, c := range []struct {
		pred expr.Expr
		want string
	}{
		{not(and(eq(0, 1), or(compare(1, expr.Lt, 2), not(eq(2, 3))))),
			"a <> 1 OR b >= 2 AND c = 3"},
		{expr.Between{X: col(0), Lo: num(1), Hi: num(2)}, "a >= 1 AND a <= 2"},
		{not(expr.Between{X: col(0), Lo: num(1), Hi: num(2)}), "a < 1 OR a > 2"},
		{expr.Cmp{Op: expr.Lt, L: num(5), R: col(0)}, "a > 5"},
		{list(num(3), num(1), num(2), num(1)), "a IN (1, 2, 3)"},
		{list(num(3), null, num(3)), "a = 3"},
		{list(), "FALSE"},
		{not(list()), "TRUE"},
		{not(list(num(1), col(1))), "a <> b AND a <> 1"},
		{notIn, "FALSE"},
		{eq(0, 1), "a = 1"},
		{expr.Cmp{Op: expr.Eq, L: col(0), R: null}, "FALSE"},
		{not(expr.Cmp{Op: expr.Eq, L: col(0), R: null}), "FALSE"},
		{or(eq(0, 2), eq(1, 7), eq(0, 1)), "a IN (1, 2) OR b = 7"},
		{and(compare(0, expr.Ne, 2), compare(0, expr.Ne, 1)), "a NOT IN (1, 2)"},
		{and(eq(0, 1), and(eq(1, 2), and(eq(2, 3), eq(0, 1)))), "a = 1 AND b = 2 AND c = 3"},
		{or(eq(0, 1), or(eq(1, 2), and())), "TRUE"},
		{expr.Cmp{Op: expr.Lt, L: expr.Arith{Op: expr.Add, L: num(1), R: num(2)}, R: num(4)},
			"TRUE"},
		{expr.Cmp{Op: expr.Gt, L: row(col(0), col(1)), R: row(num(1), num(2))},
			"a > 1 OR a = 1 AND b > 2"},
		{expr.Cmp{Op: expr.Le, L: row(col(0), col(1)), R: row(num(1), num(2))},
			"a < 1 OR a = 1 AND b <= 2"},
		{expr.In{X: row(col(0), col(1)), List: []expr.Expr{row(num(1), num(2))}},
			"a = 1 AND b = 2"},
		{expr.In{X: num(5), List: []expr.Expr{col(0), col(1)}}, "a = 5 OR b = 5"},
		{not(col(0)), "a = FALSE"},
		{expr.Like{X: col(0), Pattern: text("ab%")}, "begins_with(a, 'ab')"},
		{expr.Like{X: col(0), Pattern: text("ab")}, "a = 'ab'"},
		{expr.Like{X: col(0), Pattern: text("a%b")}, "begins_with(a, 'a') AND a LIKE 'a%b'"},
		{not(expr.Like{X: col(0), Pattern: text("a%b")}), "a NOT LIKE 'a%b'"},
		{not(expr.IsNull{X: col(0)}), "a IS NOT NULL"},
		{expr.Cmp{Op: expr.Eq, L: col(0), R: col(1)}, "a = b"},
	} {
		if got := spans.Normalise(c.pred).String(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.pred, got, c.want)
		}
	}
}

// TestNormalFormOfColumns: constants become values of the column.
func TestNormalFormOfColumns(t *testing.T) {
	fields := []keycodec.Field{{Name: "a", Type: keycodec.TypeInt8},
		{Name: "b", Type: keycodec.TypeInt8, Nullable: true},
		{Name: "c", Type: keycodec.TypeTime, Unit: keycodec.Second},
		{Name: "d", Type: keycodec.TypeIP}}
	info := func(_, i int) (keycodec.Field, bool) { return fields[i], true }
	float := func(i int, op expr.Op, f float64) expr.Expr {
		return expr.Cmp{Op: op, L: col(i), R: expr.Const{Value: expr.Float(f)}}
	}
	for _, c := range []struct {
		pred expr.Expr
		want string
	}{
		{float(0, expr.Lt, 1.5), "a <= 1"},
		{float(0, expr.Ge, 1.5), "a > 1"},
		{float(0, expr.Ge, 2), "a >= 2"},
		{float(0, expr.Eq, 1.5), "FALSE"},
		{float(1, expr.Ne, 1.5), "b IS NOT NULL"},
		{float(0, expr.Ne, 1.5), "TRUE"},
		{compare(1, expr.Lt, 300), "b IS NOT NULL"},
		{compare(1, expr.Gt, 300), "FALSE"},
		{compare(0, expr.Gt, -300), "TRUE"},
		{expr.IsNull{X: col(0)}, "FALSE"},
		{expr.IsNull{X: col(1)}, "b IS NULL"},
		{expr.Cmp{Op: expr.Lt, L: col(2), R: expr.Const{Value: expr.UnixTime(1, 5)}},
			"c <= TIMESTAMP '1970-01-01T00:00:01Z'"},
		{expr.Cmp{Op: expr.Gt, L: col(2), R: text("1970-01-01T00:00:01.5Z")},
			"c > TIMESTAMP '1970-01-01T00:00:01Z'"},
		{expr.Cmp{Op: expr.Eq, L: col(2), R: text("no time")}, "c = 'no time'"},
		{expr.Cmp{Op: expr.Eq, L: col(3), R: text("10.0.0.1")}, "d = '10.0.0.1'"},
	} {
		if got := spans.NormaliseFor(c.pred, info, nil).String(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.pred, got, c.want)
		}
	}
}

// TestTextsOfTimes: a text is the value that it is the text of, for spans as well.
func TestTextsOfTimes(t *testing.T) {
	key := ints(1)
	key.Fields[0].Type, key.Fields[0].Unit = keycodec.TypeTime, keycodec.Second
	got, s := conditions(key, expr.Cmp{Op: expr.Lt, L: col(0),
		R: text("1970-01-01T00:00:01.5Z")}, 0)
	if len(got) != 1 || got[0] != "a < TIMESTAMP '1970-01-01T00:00:02Z'" || !s.Exact {
		t.Errorf("got %q", got)
	}
}

// TestConjunctionIsNormal: the AND of normalised terms is what normalising all of them gives.
func TestConjunctionIsNormal(t *testing.T) {
	seed := testutil.Seed(t)
	for i := range 3000 {
		w := newWorld(rand.New(rand.NewPCG(seed, uint64(i))))
		info := func(_, ordinal int) (keycodec.Field, bool) {
			return w.fields[ordinal], !w.lists[ordinal]
		}
		var all, terms []expr.Expr
		for range 1 + w.r.IntN(3) {
			e := w.predicate(2)
			all = append(all, e)
			terms = append(terms, spans.NormaliseFor(e, info, nil))
		}
		want := spans.NormaliseFor(expr.And{Terms: all}, info, nil)
		if got := expr.AllOf(spans.Conjuncts(slices.Clone(terms))); !expr.Equal(got, want) {
			t.Fatalf("%s\ngives %s\nnot   %s", expr.And{Terms: all}, got, want)
		}
		again := spans.NormaliseFor(expr.And{Terms: terms}, info, nil)
		if !expr.Equal(again, want) {
			t.Fatalf("%s\nis not normal: %s", want, again)
		}
	}
}
