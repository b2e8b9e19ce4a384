package expr

import (
	"fmt"

	"github.com/kstonedb/kstone/keycodec"
)

// MaxDepth limits the nesting of expressions that Compile and the JSON form accept.
const MaxDepth = 1000

// Program is a compiled expression. It is immutable and may be used concurrently. The
// zero Program must not be run.
type Program struct {
	// One of them is set: test of a condition, whose value is its truth, value of all else.
	test  testFn
	value valueFn
}

// env is what a program is evaluated on. It is passed by value, so that nothing escapes.
type env struct {
	row    []Value
	params []Value
	get    func(source, ordinal int) Value // instead of row, if not nil
}

type (
	testFn  func(env) (Truth, error)
	valueFn func(env) (Value, error)
)

// The sources under which Eval and Test ask for slots and aggregates.
const (
	slotSource = -1
	AggSource  = -2
)

// Compile compiles an expression. It fails for subqueries, unknown functions, rows where
// a value is needed, and the like.
func Compile(e Expr) (Program, error) {
	if err := checkDepth(e, MaxDepth); err != nil {
		return Program{}, err
	}
	if IsCondition(e) {
		test, err := compileTest(e)
		return Program{test: test}, err
	}
	value, err := compileValue(e)
	return Program{value: value}, err
}

// IsCondition reports whether an expression is one whose value is its truth.
func IsCondition(e Expr) bool {
	switch e.(type) {
	case Cmp, In, Between, BeginsWith, Like, IsNull, IsDistinct, And, Or, Not, Contains:
		return true
	}
	return false
}

func valueOfTruth(test testFn, m env) (Value, error) {
	t, err := test(m)
	return t.Value(), err
}

func truthOfValue(value valueFn, m env) (Truth, error) {
	v, err := value(m)
	if err != nil {
		return Unknown, err
	}
	return TruthOf(v)
}

// Test evaluates a condition. Columns of source 0 and slots are places of row. It
// allocates nothing for comparisons of any kind and their combinations; only functions
// and arithmetic that make texts or large decimals do. It fails with an error that
// matches ErrType if values cannot be compared, and for places and parameters that are
// not there. Terms after the first that decides are not evaluated.
func (p Program) Test(row, params []Value) (Truth, error) {
	return p.testIn(env{row: row, params: params})
}

func (p Program) testIn(m env) (Truth, error) {
	if p.test == nil {
		return truthOfValue(p.value, m)
	}
	return p.test(m)
}

// Value evaluates the expression as a value. See Test.
func (p Program) Value(row, params []Value) (Value, error) {
	return p.valueIn(env{row: row, params: params})
}

func (p Program) valueIn(m env) (Value, error) {
	if p.value == nil {
		return valueOfTruth(p.test, m)
	}
	return p.value(m)
}

// Eval evaluates an expression once. Row gives the values of columns; slots have the
// source slotSource, aggregates AggSource.
func Eval(e Expr, row func(source, ordinal int) Value, params []Value) (Value, error) {
	p, err := Compile(e)
	if err != nil {
		return Value{}, err
	}
	return p.valueIn(env{get: orNone(row), params: params})
}

// Test evaluates a condition once. See Eval.
func Test(e Expr, row func(source, ordinal int) Value, params []Value) (Truth, error) {
	p, err := Compile(e)
	if err != nil {
		return Unknown, err
	}
	return p.testIn(env{get: orNone(row), params: params})
}

func orNone(row func(source, ordinal int) Value) func(source, ordinal int) Value {
	if row == nil {
		return func(int, int) Value { return Value{} }
	}
	return row
}

// compileValue compiles an expression whose value is wanted.
func compileValue(e Expr) (valueFn, error) {
	switch e := e.(type) {
	case Const:
		v := e.Value
		return func(env) (Value, error) { return v, nil }, nil
	case Param:
		return compileParam(e)
	case Column:
		return compilePlace(e.Source, e.Ordinal, e)
	case Slot:
		return compilePlace(slotSource, e.I, e)
	case Agg:
		return compilePlace(AggSource, e.Index, e)
	case Arith:
		return compileArith(e)
	case Func:
		return compileFunc(e)
	case Case:
		return compileCase(e)
	case Cast:
		return compileCast(e)
	case Row:
		return nil, fmt.Errorf("%w: the row %s where one value is needed", ErrType, e)
	case Apply:
		return compileApply(e)
	case Subquery:
		return nil, fmt.Errorf("expr: the subquery %s cannot be evaluated in place", e)
	}
	if !IsCondition(e) {
		return nil, fmt.Errorf("expr: %T is not an expression", e)
	}
	test, err := compileTest(e)
	if err != nil {
		return nil, err
	}
	return func(m env) (Value, error) { return valueOfTruth(test, m) }, nil
}

