package syntax

// Expr is an expression of a statement.
type Expr interface {
	// Position returns the offset of the expression in the text.
	Position() int
}

// At is where an expression of any kind stands.
type At struct{ Pos int }

// Position implements Expr.
func (a At) Position() int { return a.Pos }

// LiteralKind is the kind of a literal.
type LiteralKind uint8

// The kinds of literals.
const (
	LiteralNull LiteralKind = iota + 1
	LiteralBool             // Text is TRUE or FALSE
	LiteralNumber
	LiteralString
	LiteralBlob     // Text is the hexadecimal digits
	LiteralTime     // TIMESTAMP '2026-01-17T08:00:00Z'
	LiteralFloat    // FLOAT 'NaN'
	LiteralDecimal  // DECIMAL '1E+30'
	LiteralInterval // INTERVAL '1 day', beside + and - only
)

// Literal is a constant.
type Literal struct {
	At
	Kind LiteralKind
	Text string
}

// Param is a parameter: a number from 1, or a name.
type Param struct {
	At
	Index int    // from 1; 0 for a named one
	Name  string // without the colon
}

// Ref is a reference to a column.
type Ref struct {
	At
	Table  string // before the dot, or empty
	Column string
	Quoted bool // in double quotes, and without a table: a text may have been meant
}

// Unary is -x or NOT x.
type Unary struct {
	At
	Op string // "-" or "NOT"
	X  Expr
}

// Binary is an expression of two operands: = <> < <= > >= + - * / % || AND OR.
type Binary struct {
	At
	Op   string
	L, R Expr
}

// Between is x [NOT] BETWEEN lo AND hi.
type Between struct {
	At
	X, Lo, Hi Expr
	Not       bool
}

// In is x [NOT] IN (list) or x [NOT] IN (SELECT …).
type In struct {
	At
	X     Expr
	List  []Expr  // if Query is nil
	Query *Select // or nil
	Not   bool
}

// IsNull is x IS [NOT] NULL.
type IsNull struct {
	At
	X   Expr
	Not bool
}

// Match is x [NOT] LIKE pattern, x [NOT] BEGINS WITH prefix or x [NOT] CONTAINS item.
type Match struct {
	At
	Op     string // "LIKE", "ILIKE", "BEGINS WITH" or "CONTAINS"
	X, Y   Expr
	Escape string // of LIKE and ILIKE: one character, or empty
	Not    bool
}

// IsDistinct is x IS [NOT] DISTINCT FROM y. x IS TRUE is x IS NOT DISTINCT FROM TRUE.
type IsDistinct struct {
	At
	X, Y Expr
	Not  bool
}

// When is a branch of a Case.
type When struct{ If, Then Expr }

// Case is CASE [x] WHEN … THEN … [ELSE …] END.
type Case struct {
	At
	X     Expr // or nil
	Whens []When
	Else  Expr // or nil
}

// Default is DEFAULT in VALUES or SET.
type Default struct{ At }

// Cast is CAST(x AS type).
type Cast struct {
	At
	X  Expr
	To TypeName
}

// Row is a row value (a, b).
type Row struct {
	At
	Items []Expr
}

// List is a list of values [a, b], for a column of several values.
type List struct {
	At
	Items []Expr
}

// Call is a function call. Names are in lower case.
type Call struct {
	At
	Name     string
	Args     []Expr
	Star     bool // COUNT(*)
	Distinct bool // COUNT(DISTINCT x)
	OrderBy  []Order
	Filter   Expr // FILTER (WHERE …), or nil
}

// Exists is EXISTS (SELECT …).
type Exists struct {
	At
	Query *Select
}

// Scalar is a subquery that stands for a value.
type Scalar struct {
	At
	Query *Select
}
