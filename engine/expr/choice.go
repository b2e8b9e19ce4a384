package expr

import "fmt"

// compileCase compiles both forms of CASE.
func compileCase(e Case) (valueFn, error) {
	if len(e.Whens) == 0 {
		return nil, fmt.Errorf("expr: CASE has no WHEN")
	}
	if e.X != nil {
		return compileSimpleCase(e)
	}
	tests, results := make([]testFn, len(e.Whens)), make([]valueFn, len(e.Whens))
	for i, w := range e.Whens {
		var err error
		if tests[i], err = compileTest(w.If); err != nil {
			return nil, err
		}
		if results[i], err = compileValue(w.Then); err != nil {
			return nil, err
		}
	}
	last, err := compileValue(e.Else)
	return func(m env) (Value, error) {
		for i, test := range tests {
			t, err := test(m)
			if err != nil {
				return Value{}, err
			}
			if t == True {
				return results[i](m)
			}
		}
		return last(m)
	}, err
}

// compileSimpleCase compiles CASE x WHEN value: x is evaluated once.
func compileSimpleCase(e Case) (valueFn, error) {
	x, last, err := compilePair(e.X, e.Else)
	if err != nil {
		return nil, err
	}
	values, results := make([]valueFn, len(e.Whens)), make([]valueFn, len(e.Whens))
	for i, w := range e.Whens {
		if values[i], results[i], err = compilePair(w.If, w.Then); err != nil {
			return nil, err
		}
	}
	return func(m env) (Value, error) {
		v, err := x(m)
		if err != nil {
			return Value{}, err
		}
		for i, value := range values {
			w, err := value(m)
			if err != nil {
				return Value{}, err
			}
			t, err := compareTruth(Eq, v, w, CollationOfPair(e.X, e.Whens[i].If))
			if err != nil {
				return Value{}, err
			}
			if t == True {
				return results[i](m)
			}
		}
		return last(m)
	}, nil
}

// results returns those of the operands that the value is one of.
func (e Case) results(args []typed) (out []typed) {
	first := 1
	if e.X != nil {
		first = 2
	}
	for i := first; i < len(args)-1; i += 2 {
		out = append(out, args[i])
	}
	return append(out, args[len(args)-1])
}

// typeOfCase checks the operands of a CASE: conditions, or values that can be compared, and
// results that can all be compared with each other.
func (t *Typing) typeOfCase(e Case, args []typed) (Type, error) {
	first := 0
	if e.X != nil {
		first = 1
	}
	for i := first; i < len(args)-1; i += 2 {
		var err error
		if e.X != nil {
			err = t.compare(e, &args[0], &args[i])
		} else {
			err = wantKinds(e, args[i:i+1], "a condition", KindBool)
		}
		if err != nil {
			return Type{}, err
		}
	}
	return typeOfCoalesce(e, e.results(args))
}

// compileIsDistinct compiles IS [NOT] DISTINCT FROM.
func compileIsDistinct(e IsDistinct) (testFn, error) {
	collation := CollationOfPair(e.L, e.R)
	left, right, err := compilePair(e.L, e.R)
	if err != nil {
		return nil, err
	}
	return func(m env) (Truth, error) {
		v, w, err := evalPair(m, left, right)
		if err != nil {
			return Unknown, err
		}
		same := v.IsNull() && w.IsNull()
		if !v.IsNull() && !w.IsNull() {
			t, err := compareTruth(Eq, v, w, collation)
			if err != nil {
				return Unknown, err
			}
			same = t == True
		}
		return truthOf(same == e.Not), nil
	}, nil
}
