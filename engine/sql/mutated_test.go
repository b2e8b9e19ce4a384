package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	operators "github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// tokens takes a statement apart, roughly as the lexer does.
var tokens = regexp.MustCompile(`X?'[^']*'|[:?$]?[A-Za-z_][A-Za-z_0-9]*|` +
	`[0-9.]+(e-?[0-9]+)?|\?[0-9]+|<=|>=|<>|\|\||\S`)

// words are what tokens may become, by their class and whatever they were.
var words = map[string][]string{
	"operator": strings.Fields("= <> < <= > >= + - * / % ||"),
	"function": strings.Fields("count sum avg min max lower length substr coalesce nullif abs " +
		"upper tidb_shard shard concat trim"),
	"value": strings.Fields("NULL TRUE 1e999 0 -1 2.5 X'00' '2026-01-01' ? :name 'mix64:16' [] " +
		"id k2 9223372036854775808 DECIMAL'1E+30' FLOAT'NaN'"),
	"name": strings.Fields("id k1 k2 k3 k4 k5 k6 k9 i8 f s sn su at ip tags nums 1 NULL ?"),
	"any": strings.Fields("CASE INDEXED NOT AND OR IN EXISTS ( ) , . BETWEEN LIKE BEGINS WITH " +
		"CONTAINS IS SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET DISTINCT JOIN LEFT " +
		"CROSS ON AS [ ] EXPLAIN ANALYZE NULLS FIRST DESC EACH ?"),
}

var (
	isValue    = regexp.MustCompile(`^([0-9?:'X]|TRUE|FALSE|NULL)`)
	isOperator = regexp.MustCompile(`^([=<>+*/%-]|<=|>=|<>|\|\|)$`)
	isName     = regexp.MustCompile(`^[a-z]`)
)

// class says what may stand in the place of a token without a syntax error.
func class(list []string, at int) string {
	next := ""
	if at+1 < len(list) {
		next = list[at+1]
	}
	switch text := list[at]; {
	case isValue.MatchString(text):
		return "value"
	case isOperator.MatchString(text):
		return "operator"
	case isName.MatchString(text) && next == "(":
		return "function"
	case isName.MatchString(text) && next != ".":
		return "name"
	}
	return "any"
}

// mutated changes a few tokens of a statement, now and then with those of another one.
func mutated(rng *rand.Rand, text, other string) string {
	list := tokens.FindAllString(text, -1)
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(list))
		switch c := class(list, at); {
		case rng.IntN(100) < 85 && c != "any":
			list[at] = oneOf(rng, words[c])
		case rng.IntN(100) < 90:
			continue
		default:
			list = jumbled(rng, list, tokens.FindAllString(other, -1))
		}
	}
	return strings.Join(list, " ")
}

// jumbled changes a list of tokens without regard for syntax.
func jumbled(rng *rand.Rand, list, from []string) []string {
	at := rng.IntN(len(list))
	switch rng.IntN(4) {
	case 0:
		return append(slices.Delete(list, at, at+1), ";")
	case 1:
		return slices.Insert(list, at, oneOf(rng, words["any"]))
	case 2:
		n := rng.IntN(min(12, len(from)))
		i := rng.IntN(len(from) - n)
		return slices.Insert(list, at, from[i:i+n]...)
	}
	j := rng.IntN(len(list))
	list[at], list[j] = list[j], list[at]
	return list
}

// TestMutatedStatements: statements with some of their words changed are run or refused, with
// an error that has a place or is one that is meant for a caller.
//
// Promise (sql): Statements with words changed at random are run or refused with an error that
// has a place or says which value is wrong.
func TestMutatedStatements(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	runs := testutil.Effort(1000, 100_000)
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	var s *sql.Session
	var texts []string
	ran := 0
	for i := range runs {
		if i%500 == 0 {
			s, texts = openMutable(t, seed+uint64(i))
		}
		text := mutated(rng, oneOf(rng, texts), oneOf(rng, texts))
		ok, err := tried(s, text)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if ok {
			ran++
		}
	}
	t.Logf("%d of %d were run", ran, runs)
}

// openMutable returns a session over a table with rows and indexes, and statements about it.
func openMutable(t *testing.T, seed uint64) (*sql.Session, []string) {
	p := newProgram(seed, 100)
	s := openSession(t)
	exec(t, s, fmt.Sprintf("CREATE TABLE t (%s, %s)", strings.Join(p.columns, ", "), p.key))
	var texts []string
	for _, step := range p.steps {
		text := strings.NewReplacer("{t}", "t", "{hint}", "").Replace(step.String())
		text, _, _ = strings.Cut(text, " -- ")
		switch step.do {
		case doInsert:
			if len(texts) < 20 {
				s.Exec(context.Background(), text)
			}
			texts = append(texts, text)
		case doCreateIndex, doAlter:
			s.Exec(context.Background(), text)
			texts = append(texts, text)
		case doChange, doQuery:
			texts = append(texts, text)
		}
	}
	return s, texts
}

// tried runs a statement with NULL for its parameters. The error says what is wrong with how it
// was refused.
func tried(s *sql.Session, text string) (ok bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	stmt, err := s.Prepare(text)
	if err != nil {
		return false, meant(err)
	}
	names, err := stmt.Params()
	if err != nil {
		return false, meant(err)
	}
	args := make([]any, len(names))
	for i, n := range names {
		if n != "" {
			args[i] = sql.Named(n, nil)
		}
	}
	if !stmt.Returns() {
		if strings.Contains(strings.ToUpper(text), "DROP") {
			return false, nil
		}
		_, err = stmt.Exec(context.Background(), args...)
		return err == nil, meant(err)
	}
	rows, err := stmt.Query(context.Background(), args...)
	if err != nil {
		return false, meant(err)
	}
	n := 0
	for _, err := range rows.All() {
		if n++; err != nil {
			return false, meant(err)
		} else if n == 2000 {
			break
		}
	}
	return true, nil
}

// meant returns an error of a statement that no caller would expect: one that neither has a
// place in the text nor says which value was wrong.
func meant(err error) error {
	var e *syntax.Error
	if err == nil || errors.As(err, &e) {
		return nil
	}
	for _, known := range []error{sql.ErrArguments, table.ErrUnique, operators.ErrMemory,
		operators.ErrManyRows, expr.ErrType, expr.ErrRange} {
		if errors.Is(err, known) {
			return nil
		}
	}
	if strings.Contains(err.Error(), "shard: ") { // of a function whose argument is wrong
		return nil
	}
	return fmt.Errorf("not an error of the language: %w", err)
}