func compileApply(e Apply) (valueFn, error) {
	query, ok := e.Query.(Applier)
	if !ok {
		return nil, fmt.Errorf("expr: the subquery %s cannot be evaluated in place", e)
	}
	args := make([]valueFn, len(e.Args))
	for i, a := range e.Args {
		var err error
		if args[i], err = compileValue(a); err != nil {
			return nil, err
		}
	}
	return func(m env) (v Value, err error) {
		values := make([]Value, len(args))
		for i, arg := range args {
			if values[i], err = arg(m); err != nil {
				return Value{}, err
			}
		}
		return query.Apply(values)
	}, nil
}

func compileParam(p Param) (valueFn, error) {
	return func(m env) (Value, error) {
		if uint(p.Index) >= uint(len(m.params)) {
			return Value{}, fmt.Errorf("expr: parameter %s has no value", p)
		}
		return m.params[p.Index], nil
	}, nil
}

// compilePlace compiles a column, slot or aggregate.
func compilePlace(source, at int, e Expr) (valueFn, error) {
	return func(m env) (Value, error) { return m.place(source, at, e) }, nil
}

// place returns the value of a column, slot or aggregate.
func (m *env) place(source, at int, e Expr) (Value, error) {
	switch {
	case m.get != nil:
		return m.get(source, at), nil
	case source > 0 || source == AggSource || uint(at) >= uint(len(m.row)):
		return Value{}, fmt.Errorf("expr: the row has no %s", e)
	}
	return m.row[at], nil
}

// compileTest compiles an expression whose truth is wanted.
func compileTest(e Expr) (testFn, error) {
	switch e := e.(type) {
	case Cmp:
		return compileCmp(e)
	case In:
		return compileIn(e)
	case Between:
		test, err := compileTest(And{[]Expr{Cmp{Ge, e.X, e.Lo}, Cmp{Le, e.X, e.Hi}}})
		return negated(test, e.Not), err
	case BeginsWith:
		return compileBeginsWith(e)
	case Like:
		return compileLike(e)
	case Contains:
		return compileContains(e)
	case IsNull:
		return compileIsNull(e)
	case IsDistinct:
		return compileIsDistinct(e)
	case And:
		return compileTerms(e.Terms, False)
	case Or:
		return compileTerms(e.Terms, True)
	case Not:
		test, err := compileTest(e.X)
		return negated(test, true), err
	}
	value, err := compileValue(e)
	if err != nil {
		return nil, err
	}
	return func(m env) (Truth, error) { return truthOfValue(value, m) }, nil
}

func negated(test testFn, not bool) testFn {
	if !not || test == nil {
		return test
	}
	return func(m env) (Truth, error) {
		t, err := test(m)
		return t.Not(), err
	}
}

// compileTerms compiles AND and OR: decisive is the truth of a term that decides, False
// of AND and True of OR.
func compileTerms(terms []Expr, decisive Truth) (testFn, error) {
	tests := make([]testFn, len(terms))
	for i, term := range terms {
		var err error
		if tests[i], err = compileTest(term); err != nil {
			return nil, err
		}
	}
	return func(m env) (Truth, error) {
		out := decisive.Not()
		for _, test := range tests {
			t, err := test(m)
			switch {
			case err != nil:
				return Unknown, err
			case t == decisive:
				return t, nil
			case t == Unknown:
				out = Unknown
			}
		}
		return out, nil
	}, nil
}

func compileIsNull(e IsNull) (testFn, error) {
	if r, ok := e.X.(Row); ok { // of a row: all of its items are NULL, or all are not
		terms := make([]Expr, len(r.Items))
		for i, item := range r.Items {
			terms[i] = IsNull{item, e.Not}
		}
		return compileTest(And{terms})
	}
	value, err := compileValue(e.X)
	if err != nil {
		return nil, err
	}
	return func(m env) (Truth, error) {
		v, err := value(m)
		return truthOf((v.kind == KindNull) != e.Not), err
	}, nil
}

func compileContains(e Contains) (testFn, error) {
	collation := CollationOf(e.X)
	list, item, err := compilePair(e.X, e.Item)
	if err != nil {
		return nil, err
	}
	return func(m env) (Truth, error) {
		v, w, err := evalPair(m, list, item)
		if err != nil || v.kind == KindNull || w.kind == KindNull {
			return Unknown, err
		}
		if v.kind != KindList {
			return Unknown, fmt.Errorf("%w: %s is not a list", ErrType, v)
		}
		return listContains(v, w, collation)
	}, nil
}

func listContains(list, item Value, collation keycodec.Collation) (Truth, error) {
	out := False
	for s := list.s; s != ""; {
		var e Value
		e, s = nextElement(s)
		t, err := compareTruth(Eq, e, item, collation)
		if err != nil || t == True {
			return t, err
		}
		out = max(out, t)
	}
	return out, nil
}

// compilePair compiles two operands.
func compilePair(l, r Expr) (left, right valueFn, err error) {
	if left, err = compileValue(l); err != nil {
		return nil, nil, err
	}
	right, err = compileValue(r)
	return left, right, err
}

func evalPair(m env, l, r valueFn) (v, w Value, err error) {
	if v, err = l(m); err != nil {
		return Value{}, Value{}, err
	}
	w, err = r(m)
	return v, w, err
}
