package syntax_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestParse runs the scripts in testdata/parse: a statement gives its canonical form, or
// the error with the place it points at.
//
// Promise (sql): Every text parses to a canonical form, or fails at a place; nothing makes the
// parser panic. Also `TestParseBoundsDepth`, `FuzzParse` in `engine/internal/syntax`.
func TestParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			parts, err := syntax.ParseAll(d.Input)
			if err != nil {
				var e *syntax.Error
				if !errors.As(err, &e) || !errors.Is(err, syntax.ErrSyntax) {
					t.Fatalf("error of type %T", err)
				}
				return fmt.Sprintf("%v\n%s\n", err, e.Excerpt())
			}
			var out strings.Builder
			for _, p := range parts {
				fmt.Fprintln(&out, roundTrip(t, p.Statement))
			}
			return out.String()
		})
	})
}

// memory is that of one tree after the other.
var memory syntax.Memory

// roundTrip returns the canonical form and checks that it is one.
func roundTrip(t *testing.T, s syntax.Statement) string {
	t.Helper()
	text := syntax.Format(s)
	again, err := syntax.ParseIn(&memory, text)
	defer memory.Reset()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if second := syntax.Format(again); second != text {
		t.Fatalf("canonical form changes:\n%s\n%s", text, second)
	}
	return text
}

func TestParseBoundsDepth(t *testing.T) {
	for _, text := range []string{
		"SELECT " + strings.Repeat("(", 100_000),
		"SELECT a FROM t WHERE " + strings.Repeat("NOT ", 100_000) + "a",
		"SELECT " + strings.Repeat("-", 100_000) + "1 FROM t",
		strings.Repeat("SELECT a FROM t WHERE a IN (", 100_000),
	} {
		_, err := syntax.Parse(text)
		if err == nil {
			t.Fatalf("%.40q parsed", text)
		}
	}
	if _, err := syntax.Parse(strings.Repeat(" ", syntax.MaxStatementBytes+1)); err == nil {
		t.Fatal("a statement beyond the limit parsed")
	}
}

// A chain of operators is not nested in its canonical form, so that it is a statement again.
func TestLongChains(t *testing.T) {
	for _, op := range []string{"OR", "AND", "+", "||", "*"} {
		s, err := syntax.Parse("SELECT " + strings.Repeat("a "+op+" ", 1000) + "a - b")
		testutil.OK(t, err)
		roundTrip(t, s)
	}
}

// FuzzParse checks that no text makes the parser panic or hang, and that what it accepts
// has a canonical form.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"SELECT * FROM t", "SELECT a.*, count(*) AS n FROM a JOIN b ON a.x = b.y GROUP BY a.x",
		"SELECT a FROM t WHERE ((a=100 and b=100) or a=200) and b=300 ORDER BY a DESC LIMIT 3",
		"INSERT OR REPLACE INTO t (a, b) VALUES (1, X'00ff'), (?1, [1, 'x'])",
		"CREATE TABLE t (a TEXT, b TIMESTAMP(ms) NULL, PARTITION KEY (a), SORT KEY (b DESC))",
		"CREATE UNIQUE INDEX i ON t ((tidb_shard(a)), a) INCLUDE (b) WHERE b IS NOT NULL",
		"EXPLAIN ANALYZE DELETE FROM t WHERE a NOT IN (SELECT b FROM u WHERE c LIKE 'x%')",
		"ALTER TABLE t RENAME COLUMN a TO \"select\"; DROP INDEX IF EXISTS i ON t; -- end",
		"UPDATE t SET a = -(-1), b = (SELECT max(c) FROM u) WHERE (a, b) > (:x, :y)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		parts, err := syntax.ParseAll(text)
		if err != nil {
			var e *syntax.Error
			if !errors.As(err, &e) || e.Pos < 0 || e.Pos > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			e.Excerpt()
			return
		}
		for _, p := range parts {
			roundTrip(t, p.Statement)
		}
	})
}
