package expr

import "fmt"

// Truth is one of the three truth values of SQL.
type Truth uint8

// The truth values. AND is the smallest of its terms, OR the largest.
const (
	False Truth = iota
	Unknown
	True
)

// String returns "FALSE", "UNKNOWN" or "TRUE".
func (t Truth) String() string {
	switch t {
	case False:
		return "FALSE"
	case Unknown:
		return "UNKNOWN"
	case True:
		return "TRUE"
	}
	return fmt.Sprintf("truth %d", uint8(t))
}

// Not returns the negation of t.
func (t Truth) Not() Truth { return True - t }

// Value returns the value of the truth: NULL if it is unknown.
func (t Truth) Value() Value {
	if t == Unknown {
		return Value{}
	}
	return Bool(t == True)
}

func truthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

// TruthOf returns what a value means as a condition: NULL is unknown. It fails for values
// other than bools.
func TruthOf(v Value) (Truth, error) {
	switch v.kind {
	case KindNull:
		return Unknown, nil
	case KindBool:
		return truthOf(v.n != 0), nil
	}
	return Unknown, fmt.Errorf("%w: %s is not a condition", ErrType, v)
}
