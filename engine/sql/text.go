package sql

import "github.com/kstonedb/kstone/engine/internal/syntax"

// Limits of the text of a statement.
const (
	MaxStatementBytes = syntax.MaxStatementBytes
	MaxPlainBytes     = syntax.MaxPlainBytes // without literals in quotes
)

// Error is a fault in a statement: a syntax error, or a name or type that does not fit.
// Pos, Line and Column say where.
type Error = syntax.Error

// ErrSyntax is matched by the errors about texts that are no statements.
var ErrSyntax = syntax.ErrSyntax

// Part is a statement of a longer text.
type Part struct {
	// Pos and End are its offsets in the text, in bytes, without the semicolon.
	Pos, End int
	// Verb is what it does: "SELECT", "EXPLAIN", or what Result.Statement will be.
	Verb string
}

// Split reads any number of statements with semicolons between them. Names in them are not
// looked up.
func Split(text string) ([]Part, error) {
	parts, err := syntax.ParseAll(text)
	if err != nil {
		return nil, err
	}
	var out []Part
	for _, p := range parts {
		out = append(out, Part{Pos: p.Pos, End: p.End, Verb: syntax.Verb(p.Statement)})
	}
	return out, nil
}

// Complete reports whether a text ends with a semicolon that is not inside quotes or a
// comment: the statement that is being typed is done.
func Complete(text string) bool { return syntax.Complete(text) }

// Keywords returns the words of the language, in upper case and sorted, for completion.
func Keywords() []string { return syntax.Keywords() }
