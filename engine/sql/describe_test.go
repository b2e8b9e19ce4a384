package sql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// described creates tables by statements and returns their definition in JSON and in
// statements, without the id.
func described(t interface{ Fatalf(string, ...any) }, s *sql.Session, name,
	text string) (inJSON, inSQL string) {
	parts, err := s.PrepareParts("DROP TABLE IF EXISTS " + quoted(name) + ";" + text)
	for _, p := range parts {
		if err == nil {
			_, err = p.Exec(context.Background())
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	def := s.Schema(name)
	if inSQL, err = sql.Definition(def); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	plain := *def
	plain.ID, plain.Version = 0, 1
	data, err := json.Marshal(&plain)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if _, err := s.Exec(context.Background(), "DROP TABLE "+quoted(name)); err != nil {
		t.Fatalf("%v", err)
	}
	return string(data), inSQL
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// TestDefinitionsMakeTheSameTable: the statements of Definition make the table they were
// made of, and are the same again.
//
// Promise (sql): The statements of a definition make the same table. Also
// `TestRandomDefinitionsMakeTheSameTable` in `engine/sql`.
func TestDefinitionsMakeTheSameTable(t *testing.T) {
	s := openSession(t)
	for _, text := range []string{
		`CREATE TABLE t (a TEXT COLLATE NOCASE, "b c" TIMESTAMP(ns) NULL, "select" UUID,
		 d DECIMAL(10, 3) DEFAULT -2.500, e DECIMAL DEFAULT 5., f FLOAT DEFAULT FLOAT 'NaN',
		 g FLOAT32 NULL DEFAULT 1.5, h TEXT[] DEFAULT ['x', 'it''s'], i IP DEFAULT '::1',
		 j IPPREFIX NULL, k BYTES DEFAULT X'00ff', l BOOL DEFAULT TRUE, m UINT8, n INT16 DEFAULT -7,
		 o TIMESTAMP(full) DEFAULT '2026-01-02T03:04:05.6Z', p DECIMAL DEFAULT DECIMAL '1E+30',
		 PARTITION KEY (a, "select"), SORT KEY (m DESC, n), TTL (o + '36h'),
		 UNIQUE INDEX x1 ("b c" DESC NULLS FIRST, a) SHARD (64, murmur3) ON (2) INCLUDE (d, e),
		 INDEX x2 (EACH h), INDEX x3 (j NULLS LAST) LOCAL)`,
		`CREATE TABLE t (a INT PRIMARY KEY, b TEXT NULL, at TIMESTAMP NULL, id UUID NULL, f FLOAT,
		 tags TEXT[], d DECIMAL);
		 CREATE INDEX w1 ON t (b) WHERE b LIKE 'x%' AND NOT (a = 5 OR f < 4.1) OR b IS NULL;
		 CREATE INDEX w2 ON t (b) WHERE at > '2026-01-01'
		 AND id <> '00000000-0000-0000-0000-000000000007';
		 CREATE INDEX w3 ON t (b) WHERE b BEGINS WITH 'a' AND tags CONTAINS 'q' AND d = 2.50;
		 CREATE INDEX w4 ON t (b) WHERE a NOT IN (1, 2) AND a NOT BETWEEN 3 AND 4 AND -a % 3 = 1;
		 CREATE INDEX w5 ON t (b) WHERE (a, b) > (1, 'x')
		 AND coalesce(b, 'none') <> lower(b) || 'y';
		 CREATE INDEX w6 ON t (b) WHERE CASE WHEN a > 1 THEN b ELSE 'z' END ILIKE '!_%' ESCAPE '!'
		 AND (b LIKE 'x') IS NOT TRUE AND CASE a WHEN 5 THEN TRUE END;
		 CREATE INDEX w7 ON t (b) WHERE CAST(a AS DECIMAL(18, 2)) IS DISTINCT FROM round(d, 2)
		 AND CAST(b AS TIMESTAMP(ms)) < at + INTERVAL '1 day' AND CAST(a AS INT8) = 7`,
	} {
		first, statements := described(t, s, "t", text)
		second, again := described(t, s, "t", statements)
		if first != second || statements != again {
			t.Errorf("%s\n%s\n%s\n%s", first, second, statements, again)
		}
	}
}

// drawTable draws CREATE TABLE and CREATE INDEX statements.
func drawTable(r *rapid.T, name string) string {
	var b strings.Builder
	types := rapid.SampledFrom(strings.Fields("TEXT INT UINT32 BOOL FLOAT DECIMAL DECIMAL(9,2) " +
		"TIMESTAMP(s) TIMESTAMP(ms) UUID IP IPPREFIX BYTES INT8"))
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "Ä", "order", "x y", `q"`,
		"null", "ttl", "each", "float", "timestamp", "b", "primary", "1st", "index"}), 3, 8,
		func(s string) string { return strings.ToLower(s) }).Draw(r, "names")
	fmt.Fprintf(&b, "CREATE TABLE %s (", quoted(name))
	for i, n := range names {
		null := i == 2 || i > 2 && rapid.Bool().Draw(r, "null")
		fmt.Fprintf(&b, "%s %s", quoted(n), types.Draw(r, "type"))
		if null {
			b.WriteString(" NULL")
		}
		b.WriteString(", ")
	}
	plain := []string{"", " DESC"}
	direction := func(of []string) string { return rapid.SampledFrom(of).Draw(r, "direction") }
	nulls := append(plain, " NULLS LAST", " DESC NULLS FIRST")
	fmt.Fprintf(&b, "PARTITION KEY (%s), SORT KEY (%s%s));", quoted(names[0]), quoted(names[1]),
		rapid.SampledFrom([]string{"", " DESC"}).Draw(r, "sort"))
	for i := range rapid.IntRange(0, 3).Draw(r, "indexes") {
		fmt.Fprintf(&b, "CREATE %sINDEX i%d ON %s (%s%s, %s%s)%s%s;",
			rapid.SampledFrom([]string{"", "UNIQUE "}).Draw(r, "unique"), i, quoted(name),
			quoted(names[2]), direction(nulls), quoted(names[0]), direction(plain),
			rapid.SampledFrom([]string{"", " SHARD (16)", " SHARD (2, md5)",
				" LOCAL"}).Draw(r, "place"),
			rapid.SampledFrom([]string{"", " WHERE " + quoted(names[2]) +
				" IS NOT NULL"}).Draw(r, "where"))
	}
	return b.String()
}

