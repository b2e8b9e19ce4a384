package command

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"unicode"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
)

// sqlVerbs are the words that statements begin with. DELETE is the name of a command, too:
// with FROM after it, it is a statement.
var sqlVerbs = []string{"SELECT", "INSERT", "REPLACE", "UPDATE", "EXPLAIN", "CREATE", "ALTER",
	"DROP", "ANALYZE", "SHOW", "DESCRIBE", "BEGIN", "START", "COMMIT", "END", "ROLLBACK",
	"SAVEPOINT", "RELEASE", "WITH", "VALUES", "DESC"}

// isSQL reports whether a line of the shell begins a statement.
func isSQL(line string) bool {
	words := strings.FieldsFunc(line, func(r rune) bool {
		return unicode.IsSpace(r) || r == '(' || r == '*' || r == ';'
	})
	if len(words) == 0 {
		return false
	}
	verb := strings.ToUpper(words[0])
	return slices.Contains(sqlVerbs, verb) ||
		verb == "DELETE" && len(words) > 2 && strings.EqualFold(words[1], "FROM")
}

// begins reports whether a text begins a transaction, as far as one can see before it is parsed.
func begins(text string) bool {
	text = strings.ToUpper(strings.TrimSpace(text))
	return strings.HasPrefix(text, "BEGIN") || strings.HasPrefix(text, "START")
}

// sqlWord returns the statement after the word sql, if one stands there without quotes: it
// ends with the line.
func sqlWord(line string) (text string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "sql ")
	return rest, ok && isSQL(rest)
}

// statement runs the statements in a text. It returns the error after having reported it.
func (s *session) statement(text string) error {
	ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt)
	defer stop()
	defer s.page()()
	cmd := s.command()
	err := cmd.Timed(func() error {
		return cmd.WithTables(ctx, "", cli.ReadWrite, func(t *cli.Tables) error {
			return runSQL(ctx, cmd, t, text, nil)
		})
	})
	var l *lineError
	if errors.As(err, &l) { // of the statement, not of what the shell reads
		err = l.err
	}
	s.last = nil
	s.fail(err)
	s.endOnce(err)
	return err
}

// inTransaction reports whether statements have begun a transaction that is open.
func (s *session) inTransaction() bool {
	return s.db.Session != nil && s.db.Session.InTransaction()
}

// abandon rolls back the open transaction, if there is one, because of what, and says so.
func (s *session) abandon(what string) bool {
	if !s.inTransaction() {
		return false
	}
	s.db.Session.Rollback()
	fmt.Fprintf(s.app.Err, "%s: the transaction is rolled back, nothing since BEGIN is kept\n",
		what)
	return true
}
