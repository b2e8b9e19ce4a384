package expr

import (
	"fmt"

	"github.com/kstonedb/kstone/keycodec"
)

// Expr is an expression: one of the struct types of this package, held by value. Trees
// are immutable and may be shared.
type Expr interface {
	fmt.Stringer // the text form, in SQL syntax
	isExpr()
}

// Const is a constant.
type Const struct{ Value }

// Param is a parameter, whose value is given with each evaluation.
type Param struct {
	Index int    // position among the parameters, from 0
	Name  string // "" if it is known by its position only
	// Collation is that of the column whose value it is, CollateBytes of others.
	Collation keycodec.Collation
}

// Column is a column of a table.
type Column struct {
	Source  int    // position of the table in FROM, 0 where there is one only
	Ordinal int    // position of the column in the table
	Table   string // shown before the name in the text form, if not empty
	Name    string
	// Collation of the column. A comparison follows that of its left operand, or of its
	// right one if the left has none.
	Collation keycodec.Collation
}

// Slot is a place in the rows that an operator of a plan works on.
type Slot struct {
	I         int
	Name      string // what it holds, for the text form
	Collation keycodec.Collation
}

// Agg is the result of an aggregate function, by its position in the query's list.
type Agg struct {
	Index int
	Name  string // for example "COUNT(*)", for the text form
}

// Op is a comparison.
type Op uint8

// The comparisons.
const (
	Eq Op = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

// On disk (JSON form): the operators.
var opNames = [...]string{"=", "<>", "<", "<=", ">", ">="}

// String returns the operator in SQL, for example "<>".
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("comparison %d", uint8(o))
}

// Negate returns the comparison that is true where o is false.
func (o Op) Negate() Op { return [...]Op{Ne, Eq, Ge, Gt, Le, Lt}[o] }

// Swap returns the comparison that is o with its operands exchanged.
func (o Op) Swap() Op { return [...]Op{Eq, Ne, Gt, Ge, Lt, Le}[o] }

// Cmp compares two values, or two rows of equal length, which compare item by item: the
// first items that differ decide.
type Cmp struct {
	Op   Op
	L, R Expr
}

// In is X IN (List). With a Row as X the list consists of Rows, and it may be a single
// Subquery.
type In struct {
	X    Expr
	List []Expr
	Not  bool
}

// Between is X >= Lo AND X <= Hi.
type Between struct {
	X, Lo, Hi Expr
	Not       bool
}

// BeginsWith is true for texts, and byte strings, that begin with another one.
type BeginsWith struct{ X, Prefix Expr }

// Like is X LIKE Pattern: % stands for any characters and _ for one. Both stand for
// themselves after the Escape character, if there is one.
type Like struct {
	X, Pattern Expr
	Escape     rune // 0: none
	Fold       bool // ILIKE: without regard to case
	Not        bool
}

// IsNull is X IS NULL. It is never unknown.
type IsNull struct {
	X   Expr
	Not bool
}

// IsDistinct is L IS DISTINCT FROM R: whether two values differ, NULL being equal to NULL and
// to nothing else. It is never unknown, so that X IS TRUE is X IS NOT DISTINCT FROM TRUE.
type IsDistinct struct {
	L, R Expr
	Not  bool
}

// And is true if all of its terms are; without terms it is true.
type And struct{ Terms []Expr }

// Or is true if one of its terms is; without terms it is false.
type Or struct{ Terms []Expr }

// Not is the negation; that of unknown is unknown.
type Not struct{ X Expr }

// Row is a row value (a, b), an operand of Cmp, Between and In.
type Row struct{ Items []Expr }

// Contains is true if a list has an element equal to the item.
type Contains struct{ X, Item Expr }

// ArithOp is an arithmetic operator.
type ArithOp uint8