// TestRandomDefinitionsMakeTheSameTable does it with random tables.
func TestRandomDefinitionsMakeTheSameTable(t *testing.T) {
	s := openSession(t)
	testutil.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom([]string{"t", "My Table", "select"}).Draw(r, "table")
		text := drawTable(r, name)
		parts, err := syntax.ParseAll(text)
		if err != nil || len(parts) == 0 {
			r.Fatalf("%s: %v", text, err)
		}
		first, statements := described(r, s, name, text)
		second, again := described(r, s, name, statements)
		if first != second || statements != again {
			r.Fatalf("%s\n%s\n%s\n%s", first, second, statements, again)
		}
	})
}

// TestDefinitionsWithoutWords: what no statement can say is an error.
func TestDefinitionsOfManyViews(t *testing.T) {
	db := openDB(t)
	s := sql.Open(db)
	exec(t, s, "CREATE VIEW v100 AS SELECT 1 AS a")
	for i := 101; i < 150; i++ {
		exec(t, s, fmt.Sprintf("CREATE VIEW v%d AS SELECT a FROM v%d", i, i-1))
	}
	text, err := sql.ViewDefinitions(db)
	ok(t, err)
	if n := strings.Count(text, "\nCREATE VIEW"); n != 49 {
		t.Errorf("%d views after the first in\n%s", n, text)
	}
}

func TestDefinitionsWithoutWords(t *testing.T) {
	def, err := schema.Parse([]byte(`{"name":"t","columns":[{"name":"a","type":"int64"}],
		"primary_key":["a"],"indexes":[{"name":"x","columns":["a"],"shard":"mix64:16:seed=5"}]}`))
	ok(t, err)
	if text, err := sql.Definition(def); err == nil {
		t.Errorf("a shard function with a seed: %s", text)
	}
}