// The operators. Integers and decimals give exact results: integers that overflow become
// decimals. With a float the result is a float. Div of integers cuts off towards zero;
// of decimals it rounds half to even, to 18 decimal places. Mod has the sign of the
// dividend. Division by zero is NULL.
const (
	Add ArithOp = iota
	Sub
	Mul
	Div
	Mod
	Neg // -L; R is nil
)

// On disk (JSON form): the operators.
var arithNames = [...]string{"+", "-", "*", "/", "%", "neg"}

// String returns the operator in SQL.
func (o ArithOp) String() string {
	switch {
	case o == Neg:
		return "-"
	case int(o) < len(arithNames):
		return arithNames[o]
	}
	return fmt.Sprintf("operator %d", uint8(o))
}

// Arith is arithmetic.
type Arith struct {
	Op   ArithOp
	L, R Expr
}

// Func is the call of a function; see Functions.
type Func struct {
	Name string // in lower case
	Args []Expr
	// Pos is the place in a text, from 1, that errors of the evaluation carry as CallError; 0
	// if it is not known. It does not belong to the expression: Equal ignores it.
	Pos int
}

// Cast is CAST(X AS To).
type Cast struct {
	X   Expr
	To  CastType
	Pos int // as that of Func
}

// When is a branch of a Case.
type When struct{ If, Then Expr }

// Case is the Then of the first branch whose If is true, else Else. With X the If are values,
// and the first that is equal to X is taken. Branches after it are not evaluated.
type Case struct {
	X     Expr // or nil
	Whens []When
	Else  Expr
}

// SubqueryKind says what a subquery is used as.
type SubqueryKind uint8

// The uses of subqueries.
const (
	Scalar SubqueryKind = iota // its only value, NULL without rows
	Exists                     // whether it has rows
	Rows                       // the list of an In
)

// Subquery is a query inside an expression. It is replaced before an expression is
// evaluated; Compile refuses it.
type Subquery struct {
	Query any // of the planner; its text form if it is a fmt.Stringer
	Kind  SubqueryKind
}

// Apply is a subquery of what is around it: its value for the values of Args. Compile takes it
// once Query is an Applier.
type Apply struct {
	Query any // of the planner; its text form if it is a fmt.Stringer
	Kind  SubqueryKind
	Args  []Expr
	// Collation is that of the list of an In.
	Collation keycodec.Collation
}

// Applier runs a query with some values. What it returns for Rows is a list.
type Applier interface {
	Apply(args []Value) (Value, error)
}

func (Const) isExpr()      {}
func (Param) isExpr()      {}
func (Column) isExpr()     {}
func (Slot) isExpr()       {}
func (Agg) isExpr()        {}
func (Cmp) isExpr()        {}
func (In) isExpr()         {}
func (Between) isExpr()    {}
func (BeginsWith) isExpr() {}
func (Like) isExpr()       {}
func (IsNull) isExpr()     {}
func (And) isExpr()        {}
func (Or) isExpr()         {}
func (Not) isExpr()        {}
func (Row) isExpr()        {}
func (Contains) isExpr()   {}
func (Arith) isExpr()      {}
func (Func) isExpr()       {}
func (IsDistinct) isExpr() {}
func (Cast) isExpr()       {}
func (Case) isExpr()       {}
func (Subquery) isExpr()   {}
func (Apply) isExpr()      {}

// CollationOf returns the collation of a column, slot, parameter or list of a subquery,
// CollateBytes for other expressions.
func CollationOf(e Expr) keycodec.Collation {
	switch e := e.(type) {
	case Column:
		return e.Collation
	case Slot:
		return e.Collation
	case Param:
		return e.Collation
	case Apply:
		return e.Collation
	}
	return keycodec.CollateBytes
}

// CollationOfPair returns the collation under which l and r are compared: the one that takes
// more texts for equal. Swapping the sides of a comparison must not change it.
func CollationOfPair(l, r Expr) keycodec.Collation {
	return max(CollationOf(l), CollationOf(r))
}
